"""Decoding without states: encoder and decoder run anew at every step, as in Zhang et al. 2018, table 3."""

import contextlib
from collections.abc import Iterator
from contextlib import contextmanager
from typing import NamedTuple

import torch
from torch import Tensor

from calque.bench.operators import one_by_one, replaced
from calque.decode.encode import encode
from calque.decode.recorded import Recorded
from calque.layers.contract import Point
from calque.layers.state import State, size
from calque.model import Model, Sources

READ = ""
"""The label under which `Sources` hold the sentences themselves: no label of a definition is empty."""


class Prefix(NamedTuple):
    """The sentences, a column of ids each, and the words written so far; a State."""

    read: Point
    words: Tensor

    def select(self, rows: Tensor) -> "Prefix":
        return self._replace(words=self.words[rows])

    def keep(self, rows: Tensor, sentences: Tensor) -> "Prefix":
        return Prefix(_pick(self.read, sentences), self.words[rows])

    def bytes(self) -> int:
        return size(self.words, self.read.value)


def _pick(point: Point, rows: Tensor) -> Point:
    return Point(point.value[rows], None if point.mask is None else point.mask[rows])


@contextmanager
def without_states(model: Model) -> Iterator[None]:
    """Inside a `with`, `model.step` encodes the sentence of each hypothesis and runs `model.decode` over its prefix.

    It computes the same function and keeps the words alone. Zhang's baseline did so: its graph held encoder and decoder.
    """
    encoded = model.encode

    def remembering(source: Tensor, mask: Tensor | None = None) -> Sources:
        return {**encoded(source, mask), READ: Point(source[..., None], mask)}

    def init_state(sources: Sources, capacity: int, beams: int = 1) -> State:
        read = sources[READ]
        rows = read.value.shape[0] * beams
        return Prefix(read, torch.empty(rows, 0, dtype=torch.int64, device=read.value.device))

    def step(words: Tensor, state: Prefix, visible: int, beams: int = 1, *_: object) -> tuple[Tensor, State]:
        words = torch.cat([state.words, words], 1)
        every = torch.arange(len(words) // beams, device=words.device).repeat_interleave(beams)
        read = _pick(state.read, every)
        source = read.value[..., 0]
        mask = torch.ones_like(source, dtype=torch.bool) if read.mask is None else read.mask
        return model.decode(words, encode(model, source, mask))[:, -1:], Prefix(state.read, words)

    with contextlib.ExitStack() as stack:
        stack.enter_context(replaced(model, encode=remembering, init_state=init_state, step=step))
        if isinstance(model.programs, Recorded):
            stack.enter_context(replaced(model.programs, several=one_by_one))
        else:
            stack.enter_context(replaced(model, programs=None))
        yield
