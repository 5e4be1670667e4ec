"""The order of an epoch: which pairs make which update, every pair once, whatever changes in between."""

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from calque.data.batches import plan
from calque.data.corpus import Pairs
from calque.experiment import TrainSettings

Group = list[NDArray[np.int64]]
"""The batches of one update, each the numbers of its pairs."""


class Layout(NamedTuple):
    """What decides how an epoch is cut: keys of [train]."""

    batch_tokens: int = 0
    batch_sentences: int = 0
    accumulate: int = 1
    seed: int = 0
    sort_batches: int = 0


def layout(settings: TrainSettings) -> Layout:
    """The layout that an experiment asks for."""
    return Layout(*(getattr(settings, key) for key in Layout._fields))


def layout_of(values: Sequence[int]) -> Layout:
    """A layout read back; raises TypeError or ValueError for what is none."""
    return Layout(*map(int, values))


def updates(pairs: Pairs, epoch: int, now: Layout, earlier: Sequence[tuple[Layout, int]] = ()) -> list[Group]:
    """The updates of an epoch (from 0) that remain after so many in each earlier layout; every pair is in exactly one.

    A training may continue with other batches in the middle of an epoch; pairs that it has used are left out.
    """
    unseen = np.ones(len(pairs), bool)
    for before, count in earlier:
        for group in _cut(pairs, epoch, before, unseen)[:count]:
            unseen[np.concatenate(group)] = False
    return _cut(pairs, epoch, now, unseen)


def _cut(pairs: Pairs, epoch: int, how: Layout, unseen: NDArray[np.bool_]) -> list[Group]:
    planned = plan(pairs, how.batch_tokens, how.batch_sentences, how.seed, epoch, sort_batches=how.sort_batches)
    batches = [rows[unseen[rows]] for rows in planned]
    batches = [rows for rows in batches if len(rows)]
    return [batches[i : i + how.accumulate] for i in range(0, len(batches), how.accumulate)]
