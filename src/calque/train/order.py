"""The order of an epoch: which pairs make which update, every pair once, whatever changes in between."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from calque.data.batches import plan
from calque.data.corpus import Pairs
from calque.data.mixture import mixed
from calque.experiment import TrainSettings

Group = list[NDArray[np.int64]]
"""The batches of one update, each the numbers of its pairs."""


class Layout(NamedTuple):
    """What decides how an epoch is cut: keys of [train], and the weights of several texts."""

    batch_tokens: int = 0
    batch_sentences: int = 0
    accumulate: int = 1
    seed: int = 0
    sort_batches: int = 0
    weights: tuple[float, ...] = ()


def layout(settings: TrainSettings, weights: tuple[float, ...] = ()) -> Layout:
    """The layout that an experiment asks for; `weights` are those of several texts."""
    return Layout(**{key: getattr(settings, key) for key in Layout._fields[:-1]}, weights=weights)


def layout_of(values: Sequence[Any]) -> Layout:
    """A layout read back; raises TypeError or ValueError for what is none. Older ones have no weights."""
    [*numbers, weights] = values if len(values) == len(Layout._fields) else [*values, ()]
    return Layout(**dict(zip(Layout._fields, map(int, numbers), strict=False)), weights=tuple(map(float, weights)))


@dataclass(frozen=True)
class _Drawn:
    """The pairs of an epoch, by their numbers: a pair of a text with a large weight is there several times."""

    rows: NDArray[np.int64]
    source_lengths: NDArray[np.int32]
    target_lengths: NDArray[np.int32]

    def __len__(self) -> int:
        return len(self.rows)


def updates(pairs: Pairs, epoch: int, now: Layout, earlier: Sequence[tuple[Layout, int]] = ()) -> list[Group]:
    """The updates of an epoch (from 0) that remain after so many in each earlier layout; every pair is in exactly one.

    A training may continue with other batches in the middle of an epoch; pairs that it has used are left out. Of several texts with
    weights, an epoch has the pairs that `calque.data.mixture.mixed` names, and each is left out as often as it has been used.
    """
    if not earlier:
        return _cut(pairs, epoch, now, None)
    used = np.zeros(len(pairs), np.int32)
    for before, count in earlier:
        for group in _cut(pairs, epoch, before, used)[:count]:
            np.add.at(used, np.concatenate(group), 1)
    return _cut(pairs, epoch, now, used)


def _cut(pairs: Pairs, epoch: int, how: Layout, used: NDArray[np.int32] | None) -> list[Group]:
    """The updates of an epoch in a layout, without the pairs that have been used so often."""
    arguments = how.batch_tokens, how.batch_sentences, how.seed, epoch
    if how.weights:
        rows = mixed(pairs.parts, how.weights, how.seed, epoch)
        drawn = _Drawn(rows, pairs.source_lengths[rows], pairs.target_lengths[rows])
        batches = plan(drawn, *arguments, sort_batches=how.sort_batches)
    else:
        rows = None
        batches = plan(pairs, *arguments, sort_batches=how.sort_batches)
    if used is not None:
        numbers = np.arange(len(pairs)) if rows is None else rows
        unseen = _occurrence(numbers) >= used[numbers]
        batches = [batch[unseen[batch]] for batch in batches]
        batches = [batch for batch in batches if len(batch)]
    if rows is not None:
        batches = [rows[batch] for batch in batches]
    return [batches[i : i + how.accumulate] for i in range(0, len(batches), how.accumulate)]


def _occurrence(rows: NDArray[np.int64]) -> NDArray[np.int64]:
    """For each number how often it stands before."""
    order = np.argsort(rows, kind="stable")
    ranked = rows[order]
    first = np.flatnonzero(np.append(True, ranked[1:] != ranked[:-1]))[: len(rows)]
    counts = np.diff(np.append(first, len(rows)))
    found = np.empty(len(rows), np.int64)
    found[order] = np.arange(len(rows)) - np.repeat(first, counts)
    return found
