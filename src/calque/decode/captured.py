"""Searches on an accelerator: a step is captured once for each shape, as a graph of kernels, and then replayed.

What a step reads, and what it leaves, stand in tensors that keep their places, with room for as many sentences as the next larger
of a few sizes. A step asks the device for nothing: which sentences are done is counted there, and the host reads the
count of one step while the next one runs. When half of the sentences are done the others go on in a smaller graph. Of shapes that
come again, what precedes the second step is a graph, too.
"""

import copy
import math
import threading
from collections import OrderedDict
from collections.abc import Hashable
from dataclasses import replace
from typing import Any, ClassVar, NamedTuple, cast

import torch
from jaxtyping import Bool, Int
from torch import Tensor

from calque.decode.captured_steps import (
    CapturedBeginning,
    CapturedSteps,
    Progress,
    by_device,
    room_for,
    with_room,
)
from calque.decode.chosen import ChosenWords
from calque.decode.graph import form
from calque.decode.rule import SearchRule, SearchSettings
from calque.decode.scorer import Scorer
from calque.layers.state import State, numbers_of, tensors_of
from calque.model import Sources
from calque.native.graphs import NotCapturable

KEPT, SEEN = 16, 256
"""Shapes whose graphs are kept, with their tensors, and shapes that are known to have come; those that came last."""
SHARE = 0.25
"""Of the device's memory, that these tensors take at most; those of the last two shapes may take more."""


