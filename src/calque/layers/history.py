"""Where the rows of a decoder stand, and through which hypotheses they came: kept once for all its layers.

Append-only keys and values never move when hypotheses are re-ordered. Each position stays in the slot of the hypothesis that wrote
it, and `History` remembers, for every row and position, whose slot that was. The layers of a call share what follows from
it through `Chunk`.
"""

import functools
from typing import NamedTuple

import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor

from calque.layers.state import size


class History(NamedTuple):
    """The past of every row: sentence * K + hypothesis, of K = `beams` hypotheses each.

    positions  how many positions each row holds
    origin     for K > 1: the hypothesis, of the same sentence, whose slot holds position t of a row; from `positions` on its own
    at         the number of positions where all rows hold as many and the host knows it
    """

    positions: Int[Tensor, " R"]
    origin: Int[Tensor, "S K C"] | None
    at: int | None

    @staticmethod
    def new(rows: int, capacity: int, beams: int, device: torch.device) -> "History":
        """Nothing yet; at most `capacity` positions to come."""
        positions = torch.zeros(rows, dtype=torch.int64, device=device)
        if beams == 1:
            return History(positions, None, 0)
        return History(positions, _own(beams, device).expand(rows // beams, beams, capacity).contiguous(), 0)

    def advance(self, n: int, mask: Bool[Tensor, "R n"] | None) -> "History":
        """After a chunk of n positions, of which the mask says which are real."""
        if mask is None:
            return self._replace(positions=self.positions + n, at=None if self.at is None else self.at + n)
        return self._replace(positions=self.positions + mask.sum(1), at=None)

    def select(self, rows: Int[Tensor, " Q"]) -> "History":
        """Row i continues row `rows[i]` of the same sentence."""
        # Where all rows hold as many positions the choice changes nothing, and the host need not look.
        positions = self.positions[rows] if self.at is None else self.positions[: len(rows)]
        if self.origin is None:
            return self._replace(positions=positions)
        beams, capacity = self.origin.shape[1:]
        past = torch.arange(capacity, device=rows.device) < positions.view(-1, beams, 1)
        origin = self.origin.flatten(0, 1)[rows].view(-1, beams, capacity)
        return self._replace(positions=positions, origin=torch.where(past, origin, _own(beams, rows.device)))

    def keep(self, rows: Int[Tensor, " Q"], sentences: Int[Tensor, " S"]) -> "History":
        """Only these rows."""
        return self.select(rows)

    def bytes(self) -> int:
        return size(self.positions) + (0 if self.origin is None else size(self.origin))


def _own(beams: int, device: torch.device) -> Int[Tensor, "K 1"]:
    return torch.arange(beams, dtype=torch.int16, device=device)[:, None]


class Chunk:
    """The positions that one call of `step` is about: the next n of every row.

    `visible`: no row holds more positions than this after the call. What several layers need is computed once.
    """

    def __init__(self, history: History, n: int, mask: Bool[Tensor, "R n"] | None, visible: int):
        self.history, self.n, self.mask, self.visible = history, n, mask, visible
        self.beams = 1 if history.origin is None else history.origin.shape[1]
        self._index: dict[tuple[int, int], Tensor] = {}

    @functools.cached_property
    def positions(self) -> Int[Tensor, "R n"]:
        """The positions of the inputs, from 0."""
        return self.history.positions[:, None] + torch.arange(self.n, device=self.history.positions.device)

    @functools.cached_property
    def blocked(self) -> Bool[Tensor, "S 1 q s"] | None:
        """Which slots the inputs of a sentence must not see, q = K * n inputs and s = `visible` * K slots; None: all are seen."""
        device = self.history.positions.device
        slots = torch.arange(self.visible, device=device)
        later = None
        if self.n > 1 or self.history.at is None or self.visible > self.history.at + 1:
            later = (slots > self.positions[:, :, None]).view(-1, self.beams, self.n, self.visible, 1)
        if self.history.origin is None:
            return None if later is None else later.view(-1, 1, self.n, self.visible)
        origin = self.history.origin[:, :, None, : self.visible, None]
        foreign = origin != torch.arange(self.beams, dtype=torch.int16, device=device)
        blocked = foreign.expand(-1, -1, self.n, -1, -1) if later is None else foreign | later
        return blocked.reshape(len(blocked), 1, self.beams * self.n, self.visible * self.beams)

    def slots(self, heads: int, places: int) -> Int[Tensor, " m"]:
        """Where the inputs are written in a buffer [S, heads, places, K, ...] flattened to its last dimension, in the order
        sentence, hypothesis, head, input. Idle inputs go to the last place.
        """
        key = heads, places
        if key not in self._index:
            at = self.positions if self.mask is None else torch.where(self.mask, self.positions, places - 1)
            rows, device, beams = len(at), at.device, self.beams
            row = torch.arange(rows, device=device)
            first = (row // beams * heads * places * beams + row % beams)[:, None, None]
            head = torch.arange(heads, device=device)[:, None] * (places * beams)
            self._index[key] = (first + head + at[:, None] * beams).flatten()
        return self._index[key]

    def single(self, t: int) -> "Chunk":
        """The chunk of input t alone, the ones before it having passed."""
        held = self.history
        # Real inputs come first in a row, so whoever is real here has t real ones before.
        history = held._replace(positions=held.positions + t, at=None if held.at is None else held.at + t)
        return Chunk(history, 1, None if self.mask is None else self.mask[:, t : t + 1], self.visible)


class KeysValues(NamedTuple):
    """Append-only keys and values of self-attention, preallocated to a capacity, shared by the hypotheses of a sentence.

    A position stays where it was written, [sentence, head, position, hypothesis], whoever continues it: `select` moves nothing,
    since `History` remembers whose slots are a row's past. The last place takes what idle positions write.
    """

    keys: Float[Tensor, "S H C K D"]
    values: Float[Tensor, "S H C K E"]

    @staticmethod
    def new(batch: int, beams: int, heads: int, capacity: int, width: int, like: Tensor) -> "KeysValues":
        # Zeros, not garbage: a masked weight of 0 times a stale NaN would be NaN.
        shape = (batch // beams, heads, capacity + 1, beams, width)
        return KeysValues(like.new_zeros(shape), like.new_zeros(shape))

    def write(self, keys: Float[Tensor, "B n D"], values: Float[Tensor, "B n E"], chunk: Chunk) -> "KeysValues":
        """The buffers with a chunk appended."""
        return KeysValues(_put(self.keys, keys, chunk), _put(self.values, values, chunk))

    def visible(self, chunk: Chunk) -> tuple[Float[Tensor, "S H s D"], Float[Tensor, "S H s E"]]:
        """Keys and values in the slots that `chunk.blocked` is about."""
        return self.keys[:, :, : chunk.visible].flatten(2, 3), self.values[:, :, : chunk.visible].flatten(2, 3)

    def select(self, rows: Tensor) -> "KeysValues":
        return self

    def keep(self, rows: Tensor, sentences: Tensor) -> "KeysValues":
        return KeysValues(self.keys[sentences], self.values[sentences])

    def bytes(self) -> int:
        return size(*self)


def _put(buffer: Tensor, new: Tensor, chunk: Chunk) -> Tensor:
    sentences, heads, places, beams, width = buffer.shape
    at, n = chunk.history.at, chunk.n
    if not torch.is_grad_enabled() and at is not None and chunk.mask is None:
        buffer[:, :, at : at + n] = new.view(sentences, beams, n, heads, width).permute(0, 3, 2, 1, 4)
        return buffer
    index, flat = chunk.slots(heads, places), buffer.flatten(0, 3)
    rows = new.view(-1, n, heads, width).transpose(1, 2).flatten(0, 2)
    if torch.is_grad_enabled():
        return flat.index_copy(0, index, rows).view(buffer.shape)
    flat.index_copy_(0, index, rows)
    return buffer
