"""A prepared model's encoder and step as programs of kernel calls: one call each, instead of one for every operation.

A layer that has no program leaves its side of the model to run layer by layer. Both ways keep their states alike, so that a search
may take turns with them, as after a prefix.
"""

import ctypes
import threading
from typing import NamedTuple, cast

import torch
from jaxtyping import Bool, Int
from torch import Tensor

from calque.decode.step_states import (
    Kept,
    KnownState,
    MovedState,
    RecordedStep,
    SeenState,
    Tensors,
    Turns,
    check_unused,
    moves_made,
)
from calque.decode.unpadded import Unpadded
from calque.layers.contract import Layer, Point
from calque.layers.history import History
from calque.layers.state import State, States, tensors_of
from calque.model import Model, Sources
from calque.native.kernels import Best, Kernels
from calque.native.program import Arena, Bound, Closed, Frame, NoProgram, Program, Value
from calque.native.steps import Choosing, StepTensors, make_steps

MOST_FORMS = 16
"""Forms of state that programs are kept for: with padding and without, and the like."""
Form = tuple[tuple[int, torch.dtype, bool] | None, ...]
"""Of each tensor its dimensions, its type, and whether numbers lie side by side: kernels see addresses alone."""


class _Encoder(NamedTuple):
    """The program of the encoder: what it leaves, in order, at which points."""

    program: Closed
    points: tuple[tuple[str, int], ...]
    """labels and widths"""
    states: list[Tensor]
    """what recurrences begin with"""
    finals: dict[str, tuple[int, ...]]
    """of a labelled cell, which of these are its own"""


