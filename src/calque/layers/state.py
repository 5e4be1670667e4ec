"""The state algebra: the kinds of state that layers carry between steps, each written once. Append-only keys and values,
whose past is shared by all layers, stand in `calque.layers.history`.

A state is a value: a NamedTuple of tensors and ints that goes into `step` and comes out of it. Two re-orderings exist:
`select(rows)` permutes hypotheses within their sentences and leaves the memory of the source alone; `keep(rows, sentences)` drops
finished sentences, memory included. Where one hypothesis becomes several, `spread` selects each row more than once. With
gradients off a write reuses the buffers; with gradients on it is functional.

Masks passed to `write` are prefixes: in every row the real positions of a chunk come first.
"""

import operator
from collections.abc import Callable
from typing import NamedTuple, Protocol, TypeVar, cast, runtime_checkable

import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor

T = TypeVar("T")


@runtime_checkable
class State(Protocol):
    """What every kind of state can do."""

    def select(self, rows: Tensor) -> "State":
        """Row i of the result is row `rows[i]`; memory is untouched. There may be more rows than before: see `spread`."""
        ...

    def keep(self, rows: Tensor, sentences: Tensor) -> "State":
        """Only these rows, and in memories only these sentences. Some may be there more than once: see `copied`."""
        ...

    def bytes(self) -> int:
        """What the state occupies."""
        ...


def spread(state: State, rows: Int[Tensor, " R"], past: int) -> State:
    """The state of several hypotheses a sentence, of one of a single hypothesis each: row i is row `rows[i]`.

    All sentences have as many rows, side by side. No row holds more than `past` positions.
    """
    own = getattr(state, "spread", None)
    return state.select(rows) if own is None else cast("State", own(rows, past))


def copied(state: State, rows: Int[Tensor, " R"]) -> State:
    """The state of copies of sentences that have a single hypothesis each: row i, and its sentence, is row `rows[i]`."""
    own = getattr(state, "copied", None)
    return state.keep(rows, rows) if own is None else cast("State", own(rows))


def size(*tensors: Tensor) -> int:
    """Bytes that tensors occupy."""
    return sum(t.numel() * t.element_size() for t in tensors)


def columns(mask: Bool[Tensor, "B n"] | None, n: int) -> list[Bool[Tensor, " B"] | None]:
    """The mask of each of n positions; None where every row is real, as far as that is worth finding out: in training."""
    if mask is None:
        return [None] * n
    each: list[Tensor | None] = list(mask.unbind(1))
    full = int(mask.all(0).sum()) if torch.is_grad_enabled() and mask.device.type == "cpu" else 0
    return [*[None] * full, *each[full:]]


def accumulated(kind: torch.dtype) -> torch.dtype:
    """The type that sums over time are kept in: eight bits of mantissa do not hold them."""
    return torch.float64 if kind == torch.float64 else torch.float32


def tensors_of(state: object) -> list[Tensor | None]:
    """The tensors of a state, in order, and None where one is missing."""
    if state is None or isinstance(state, Tensor):
        return [state]
    return [x for part in state for x in tensors_of(part)] if isinstance(state, tuple) else []


def numbers_of(state: object) -> list[object]:
    """What a state holds beside tensors and missing ones, in order."""
    if isinstance(state, tuple):
        return [x for part in state for x in numbers_of(part)]
    return [] if state is None or isinstance(state, Tensor) else [state]


def mapped(state: T, change: Callable[[Tensor], Tensor]) -> T:
    """The same state with `change` of each of its tensors."""
    if isinstance(state, Tensor):
        return cast("T", change(state))
    if not isinstance(state, tuple):
        return state
    parts = [mapped(part, change) for part in state]
    return cast("T", type(state)(*parts) if hasattr(state, "_fields") else tuple(parts))


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
        parts = tuple(s.select(rows) for s in self.parts)
        return self if all(map(operator.is_, parts, self.parts)) else States(parts)

    def keep(self, rows: Tensor, sentences: Tensor) -> "States":
        return States(tuple(s.keep(rows, sentences) for s in self.parts))

    def spread(self, rows: Tensor, past: int) -> "States":
        return States(tuple(spread(s, rows, past) for s in self.parts))

    def copied(self, rows: Tensor) -> "States":
        return States(tuple(copied(s, rows) for s in self.parts))

    def bytes(self) -> int:
        return sum(s.bytes() for s in self.parts)


