"""A prepared model's encoder and step as programs of kernel calls: one call each, instead of one for every operation.

A layer that has no program leaves its side of the model to run layer by layer. Both ways keep their states alike, so that a search
may take turns with them, as after a prefix.
"""

import ctypes
import threading
from typing import Any, NamedTuple, cast

import torch
from jaxtyping import Bool, Int
from torch import Tensor

from calque.layers.contract import Layer, Point
from calque.layers.history import History
from calque.layers.state import State, States
from calque.model import Model, Sources
from calque.native.kernels import Kernels
from calque.native.program import Arena, Bound, Closed, Frame, Made, NoProgram, Program, Value, starts_of

GROUP_ROWS = 512
"""Tokens that are encoded together: enough for products, few enough for a processor's caches."""
MOST_FORMS = 16
"""Forms of state that programs are kept for: with padding and without, and the like."""


class _Step(NamedTuple):
    """The program of a step."""

    program: Closed
    after: Any
    """the state behind it, with `Made` where a tensor is new"""
    made: tuple[Made, ...]
    width: int


class _Encoder(NamedTuple):
    """The program of the encoder: what it leaves, in order, at which points."""

    program: Closed
    points: tuple[tuple[str, int], ...]
    """labels and widths"""


class _Once(States):
    """A state that one step uses up: it may overwrite the tensors."""

    used: bool
    """whether that step has been made"""

    def select(self, rows: Tensor) -> States:
        _unused(self)
        return super().select(rows)

    def keep(self, rows: Tensor, sentences: Tensor) -> States:
        _unused(self)
        return super().keep(rows, sentences)


class _Moved(_Once):
    """The state behind a change of hypotheses: nobody else has the tensors that a step overwrites."""

    used = False


class _Turns:
    """What a step goes through when no hypothesis moves: the state it was given and, where it makes new tensors, two states of its
    own by turns, so that their tensors are made once.
    """

    def __init__(self, step: _Step, given: States):
        self.step, self._states = step, [given]
        self._own = isinstance(given, _Moved)
        self.steps = 0
        """made so far"""
        self._bounds: list[Any] = []
        self._made: list[list[Tensor]] = []

    def bound(self, turn: int) -> Any:
        """The tensors of a state and of the one behind it, as the kernels see them, with room for one more."""
        if turn == len(self._bounds):
            self._bounds.append(self._written(turn))
        return self._bounds[turn]

    def state(self, turn: int) -> "_Seen":
        """The state of a turn."""
        seen = _Seen(self._states[turn].parts)
        seen.turns, seen.turn, seen.steps = self, turn, self.steps
        return seen

    def _written(self, turn: int) -> Any:
        tensors: list[Tensor | None] = []
        _collect(self._states[turn], tensors)
        bound = _bound(tensors, len(self.step.made) + 1)
        if not self.step.made:
            return bound
        if turn < 2:
            again = [one.over and (self._own or turn > 0) for one in self.step.made]
            likes = [cast("Tensor", tensors[one.like]) for one in self.step.made]
            self._made.append([x if same else torch.empty_like(x) for x, same in zip(likes, again, strict=True)])
            self._states.append(_filled(self.step.after, self._states[turn], self._made[turn]))
        for place, new in zip(bound[len(tensors) :], self._made[turn % 2], strict=False):
            place.take(new)
        return bound


class _Seen(_Once):
    """A state whose step is known."""

    turns: _Turns
    turn: int
    steps: int
    """made before it"""
    steady = False
    """whether another order of the hypotheses changes nothing, as it follows from the kinds of state"""

    @property
    def used(self) -> bool:  # type: ignore[override]  # known from the steps that were made
        return self.steps != self.turns.steps

    def after(self) -> "_Seen":
        """The state behind the next step: where that makes no tensors, this one."""
        if not self.turns.step.made:
            return self
        self.turns.steps += 1
        return self.turns.state(self.turn % 2 + 1)

    def select(self, rows: Tensor) -> States:
        if self.steady:
            return self
        after = super().select(rows)
        self.steady = after is self
        return self if self.steady else _Moved(after.parts)