class Recorded:
    """The programs of a model. They hold its weights as they are now."""

    def __init__(self, model: Model, kernels: Kernels):
        self._model, self._kernels = model, kernels
        self._steps: dict[Form, RecordedStep | None] = {}
        self._encoder = self._written_encoder()
        self._own = threading.local()

    def step(self, words: Int[Tensor, "R n"], state: State, beams: int) -> tuple[Tensor, State] | None:
        """z [R, 1, D] of the next position and the state after it; None where layers have to run one by one."""
        history, inner = cast("tuple[History, States | KnownState]", cast("States", state).parts)
        check_unused(inner)
        if history.at is None or words.shape[1] != 1 or torch.is_grad_enabled():
            return None
        seen = self._seen(inner, words.shape[0])
        if seen is None:
            return None
        history.check_room(1)
        step, bound, rows = seen.turns.step, seen.turns.bound(seen.turn), words.shape[0]
        z = torch.empty(rows, step.width, dtype=step.program.dtype)
        bound[len(bound) - 1].take(z)
        words = words.long().contiguous()
        frame = _frame(history, words, beams, seen.kept)
        frame.bound = ctypes.addressof(bound)
        step.program.run(self._kernels.run, frame, self._arena(), history.at + 1)
        if isinstance(inner, MovedState):
            inner.used = True
        return z[:, None], States((history.advance(1, None), cast("State", seen.after())))

    def several(
        self, words: Int[Tensor, "b K"], state: State, choosing: Choosing, most: int
    ) -> tuple[list[Best], State] | None:
        """See `calque.decode.scorer.Scorer.several`."""
        history, inner = cast("tuple[History, States | KnownState]", cast("States", state).parts)
        check_unused(inner)
        if history.at is None or torch.is_grad_enabled():
            return None
        seen, most = self._seen(inner, words.numel()), min(most, history.capacity - history.at)
        if seen is None or most < 1 or (choosing.live is not None and not seen.step.moves_made):
            return None
        made = seen.turns.step.made_of(seen.tensors)
        if not all(x.is_contiguous() for x in made):
            return None
        step, bound = seen.turns.step, seen.bounds(3)
        z = torch.empty(words.numel(), step.width, dtype=step.program.dtype)
        for each in bound:
            each[len(each) - 1].take(z)
        words = words.long().contiguous()
        rows = [
            one.over * x.numel() // len(x) * x.element_size() for one, x in zip(seen.turns.step.made, made, strict=True)
        ]
        given = StepTensors(bound, len(seen.tensors), rows, z, history.origin)
        frame = _frame(history, words, words.shape[1], seen.kept)
        chosen = make_steps(self._kernels, step.program, frame, self._arena(), given, choosing, most)
        if isinstance(inner, MovedState):
            inner.used = True
        for _ in chosen.best:
            seen = seen.after()
        history = history.advance(len(chosen.best), None)._replace(origin=chosen.origin)
        return chosen.best, States((history, cast("State", seen)))

    def _seen(self, inner: States | KnownState, rows: int) -> SeenState | None:
        """The state, of so many rows, with the step that goes on from it; None where there is no program for states of its form."""
        if isinstance(inner, KnownState):
            if inner.step not in self._steps.values():
                inner = inner.whole
            elif isinstance(inner, SeenState):
                return inner
            else:
                return Turns(inner.step, inner.given, inner.tensors, own=True, kept=inner.kept).state(0)
        tensors = tensors_of(inner)
        form = tuple(None if x is None else (x.dim(), x.dtype, x.stride()[-1:] in ((), (1,))) for x in tensors)
        if form not in self._steps and len(self._steps) < MOST_FORMS:
            self._steps[form] = self._written_step(inner, tensors, rows)
        step = self._steps.get(form)
        return None if step is None else Turns(step, inner, tensors, own=False).state(0)

    def encode(self, source: Int[Tensor, "B S"], mask: Bool[Tensor, "B S"] | None) -> Sources | None:
        """What `Model.encode` returns, computed without padding; None where layers have to run one by one."""
        if self._encoder is None or torch.is_grad_enabled():
            return None
        program = self._encoder.program
        tokens = Unpadded(source, mask, sort=bool(self._encoder.states))
        values = [torch.empty(tokens.words.numel(), width, dtype=program.dtype) for _, width in self._encoder.points]
        states = [x.repeat(len(source), *(1,) * (x.dim() - 1)) for x in self._encoder.states]
        for first, last in tokens.groups():
            self._encode_some(program, tokens, states, values, first, last)
        points = {}
        for (label, _), value in zip(self._encoder.points, values, strict=True):
            final = self._encoder.finals.get(label)
            state = None if final is None else tuple(tokens.of_sentences(states[i]) for i in final)
            points[label] = Point(tokens.padded(value), tokens.mask, state)
        return points

    def _encode_some(
        self, program: Closed, tokens: Unpadded, states: list[Tensor], values: list[Tensor], first: int, last: int
    ) -> None:
        """Sentences from `first` to before `last`."""
        begin, end = int(tokens.starts[first]), int(tokens.starts[last])
        if begin == end:
            return
        bound = (Bound * (len(states) + len(values)))()
        for place, x in zip(bound, (*(s[first:last] for s in states), *(v[begin:end] for v in values)), strict=True):
            place.take(x)
        inside, at = tokens.starts[first : last + 1] - begin, tokens.positions[begin:end]
        frame = Frame(rows=end - begin, beams=1, sentences=last - first, starts=inside.data_ptr())
        frame.words, frame.positions = tokens.words[begin:end].data_ptr(), at.data_ptr()
        frame.bound = ctypes.addressof(bound)
        program.run(self._kernels.run, frame, self._arena(), int(at.max()) + 1)

    def _arena(self) -> Arena:
        if not hasattr(self._own, "arena"):
            self._own.arena = Arena()
        return cast("Arena", self._own.arena)

    def _written_step(self, inner: States, tensors: Tensors, rows: int) -> RecordedStep | None:
        weight = self._model.target_embedding.weight
        p = Program(weight.dtype, tensors)
        if (written := _written(self._model.decoder, p, weight, inner)) is None:
            return None
        y, after = written
        p.leave(y)
        return RecordedStep(p.close(), after, tuple(p.made), y.width, moves_made(inner, tensors, p.made, rows))

    def _written_encoder(self) -> _Encoder | None:
        weight = self._model.source_embedding.weight
        p = Program(weight.dtype)
        if (written := _written(self._model.encoder, p, weight, None)) is None:
            return None
        points = {**p.labels, "end": written[0]}
        for value in points.values():
            p.leave(value)
        widths = tuple((label, value.width) for label, value in points.items())
        return _Encoder(p.close(), widths, p.states, p.finals)


def _frame(history: History, words: Int[Tensor, "b K"], beams: int, kept: Kept | None) -> Frame:
    """A call for the next position of every row."""
    frame = Frame(rows=words.numel(), beams=beams, visible=cast("int", history.at) + 1, words=words.data_ptr())
    if history.origin is not None:
        frame.origin, frame.origin_next = history.origin.data_ptr(), history.origin.shape[2]
    if kept is not None:
        frame.places = kept.sentences.data_ptr()
    return frame


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
