"""Several training texts with weights: which pairs an epoch has."""

from collections.abc import Sequence
from fractions import Fraction
from itertools import accumulate

import numpy as np
from numpy.typing import NDArray

from calque.ground.diagnostics import error

MOST_PAIRS, MOST_PASSES = 10_000_000, 4
"""Of an epoch: so many pairs, or as many as so many passes over all texts have."""


def mixed(parts: Sequence[int], weights: Sequence[float], seed: int, epoch: int) -> NDArray[np.int64]:
    """The numbers of the pairs of an epoch (from 0); texts of `parts` pairs are numbered one after the other.

    An epoch has every pair of the first text once, and of each other text as many as its weight says: n_1 w_i / w_1. These are
    taken from an endless sequence of shuffled passes over the text, where the epoch before stopped, so that none is taken a second
    time before all others. The result follows from the arguments alone. Raises D314 for more pairs than memory may hold.
    """
    first = next((k for k, count in enumerate(parts) if count), 0)
    found = (
        parts[first]
        * sum(Fraction(w) for w, count in zip(weights, parts, strict=True) if count)
        / Fraction(weights[first])
    )
    if found > (most := max(MOST_PAIRS, MOST_PASSES * sum(parts))):
        raise error("D314", None, found=int(found), most=most)
    rows = []
    for k, (begin, count) in enumerate(zip(accumulate(parts, initial=0), parts, strict=False)):
        if k == first:
            rows.append(np.arange(begin, begin + count))
        elif count:
            share = parts[first] * Fraction(weights[k]) / Fraction(weights[first])
            rows.append(begin + _passes(count, int(share * epoch), int(share * (epoch + 1)), [seed, k]))
    return np.concatenate(rows)


def _passes(count: int, start: int, stop: int, seeds: Sequence[int]) -> NDArray[np.int64]:
    """The places `start` to `stop` of an endless sequence of passes over `count` pairs, each shuffled anew."""
    parts = [np.zeros(0, np.int64)]
    for number in range(start // count, -(-stop // count)):
        order = np.random.Generator(np.random.PCG64([*seeds, number])).permutation(count)
        parts.append(order[max(0, start - number * count) : max(0, stop - number * count)])
    return np.concatenate(parts)
