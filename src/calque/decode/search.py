"""Search over `Model.step`: a step consists of tensor operations, without Python loops over sentences or words.

The rule, for a sentence with limit M (words, end symbol left out) and a beam of K, at step t = 1, 2, ...:

1. Candidates are the K live hypotheses, each extended by every word except PAD and BOS; at t = M + 1 by EOS alone. At
   t = 1 there is one live hypothesis, the empty one. The best 2K by log-probability and word penalty (of every word
   except EOS) are considered; equals in the order of the live hypotheses, then of the words' ids.
2. Those among the best K that end in EOS are finished. The K best finished ones by score are stored; of equals the
   older ones.
3. The best K that do not end in EOS are live. A candidate that ends in EOS but is not among the best K is dropped.
4. The sentence is done when t = M + 1, or
   none          the n_best-th stored hypothesis is as good as the best live one can become within M words;
   length, gnmt  K hypotheses are stored and, unless `stop` is `full` (Gehring et al. 2017), the n_best-th of them is as good
                 as the best live one would be if it ended at the next step with probability 1. Without this condition unlikely
                 ends of short hypotheses fill the store before the likely one is reached.

The score of a finished hypothesis of T words, EOS included, is s = logp + word_penalty * (T - 1) (none), s / T^alpha
(length), s / ((5 + T)/6)^alpha (gnmt). With K = 1 this is greedy search, which is done at its first EOS. Every decision
concerns one sentence, so that its translation does not depend on its batch.

A sentence with a forced prefix of P words starts at t = P + 1, with the log-probability of the prefix; where P > M, at its limit.
In the program t counts from the end of the prefix, so that all sentences of a batch have the same t.

Where a sentence requires phrases, `calque.decode.constrained` says which candidates there are, and which of them are live.

Sampling (`calque.decode.sample`) has K live hypotheses from t = 1 on, each extended by a drawn word, in the order of their numbers.
On a processor each is a sentence of its own behind the first step: done where it ends, not where the longest of them does.

Rows of a sentence are adjacent: row = sentence * K + hypothesis.
"""

from collections.abc import Sequence
from typing import NamedTuple, cast

import torch
from jaxtyping import Bool, Int
from torch import Tensor

from calque.decode.ahead import Ahead
from calque.decode.begin import (
    Prefixes,
    padded_prefixes,
    read_prefixes,
    required_of,
    rule_of,
    spread_hypotheses,
)
from calque.decode.captured import Captured, graphs_of
from calque.decode.captured_steps import ROOM, Progress
from calque.decode.chosen import ChosenWords, Hypotheses, rows_of
from calque.decode.required import Automata, Edges, Matched, Required
from calque.decode.rule import Sampling, SearchRule, SearchSettings, SearchStart
from calque.decode.sample import Sample
from calque.decode.scorer import Candidates, Models, Scorer, SourceBatch
from calque.layers.state import State, copied
from calque.model import Model

__all__ = [
    "Candidates",
    "Hypotheses",
    "Models",
    "Sampling",
    "Scorer",
    "SearchSettings",
    "SourceBatch",
    "search",
    "search_with",
]


class Begin(NamedTuple):
    """What a search knows of its sentences before it begins."""

    settings: SearchSettings
    prefix: Prefixes | None
    lines: Int[Tensor, " B"]
    required: tuple[Automata, Matched] | None

    @property
    def before(self) -> int:
        """The words of the longest prefix."""
        return 0 if self.prefix is None else self.prefix.longest

    def apart(self, scorer: Scorer) -> bool:
        """Whether each sample is a sentence of its own."""
        is_sampled = self.settings.sampling is not None and self.settings.beam > 1
        return is_sampled and not self.settings.capacity and scorer.like.device.type == "cpu"

    def graphs(self, scorer: Scorer) -> Captured | None:
        """The graphs that may make the steps; what is required differs from search to search, so that these have none."""
        return None if self.required is not None else graphs_of(scorer)


def search(
    model: Model,
    source: Int[Tensor, "B S"],
    mask: Bool[Tensor, "B S"],
    max_length: Int[Tensor, " B"],
    settings: SearchSettings,
    prefixes: Sequence[Sequence[int]] | None = None,
) -> Hypotheses:
    """The best hypotheses of a batch, under the rule above.

    Sources are on the model's device; `max_length` is M of each sentence and lies on the CPU.
    """
    with torch.inference_mode():
        return search_with(Models([SourceBatch(model, source, mask)]), max_length, settings, prefixes)


def search_with(
    scorer: Scorer,
    max_length: Int[Tensor, " B"],
    settings: SearchSettings,
    prefixes: Sequence[Sequence[int]] | None = None,
    lines: Int[Tensor, " B"] | None = None,
    width: int = 0,
    required: Sequence[Required] = (),
    edges: Edges | None = None,
) -> Hypotheses:
    """As `search`, with any scorer. `lines`, by default from 0, are the numbers from which samples are drawn; prefixes are padded
    to at least `width`. `required`, if any, has the phrases that the hypotheses of each sentence must contain; one for which
    `max_length` has no room may be missing. `edges`: where words begin and end; None: every entry is a word.
    """
    with torch.inference_mode():
        prefix = padded_prefixes(prefixes, width, scorer) if prefixes is not None and any(map(len, prefixes)) else None
        lines = torch.arange(len(max_length)) if lines is None else lines
        phrases = required_of(required, prefixes, edges, scorer) if any(required) else None
        begin = Begin(settings, prefix, lines, phrases)
        chosen = _run(scorer, max_length, begin)
        return chosen.read(settings.n_best, scorer.candidates, prefixes)


