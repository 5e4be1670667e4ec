"""The other processes of a training: each carries out the steps that the leader sends."""

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import torch

from calque.data.corpus import Pairs
from calque.experiment import Experiment
from calque.model import Model
from calque.train.call import TrainingTask, shape_of
from calque.train.captured import updater_of
from calque.train.optimise import Updater
from calque.train.precision import pick_device, processor
from calque.train.ranks import Ranks
from calque.train.shared_update import shared_update
from calque.train.standing import Signals
from calque.train.validate import split_perplexity, translated

OpenTask = Callable[[Experiment, Path, Ranks], TrainingTask]
"""Opens what the leader trains: its experiment, and the run folder, in which the compiled corpus lies."""


def follow(ranks: Ranks, open_task: OpenTask) -> None:
    """Trains with the leader until its training ends. Signals are the leader's business: it ends after the current update.

    Raises K403 where another process ends before.
    """
    with Signals():
        step, *details = ranks.receive()
        if step != "begin":
            return
        experiment, folder, state = details
        task = open_task(experiment, folder, ranks)
        settings = experiment.train
        with processor(settings.threads):
            model, updater = _model(task)
            updater.load(state)
            ranks.begin()
            window: Pairs | None = None
            while (received := ranks.receive())[0] != "end":
                if received[0] == "window":
                    window = received[1]
                else:
                    _carry_out(received[0], received[1:], task, model, updater, window)


def _model(task: TrainingTask) -> tuple[Model, Updater]:
    settings = task.experiment.train
    torch.manual_seed(settings.seed)
    model = Model(task.checked, shape_of(task.experiment, task.prepared), task.registry).to(
        pick_device(settings.device)
    )
    return model, updater_of(model, settings, settings.precision)


def _carry_out(
    step: str, details: Sequence[Any], task: TrainingTask, model: Model, updater: Updater, window: Pairs | None
) -> None:
    ranks = task.call.ranks
    if step == "update":
        group, number, lr = details
        shared_update(task, model, updater, group, number, lr, pairs=window)
    elif step == "perplexity":
        split_perplexity(model, task, details[0], ranks)
    elif step == "translate":
        translated(model, task)
    elif step == "weights":
        ranks.share(dict(model.named_parameters()))
    else:
        raise AssertionError(step)