class Window(NamedTuple):
    """The last k-1 inputs of each row, zeros before the first."""

    last: Float[Tensor, "B w D"]

    @staticmethod
    def new(batch: int, length: int, like: Tensor, width: int) -> "Window":
        """Zeros, which stand before the first position."""
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
        return Window(self.last.index_select(0, rows))

    def keep(self, rows: Tensor, sentences: Tensor) -> "Window":
        return self.select(rows)

    def bytes(self) -> int:
        return size(self.last)


class Cell(NamedTuple):
    """What a recurrent cell, or an input feed, hands from one position to the next."""

    values: tuple[Float[Tensor, "B D"], ...]

    def write(self, new: tuple[Tensor, ...], mask: Bool[Tensor, " B"] | None) -> "Cell":
        """The new values, the old ones where a row is idle. A value that is itself again belongs to the sentence."""
        if mask is None:
            return Cell(new)
        pairs = zip(new, self.values, strict=True)
        return Cell(tuple(b if a is b else torch.where(mask[:, None], a, b) for a, b in pairs))

    def select(self, rows: Tensor) -> "Cell":
        return Cell(tuple(v.index_select(0, rows) for v in self.values))

    def keep(self, rows: Tensor, sentences: Tensor) -> "Cell":
        return self.select(rows)

    def bytes(self) -> int:
        return size(*self.values)


class Scan(NamedTuple):
    """Where a scan h_t = a_t h_{t-1} + b_t stands: in float32 whatever the precision, in float64 under float64."""

    h: Float[Tensor, "B D"]

    @staticmethod
    def new(batch: int, like: Tensor, width: int) -> "Scan":
        """The sum of nothing."""
        return Scan(like.new_zeros(batch, width, dtype=accumulated(like.dtype)))

    def write(self, h: Float[Tensor, "B n D"], mask: Bool[Tensor, "B n"] | None) -> "Scan":
        """Behind the last real position of a chunk, of whose positions `h` has every one."""
        if mask is None:
            return Scan(h[:, -1])
        if h.shape[1] == 1:
            return Scan(torch.where(mask, h[:, 0], self.h))
        last = mask.sum(1)[:, None, None].expand(-1, 1, h.shape[2])
        return Scan(torch.cat([self.h[:, None], h], 1).gather(1, last)[:, 0])

    def select(self, rows: Tensor) -> "Scan":
        return Scan(self.h.index_select(0, rows))

    def keep(self, rows: Tensor, sentences: Tensor) -> "Scan":
        return self.select(rows)

    def bytes(self) -> int:
        return size(self.h)


class Memory(NamedTuple):
    """Keys and values of the source: once per sentence, shared by its beams, never re-ordered among them."""

    keys: Float[Tensor, "S ..."]
    values: Float[Tensor, "S ..."]
    blocked: Bool[Tensor, "S N"] | None
    """True at padding"""

    def select(self, rows: Tensor) -> "Memory":
        return self

    def keep(self, rows: Tensor, sentences: Tensor) -> "Memory":
        read = self.keys.index_select(0, sentences), self.values.index_select(0, sentences)
        return Memory(*read, None if self.blocked is None else self.blocked[sentences])

    def bytes(self) -> int:
        return size(self.keys, self.values) + (0 if self.blocked is None else size(self.blocked))


class Foreseen(NamedTuple):
    """The output at each position of a sentence, which does not depend on its words: once per sentence, shared by its beams.

    `weights` are those that it was computed with, where a recorder asks for them.
    """

    values: Float[Tensor, "S C D"]
    weights: Float[Tensor, "S H C N"] | None = None

    def select(self, rows: Tensor) -> "Foreseen":
        return self

    def keep(self, rows: Tensor, sentences: Tensor) -> "Foreseen":
        return Foreseen(
            self.values.index_select(0, sentences), None if self.weights is None else self.weights[sentences]
        )

    def bytes(self) -> int:
        return size(self.values) + (0 if self.weights is None else size(self.weights))
