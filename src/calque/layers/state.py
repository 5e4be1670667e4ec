"""The state algebra: the kinds of state that layers carry between steps, each written once.

A state is a value: a NamedTuple of tensors and ints that goes into `step` and comes out of it. Two re-orderings exist:
`select(rows)` permutes hypotheses within their sentences and leaves the memory of the source alone; `keep(rows, sentences)` drops
finished sentences, memory included. With gradients off a write reuses the buffers; with gradients on it is functional.

Masks passed to `write` are prefixes: in every row the real positions of a chunk come first.
"""

from typing import NamedTuple, Protocol, runtime_checkable

import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor


@runtime_checkable
class State(Protocol):
    """What every kind of state can do."""

    def select(self, rows: Tensor) -> "State":
        """Row i of the result is row `rows[i]`; memory is untouched."""
        ...

    def keep(self, rows: Tensor, sentences: Tensor) -> "State":
        """Only these rows, and in memories only these sentences."""
        ...

    def bytes(self) -> int:
        """What the state occupies."""
        ...


def size(*tensors: Tensor) -> int:
    """Bytes that tensors occupy."""
    return sum(t.numel() * t.element_size() for t in tensors)


class Empty(NamedTuple):
    """No state: layers that work position by position."""

    def select(self, rows: Tensor) -> "Empty":
        return self

    def keep(self, rows: Tensor, sentences: Tensor) -> "Empty":
        return self

    def bytes(self) -> int:
        return 0


class States(NamedTuple):
    """The states of a layer's parts, in order."""

    parts: tuple[State, ...]

    def select(self, rows: Tensor) -> "States":
        return States(tuple(s.select(rows) for s in self.parts))

    def keep(self, rows: Tensor, sentences: Tensor) -> "States":
        return States(tuple(s.keep(rows, sentences) for s in self.parts))

    def bytes(self) -> int:
        return sum(s.bytes() for s in self.parts)


class Counter(NamedTuple):
    """How many positions each row has seen."""

    position: Int[Tensor, " B"]

    @staticmethod
    def new(batch: int, device: torch.device) -> "Counter":
        return Counter(torch.zeros(batch, dtype=torch.int64, device=device))

    def positions(self, n: int) -> Int[Tensor, "B n"]:
        """The positions, from 0, of the next `n` inputs."""
        return self.position[:, None] + torch.arange(n, device=self.position.device)

    def advance(self, n: int, mask: Bool[Tensor, "B n"] | None) -> "Counter":
        return Counter(self.position + (n if mask is None else mask.sum(1)))

    def select(self, rows: Tensor) -> "Counter":
        return Counter(self.position[rows])

    def keep(self, rows: Tensor, sentences: Tensor) -> "Counter":
        return self.select(rows)

    def bytes(self) -> int:
        return size(self.position)


class Window(NamedTuple):
    """The last k-1 inputs of each row, zeros before the first."""

    last: Float[Tensor, "B w D"]

    @staticmethod
    def new(batch: int, length: int, like: Tensor, width: int) -> "Window":
        return Window(like.new_zeros(batch, length, width))

    def write(self, x: Float[Tensor, "B n D"], mask: Bool[Tensor, "B n"] | None) -> tuple[Tensor, "Window"]:
        """The window followed by the chunk, [B, w+n, D], and the window after it."""
        w = self.last.shape[1]
        seen = torch.cat([self.last, x], 1)
        if mask is None:
            return seen, Window(seen[:, seen.shape[1] - w :])
        first = mask.sum(1)[:, None] + torch.arange(w, device=x.device)
        return seen, Window(seen.gather(1, first[:, :, None].expand(-1, -1, x.shape[2])))

    def select(self, rows: Tensor) -> "Window":
        return Window(self.last[rows])

    def keep(self, rows: Tensor, sentences: Tensor) -> "Window":
        return self.select(rows)

    def bytes(self) -> int:
        return size(self.last)


class Cell(NamedTuple):
    """What a recurrent cell, or an input feed, hands from one position to the next."""

    values: tuple[Float[Tensor, "B D"], ...]

    def write(self, new: tuple[Tensor, ...], mask: Bool[Tensor, " B"] | None) -> "Cell":
        """The new values, the old ones where a row is idle."""
        if mask is None:
            return Cell(new)
        return Cell(tuple(torch.where(mask[:, None], a, b) for a, b in zip(new, self.values, strict=True)))

    def select(self, rows: Tensor) -> "Cell":
        return Cell(tuple(v[rows] for v in self.values))

    def keep(self, rows: Tensor, sentences: Tensor) -> "Cell":
        return self.select(rows)

    def bytes(self) -> int:
        return size(*self.values)


class KeysValues(NamedTuple):
    """Append-only keys and values of self-attention, preallocated to a capacity.

    The buffers hold one slot more than the capacity: idle positions are written there.
    """

    keys: Float[Tensor, "B H C K"]
    values: Float[Tensor, "B H C V"]
    position: Int[Tensor, " B"]

    @staticmethod
    def new(batch: int, heads: int, capacity: int, width: int, like: Tensor) -> "KeysValues":
        # Zeros, not garbage: a masked weight of 0 times a stale NaN would be NaN.
        shape = (batch, heads, capacity + 1, width)
        counter = Counter.new(batch, like.device).position
        return KeysValues(like.new_zeros(shape), like.new_zeros(shape), counter)

    def write(
        self, keys: Float[Tensor, "B H n K"], values: Float[Tensor, "B H n V"], mask: Bool[Tensor, "B n"] | None
    ) -> tuple["KeysValues", Int[Tensor, "B n"]]:
        """The buffers with a chunk appended, and the positions, from 0, that its inputs take."""
        counter = Counter(self.position)
        n = keys.shape[2]
        positions = counter.positions(n)
        batch, heads, slots, _ = self.keys.shape
        target = positions if mask is None else torch.where(mask, positions, slots - 1)
        first = torch.arange(0, batch * heads * slots, slots, device=keys.device).view(batch, heads, 1)
        index = (first + target[:, None, :]).flatten()
        after = KeysValues(
            _put(self.keys, index, keys), _put(self.values, index, values), counter.advance(n, mask).position
        )
        return after, positions

    def select(self, rows: Tensor) -> "KeysValues":
        return KeysValues(self.keys[rows], self.values[rows], self.position[rows])

    def keep(self, rows: Tensor, sentences: Tensor) -> "KeysValues":
        return self.select(rows)

    def bytes(self) -> int:
        return size(*self)


def _put(buffer: Tensor, index: Tensor, new: Tensor) -> Tensor:
    flat, rows = buffer.flatten(0, 2), new.flatten(0, 2)
    if torch.is_grad_enabled():
        return flat.index_copy(0, index, rows).view(buffer.shape)
    flat.index_copy_(0, index, rows)
    return buffer


class Memory(NamedTuple):
    """Keys and values of the source: once per sentence, shared by its beams, never re-ordered among them."""

    keys: Float[Tensor, "S ..."]
    values: Float[Tensor, "S ..."]
    mask: Bool[Tensor, "S N"] | None

    def select(self, rows: Tensor) -> "Memory":
        return self

    def keep(self, rows: Tensor, sentences: Tensor) -> "Memory":
        return Memory(self.keys[sentences], self.values[sentences], None if self.mask is None else self.mask[sentences])

    def bytes(self) -> int:
        return size(self.keys, self.values) + (0 if self.mask is None else size(self.mask))
