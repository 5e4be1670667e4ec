"""One update of training, as every caller runs it: batches in, weights changed, sums out."""

import time
from collections.abc import Callable, Iterable, Iterator
from contextlib import AbstractContextManager, nullcontext
from itertools import repeat
from typing import NamedTuple

import torch
from torch import Tensor

from calque.data.batches import Batch
from calque.experiment import TrainSettings
from calque.model import Model
from calque.train.loss import Part, parts
from calque.train.objective import Objective
from calque.train.optimise import Updater
from calque.train.ranks import ALONE, Ranks

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
        self.sentences = self.tokens = self.source = self.target = 0
        """`tokens` are the target tokens since the last step of the optimiser."""

    def add(self, part: Part) -> None:
        """Back-propagates the loss of a part."""
        self.mark("loss")
        self.updater.backward(part.loss)
        self._sum(part)

    def begin(self, model: Model, batch: Batch, seed: int | None) -> Iterator[Part]:
        """Adds the gradient of a batch, or of its first part; returns the other ones. A graph has one phase, `backward`."""
        rest: Iterator[Part] = iter(())
        if (graphs := self.updater.graphs) is not None:
            with self.updater.adding():
                part = graphs(batch, seed)
            self._sum(part)
        else:
            if seed is not None:
                torch.manual_seed(seed)
            rest = parts(model, batch, Objective.of(self.settings), self.settings.bptt_words, self.mark)
            self.add(next(rest))
        self._count(batch)
        return rest

    def _sum(self, part: Part) -> None:
        self.mark("backward")
        self.loss, self.nll = self.loss + part.loss.detach(), self.nll + part.nll
        self.tokens += part.tokens

    def _count(self, batch: Batch) -> None:
        self.sentences += len(batch.index)
        self.source, self.target = self.source + batch.source_tokens, self.target + batch.target_tokens

    def sum(self, ranks: Ranks, device: torch.device) -> None:
        """Makes gradient, losses and counts those of all ranks."""
        if ranks.alone:
            return
        own = [float(self.loss), float(self.nll), self.tokens, self.sentences, self.source, self.target]
        sums = torch.tensor(own, dtype=torch.float64, device=device)
        ranks.sum(sums)
        self.updater.sum(ranks)
        self.loss, self.nll = sums[0], sums[1]
        self.tokens, self.sentences, self.source, self.target = (int(n) for n in sums[2:])

    def apply(self, lr: float) -> float:
        """A step of the optimiser; returns the norm of the gradient before clipping."""
        settings = self.settings
        nominal = settings.batch_sentences * settings.accumulate
        divisors = {"tokens": self.tokens, "sentences": self.sentences, "batch": nominal, "none": 1}
        self.tokens = 0
        norm = self.updater.step(lr, divisors[settings.normalise])
        self.mark("optimiser")
        return norm

    def sums(self, norm: float) -> UpdateSums:
        """What was added up."""
        assert isinstance(self.loss, Tensor)
        assert isinstance(self.nll, Tensor)
        return UpdateSums(self.loss, self.nll, self.source, self.target, norm)


def update(
    model: Model,
    updater: Updater,
    batches: Iterable[Batch],
    settings: TrainSettings,
    lr: float,
    mark: Mark = no_mark,
    yielding: Callable[[], AbstractContextManager[None]] = nullcontext,
    seeds: Iterable[int] | None = None,
    ranks: Ranks = ALONE,
) -> UpdateSums:
    """Adds up the gradients of the batches, at least one, and applies them with the rate `lr`.

    With `bptt_words` there is one batch. The gradient of each of its parts is applied on its own; where sentences count, by those
    of the whole batch. The work before the first step of the optimiser runs inside `yielding()`, which may end it by an
    exception: weights and optimiser are then unchanged.

    `seeds`: a number for each batch, from which its dropout follows alone. With several `ranks` each gives its own batches, perhaps
    none, and all have the sums and weights of the whole update.
    """
    model.train()
    gradient = _Gradient(updater, settings, mark)
    rest: Iterator[Part] = iter(())
    with yielding():
        for batch, seed in zip(batches, repeat(None) if seeds is None else seeds, strict=False):
            mark("data")
            ranks.progress()
            rest = gradient.begin(model, batch, seed)
    mark("data")
    gradient.sum(ranks, model.device)
    norm = gradient.apply(lr)
    for part in rest:
        gradient.add(part)
        norm = gradient.apply(lr)
    return gradient.sums(norm)
