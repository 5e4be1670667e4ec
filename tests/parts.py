"""Tests in parts: the slow ones as `make soak PART=K/N` runs them, and those that are alike, of which some are fast."""

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


def some(cases: Sequence[object], k: int = 0, of: int = 3) -> list[ParameterSet]:
    """Every `of`-th case from number k on is fast, the others are slow. Tests of the same cases take different ones."""
    return [pytest.param(case, marks=() if i % of == k else pytest.mark.slow) for i, case in enumerate(cases)]
