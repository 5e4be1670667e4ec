"""Where the rows of a decoder stand, and through which hypotheses they came: kept once for all its layers.

Append-only keys and values never move when hypotheses are re-ordered. Each position stays in the slot of the hypothesis that wrote
it, and `History` remembers, for every row and position, whose slot that was. The layers of a call share what follows from
it through `Chunk`.
"""

import functools
import sys
from typing import NamedTuple

import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor

from calque.layers.state import size
from calque.native.accelerator import accelerator_kernels_for
from calque.native.kernels import kernels_for, kernels_for_numbers


class History(NamedTuple):
    """The past of every row: sentence * K + hypothesis, of K = `beams` hypotheses each.

    positions  how many positions each row holds
    origin     for K > 1: the hypothesis, of the same sentence, whose slot holds position t of a row; from `positions` on its own
    at         the number of positions where all rows hold as many and the host knows it
    capacity   the number of positions that there is room for
    """

    positions: Int[Tensor, " R"]
    origin: Int[Tensor, "S K C"] | None
    at: int | None
    capacity: int = sys.maxsize

    @staticmethod
    def new(rows: int, capacity: int, beams: int, device: torch.device) -> "History":
        """Nothing yet; at most `capacity` positions to come."""
        positions = torch.zeros(rows, dtype=torch.int64, device=device)
        if beams == 1:
            return History(positions, None, 0, capacity)
        origin = _own(beams, device).expand(rows // beams, beams, capacity).contiguous()
        return History(positions, origin, 0, capacity)

    def by_device(self) -> "History":
        """The same, where the device alone knows how many positions there are."""
        return self._replace(at=None)

    def check_room(self, n: int) -> None:
        """Raises ValueError where n further positions are more than there is room for, as far as the host knows."""
        if self.at is not None and self.at + n > self.capacity:
            raise ValueError(f"the state has room for {self.capacity} positions, not for {self.at + n}")

    def advance(self, n: int, mask: Bool[Tensor, "R n"] | None) -> "History":
        """After a chunk of n positions, of which the mask says which are real."""
        if mask is None:
            return self._replace(positions=self.positions + n, at=None if self.at is None else self.at + n)
        return self._replace(positions=self.positions + mask.sum(1), at=None)

    def select(self, rows: Int[Tensor, " Q"]) -> "History":
        """Row i continues row `rows[i]` of the same sentence."""
        # Where all rows hold as many positions the choice changes nothing, and the host need not look.
        positions = self.positions[rows] if self.at is None else self.positions[: rows.shape[0]]
        if self.origin is None:
            return self._replace(positions=positions)
        if self.at is not None and (native := kernels_for_numbers(rows)) is not None:
            return self._replace(positions=positions, origin=native.reordered(self.origin, rows, self.at))
        beams, capacity = self.origin.shape[1:]
        past = torch.arange(capacity, device=rows.device) < positions.view(-1, beams, 1)
        origin = self.origin.flatten(0, 1)[rows].view(-1, beams, capacity)
        return self._replace(positions=positions, origin=torch.where(past, origin, _own(beams, rows.device)))

    def keep(self, rows: Int[Tensor, " Q"], sentences: Int[Tensor, " S"]) -> "History":
        """Only these rows."""
        return self.select(rows)

    def spread(self, rows: Int[Tensor, " Q"], past: int) -> "History":
        """Every hypothesis of a sentence goes on from its only one, whose slot is the first."""
        fresh = History.new(len(rows), self.capacity, len(rows) // len(self.positions), rows.device)
        origin = fresh.origin
        if origin is not None:
            held = torch.arange(self.capacity, device=rows.device) < self.positions.view(-1, 1, 1)
            origin = origin.masked_fill(held, 0)
        return fresh._replace(positions=self.positions[rows], origin=origin, at=self.at)

    def copied(self, rows: Int[Tensor, " Q"]) -> "History":
        """Copies of sentences that have one hypothesis each."""
        return self._replace(positions=self.positions[rows])

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
        self._places: dict[tuple[int, int, int], Tensor] = {}

    @functools.cached_property
    def positions(self) -> Int[Tensor, "R n"]:
        """The positions of the inputs, from 0."""
        return self.history.positions[:, None] + torch.arange(self.n, device=self.history.positions.device)

    @functools.cached_property
    def blocked(self) -> Bool[Tensor, "S 1 q V"] | None:
        """Which of the `visible` positions come after an input; None: none does. q = K * n inputs of a sentence."""
        if self.n == 1 and self.history.at is not None and self.visible == self.history.at + 1:
            return None
        later = torch.arange(self.visible, device=self.positions.device) > self.positions[:, :, None]
        return later.view(-1, 1, self.beams * self.n, self.visible)

    def attend(
        self,
        q: Float[Tensor, "R n D"],
        k: Float[Tensor, "R n E"],
        v: Float[Tensor, "R n F"],
        held: "KeysValues",
        scale: float,
    ) -> Float[Tensor, "R 1 G"] | None:
        """softmax(scale q k) v over each row's past, with the keys and values of the chunk appended to `held`, by a kernel.

        None where there is none for this chunk.
        """
        if self.n > 1:
            return None
        fast = None if self.mask is not None else accelerator_kernels_for(q, max(x.shape[4] for x in held))
        kernels = None if fast is not None or self.blocked is not None else kernels_for(q)
        if fast is None and kernels is None:
            return None
        new, origin = (k[:, 0], v[:, 0]), self.history.origin
        if fast is not None:
            contexts = fast.attend(q[:, 0], *held, scale, new, self.history.positions, origin)
        elif kernels is not None:
            contexts = kernels.attend(q[:, 0], *held, self.visible, scale, new, origin)
        return contexts[:, None]

    @functools.cached_property
    def distance(self) -> Int[Tensor, "#S 1 q V"]:
        """The position of each of the `visible` keys minus that of each input."""
        keys = torch.arange(self.visible, device=self.history.positions.device)
        if self.history.at is None:
            return (keys - self.positions[:, :, None]).view(-1, 1, self.beams * self.n, self.visible)
        queries = torch.arange(self.history.at, self.history.at + self.n, device=keys.device).repeat(self.beams)
        return (keys - queries[:, None])[None, None]

    @functools.cached_property
    def _origin(self) -> Int[Tensor, "S 1 q V 1"] | None:
        if self.history.origin is None:
            return None
        origin = self.history.origin[:, :, None, : self.visible].expand(-1, -1, self.n, -1).long()
        return origin.reshape(len(origin), 1, self.beams * self.n, self.visible, 1)

    def own(self, scores: Float[Tensor, "S H q s"]) -> Float[Tensor, "S H q V"]:
        """Of what inputs have to do with every slot of their sentence, s = V * K, what they have to do with their own past."""
        if self._origin is None:
            return scores
        apart = scores.view(*scores.shape[:3], self.visible, self.beams)
        return apart.gather(4, self._origin.expand(-1, scores.shape[1], -1, -1, -1)).squeeze(4)

    def spread(self, weights: Float[Tensor, "S H q V"]) -> Float[Tensor, "S H q s"]:
        """The inverse of `own`, zeros where a slot is not of a row's past."""
        if self._origin is None:
            return weights
        index = self._origin.expand(-1, weights.shape[1], -1, -1, -1)
        return weights.new_zeros(*weights.shape, self.beams).scatter(4, index, weights[..., None]).flatten(3)

    def by_row(self, weights: Float[Tensor, "S H q V"]) -> Float[Tensor, "R H n V"]:
        """Weights of sentences as weights of rows."""
        apart = weights.view(*weights.shape[:2], self.beams, self.n, self.visible)
        return apart.transpose(1, 2).flatten(0, 1)

    def place(self, rows: int, stride: int, inner: int) -> Int[Tensor, "m n"]:
        """Where the inputs stand in a buffer [S, rows, C, K, inner] taken as numbers: the first number of each.

        Ordered by sentence, hypothesis and row; C * K = `stride`. Idle inputs take the last place of C.
        """
        key = rows, stride, inner
        if key not in self._places:
            beams, device = self.beams, self.positions.device
            at = self.positions
            if self.mask is not None:
                at = torch.where(self.mask, at, stride // beams - 1)
            line = torch.arange(len(at), device=device)
            first = (line // beams * (rows * stride) + line % beams)[:, None, None]
            each = torch.arange(rows, device=device)[:, None] * stride
            self._places[key] = ((first + each + at[:, None] * beams) * inner).flatten(0, 1)
        return self._places[key]

    def single(self, t: int) -> "Chunk":
        """The chunk of input t alone, the ones before it having passed."""
        held = self.history
        # Real inputs come first in a row, so whoever is real here has t real ones before.
        history = held._replace(positions=held.positions + t, at=None if held.at is None else held.at + t)
        return Chunk(history, 1, None if self.mask is None else self.mask[:, t : t + 1], self.visible)


class KeysValues(NamedTuple):
    """Append-only keys and values of self-attention, preallocated to a capacity, shared by the hypotheses of a sentence.

    A position stays where it was written, whoever continues it: `select` moves nothing, since `History` remembers whose slots
    are a row's past. The last place takes what idle positions write.
    """

    keys: Float[Tensor, "S H C K D"]
    values: Float[Tensor, "S H C K E"]

    @staticmethod
    def new(batch: int, beams: int, heads: int, capacity: int, width: int, like: Tensor) -> "KeysValues":
        """Nothing yet, with room for `capacity` positions."""
        # Zeros, not garbage: a masked weight of 0 times a stale NaN would be NaN.
        shape = (batch // beams, heads, capacity + 1, beams, width)
        return KeysValues(like.new_zeros(shape), like.new_zeros(shape))

    def write(self, keys: Float[Tensor, "B n D"], values: Float[Tensor, "B n E"], chunk: Chunk) -> "KeysValues":
        """The buffers with a chunk appended."""
        sentences, heads, places, beams, width = self.keys.shape
        at, n = chunk.history.at, chunk.n
        if not torch.is_grad_enabled() and at is not None and chunk.mask is None:
            for buffer, new in zip(self, (keys, values), strict=True):
                apart = new.view(sentences, beams, n, heads, width)
                buffer[:, :, at : at + n] = apart.permute(0, 3, 2, 1, 4)
            return self
        runs = chunk.place(heads, places * beams, width)[:, :, None] + torch.arange(width, device=keys.device)
        rows = (new.view(*new.shape[:2], heads, width).transpose(1, 2).flatten(0, 1) for new in (keys, values))
        return KeysValues(*(_put(buffer, runs, new) for buffer, new in zip(self, rows, strict=True)))

    def visible(self, chunk: Chunk) -> tuple[Float[Tensor, "S H D s"], Float[Tensor, "S H s E"]]:
        """Keys and values in the first `chunk.visible` positions of all hypotheses."""
        keys, values = (buffer[:, :, : chunk.visible].flatten(2, 3) for buffer in self)
        return keys.transpose(2, 3), values

    def select(self, rows: Tensor) -> "KeysValues":
        return self

    def spread(self, rows: Tensor, past: int) -> "KeysValues":
        beams = len(rows) // len(self.keys)
        buffers = [x.new_zeros(*x.shape[:3], beams, x.shape[4]) for x in self]
        for new, old in zip(buffers, self, strict=True):
            new[:, :, :past, 0] = old[:, :, :past, 0]
        return KeysValues(*buffers)

    def keep(self, rows: Tensor, sentences: Tensor) -> "KeysValues":
        return KeysValues(self.keys.index_select(0, sentences), self.values.index_select(0, sentences))

    def bytes(self) -> int:
        return size(*self)


def _put(buffer: Tensor, index: Tensor, new: Tensor) -> Tensor:
    flat = buffer.flatten()
    if torch.is_grad_enabled():
        return flat.index_copy(0, index.flatten(), new.flatten()).view(buffer.shape)
    flat.index_copy_(0, index.flatten(), new.flatten())
    return buffer
