"""One update of training, as every caller runs it: batches in, weights changed, sums out."""

import time
from collections.abc import Callable, Iterable, Iterator
from contextlib import AbstractContextManager, nullcontext
from typing import NamedTuple

import torch
from torch import Tensor

from calque.data.batches import Batch
from calque.experiment import TrainSettings
from calque.model import Model
from calque.train.loss import Part, parts
from calque.train.optimise import Updater

PHASES = ("data", "forward", "loss", "backward", "optimiser", "other")
"""The phases of an update; `other` is the time between two updates."""
Mark = Callable[[str], None]
"""Called with the name of a phase where it ends."""


class UpdateSums(NamedTuple):
    """Sums over the batches of an update. The losses stay on the device until somebody reads them."""

    loss: Tensor
    nll: Tensor
    source_tokens: int
    target_tokens: int
    norm: float
    """The norm of the gradient before clipping, normalised as [train] says; of the last part in truncated back-propagation."""


class Phases:
    """A stopwatch for the phases of updates, in seconds. On an accelerator each mark waits for it."""

    def __init__(self, device: torch.device):
        self.seconds = dict.fromkeys(PHASES, 0.0)
        self._device = device
        self._before = time.perf_counter()

    def __call__(self, phase: str) -> None:
        if self._device.type == "cuda":
            torch.cuda.synchronize(self._device)
        now = time.perf_counter()
        self.seconds[phase] += now - self._before
        self._before = now


def no_mark(phase: str) -> None:
    """The mark of an update that nobody times."""


class _Gradient:
    """The gradient of an update as it is added up, and sums over what it has seen."""

    def __init__(self, updater: Updater, settings: TrainSettings, mark: Mark):
        self.updater, self.settings, self.mark = updater, settings, mark
        self.loss: Tensor | float = 0.0
        self.nll: Tensor | float = 0.0
        self.sentences = self.tokens = 0
        """Target tokens are those since the last step of the optimiser."""

    def add(self, part: Part) -> None:
        """Back-propagates the loss of a part."""
        self.mark("loss")
        self.updater.backward(part.loss)
        self.mark("backward")
        self.loss, self.nll = self.loss + part.loss.detach(), self.nll + part.nll
        self.tokens += part.tokens

    def apply(self, lr: float) -> float:
        """A step of the optimiser; returns the norm of the gradient before clipping."""
        settings = self.settings
        nominal = settings.batch_sentences * settings.accumulate
        divisors = {"tokens": self.tokens, "sentences": self.sentences, "batch": nominal, "none": 1}
        self.tokens = 0
        norm = self.updater.step(lr, divisors[settings.normalise])
        self.mark("optimiser")
        return norm


def update(
    model: Model,
    updater: Updater,
    batches: Iterable[Batch],
    settings: TrainSettings,
    lr: float,
    mark: Mark = no_mark,
    yielding: Callable[[], AbstractContextManager[None]] = nullcontext,
) -> UpdateSums:
    """Adds up the gradients of the batches, at least one, and applies them with the rate `lr`.

    With `bptt_words` there is one batch. The gradient of each of its parts is applied on its own; where sentences count, by those
    of the whole batch. The work before the first step of the optimiser runs inside `yielding()`, which may end it by an
    exception: weights and optimiser are then unchanged.
    """
    model.train()
    gradient = _Gradient(updater, settings, mark)
    source = target = 0
    rest: Iterator[Part] = iter(())
    with yielding():
        for batch in batches:
            mark("data")
            rest = parts(model, batch, settings.label_smoothing, settings.bptt_words, mark)
            gradient.add(next(rest))
            source, target = source + batch.source_tokens, target + batch.target_tokens
            gradient.sentences += len(batch.index)
    mark("data")
    norm = gradient.apply(lr)
    for part in rest:
        gradient.add(part)
        norm = gradient.apply(lr)
    assert isinstance(gradient.loss, Tensor)
    assert isinstance(gradient.nll, Tensor)
    return UpdateSums(gradient.loss, gradient.nll, source, target, norm)
