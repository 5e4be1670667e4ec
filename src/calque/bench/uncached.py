"""Decoding without states: the decoder runs over the whole prefix at every step, as in Zhang et al. 2018, table 3."""

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any, NamedTuple

import torch
from torch import Tensor

from calque.layers.contract import Point
from calque.layers.state import State, size
from calque.model import Model, Sources


class Prefix(NamedTuple):
    """The words so far and what the encoder said of their sentences; a State."""

    words: Tensor
    sources: Sources

    def select(self, rows: Tensor) -> "Prefix":
        return self._replace(words=self.words[rows])

    def keep(self, rows: Tensor, sentences: Tensor) -> "Prefix":
        return Prefix(self.words[rows], {name: _pick(point, sentences) for name, point in self.sources.items()})

    def bytes(self) -> int:
        return size(self.words) + sum(size(p.value, *(p.state or ())) for p in self.sources.values())


def _pick(point: Point, rows: Tensor) -> Point:
    state = None if point.state is None else tuple(s[rows] for s in point.state)
    return Point(point.value[rows], None if point.mask is None else point.mask[rows], state)


@contextmanager
def without_states(model: Model) -> Iterator[None]:
    """`model.step` runs `model.decode` over the prefix, for a while. The same function, no state but the words."""

    def init_state(sources: Sources, capacity: int, beams: int = 1) -> State:
        end = sources["end"].value
        words = torch.empty(end.shape[0] * beams, 0, dtype=torch.int64, device=end.device)
        return Prefix(words, sources)

    def step(words: Tensor, state: Prefix, visible: int, beams: int = 1, *_: Any) -> tuple[Tensor, State]:
        words = torch.cat([state.words, words], 1)
        every = torch.arange(len(words) // beams, device=words.device).repeat_interleave(beams)
        sources = state.sources if beams == 1 else {name: _pick(p, every) for name, p in state.sources.items()}
        return model.decode(words, sources)[:, -1:], Prefix(words, state.sources)

    held = vars(model)
    held.update(init_state=init_state, step=step)
    try:
        yield
    finally:
        del held["init_state"], held["step"]
