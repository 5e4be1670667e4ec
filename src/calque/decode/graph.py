"""What the steps of a search as a graph leave: states over those before, and counts for the host."""

from collections.abc import Callable

import torch
from torch import Tensor

from calque.layers.state import numbers_of, tensors_of
from calque.native.graphs import NotCapturable as NotCapturable  # what proves this reads it from here
from calque.native.graphs import storage


def overwrite(old: object, new: object) -> None:
    """Writes the tensors of `new` over those of `old`, save those that are the same.

    Raises NotCapturable for another form, and for other numbers beside tensors: a graph would go on with those that it began with.
    """
    before, after = tensors_of(old), tensors_of(new)
    if form(before) != form(after):
        raise NotCapturable("a state has tensors whose form changes from step to step")
    if numbers_of(old) != numbers_of(new):
        raise NotCapturable("a state has a number beside its tensors that changes from step to step")
    pairs = [(a, b) for a, b in zip(before, after, strict=True) if a is not None and b is not None and a is not b]
    held = {storage(a) for a, _ in pairs}
    by_kind: dict[torch.dtype, tuple[list[Tensor], list[Tensor]]] = {}
    for a, b in pairs:
        olds, news = by_kind.setdefault(a.dtype, ([], []))
        olds.append(a)
        news.append(b.clone() if storage(b) in held else b)  # a new tensor may be a view of an old one
    for olds, news in by_kind.values():
        torch._foreach_copy_(olds, news)


def form(tensors: list[Tensor | None]) -> tuple[object, ...]:
    """The shapes and types of the tensors of a state."""
    return tuple(None if x is None else (x.shape, x.dtype) for x in tensors)


class Counts:
    """How many sentences are done behind each step: counted by the device, read by the host a step later."""

    SLOTS = 2

    def __init__(self, device: torch.device):
        self._cuda = device.type == "cuda"
        self._count = torch.zeros((), dtype=torch.int64, device=device)
        self._slots = torch.zeros(self.SLOTS, dtype=torch.int64, device="cpu", pin_memory=self._cuda)
        event: Callable[[], torch.cuda.Event] = torch.cuda.Event
        self._events = [event() for _ in range(self.SLOTS)] if self._cuda else []

    def put(self, done: Tensor) -> None:
        """Counts; part of a step."""
        self._count.copy_(done.sum())

    def ask(self, t: int) -> None:
        """Behind step t, whose count is wanted."""
        self._slots[t % self.SLOTS].copy_(self._count, non_blocking=True)
        if self._cuda:
            self._events[t % self.SLOTS].record()

    def answer(self, t: int) -> int:
        """The count behind step t, one of the last `SLOTS` ones."""
        if self._cuda:
            self._events[t % self.SLOTS].synchronize()
        return int(self._slots[t % self.SLOTS])
