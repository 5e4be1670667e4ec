"""Gradients on an accelerator: loss and back-propagation of a batch are captured once for each shape, as a graph of kernels.

A kernel takes longer to start than to run unless batches are large; a graph starts all of its kernels at once. So that shapes come
again, batches are padded to a few sizes, whether a shape has come before or not, since dropout follows from it. Spare sentences
are of one symbol, and nothing of them counts.
"""

from collections import OrderedDict
from collections.abc import Callable
from typing import NamedTuple

import torch
from torch import Tensor
from torch.nn import functional as F

from calque.data.batches import Batch
from calque.data.vocabulary import BOS, EOS
from calque.experiment import TrainSettings
from calque.model import Model
from calque.native.graphs import NotCapturable, captured, forget
from calque.train.loss import Part, output_loss
from calque.train.objective import Objective, passes
from calque.train.optimise import Updater

KEPT, SEEN = 256, 4096
"""Shapes whose graphs are kept, and shapes that are known to have come; those that came last."""
LOSS, NLL = "the loss", "the negative log-likelihood"
"""No paths of weights."""
FULL = "the device has not enough memory for graphs"
Tell = Callable[[str], None]


def silent(line: str) -> None:
    """Tells nobody."""


class PaddedBatch(NamedTuple):
    """The tensors of a batch of N sentences, S source and T target positions, of sizes that come again."""

    source: Tensor
    source_mask: Tensor
    target_in: Tensor
    target_out: Tensor
    target_mask: Tensor
    counted: Tensor
    """[N, T] bool: target positions whose loss counts, none of a spare sentence."""

    @property
    def shape(self) -> tuple[int, int, int]:
        """(N, S, T)."""
        return len(self.source), self.source.shape[1], self.target_in.shape[1]

    def to(self, device: torch.device) -> "PaddedBatch":
        """The same there."""
        return PaddedBatch(*(x.to(device, copy=True) for x in self))