class Captured:
    """The graphs of a model on an accelerator. Graphs share memory, so that one search is made at a time, of whichever model."""

    _lock: ClassVar = threading.Lock()

    def __init__(self) -> None:
        self._steps: OrderedDict[Hashable, CapturedSteps] = OrderedDict()
        self._beginnings: OrderedDict[Hashable, CapturedBeginning | None] = OrderedDict()
        self.refused: dict[Hashable, str] = {}
        """why searches of a kind are made step by step: a layer waits for the device, or a state changes what a graph fixes"""

    def __deepcopy__(self, memo: object) -> "Captured":
        """That of a copy of the model."""
        return Captured()

    def encode(self, source: Int[Tensor, "B S"], mask: Bool[Tensor, "B S"] | None) -> Sources | None:
        """See `calque.model.Programs`: outside of a search layers run one by one."""
        return None

    def step(self, words: Int[Tensor, "R n"], state: State, beams: int) -> tuple[Tensor, State] | None:
        """See `calque.model.Programs`."""
        return None

    def replay(self, steps: CapturedSteps, visible: int) -> None:
        """One step, in which no row holds more than `visible` positions."""
        steps.prepare(visible)()

    def search(
        self, scorer: Scorer, settings: SearchSettings, limit: Tensor, lines: Tensor, room: int
    ) -> ChosenWords | None:
        """A search without prefixes, whose states have `room`; None where it has to begin step by step.

        `limit` and `lines` lie on the processor.
        """
        last, kind = int(limit.max()) + 1, _kind(scorer, settings)
        if kind in self.refused or last < 2:
            return None
        key = settings, scorer.shared, scorer.forms, room_for(len(limit)), room
        with self._lock:
            try:
                beginning = self._beginning(key, scorer, settings, limit, lines)
                if beginning is None:
                    return None
                beginning.fill(scorer, limit, lines)
                beginning()
                span = _Span(scorer, settings, copy.copy(beginning.rule), last)
                return self._go_on(span, beginning.steps, len(limit), None)
            except NotCapturable as why:
                self._refuse(kind, why)
                return None

    def finish(
        self,
        scorer: Scorer,
        rule: SearchRule,
        settings: SearchSettings,
        history: ChosenWords,
        progress: Progress,
        before: int,
        last: int,
    ) -> bool:
        """The steps behind the first one, to at most `last`; whether they could be made. `before`: the longest prefix.

        Leaves the chosen words in `history`. Where the steps cannot be made, everything is as it was.
        """
        if (kind := _kind(scorer, settings)) in self.refused:
            return False
        progress, known = progress._replace(state=by_device(progress.state)), (rule.values(), history.present)
        span = _Span(scorer, settings, rule, last, before)
        with self._lock:
            try:
                steps = self._steps_for(span, progress)
                steps.prepare(before + 2)
                steps.load(progress)
                self._go_on(span, steps, len(progress.limit), history)
            except NotCapturable as why:
                self._refuse(kind, why)
                rule.take(known[0])
                history.present = known[1]
                del history.steps[1:]
        return kind not in self.refused

    def _refuse(self, kind: Hashable, why: NotCapturable) -> None:
        """Searches of a kind are made step by step from now on."""
        self.refused[kind] = str(why)
        self._steps.clear()
        self._beginnings.clear()

    def _beginning(
        self, key: Hashable, scorer: Scorer, settings: SearchSettings, limit: Tensor, lines: Tensor
    ) -> "CapturedBeginning | None":
        """What precedes the second step; None where the shape is new, since it may not come again. Raises NotCapturable."""
        if (known := self._beginnings.get(key)) is None:
            if key not in self._beginnings:
                self._beginnings[key] = None
                return None
            *_, sentences, room = cast("tuple[Any, ...]", key)
            known = CapturedBeginning(scorer, settings, sentences, room)
            known.fill(scorer, limit, lines)
            progress = known.first()
            steps = self._steps_for(_Span(known.scorer, settings, known.rule, room), progress)
            steps.prepare(2)
            known.capture(steps)
            self._beginnings[key] = known
        self._beginnings.move_to_end(key)
        if known.steps.key in self._steps:
            self._steps.move_to_end(known.steps.key)
        return known

    def _go_on(self, span: "_Span", steps: CapturedSteps, sentences: int, history: ChosenWords | None) -> ChosenWords:
        """The steps behind the first one, whose words are in the history if there is one."""
        begun, t = 0 if history is None else 1, 1
        while True:
            leave = sentences if span.settings.capacity else -(-sentences // 2)
            t, done = steps.make(sentences, t, span.last, span.before, leave, self.replay)
            progress, words, parents = steps.left(begun, t, sentences)
            rule = span.rule
            rule.take(dict(zip(rule.values(), progress.rule, strict=True)))
            history = history or ChosenWords(span.settings.beam, rule.stored())
            history.add(words, parents)
            history.finish(rule.stored())
            if done == sentences or t == span.last:
                history.to_host()
                return history
            left = (~rule.done).nonzero()[:, 0]
            history.present = history.present[left]
            progress, sentences, begun = progress.keep(left), len(left), t
            steps = self._steps_for(span, progress)
            steps.prepare(span.before + t + 1)
            steps.load(progress)

    def _steps_for(self, span: "_Span", progress: Progress) -> CapturedSteps:
        """The steps of a shape. Raises NotCapturable."""
        held, settings = with_room(progress), span.settings
        if settings.sampling is not None:  # what the seed says is among the tensors
            settings = replace(settings, sampling=replace(settings.sampling, seed=0))
        key = settings, type(span.rule), span.scorer.shared, tuple(numbers_of(held)), form(tensors_of(held))
        if key not in self._steps:
            self._steps[key] = CapturedSteps(span.scorer, span.rule, span.settings, held, key)
            self._make_room(progress.t.device)
        self._steps.move_to_end(key)
        return self._steps[key]

    def _make_room(self, device: torch.device) -> None:
        """Forgets the shapes that were used longest ago, where there are too many."""
        most = torch.cuda.get_device_properties(device).total_memory * SHARE if device.type == "cuda" else math.inf
        while len(self._steps) > 2 and (
            len(self._steps) > KEPT or sum(steps.bytes for steps in self._steps.values()) > most
        ):
            _, gone = self._steps.popitem(last=False)
            for key, beginning in list(self._beginnings.items()):
                if beginning is not None and beginning.steps is gone:
                    self._beginnings[key] = None
        while len(self._beginnings) > SEEN:
            self._beginnings.popitem(last=False)


def _kind(scorer: Scorer, settings: SearchSettings) -> Hashable:
    """Searches of a kind can be made of graphs, or none of them can."""
    return scorer.shared, settings.beam == 1, settings.sampling is None


class _Span(NamedTuple):
    """What all steps of a search share; `last`: the most of them; `before`: the longest prefix."""

    scorer: Scorer
    settings: SearchSettings
    rule: SearchRule
    last: int
    before: int = 0


def graphs_of(scorer: Scorer) -> Captured | None:
    """What makes the steps of its searches as graphs, where they can be."""
    programs = None if scorer.shared is None else scorer.shared.models[0].programs
    return programs if isinstance(programs, Captured) else None
