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
"""What an update consists of; `other` is what lies between two of them."""
Mark = Callable[[str], None]
"""Called with the name of a phase where it ends."""


class UpdateSums(NamedTuple):
    """What an update saw. Sums over its batches; the losses stay on the device until somebody reads them."""

    loss: Tensor
    nll: Tensor
    source_tokens: int
    target_tokens: int
    norm: float
    """Of the gradient per token, sentence or as it is, before clipping; in truncated back-propagation that of the last part."""


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
    settings: TrainSettings,
    lr: float,
    mark: Mark = no_mark,
    yielding: Callable[[], AbstractContextManager[None]] = nullcontext,
) -> UpdateSums:
    """Adds up the gradients of the batches, one at least, and applies them with the rate `lr`.

    With `bptt_words` there is one batch, and each of its parts is applied on its own, by the sentences of the whole batch
    where sentences count. What comes before the first step of the optimiser runs inside `yielding()`, which may end it by an
    exception; then weights and optimiser are as before.
    """
    model.train()
    loss: Tensor | float = 0.0
    nll: Tensor | float = 0.0
    source = target = sentences = tokens = 0
    rest: Iterator[Part] = iter(())

    def learn(part: Part) -> None:
        nonlocal loss, nll, tokens
        mark("loss")
        updater.backward(part.loss)
        mark("backward")
        loss, nll, tokens = loss + part.loss.detach(), nll + part.nll, tokens + part.tokens

    def apply() -> float:
        nonlocal tokens
        nominal = settings.batch_sentences * settings.accumulate
        divisor = {"tokens": tokens, "sentences": sentences, "batch": nominal, "none": 1}[settings.normalise]
        tokens = 0
        norm = updater.step(lr, divisor)
        mark("optimiser")
        return norm

    with yielding():
        for batch in batches:
            mark("data")
            rest = parts(model, batch, settings.label_smoothing, settings.bptt_words, mark)
            learn(next(rest))
            source, target = source + batch.source_tokens, target + batch.target_tokens
            sentences += len(batch.index)
    mark("data")
    norm = apply()
    for part in rest:
        learn(part)
        norm = apply()
    assert isinstance(loss, Tensor)
    assert isinstance(nll, Tensor)
    return UpdateSums(loss, nll, source, target, norm)
