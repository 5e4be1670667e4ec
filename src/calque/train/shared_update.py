"""An update of a training: its batches, each with a seed of its own, shared by the ranks."""

from collections.abc import Callable
from contextlib import AbstractContextManager, nullcontext

import numpy as np
import torch
from numpy.typing import NDArray

from calque.data.batches import Batch, collate
from calque.data.corpus import Pairs
from calque.data.prefix_pairs import beginnings
from calque.model import Model
from calque.train.call import TrainingTask
from calque.train.optimise import Updater
from calque.train.order import Group
from calque.train.update import UpdateSums, update


def shared_update(
    task: TrainingTask,
    model: Model,
    updater: Updater,
    group: Group,
    number: int,
    lr: float,
    yielding: Callable[[], AbstractContextManager[None]] = nullcontext,
    pairs: Pairs | None = None,
) -> UpdateSums:
    """Update `number` (from 0) of a training, with the batches of `group`, of which every rank takes its own.

    `pairs`: those of the compiled corpus unless given.

    Dropout follows from the seed of the training, the update and the batch alone, so it is the same for every number of ranks.
    """
    settings, ranks = task.experiment.train, task.call.ranks
    pairs = pairs or task.prepared.split("train")
    own = ranks.own(range(len(group)))
    seeds = [batch_seed(settings.seed, number, n) for n in own]
    batches = (_batch(task, pairs, group[n], seed) for n, seed in zip(own, seeds, strict=True))
    return update(model, updater, batches, settings, lr, yielding=yielding, seeds=seeds, ranks=ranks)


def _batch(task: TrainingTask, pairs: Pairs, rows: NDArray[np.int64], seed: int) -> Batch:
    """The batch of these pairs; their words are cut anew, and some pairs cut off, where the experiment asks for it."""
    source_end, settings, codecs = task.experiment.data.source_end, task.experiment.train, task.prepared.codecs
    if not settings.subword_sampling and not settings.prefix_pairs:
        return collate(pairs, rows, source_end)
    source, target = ([side[i].tolist() for i in rows] for side in (pairs.sources, pairs.targets))
    if strength := settings.subword_sampling:
        source, target = (
            codec.cut_anew(side, strength, seed + k)
            for k, (codec, side) in enumerate(zip(codecs, (source, target), strict=True))
        )
    if settings.prefix_pairs:
        source, target = beginnings(source, target, codecs, settings.prefix_pairs, seed + len(codecs))
    return collate(Pairs.of(source, target), np.arange(len(rows)), source_end)._replace(
        index=torch.from_numpy(np.array(rows, np.int64))
    )


def batch_seed(seed: int, update: int, batch: int) -> int:
    """The seed of a batch of an update."""
    return int(np.random.SeedSequence((seed, update, batch)).generate_state(1, np.uint64)[0] >> 1)
