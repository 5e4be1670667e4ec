"""Several training texts with weights: which pairs an epoch has."""

from collections.abc import Sequence
from fractions import Fraction
from itertools import accumulate

import numpy as np
from numpy.typing import NDArray

from calque.ground.diagnostics import error

MOST_PAIRS = 500_000_000
"""Of an epoch, unless the texts have more: its plan takes about 52 bytes a pair, here 26 gigabytes."""


def check_weights(parts: Sequence[int], weights: Sequence[float]) -> None:
    """Raises D314 where an epoch of texts of `parts` pairs has more pairs than memory may hold."""
    first = _first(parts)
    total = sum(Fraction(weight) for weight, count in zip(weights, parts, strict=True) if count)
    found = round(parts[first] * total / Fraction(weights[first]))
    if found > (most := max(MOST_PAIRS, sum(parts))):
        raise error("D314", None, found=f"{found:,}", most=f"{most:,}")


def mixed(parts: Sequence[int], weights: Sequence[float], seed: int, epoch: int) -> NDArray[np.int64]:
    """The numbers of the pairs of an epoch (from 0); texts of `parts` pairs are numbered one after the other.

    An epoch has every pair of the first text once, and of each other text as many as its weight says: n_1 w_i / w_1. These are
    taken from an endless sequence of shuffled passes over the text, where the epoch before stopped, so that none is taken a second
    time before all others. The result follows from the arguments alone. Raises D314.
    """
    check_weights(parts, weights)
    first = _first(parts)
    rows = []
    for k, (begin, count) in enumerate(zip(accumulate(parts, initial=0), parts, strict=False)):
        if k == first:
            rows.append(np.arange(begin, begin + count))
        elif count:
            share = parts[first] * Fraction(weights[k]) / Fraction(weights[first])
            rows.append(begin + _passes(count, int(share * epoch), int(share * (epoch + 1)), [seed, k]))
    return np.concatenate(rows)


def _first(parts: Sequence[int]) -> int:
    """The number of the first text that has pairs."""
    return next((k for k, count in enumerate(parts) if count), 0)


def _passes(count: int, start: int, stop: int, seeds: Sequence[int]) -> NDArray[np.int64]:
    """The places `start` to `stop` of an endless sequence of passes over `count` pairs, each shuffled anew."""
    parts = [np.zeros(0, np.int64)]
    for number in range(start // count, -(-stop // count)):
        order = np.random.Generator(np.random.PCG64([*seeds, number])).permutation(count)
        parts.append(order[max(0, start - number * count) : max(0, stop - number * count)])
    return np.concatenate(parts)
