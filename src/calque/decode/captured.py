"""Searches on an accelerator: a step is captured once for each shape, as a graph of kernels, and then replayed.

What a step reads, and what it leaves, stand in tensors that keep their places, with room for as many sentences as the next larger
of a few sizes. A step asks the device for nothing: which sentences are done is counted there, and the host reads the
count of one step while the next one runs. When half of the sentences are done the others go on in a smaller graph. Of shapes that
come again, what precedes the second step is a graph, too.
"""

import copy
import threading
from collections import OrderedDict
from collections.abc import Hashable
from typing import Any

from jaxtyping import Bool, Int
from torch import Tensor

from calque.decode.captured_steps import CapturedBeginning, CapturedSteps, Progress, by_device, room_for, with_room
from calque.decode.chosen import ChosenWords
from calque.decode.graph import NotCapturable
from calque.decode.rule import SearchRule, SearchSettings
from calque.decode.scorer import Scorer
from calque.layers.state import State, tensors_of
from calque.model import Sources

KEPT = 16
"""Shapes whose graphs are kept, with their tensors; those that were used last."""


class Captured:
    """The graphs of a model on an accelerator, of which one search is made at a time."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._steps: OrderedDict[Hashable, CapturedSteps] = OrderedDict()
        self._beginnings: OrderedDict[Hashable, CapturedBeginning | None] = OrderedDict()
        self.refused: dict[Hashable, str] = {}
        """why searches are made step by step: a layer waits for the device, or a state changes its form"""

    def encode(self, source: Int[Tensor, "B S"], mask: Bool[Tensor, "B S"] | None) -> Sources | None:
        """See `calque.model.Programs`: outside of a search layers run one by one."""
        return None

    def step(self, words: Int[Tensor, "R n"], state: State, beams: int) -> tuple[Tensor, State] | None:
        """See `calque.model.Programs`."""
        return None

    def begin(self, beginning: CapturedBeginning) -> Progress:
        """What precedes the second step."""
        return beginning()

    def replay(self, steps: CapturedSteps, visible: int) -> None:
        """One step, in which no row holds more than `visible` positions."""
        steps.prepare(visible)()

    def search(
        self, scorer: Scorer, settings: SearchSettings, limit: Tensor, lines: Tensor, room: int, last: int
    ) -> ChosenWords | None:
        """A search without prefixes, whose steps are `last` at most and have `room`; None where it has to begin step by step.

        `limit` and `lines` lie on the processor.
        """
        size = room_for(len(limit))
        key = settings, scorer.shared, scorer.forms, size, room
        with self._lock:
            if key in self.refused or last < 2:
                return None
            seen, beginning = key in self._beginnings, _recent(self._beginnings, key)
            if beginning is None:
                if not seen:  # it may not come again
                    self._beginnings[key] = None
                    return None
                beginning = CapturedBeginning(scorer, settings, size, room)
                beginning.fill(scorer, limit, lines)
                try:
                    progress = beginning.first()
                    steps = self._steps_for(beginning.scorer, beginning.rule, settings, progress, last)
                    steps.prepare(2)
                    beginning.capture()
                except NotCapturable as why:
                    self.refused[key] = str(why)
                    return None
                self._beginnings[key] = beginning
            beginning.fill(scorer, limit, lines)
            progress = self.begin(beginning)
            rule = copy.copy(beginning.rule)
            steps = self._steps_for(beginning.scorer, rule, settings, progress, last)
            steps.begin(progress)
            return self._go_on(steps, rule, settings, scorer, None, len(limit), (0, 1, last), 0)

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

        Leaves the chosen words in `history`.
        """
        key = type(rule), scorer.shared
        if key in self.refused:
            return False
        progress = progress._replace(state=by_device(progress.state))
        with self._lock:
            try:
                steps = self._steps_for(scorer, rule, settings, progress, last)
                steps.prepare(before + 2)
            except NotCapturable as why:
                self.refused[key] = str(why)
                return False
            steps.load(progress)
            self._go_on(steps, rule, settings, scorer, history, len(progress.limit), (1, 1, last), before)
        return True

    def _go_on(
        self,
        steps: CapturedSteps,
        rule: SearchRule,
        settings: SearchSettings,
        scorer: Scorer,
        history: ChosenWords | None,
        sentences: int,
        span: tuple[int, int, int],
        before: int,
    ) -> ChosenWords:
        """`span`: the step behind which words are wanted, the one behind which the sentences stand, and the last one."""
        begun, t, last = span
        while True:
            leave = sentences if settings.capacity else -(-sentences // 2)
            t, done = steps.make(sentences, t, last, before, leave, self.replay)
            progress, words, parents = steps.left(begun, t, sentences)
            rule.take(dict(zip(rule.values(), progress.rule, strict=True)))
            history = history or ChosenWords(settings.beam, rule.stored())
            history.add(words, parents)
            history.finish(rule.stored())
            if done == sentences or t == last:
                history.to_host()
                return history
            left = (~rule.done).nonzero()[:, 0]
            history.present = history.present[left]
            progress, sentences, begun = progress.keep(left), len(left), t
            steps = self._steps_for(scorer, rule, settings, progress, last)
            steps.prepare(before + t + 1)
            steps.load(progress)

    def _steps_for(
        self, scorer: Scorer, rule: SearchRule, settings: SearchSettings, progress: Progress, last: int
    ) -> CapturedSteps:
        held = with_room(progress)
        forms = tuple(None if x is None else (x.shape, x.dtype) for x in tensors_of(held))
        key = settings, type(rule), scorer.shared, forms
        steps: CapturedSteps | None = _recent(self._steps, key)
        if steps is None:
            steps = self._steps[key] = CapturedSteps(scorer, rule, settings, held)
        steps.check_room(last)
        return steps


def _recent(kept: OrderedDict[Hashable, Any], key: Hashable) -> Any:
    """The value of a key, which is the most recent one then; None where there is none, which makes room for one."""
    if key in kept:
        kept.move_to_end(key)
        return kept[key]
    while len(kept) >= KEPT:
        kept.popitem(last=False)
    return None


def graphs_of(scorer: Scorer) -> Captured | None:
    """What makes the steps of its searches as graphs, where they can be."""
    programs = None if scorer.shared is None else scorer.shared[0][0].programs
    return programs if isinstance(programs, Captured) else None
