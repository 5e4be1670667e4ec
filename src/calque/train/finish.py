"""The end of a training: the mean of checkpoints becomes the model of the run."""

import math
from collections.abc import Sequence
from contextlib import nullcontext
from dataclasses import asdict, dataclass
from typing import Any

from torch import Tensor

from calque.ground.diagnostics import Place
from calque.run.model_file import load_weights, save_model
from calque.train.call import TrainingTask
from calque.train.checkpoint import Checkpoint, average, best
from calque.train.training_state import TrainingState
from calque.train.validate import Validator


@dataclass(frozen=True)
class FinishedTraining:
    """A training that reached a limit. Perplexity and BLEU are those of the final, averaged model."""

    update: int
    epoch: int
    seconds: float
    perplexity: float
    bleu: float | None
    limit: str
    """The key of [train] that ended it."""
    averaged: tuple[int, ...]
    """Updates of the checkpoints in the mean."""
    skipped: int = 0
    """Updates that were left out, since their gradients were not finite."""

    @property
    def diverged(self) -> bool:
        """Whether the model's perplexity is not a finite number, so that its translations mean nothing."""
        return not math.isfinite(self.perplexity)


def finish(
    task: TrainingTask, state: TrainingState, validator: Validator, phases: Sequence[dict[str, Any]], limit: str
) -> FinishedTraining:
    """Averages checkpoints, measures the mean and writes it as the model of the run. Raises `Interrupted` after a signal."""
    standing, checkpoints, ranks = state.standing, state.checkpoints, task.call.ranks

    def mean(chosen: Sequence[Checkpoint]) -> tuple[dict[str, Tensor], float]:
        """The mean of checkpoints, which the model then holds, and its validation perplexity."""
        with ranks.busy():
            weights = average([checkpoints.path(c.update) for c in chosen])
            load_weights(state.model, weights, Place(str(checkpoints.folder)))
        ranks.send("weights")
        ranks.share(dict(state.model.named_parameters()))
        return weights, validator.perplexity()

    with validator.signals.yielding() if ranks.alone else nullcontext():
        chosen = checkpoints.averaged()
        weights, value = mean(chosen)
        # Checkpoints that lie far apart, as in a short training, may have a mean that is worse than one of them.
        single = best(chosen, 1)
        if len(chosen) > 1 and value > single[0].perplexity:
            chosen = single
            weights, value = mean(chosen)
        bleu = validator.translate().bleu
    averaged = tuple(sorted(c.update for c in chosen))
    finished = FinishedTraining(
        standing.update, standing.epoch, standing.seconds, value, bleu, limit, averaged, standing.skipped
    )
    figures = {**asdict(finished), "parameters": sum(t.numel() for t in weights.values())}
    if not math.isfinite(value):
        figures["perplexity"] = None
    origin = {"phases": phases, **state.origin()}
    with ranks.busy():
        save_model(task.folder, state.model, weights, task.experiment, task.prepared.digest, figures, origin)
    return finished
