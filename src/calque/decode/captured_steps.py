"""The graphs of searches of one shape: what precedes the second step, and each step."""

import copy
from collections.abc import Callable, Hashable
from functools import partial
from typing import Any, NamedTuple, cast

import torch
from jaxtyping import Int
from torch import Tensor

from calque.decode.ahead import Ahead
from calque.decode.begin import read_prefixes, rule_of, spread_hypotheses
from calque.decode.chosen import rows_of
from calque.decode.graph import Counts, overwrite
from calque.decode.rule import SearchRule, SearchSettings, SearchStart
from calque.decode.scorer import Scorer
from calque.layers.history import History
from calque.layers.state import State, mapped, size, tensors_of
from calque.native.graphs import NotCapturable, captured

ROOM = 32
"""What the number of positions is a multiple of, and the least that a graph is captured for."""


class Progress(NamedTuple):
    """How far a search is, as the device knows it."""

    t: Int[Tensor, ""]
    """steps made"""
    limit: Int[Tensor, " b"]
    """of each sentence, the most words behind its prefix"""
    chosen: Int[Tensor, "b K"]
    state: State
    rule: tuple[Any, ...]
    """the values of `SearchRule.values`"""

    @staticmethod
    def behind(t: int, limit: Tensor, chosen: Tensor, state: State, rule: SearchRule) -> "Progress":
        """Behind step t."""
        return Progress(torch.full((), t, device=limit.device), limit, chosen, state, tuple(rule.values().values()))

    def keep(self, sentences: Int[Tensor, " c"]) -> "Progress":
        """Only these sentences."""
        each = torch.arange(self.chosen.shape[1], device=sentences.device).expand(len(sentences), -1)
        state = self.state.keep(rows_of(sentences, each), sentences)
        limit, chosen, rule = mapped((self.limit, self.chosen, self.rule), lambda x: x[sentences])
        return Progress(self.t, limit, chosen, state, rule)


class CapturedBeginning:
    """What precedes the second step of searches without prefixes, of sources of one shape."""

    def __init__(self, scorer: Scorer, settings: SearchSettings, sentences: int, room: int):
        """For so many sentences; `room`: positions of their states."""
        self.scorer, self._settings, self._room = scorer.with_room(sentences), settings, room
        device = scorer.like.device
        self._limit, self._lines = torch.zeros(2, sentences, dtype=torch.int64, device=device)
        self._everyone = torch.arange(sentences, device=device)
        self._replay: Callable[[], None] | None = None
        self.rule: SearchRule
        self.steps: CapturedSteps

    def fill(self, scorer: Scorer, limit: Tensor, lines: Tensor) -> None:
        """Takes a batch. Further sentences are done from the start."""
        self.scorer.fill(scorer)
        self._limit.zero_()
        for held, given in ((self._limit, limit), (self._lines, lines)):
            held[: len(given)].copy_(given)

    def first(self) -> Progress:
        """Behind the first step."""
        scorer, settings, limit = self.scorer, self._settings, self._limit
        hidden, state, _ = read_prefixes(scorer, self._room, len(limit), settings, None)
        self.rule = rule_of(settings, SearchStart(scorer.like, limit, self._lines, normalised=scorer.normalised))
        ahead, closing = Ahead(scorer, self.rule, settings, hidden, ()), limit < 1
        chosen, _ = self.rule.advance(ahead.look(state, 1, closing), 1, closing)
        state = spread_hypotheses(state, self._everyone, settings.beam, 1)
        return Progress.behind(1, limit, chosen, by_device(state), self.rule)

    def capture(self, steps: "CapturedSteps") -> None:
        """For what these steps go on from. Raises NotCapturable."""
        self._replay, self.steps = captured(lambda: steps.begin(self.first()), self._limit.device), steps

    def __call__(self) -> None:
        """Of the batch that was taken: puts the steps behind the first one."""
        if self._replay is None:
            raise ValueError("nothing is captured yet")
        self._replay()


