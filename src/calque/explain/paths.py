"""The number of operations between two positions, and the number of sequential operations.

Only operations that carry a signal from one position to another count, not the layers at one position. Zhang 2018 (table 1) and
Vaswani 2017 report these figures for single layers; here they are computed for whole architectures.
"""

import math

import numpy as np
from numpy.typing import NDArray

from calque.adl.tree import CheckedChain, Node
from calque.explain.node_costs import figures
from calque.layers.cost import BACKWARDS, FED, Cost, Reach

Distances = NDArray[np.float64]
LEFT, RIGHT = 0, 1
GROWTH = ("1", "n", "none")


def path_length(of: CheckedChain | Node, length: int) -> float:
    """The largest number of operations on the shortest path between two of `length` positions.

    A direction in which nothing is visible, such as the future, does not count. Otherwise the path is infinite where two positions
    do not see each other.
    """
    start = np.full(length, math.inf)
    start[0] = 0
    return float(max((_through(of, start, side).max() for side in _directions(of)), default=math.inf))


def path_order(of: CheckedChain | Node) -> str:
    """The growth of the path length with the number n of positions: `1` or `n`; `none` where some do not see each other."""
    return max((_order(of, side) for side in _directions(of)), key=GROWTH.index, default="none")


def _directions(of: CheckedChain | Node) -> list[int]:
    first, last = figures(of).field
    return [LEFT] * (first < 0) + [RIGHT] * (last > 0)


def waits(chain: CheckedChain | Node, length: int) -> int:
    """The longest sequence of operations over `length` positions of which each needs the one before: one for a layer, the
    logarithm of `length` for a scan, `length` for a recurrence.
    """
    if isinstance(chain, CheckedChain):
        return sum(waits(item, length) for item in chain.items.values())
    cost: Cost = chain.cost
    bodies = [part for part in chain.parts.values() if part.side == chain.side]
    if bodies:
        if cost.bodies == FED:
            return length * max(waits(body, 1) for body in bodies)
        own = cost.products is not None and cost.products.position > 0
        return own + max(waits(body, length) for body in bodies)
    order = "1" if cost.reach is None else cost.reach.sequential
    return {"1": 1, "log n": max(1, math.ceil(math.log2(length))), "n": length}[order]


def _through(of: CheckedChain | Node, before: Distances, side: int) -> Distances:
    """`before[k]` is the number of operations over k positions before `of`; the result is that after `of`."""
    if isinstance(of, CheckedChain):
        for item in of.items.values():
            before = _through(item, before, side)
        return before
    cost: Cost = of.cost
    bodies = [part for part in of.parts.values() if part.side == of.side]
    if cost.bodies == FED and side == LEFT:
        return _looped(before, bodies)
    inner = RIGHT - side if cost.bodies == BACKWARDS else side
    ways = [_through(part, before, inner) for part in bodies]
    if cost.reach is not None:
        ways.append(_carried(cost.reach, before, side))
    after = before if not ways else ways[0]
    for way in ways[1:]:
        after = np.minimum(after, way)
    return after


def _looped(before: Distances, bodies: list[CheckedChain]) -> Distances:
    """The distances of input feeding: an output returns one position and one operation later, any number of times.

    Bodies are computed once, from a single position: what they do does not depend on where a position is.
    """
    n = len(before)
    start = np.full(n, math.inf)
    start[0] = 0
    through = np.minimum.reduce([_through(body, start, LEFT) for body in bodies])
    after = np.array([(before[: k + 1] + through[k::-1]).min() for k in range(n)])
    through = through[: n - 1]
    ends = np.flatnonzero(np.isfinite(through))
    once = through[: ends[-1] + 1] + 1 if len(ends) else through[:0]  # over 1, 2, ... positions
    nearest = after.copy()
    for k in range(1, n):
        over = once[: min(k, len(once))]
        if len(over):
            nearest[k] = min(nearest[k], (over + nearest[k - len(over) : k][::-1]).min())
    return nearest


def _carried(reach: Reach, before: Distances, side: int) -> Distances:
    far = -reach.first if side == LEFT else reach.last
    if far <= 0:
        return before
    if reach.path == "n":
        return _stepwise(before)
    n = len(before)
    over = min(int(min(far, n)), n - 1)
    if over == n - 1:
        jumped: Distances = np.minimum.accumulate(before) + 1
    else:
        padded = np.concatenate([np.full(over, math.inf), before])
        jumped = np.lib.stride_tricks.sliding_window_view(padded, over + 1).min(1) + 1
    nearest: Distances = np.minimum(before, jumped)
    return nearest


def _stepwise(before: Distances) -> Distances:
    """The distances of a recurrence: any number of positions, one operation each."""
    at = np.arange(len(before))
    return np.asarray(np.minimum(before, np.minimum.accumulate(before - at) + at))


def _order(of: CheckedChain | Node, side: int) -> str:
    if isinstance(of, CheckedChain):
        return min((_order(item, side) for item in of.items.values()), key=GROWTH.index, default="none")
    cost: Cost = of.cost
    inner = RIGHT - side if cost.bodies == BACKWARDS else side
    ways = [_order(part, inner) for part in of.parts.values() if part.side == of.side]
    if cost.bodies == FED and side == LEFT:
        ways.append("n")
    if cost.reach is not None and math.isinf(cost.reach.first if side == LEFT else cost.reach.last):
        ways.append(cost.reach.path)
    return min(ways, key=GROWTH.index, default="none")
