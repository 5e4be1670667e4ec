"""Writing down a program: operations in order, the buffers between them, tensors from outside."""

from collections.abc import Callable, Sequence
from typing import NamedTuple

import torch
from jaxtyping import Float
from torch import Tensor

from calque.native.placed import Closed, Kind, Rows, Step, Value


class NoProgram(Exception):
    """A layer, or what it is asked for, has no kernels: layers then run one by one."""


class Made(NamedTuple):
    """A tensor that a program makes anew at every call, as large as the tensor from outside that has this number."""

    like: int
    number: int
    """which of those that are made it is"""
    over: bool = False
    """whether it may take the place of the one before, number by number"""


class Writer:
    """Operations in order. `outside`: the tensors that change from call to call, in their order, as they are at first."""

    def __init__(self, dtype: torch.dtype, outside: Sequence[Tensor | None] = ()):
        self.dtype = dtype
        self.widths: list[int] = []
        self.steps: list[Step] = []
        self.made: list[Made] = []
        self.labels: dict[str, Value] = {}
        """what an encoder's labelled points hold"""
        self.states: list[Tensor] = []
        """of an encoder: what recurrences begin with, one row each; they leave in their places what follows the last token"""
        self.finals: dict[str, tuple[int, ...]] = {}
        """which of these belong to a labelled cell"""
        self._known = {id(x): i for i, x in enumerate(outside) if x is not None}
        self._outside = len(outside)
        self._results = 0
        self.tables: list[tuple[int, Rows]] = []

    def new(self, width: int) -> Value:
        """A buffer."""
        self.widths.append(width)
        return Value(len(self.widths) - 1, 0, width)

    def number(self, x: Tensor) -> int:
        """Which of the tensors from outside this one is. Raises `NoProgram` where it is none."""
        if id(x) not in self._known:
            raise NoProgram("a tensor that comes from elsewhere")
        if x.shape[-1] > 1 and x.stride(-1) != 1:
            raise NoProgram("a tensor whose numbers do not lie side by side")
        return self._known[id(x)]

    def make(self, like: Tensor, over: bool = False) -> tuple[Made, int]:
        """A tensor that takes the place of one from outside, and its number; with `over` it may be written over that one."""
        if any(x is like for x in self.states):
            return Made(self.number(like), 0, True), self.number(like)
        self.made.append(Made(self.number(like), len(self.made), over))
        return self.made[-1], self._outside + len(self.made) - 1

    def add(
        self,
        kind: Kind,
        reads: Sequence[Value | None],
        width: int,
        n: Sequence[int] = (),
        p: Sequence[Tensor | None] = (),
        f: Sequence[float] = (),
    ) -> Value:
        """An operation and its result."""
        out = self.new(width)
        self.steps.append(Step(kind, tuple(reads), out, tuple(n), tuple(p), tuple(f)))
        return out

    def read(self, x: Float[Tensor, "R D"]) -> Value:
        """A tensor from outside."""
        return self.add(Kind.READ, (), x.shape[-1], (self.number(x),))

    def write(self, x: Value, like: Float[Tensor, "R D"]) -> Made:
        """A new tensor with these numbers, as large as one from outside."""
        made, number = self.make(like)
        self.steps.append(Step(Kind.WRITE, (x,), None, (number,)))
        return made

    def sweep(
        self,
        reads: Sequence[Value],
        start: Sequence[Tensor],
        written: Callable[[Sequence[Value]], Value],
        label: str | None,
    ) -> Value:
        """Of an encoder: what `written` writes down of one position, at every position from left to right.

        start  the state before the first, one row each; a layer changes it in place
        label  who asks for the state behind the last one, if anybody does
        """
        for x in start:
            self._known[id(x)] = self._outside
            self._outside += 1
        self.states += start
        if label is not None:
            self.finals[label] = tuple(map(self.number, start))
        self.steps.append(Step(Kind.SWEEP, tuple(reads), None))
        at = len(self.steps) - 1
        y = written([self.add(Kind.GATHER, (x,), x.width) for x in reads])
        out = self.add(Kind.SCATTER, (y,), y.width)
        self.steps[at] = self.steps[at]._replace(out=out)
        return out

    def leave(self, x: Value) -> None:
        """A result: leave it in the next tensor from outside, behind those known at first and those made."""
        self.steps.append(Step(Kind.WRITE, (x,), None, (self._outside + len(self.made) + self._results,)))
        self._results += 1

    def table(self, rows: Rows | None) -> tuple[None, ...]:
        """The place of a table of the operation that comes next."""
        if rows is None:
            return ()
        self.tables.append((len(self.steps), rows))
        return (None,)

    def fit(self, x: Tensor) -> Tensor:
        """A weight as kernels read it. Raises `NoProgram` where it is of another type."""
        if x.dtype != self.dtype or not x.is_contiguous():
            raise NoProgram("weights in another type")
        return x.detach()

    def close(self) -> Closed:
        """The program, ready to run."""
        return Closed(self.dtype, self.steps, self.widths, self.tables)
