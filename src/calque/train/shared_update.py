"""An update of a training: its batches, each with a seed of its own, shared by the ranks."""

from collections.abc import Callable
from contextlib import AbstractContextManager, nullcontext

import numpy as np

from calque.data.batches import collate
from calque.data.corpus import Pairs
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
    pairs, source_end = pairs or task.prepared.split("train"), task.experiment.data.source_end
    own = ranks.own(range(len(group)))
    batches = (collate(pairs, group[n], source_end) for n in own)
    seeds = [batch_seed(settings.seed, number, n) for n in own]
    return update(model, updater, batches, settings, lr, yielding=yielding, seeds=seeds, ranks=ranks)


def batch_seed(seed: int, update: int, batch: int) -> int:
    """The seed of a batch of an update."""
    return int(np.random.SeedSequence((seed, update, batch)).generate_state(1, np.uint64)[0] >> 1)
