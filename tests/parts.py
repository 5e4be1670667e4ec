"""Tests in parts: the slow ones as `make soak PART=K/N` runs them, and those that are alike, of which a third is fast."""

from collections.abc import Sequence

import pytest
from _pytest.mark import ParameterSet


def part(text: str) -> tuple[int, int]:
    """`K/N`: part K of N, from 1."""
    k, _, n = text.partition("/")
    if not (k.isdecimal() and n.isdecimal() and 1 <= int(k) <= int(n)):
        raise ValueError(f"expected K/N with 1 <= K <= N, found {text!r}")
    return int(k), int(n)


def within(tests: Sequence[str], k: int, n: int) -> list[str]:
    """Part k of n: every n-th test in alphabetical order, so that the cases of one long test are spread over all parts."""
    return sorted(tests)[k - 1 :: n]


def third(cases: Sequence[object], k: int = 0) -> list[ParameterSet]:
    """Every third case from number k on is fast, the others are slow. Tests of the same cases take different thirds."""
    return [pytest.param(case, marks=() if i % 3 == k else pytest.mark.slow) for i, case in enumerate(cases)]
