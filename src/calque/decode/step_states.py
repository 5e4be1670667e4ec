"""The states of a recorded step: their tensors, as kernels see them, without the layers' trees around them."""

import functools
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple, cast

import torch
from jaxtyping import Int
from torch import Tensor

from calque.layers.state import States, tensors_of
from calque.native.program import Bound, Closed, Made

Tensors = list[Tensor | None]
"""The tensors of a state, in order, and None where one is missing."""


class RecordedStep:
    """The program of a step, and how it changes a state."""

    def __init__(self, program: Closed, after: object, made: tuple[Made, ...], width: int, moves_made: bool):
        """`after`: the state behind it, with `Made` where a tensor is new.

        `moves_made`: whether another order of the hypotheses concerns the new tensors alone, row by row. All others are then of
        sentences, and stay where they are when some sentences leave.
        """
        self.program, self.made, self.width, self.moves_made = program, made, width, moves_made
        self._fill = _filler(after)

    def made_of(self, tensors: Tensors) -> list[Tensor]:
        """Those tensors of a state that a step makes anew."""
        return [cast("Tensor", tensors[one.like]) for one in self.made]

    def with_made(self, tensors: Tensors, new: Sequence[Tensor]) -> Tensors:
        """The tensors of a state, new ones in their places."""
        after = tensors.copy()
        for one, x in zip(self.made, new, strict=True):
            after[one.like] = x
        return after

    def state(self, given: States, tensors: Tensors) -> States:
        """The layers' state with these tensors; `given` is one of the same batch before it."""
        return given if self._fill is None else cast("States", self._fill(given, self.made_of(tensors)))


class Kept(NamedTuple):
    """Which rows and sentences of a larger batch are left."""

    rows: Int[Tensor, " R"]
    sentences: Int[Tensor, " S"]

    def fewer(self, rows: Tensor, sentences: Tensor) -> "Kept":
        """Some of these."""
        return Kept(self.rows[rows], self.sentences[sentences])


class KnownState:
    """A state whose tensors are known, that one step uses up: it may overwrite them."""

    def __init__(self, step: RecordedStep, given: States, tensors: Tensors, kept: Kept | None = None):
        """`given`: the last state that came from the layers. With `kept` the tensors that a step does not make anew are
        still those of all of its sentences, so that nothing is copied when sentences leave.
        """
        self.step, self.given, self.tensors, self.kept = step, given, tensors, kept

    @property
    def used(self) -> bool:
        """Whether that step has been made."""
        raise NotImplementedError

    @functools.cached_property
    def whole(self) -> States:
        """As the layers have it."""
        given = self.given if self.kept is None else self.given.keep(*self.kept)
        return self.step.state(given, self.tensors)

    @property
    def parts(self) -> tuple[Any, ...]:
        return self.whole.parts

    def select(self, rows: Tensor) -> "KnownState":
        check_unused(self)
        if not self.step.moves_made:
            moved = self.whole.select(rows)
            return MovedState(self.step, moved, tensors_of(moved))
        return self._with_rows(rows, self.kept) if self.step.made else self

    def keep(self, rows: Tensor, sentences: Tensor) -> "States | KnownState":
        check_unused(self)
        if not self.step.moves_made:
            return self.whole.keep(rows, sentences)
        fewer = Kept(rows, sentences.contiguous()) if self.kept is None else self.kept.fewer(rows, sentences)
        return self._with_rows(rows, fewer)

    def _with_rows(self, rows: Tensor, kept: Kept | None) -> "MovedState":
        made = [x.index_select(0, rows) for x in self.step.made_of(self.tensors)]
        return MovedState(self.step, self.given, self.step.with_made(self.tensors, made), kept)

    def spread(self, rows: Tensor, past: int) -> States:
        check_unused(self)
        return self.whole.spread(rows, past)

    def copied(self, rows: Tensor) -> States:
        check_unused(self)
        return self.whole.copied(rows)  # each copy has tensors of its own

    def bytes(self) -> int:
        return self.whole.bytes()


def check_unused(state: object) -> None:
    """Raises ValueError for a state from which a step has been made."""
    if isinstance(state, KnownState) and state.used:
        raise ValueError("a step from this state has been made; each state is used up by one")