def _run(scorer: Scorer, max_length: Tensor, begin: Begin) -> ChosenWords:
    """The search: its steps, and the finished hypotheses of every sentence."""
    settings, prefix = begin.settings, begin.prefix
    limit, before = _limits(max_length, settings.exact_length, prefix)
    room = settings.capacity or before + int(limit.max()) + 1
    if (graphs := begin.graphs(scorer)) is not None:
        room = settings.capacity or -(-room // ROOM) * ROOM
        found = None if prefix is not None else graphs.search(scorer, settings, limit, begin.lines, room)
        if found is not None:
            return found
    return _step_by_step(scorer, begin, limit, room)


def _step_by_step(scorer: Scorer, begin: Begin, limit: Tensor, room: int) -> ChosenWords:
    """The search, of which graphs may make what is behind the first step. `limit` lies on the processor."""
    settings, before = begin.settings, begin.before
    rule, ahead, state, limit = _begun(scorer, begin, limit, room)
    history, graphs, closes = ChosenWords(settings.beam, rule.stored()), begin.graphs(scorer), ahead.closes
    same = torch.arange(settings.beam, device=limit.device)
    everyone = torch.arange(len(limit), device=limit.device)
    for t in range(1, max(closes) + 1):
        closing = limit < t if t in closes else None
        chosen, parents = rule.advance(ahead.look(state, t, closing), t, closing)
        history.steps.append((history.present, chosen, parents))
        done, parents = _progress(rule, parents, same)
        if done == len(everyone):
            break
        if ahead.made:  # the state holds these words already
            continue
        if t == 1 and begin.apart(scorer):
            state, limit, everyone = _divided(rule, history, ahead, state, limit)
            chosen, parents, same, done = chosen.view(-1, 1), None, same[:1], int(rule.done.sum())
        elif t == 1:
            state, parents = spread_hypotheses(state, everyone, settings.beam, before + 1), None
            progress = Progress.behind(t, limit, chosen, state, rule)
            if graphs is not None and graphs.finish(scorer, rule, settings, history, progress, before, max(closes)):
                return history
        if done >= ahead.leave(len(everyone)):
            left, state = _leave(rule, history, state, same.expand_as(chosen) if parents is None else parents)
            limit, chosen, everyone = limit[left], chosen[left], everyone[: len(left)]
        elif parents is not None:
            state = state.select(rows_of(everyone, parents))
        state = ahead.read(chosen, state, t, before + t + 1)
    history.finish(rule.stored())
    return history


def _begun(
    scorer: Scorer, begin: Begin, limit: Tensor, room: int
) -> tuple[SearchRule, Ahead, State, Int[Tensor, " B"]]:
    """The rule, the next step and the state behind the prefixes; of each sentence the most words that follow."""
    settings, prefix = begin.settings, begin.prefix
    lengths = None if prefix is None else prefix.lengths
    limit, lines = limit.to(scorer.like.device), begin.lines.to(scorer.like.device)
    hidden, state, logp = read_prefixes(scorer, room, len(limit), settings, prefix)
    start = SearchStart(scorer.like, limit, lines, lengths, logp, scorer.normalised, begin.required)
    rule = rule_of(settings, start)
    limit = limit if lengths is None else limit - lengths
    return rule, Ahead(scorer, rule, settings, hidden, {n + 1 for n in limit.tolist()}), state, limit


def _divided(
    rule: SearchRule, history: ChosenWords, ahead: Ahead, state: State, limit: Int[Tensor, " b"]
) -> tuple[State, Int[Tensor, " r"], Int[Tensor, " r"]]:
    """Makes each sample a sentence of its own: the state, the limits and the numbers of all of them."""
    rows = torch.arange(len(limit)).repeat_interleave(history.shape[1])
    for part in (cast("Sample", rule), history, ahead):
        part.divide()
    return copied(state, rows), limit[rows], torch.arange(len(rows))


def _leave(
    rule: SearchRule, history: ChosenWords, state: State, parents: Int[Tensor, "b K"]
) -> tuple[Int[Tensor, " c"], State]:
    """Removes sentences that are done; the others, and their state."""
    history.finish(rule.stored())
    left = (~rule.done).nonzero()[:, 0]
    rule.keep(left)
    history.present = history.present[left]
    return left, state.keep(rows_of(left, parents[left]), left)


def _progress(
    rule: SearchRule, parents: Int[Tensor, "b K"] | None, same: Int[Tensor, " K"]
) -> tuple[int, Int[Tensor, "b K"] | None]:
    """How many sentences are done, and the parents, None where every hypothesis extends itself.

    The one wait for the device in a step.
    """
    counts = [rule.done.sum()] if rule.any_ended else []
    # On a processor a rule has looked already.
    moved = None if parents is None or parents.device.type == "cpu" else (parents != same).sum()
    found = [int(count) for count in counts] if moved is None else torch.stack([*counts, moved]).tolist()
    any_moved = moved is None or found.pop()
    return found[0] if found else 0, parents if any_moved else None


def _limits(limit: Int[Tensor, " B"], exact: int, prefix: Prefixes | None) -> tuple[Int[Tensor, " B"], int]:
    """M of each sentence, at least its prefix, and the longest prefix. On the processor."""
    limit = torch.full_like(limit, exact - 1) if exact else limit
    return (limit, 0) if prefix is None else (torch.maximum(limit, prefix.lengths.cpu()), prefix.longest)