def room(size: int) -> int:
    """The next size with four binary digits that count: at most an eighth is spare."""
    step = 1 << max(0, size.bit_length() - 4)
    return -(-size // step) * step


def padded(batch: Batch) -> PaddedBatch:
    """The batch in the next sizes that come again. A spare sentence has one real position on each side."""
    sentences = room(len(batch.source)) - len(batch.source)

    def fill(x: Tensor, first: int) -> Tensor:
        x = F.pad(x, (0, room(x.shape[1]) - x.shape[1], 0, sentences))
        x[len(x) - sentences :, 0] = first
        return x

    return PaddedBatch(
        source=fill(batch.source, EOS),
        source_mask=fill(batch.source_mask, True),
        target_in=fill(batch.target_in, BOS),
        target_out=fill(batch.target_out, EOS),
        target_mask=fill(batch.target_mask, True),
        counted=fill(batch.target_mask, False),
    )


class CapturedGradients:
    """Computes the gradients of a model's loss by graphs.

    `refused` is the reason why layers run one by one instead, and empty where they do not.
    """

    def __init__(self, model: Model, settings: TrainSettings, tell: Tell = silent):
        """`tell` is called once, with that reason."""
        self._tell = tell
        self._model, self._objective, self._summed = model, Objective.of(settings), settings.accumulate > 1
        self._parameters = dict(model.named_parameters())
        self._graphs: OrderedDict[tuple[int, int, int], _Graph | None] = OrderedDict()
        # Gradients, and under LOSS and NLL the sums, in tensors that keep their places.
        self._left: dict[str, Tensor] = {}
        self._used: tuple[str, ...] = ()
        self.refused = ""

    def __call__(self, batch: Batch, seed: int | None) -> Part:
        """The loss of a batch, whose gradient the parameters have afterwards. `seed`: that of its dropout."""
        given = padded(batch)
        graph = self._graph(given)
        if seed is not None:
            torch.manual_seed(seed)
        if graph is None:
            self._eagerly(given, seed)
        else:
            graph.replay(given)
            self._used = graph.used
        for name in self._used:
            # Of several batches in an update, the gradients of the first ones are still needed when those of the next are made.
            self._parameters[name].grad = self._left[name].clone() if self._summed else self._left[name]
        return Part(self._left[LOSS], self._left[NLL], batch.target_tokens)

    def _graph(self, given: PaddedBatch) -> "_Graph | None":
        """The graph of a shape; None where the shape is new, since it may not come again, and where layers run one by one."""
        if self.refused:
            return None
        if (graph := self._graphs.get(given.shape)) is None:
            graph = self._captured(given) if given.shape in self._graphs else None
            if self.refused:
                return None
            self._graphs[given.shape] = graph
            self._graphs.move_to_end(given.shape)
            self._forget_old()
        self._graphs.move_to_end(given.shape)
        return graph

    def _forget_old(self) -> None:
        while len(self._graphs) > SEEN:
            self._graphs.popitem(last=False)
        kept = [shape for shape, each in self._graphs.items() if each is not None]
        for shape in kept[: max(0, len(kept) - KEPT)]:
            self._graphs[shape] = None

    def _captured(self, given: PaddedBatch) -> "_Graph | None":
        held = given.to(self._model.device)
        try:
            return _Graph(held, captured(lambda: self._make(held), self._model.device), self._used)
        except NotCapturable as fault:
            why = str(fault)
        except torch.OutOfMemoryError:
            why = FULL
        self._refuse(why)
        return None

    def _refuse(self, why: str) -> None:
        self.refused = why
        self._tell(f"layers run one by one, not as a graph of kernels, which is slower for small models: {why}")
        self._graphs.clear()
        forget(self._model.device)

    def _eagerly(self, given: PaddedBatch, seed: int | None) -> None:
        try:
            self._make(given.to(self._model.device))
            return
        except torch.OutOfMemoryError:
            if self.refused:
                raise
        # Here, where the fault no longer holds what was made.
        self._refuse(FULL)
        if seed is not None:
            torch.manual_seed(seed)
        self._make(given.to(self._model.device))

    def loss(self, given: PaddedBatch) -> tuple[Tensor, Tensor]:
        """The loss to back-propagate and the negative log-likelihood. Asks the device for no number, where no layer does."""
        model, given = self._model, passes(given, self._objective)
        sources = model.encode(given.source, given.source_mask)
        z = model.decode(given.target_in, sources, given.target_mask).flatten(0, 1)
        target, counted = given.target_out.flatten(), given.counted.flatten()
        return output_loss(z, model.output.weight, model.output.bias, target, self._objective, counted=counted)

    def _make(self, given: PaddedBatch) -> None:
        """Makes loss and gradients, and leaves them in their places. The parameters have no gradients then."""
        for parameter in self._parameters.values():
            parameter.grad = None
        loss, nll = self.loss(given)
        loss.backward()  # type: ignore[no-untyped-call]  # torch leaves it untyped
        made = {name: p.grad for name, p in self._parameters.items() if p.grad is not None}
        self._used = tuple(made)
        sums = {LOSS: loss.detach(), NLL: nll}
        for name, x in (made | sums).items():
            if name not in self._left:
                self._left[name] = torch.empty_like(x)
        torch._foreach_copy_([self._left[name] for name in made], list(made.values()))
        for name, x in sums.items():
            self._left[name].copy_(x)
        for parameter in self._parameters.values():
            parameter.grad = None


class _Graph(NamedTuple):
    """A graph, the tensors that it reads the batch from, and the weights whose gradients it makes."""

    held: PaddedBatch
    run: Callable[[], None]
    used: tuple[str, ...]

    def replay(self, given: PaddedBatch) -> None:
        for held, x in zip(self.held, given, strict=True):
            held.copy_(x, non_blocking=True)
        self.run()


def updater_of(
    model: Model, settings: TrainSettings, precision: str, graphs: bool = True, tell: Tell = silent
) -> Updater:
    """The optimiser of a model, on an accelerator with `graphs`; truncated back-propagation has none.

    `tell` is called with a line where there can be none.
    """
    updater = Updater(model, settings, precision)
    if graphs and model.device.type != "cpu" and not settings.bptt_words:
        updater.graphs = CapturedGradients(model, settings, tell)
    return updater