class Recorded:
    """The programs of a model. They hold its weights as they are now."""

    def __init__(self, model: Model, kernels: Kernels):
        self._model, self._kernels = model, kernels
        self._steps: dict[tuple[int, ...], _Step | None] = {}
        self._encoder = self._written_encoder()
        self._own = threading.local()

    def step(self, words: Int[Tensor, "R n"], state: State, beams: int) -> tuple[Tensor, State] | None:
        """z [R, 1, D] of the next position and the state after it; None where layers have to run one by one."""
        history, inner = cast("tuple[History, States]", cast("States", state).parts)
        _unused(inner)
        if history.at is None or words.shape[1] != 1 or torch.is_grad_enabled():
            return None
        seen = inner if isinstance(inner, _Seen) and inner.turns.step in self._steps.values() else self._seen(inner)
        if seen is None:
            return None
        history.check_room(1)
        step, bound, rows = seen.turns.step, seen.turns.bound(seen.turn), words.shape[0]
        z = torch.empty(rows, step.width, dtype=step.program.dtype)
        bound[len(bound) - 1].take(z)
        words = words.long().contiguous()
        frame = Frame(rows=rows, beams=beams, visible=history.at + 1, words=words.data_ptr())
        frame.bound = ctypes.addressof(bound)
        if history.origin is not None:
            frame.origin, frame.origin_next = history.origin.data_ptr(), history.origin.shape[2]
        step.program.run(self._kernels.run, frame, self._arena(), history.at + 1)
        if isinstance(inner, _Moved):
            inner.used = True
        return z[:, None], States((history.advance(1, None), seen.after()))

    def _seen(self, inner: States) -> _Seen | None:
        """The state with the step that goes on from it; None where there is no program for states of its form."""
        tensors: list[Tensor | None] = []
        _collect(inner, tensors)
        form = tuple(-1 if x is None else x.dim() for x in tensors)
        if form not in self._steps and len(self._steps) < MOST_FORMS:
            self._steps[form] = self._written_step(inner, tensors)
        step = self._steps.get(form)
        return None if step is None else _Turns(step, inner).state(0)

    def encode(self, source: Int[Tensor, "B S"], mask: Bool[Tensor, "B S"] | None) -> Sources | None:
        """What `Model.encode` returns, computed without padding; None where layers have to run one by one."""
        if self._encoder is None or torch.is_grad_enabled():
            return None
        program, points = self._encoder
        mask = None if mask is None or bool(mask.all()) else mask
        lengths = torch.full((len(source),), source.shape[1]) if mask is None else mask.sum(1)
        starts, positions = starts_of(lengths)
        words = (source if mask is None else source[mask]).long().contiguous()
        values = [torch.empty(words.numel(), width, dtype=program.dtype) for _, width in points]
        first = 0
        while first < len(source):
            limit = int(starts[first]) + GROUP_ROWS
            last = max(first + 1, int(torch.searchsorted(starts, limit, right=True)) - 1)
            self._encode_some(program, words, starts, positions, values, first, min(last, len(source)))
            first = last
        return {label: _point(value, mask, source) for (label, _), value in zip(points, values, strict=True)}

    def _encode_some(
        self,
        program: Closed,
        words: Tensor,
        starts: Tensor,
        positions: Tensor,
        values: list[Tensor],
        first: int,
        last: int,
    ) -> None:
        """Sentences from `first` to before `last`."""
        begin, end = int(starts[first]), int(starts[last])
        if begin == end:
            return
        bound = (Bound * len(values))()
        for place, value in zip(bound, values, strict=True):
            place.take(value[begin:end])
        inside, at = starts[first : last + 1] - begin, positions[begin:end]
        frame = Frame(rows=end - begin, beams=1, sentences=last - first, starts=inside.data_ptr())
        frame.words, frame.positions = words.view(-1)[begin:end].data_ptr(), at.data_ptr()
        frame.bound = ctypes.addressof(bound)
        program.run(self._kernels.run, frame, self._arena(), int(at.max()) + 1)

    def _arena(self) -> Arena:
        if not hasattr(self._own, "arena"):
            self._own.arena = Arena()
        return cast("Arena", self._own.arena)

    def _written_step(self, inner: State, tensors: list[Tensor | None]) -> _Step | None:
        weight = self._model.target_embedding.weight
        p = Program(weight.dtype, tensors)
        if (written := _written(self._model.decoder, p, weight, inner)) is None:
            return None
        y, after = written
        p.leave(y)
        return _Step(p.close(), after, tuple(p.made), y.width)

    def _written_encoder(self) -> _Encoder | None:
        weight = self._model.source_embedding.weight
        p = Program(weight.dtype)
        if (written := _written(self._model.encoder, p, weight, None)) is None:
            return None
        points = {**p.labels, "end": written[0]}
        for value in points.values():
            p.leave(value)
        return _Encoder(p.close(), tuple((label, value.width) for label, value in points.items()))


def _unused(state: States) -> None:
    if isinstance(state, _Once) and state.used:
        raise ValueError("a step from this state has been made; each state is used up by one")


def _written(side: Layer, p: Program, embedding: Tensor, state: State | None) -> tuple[Value, State | None] | None:
    """The output of a side and the state behind it, its calls in `p`; None where a layer has no program."""
    if not _written_by_their_authors(side):
        return None
    try:
        return side.program(p, p.embed(embedding), state)
    except NoProgram:
        return None


def _written_by_their_authors(side: Layer) -> bool:
    """Whether no layer from elsewhere has inherited its program from one that computes something else."""
    kinds = {type(layer) for layer in side.modules() if isinstance(layer, Layer)}
    ours = f"{Layer.__module__.rpartition('.')[0]}."
    return all(kind.__module__.startswith(ours) or {"program", "merged"} & vars(kind).keys() for kind in kinds)


def _collect(state: object, into: list[Tensor | None]) -> None:
    """The tensors of a state, in order, and None where one is missing."""
    if state is None or isinstance(state, Tensor):
        into.append(state)
    elif isinstance(state, tuple):
        for part in state:
            _collect(part, into)


def _bound(tensors: list[Tensor | None], more: int) -> Any:
    """Tensors as the kernels see them, with room for more behind them."""
    bound = (Bound * (len(tensors) + more))()
    for place, x in zip(bound, tensors, strict=False):
        if x is not None:
            place.take(x)
    return bound


def _filled(after: Any, before: Any, made: Any) -> Any:
    """The state `after`, with new tensors, and those of `before` where they stay."""
    if isinstance(after, Made):
        return made[after.number]
    if not isinstance(after, tuple):
        return before
    parts = [_filled(a, b, made) for a, b in zip(after, before, strict=True)]
    return type(after)(*parts) if hasattr(after, "_fields") else tuple(parts)


def _point(value: Tensor, mask: Tensor | None, source: Tensor) -> Point:
    """Rows as a padded batch."""
    if mask is None:
        return Point(value.view(*source.shape, -1), None)
    padded = value.new_zeros(*source.shape, value.shape[1])
    padded[mask] = value
    return Point(padded, mask)
