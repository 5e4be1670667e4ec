"""One update of training, as every caller runs it: batches in, weights changed, sums out."""

import time
from collections.abc import Callable, Iterable
from contextlib import AbstractContextManager, nullcontext
from typing import NamedTuple

import torch
from torch import Tensor

from calque.data.batches import Batch
from calque.experiment import Train
from calque.model import Model
from calque.train.loss import batch_loss
from calque.train.optimise import Updater

PHASES = ("data", "forward", "loss", "backward", "optimiser", "other")
"""What an update consists of; `other` is what lies between two of them."""
Mark = Callable[[str], None]
"""Called with the name of a phase where it ends."""


class Done(NamedTuple):
    """What an update saw. Sums over its batches; the losses stay on the device until somebody reads them."""

    loss: Tensor
    nll: Tensor
    source_tokens: int
    target_tokens: int
    norm: float
    """Of the gradient per token, sentence or as it is, before clipping."""


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
    """Nobody measures."""


def update(
    model: Model,
    updater: Updater,
    batches: Iterable[Batch],
    settings: Train,
    lr: float,
    mark: Mark = no_mark,
    yielding: Callable[[], AbstractContextManager[None]] = nullcontext,
) -> Done:
    """Adds up the gradients of the batches, one at least, and applies them with the rate `lr`.

    The first part runs inside `yielding()`, which may end it by an exception; then weights and optimiser are as before.
    """
    model.train()
    loss: Tensor | float = 0.0
    nll: Tensor | float = 0.0
    source = target = sentences = 0
    with yielding():
        for batch in batches:
            mark("data")
            summed, likelihood = batch_loss(model, batch, settings.label_smoothing, mark)
            mark("loss")
            updater.backward(summed)
            mark("backward")
            loss, nll = loss + summed.detach(), nll + likelihood
            source, target = source + batch.source_tokens, target + batch.target_tokens
            sentences += len(batch.index)
    mark("data")
    divisor = {"tokens": target, "sentences": sentences, "none": 1}[settings.normalise]
    norm = updater.step(lr, divisor)
    mark("optimiser")
    assert isinstance(loss, Tensor)
    assert isinstance(nll, Tensor)
    return Done(loss, nll, source, target, norm)
