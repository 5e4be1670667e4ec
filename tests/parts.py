"""The slow tests in parts of about equal length, as `make soak PART=K/N` runs them."""

from collections.abc import Sequence


def part(text: str) -> tuple[int, int]:
    """`K/N`: part K of N, from 1."""
    k, _, n = text.partition("/")
    if not (k.isdecimal() and n.isdecimal() and 1 <= int(k) <= int(n)):
        raise ValueError(f"expected K/N with 1 <= K <= N, found {text!r}")
    return int(k), int(n)


def within(tests: Sequence[str], k: int, n: int) -> list[str]:
    """Part k of n: every n-th test in alphabetical order, so that the cases of one long test are spread over all parts."""
    return sorted(tests)[k - 1 :: n]
