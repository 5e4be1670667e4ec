"""Tests in parts: those that are not fast as `make soak PART=K/N` runs them, and those that are alike, of which some are fast."""

from collections.abc import Sequence
from itertools import product

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


TURNS = 4
"""Parts in a row that together have every medium test."""


def chosen(slow: Sequence[str], medium: Sequence[str], k: int, n: int) -> list[str]:
    """The tests of part k of n: its share of the slow ones, and of the medium ones, which last seconds, one of `TURNS` shares."""
    turns = min(TURNS, n)
    return [*within(slow, k, n), *within(medium, (k - 1) % turns + 1, turns)]


def some(cases: Sequence[object], k: int = 0, of: int = 3) -> list[ParameterSet]:
    """Every `of`-th case from number k on is fast, the others are slow. Tests of the same cases take different ones."""
    return [pytest.param(case, marks=() if i % of == k else pytest.mark.slow) for i, case in enumerate(cases)]


def mixed(*axes: Sequence[object], k: int = 0, of: int = 5) -> list[ParameterSet]:
    """All combinations of some axes, of which every `of`-th from number k on is fast.

    `of` has no divisor in common with the lengths of the axes, so that each value of each axis is in a fast one. Raises ValueError
    where one would be in none.
    """
    cases = [*product(*axes)]
    fast = cases[k::of]
    for n, axis in enumerate(axes):
        if missing := [value for value in axis if not any(case[n] == value for case in fast)]:
            raise ValueError(f"in no fast case: {missing}")
    return [pytest.param(*case, marks=() if i % of == k else pytest.mark.slow) for i, case in enumerate(cases)]