class CapturedSteps:
    """The steps of searches of one shape."""

    def __init__(self, scorer: Scorer, rule: SearchRule, settings: SearchSettings, like: Progress, key: Hashable):
        """`like`: tensors of the shape; `key`: by which they are known."""
        self.key = key
        held = mapped(like, partial(torch.zeros_like, device=scorer.like.device))
        self._rule, self._names, self._held = copy.copy(rule), tuple(rule.values()), held
        self._ahead = Ahead(scorer, self._rule, settings, (), ())
        self._everyone = torch.arange(len(held.chosen), device=held.t.device)
        self._counts = Counts(held.t.device)
        self._capacity = capacity(held.state)
        # The last rows are for steps that are made while they are captured.
        self._words = held.chosen.new_zeros(self._capacity + ROOM, *held.chosen.shape)
        self._parents = torch.zeros_like(self._words)
        self.bytes = size(*(x for x in tensors_of(held) if x is not None), self._words, self._parents)
        self._graphs: dict[int, Callable[[], None]] = {}

    def prepare(self, visible: int) -> Callable[[], None]:
        """The step in which no row holds more than `visible` positions. Raises NotCapturable."""
        bound = ROOM
        while bound < visible:
            bound *= 2
        bound = min(bound, max(visible, self._capacity))
        if bound not in self._graphs:
            before = mapped(self._held, torch.clone)
            mapped(self._held, Tensor.zero_)
            self._held.t.fill_(self._capacity)  # behind the words of the search that may be under way
            self._graphs[bound] = captured(partial(self._advance, bound), self._held.t.device)
            overwrite(self._held, before)
        return self._graphs[bound]

    def load(self, progress: Progress) -> None:
        """Goes on from there. Further sentences of the shape have limits of 0, and are done behind the next step."""
        for held, given in zip(tensors_of(self._held), tensors_of(progress), strict=True):
            if held is None or given is None:
                continue
            if not held.dim():
                held.copy_(given)
                continue
            held[: len(given)] = given
            held[len(given) :] = 0

    def begin(self, progress: Progress) -> None:
        """Goes on from behind the first step, whose words are wanted as well."""
        overwrite(self._held, progress)
        self._words[0] = progress.chosen

    def make(
        self,
        sentences: int,
        t: int,
        last: int,
        before: int,
        leave: int,
        replay: Callable[["CapturedSteps", int], None],
    ) -> tuple[int, int]:
        """Steps t + 1 to at most `last`, until `leave` of the sentences are done: the last one made, and how many are done then."""
        begun, spare = t, len(self._held.limit) - sentences
        while t < last:
            t += 1
            replay(self, before + t)
            self._counts.ask(t)
            if t - 1 > begun and self._counts.answer(t - 1) - spare >= leave:
                break
        return t, self._counts.answer(t) - spare

    def left(self, begun: int, t: int, sentences: int) -> tuple[Progress, Tensor, Tensor | None]:
        """The progress of the sentences, and the words of the steps behind `begun`, with the hypotheses that they extend."""
        held, (words, parents) = self._held, (x[begun:t, :sentences].cpu() for x in (self._words, self._parents))
        limit, chosen, rule = mapped((held.limit, held.chosen, held.rule), lambda x: x[:sentences])
        return Progress(held.t, limit, chosen, held.state, rule), words, parents if words.shape[2] > 1 else None

    def _advance(self, visible: int) -> None:
        now, rule, ahead = self._held, self._rule, self._ahead
        rule.take(dict(zip(self._names, now.rule, strict=True)))
        t = now.t + 1
        state = ahead.read(now.chosen, now.state, t, visible)
        closing = now.limit < t
        chosen, parents = rule.advance(ahead.look(state, t, closing), t, closing)
        place = now.t.view(1)  # steps count from 1
        self._words.index_copy_(0, place, chosen[None])
        if parents is not None:
            state = state.select(rows_of(self._everyone, parents))
        elif chosen.shape[1] > 1:
            parents = torch.arange(chosen.shape[1], device=chosen.device).expand_as(chosen)
        if parents is not None:
            self._parents.index_copy_(0, place, parents[None])
        self._counts.put(rule.done)
        overwrite(now, Progress(t, now.limit, chosen, state, tuple(rule.values().values())))


def by_device(state: State) -> State:
    """The state, of whose positions the host knows nothing."""
    if isinstance(state, History):
        return state.by_device()
    if not isinstance(state, tuple):
        return state
    parts: list[Any] = [by_device(part) for part in state]
    return cast("State", type(state)(*parts) if hasattr(state, "_fields") else tuple(parts))


def capacity(state: object) -> int:
    """The number of positions that there is room for."""
    if isinstance(state, History):
        return state.capacity
    return max(map(capacity, state), default=0) if isinstance(state, tuple) else 0


def room_for(sentences: int) -> int:
    """The next size of a batch, of three binary digits, so that at most a fifth of the sentences is spare."""
    step = 1 << max(0, sentences.bit_length() - 3)
    return -(-sentences // step) * step


def with_room(progress: Progress) -> Progress:
    """Of the same form on no device, with room for as many sentences as `room_for` says. Raises NotCapturable."""
    sentences, beam = progress.chosen.shape
    more = room_for(sentences)

    def room(x: Tensor) -> Tensor:
        if not x.dim():
            return x.to("meta")
        if len(x) not in (sentences, sentences * beam):
            raise NotCapturable(
                "a state has a tensor whose first dimension is neither that of sentences nor of hypotheses"
            )
        return torch.empty(len(x) // sentences * more, *x.shape[1:], dtype=x.dtype, device="meta")

    return mapped(progress, room)