class MovedState(KnownState):
    """The state behind a change of hypotheses: nobody else has the tensors that a step overwrites."""

    used = False  # set by the step


class Turns:
    """What a step goes through when no hypothesis moves: the tensors it was given and, where it makes new ones, two sets of its
    own by turns, so that they are made once.
    """

    def __init__(self, step: RecordedStep, given: States, tensors: Tensors, own: bool, kept: Kept | None = None):
        """`own`: nobody else has the tensors that a step makes anew."""
        self.step, self.given, self.kept, self._own = step, given, kept, own
        self._tensors = [tensors]
        self.steps = 0
        """made so far"""
        self._bounds: list[Any] = []
        self._made: list[list[Tensor]] = []

    def bound(self, turn: int) -> Any:
        """The tensors of a state and of the one behind it, as the kernels see them, with room for one more."""
        if turn == len(self._bounds):
            self._bounds.append(self._written(turn))
        return self._bounds[turn]

    def state(self, turn: int) -> "SeenState":
        """The state of a turn."""
        return SeenState(self, turn, self._tensors[turn])

    def _written(self, turn: int) -> Any:
        tensors, step = self._tensors[turn], self.step
        bound = _bound(tensors, len(step.made) + 1)
        if not step.made:
            return bound
        if turn < 2:
            again = [one.over and (self._own or turn > 0) for one in step.made]
            likes = step.made_of(tensors)
            self._made.append([x if same else torch.empty_like(x) for x, same in zip(likes, again, strict=True)])
            self._tensors.append(step.with_made(tensors, self._made[turn]))
        for place, new in zip(bound[len(tensors) :], self._made[turn % 2], strict=False):
            place.take(new)
        return bound


class SeenState(KnownState):
    """A state whose step is known."""

    def __init__(self, turns: Turns, turn: int, tensors: Tensors):
        super().__init__(turns.step, turns.given, tensors, turns.kept)
        self.turns, self.turn, self._steps = turns, turn, turns.steps

    @property
    def used(self) -> bool:
        return self._steps != self.turns.steps

    def after(self) -> "SeenState":
        """The state behind the next step: where that makes no tensors, this one."""
        if not self.step.made:
            return self
        self.turns.steps += 1
        return self.turns.state(self.turn % 2 + 1)

    def bounds(self, steps: int) -> list[Any]:
        """The tensors of this state and of those behind the next steps, as the kernels see them; after three they come again."""
        turn, found = self.turn, []
        for _ in range(steps):
            found.append(self.turns.bound(turn))
            turn = turn % 2 + 1 if self.step.made else turn
        return found


def _bound(tensors: Tensors, more: int) -> Any:
    """Tensors as the kernels see them, with room for more behind them."""
    bound = (Bound * (len(tensors) + more))()
    for place, x in zip(bound, tensors, strict=False):
        if x is not None:
            place.take(x)
    return bound


def moves_made(state: States, tensors: Tensors, made: Sequence[Made], rows: int) -> bool:
    """Whether another order of the hypotheses concerns, of the tensors of a state, those that a step makes anew, row by row."""
    order = torch.arange(rows)
    places = set()
    for i, (before, after) in enumerate(zip(tensors, tensors_of(state.select(order)), strict=True)):
        if before is not after:
            same = before is not None and after is not None and torch.equal(before.index_select(0, order), after)
            places.add(i if same else -1)
    return places == {one.like for one in made}


Filler = Callable[[Any, Sequence[Tensor]], Any]


def _filler(after: object) -> Filler | None:
    """What makes the state `after` of one before it and the new tensors; None where nothing is new."""
    if isinstance(after, Made):
        number = after.number
        return lambda before, made: made[number]
    if not isinstance(after, tuple):
        return None
    parts = [_filler(part) for part in after]
    if not any(parts):
        return None
    kind: Callable[[Any], Any] = getattr(type(after), "_make", tuple)

    def fill(before: Any, made: Sequence[Tensor]) -> Any:
        return kind([b if part is None else part(b, made) for part, b in zip(parts, before, strict=True)])

    return fill
