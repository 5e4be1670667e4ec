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

Sampling (`calque.decode.sample`) has K live hypotheses from t = 1 on, each extended by a drawn word, in the order of their numbers.

Rows of a sentence are adjacent: row = sentence * K + hypothesis.
"""

from collections.abc import Sequence
from typing import NamedTuple

import torch
from jaxtyping import Bool, Int
from torch import Tensor

from calque.data.vocabulary import BOS, PAD
from calque.decode.ahead import Ahead, next_of
from calque.decode.beam import Beam
from calque.decode.greedy import Greedy
from calque.decode.rule import FinishedHypotheses, Sampling, SearchRule, SearchSettings, SearchStart
from calque.decode.sample import Sample
from calque.decode.scorer import Candidates, Hidden, Models, Scorer, SourceBatch
from calque.layers.state import State, spread
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


class Hypotheses(NamedTuple):
    """By sentence, the best first; fewer than n_best where the model's vocabulary has no more."""

    tokens: list[list[list[int]]]
    """without begin and end symbols"""
    scores: list[list[float]]
    logps: list[list[float]]
    """natural logarithms, end symbol included"""


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
) -> Hypotheses:
    """As `search`, with any scorer. `lines`, by default from 0, are the numbers from which samples are drawn; prefixes are padded
    to at least `width`.
    """
    with torch.inference_mode():
        prefix = _prefix(prefixes, width, scorer) if prefixes is not None and any(map(len, prefixes)) else None
        lines = torch.arange(len(max_length)) if lines is None else lines
        history = _run(scorer, max_length, settings, prefix, lines)
        return _read(history, settings.n_best, scorer.candidates, prefixes)


PREFIX_WORDS = 64
"""Of a sentence, read at a time before a search begins."""


class _Prefix(NamedTuple):
    """Prefixes of different lengths, padded at the end."""

    words: Int[Tensor, "B P"]
    """places of words among the candidates"""
    lengths: Int[Tensor, " B"]
    longest: int
    mask: Bool[Tensor, "B P+1"] | None
    """begin symbols and words; None: all are real"""


def _prefix(prefixes: Sequence[Sequence[int]], width: int, scorer: Scorer) -> _Prefix:
    lengths = torch.tensor([len(ids) for ids in prefixes])
    longest = max(width, int(lengths.max()))
    padded = torch.tensor([[*ids, *[PAD] * (longest - len(ids))] for ids in prefixes])
    mask = None if not width and bool((lengths == longest).all()) else torch.arange(longest + 1) <= lengths[:, None]
    device = scorer.like.device
    words = scorer.candidates.places(padded.to(device))
    return _Prefix(words, lengths.to(device), longest, None if mask is None else mask.to(device))


class _History:
    """The words of every step, of the sentences then present, and which live hypotheses they extended.

    `finished`: the finished hypotheses of all sentences.
    """

    def __init__(self, beam: int, stored: FinishedHypotheses):
        self.finished = FinishedHypotheses(*map(torch.zeros_like, stored))
        sentences = len(stored.end)
        self.present = torch.arange(sentences, device=stored.end.device)
        self.shape = (sentences, beam)
        self.steps: list[tuple[Tensor, Tensor, Tensor | None]] = []

    def trace(self, stored: FinishedHypotheses) -> Int[Tensor, "T B K"]:
        """The words of stored hypotheses, position by position; after their ends they have no meaning."""
        slot, words_at = stored.slot, []
        for i in reversed(range(len(self.steps))):
            present, words, parents = self.steps[i]
            inside = stored.end >= i + 2
            words_at.append(self._all(present, words).gather(1, slot))
            if parents is not None:
                slot = torch.where(inside, self._all(present, parents).gather(1, slot), slot)
        return torch.stack(words_at[::-1])

    def finish(self, stored: FinishedHypotheses) -> None:
        """Copies the finished hypotheses of the sentences present."""
        for values, of_present in zip(self.finished, stored, strict=True):
            values.index_copy_(0, self.present, of_present)

    def _all(self, present: Tensor, x: Tensor) -> Tensor:
        return x if len(x) == self.shape[0] else x.new_zeros(self.shape).index_copy_(0, present, x)


def _run(
    scorer: Scorer, max_length: Tensor, settings: SearchSettings, prefix: _Prefix | None, lines: Tensor
) -> _History:
    """The search: its steps, and the finished hypotheses of every sentence."""
    beam, exact, device = settings.beam, settings.exact_length, scorer.like.device
    limit, before, lengths = _limits(max_length.to(device), exact, prefix)
    room = settings.capacity or before + int(limit.max()) + 1
    hidden, state, logp = _begin(scorer, room, len(limit), settings, prefix)
    rule = _rule(settings, SearchStart(scorer.like, limit, lines.to(device), lengths, logp, scorer.normalised))
    history = _History(beam, rule.stored())
    limit = limit if lengths is None else limit - lengths
    closes = {n + 1 for n in limit.tolist()}
    same, everyone = torch.arange(beam, device=device), torch.arange(len(limit), device=device)
    ahead = Ahead(scorer, rule, settings, hidden, closes)
    for t in range(1, max(closes) + 1):
        closing = limit < t if t in closes else None
        chosen, parents = rule.advance(ahead.look(state, t, closing), t, closing)
        history.steps.append((history.present, chosen, parents))
        done, parents = _progress(rule, parents, same)
        if done == len(everyone):
            break
        if ahead.made:  # the state holds these words already
            continue
        if t == 1:
            state, parents = _spread(state, everyone, beam, before + 1), None
        if done >= ahead.leave(len(everyone)):
            history.finish(rule.stored())
            left = (~rule.done).nonzero()[:, 0]
            live = same.expand_as(chosen) if parents is None else parents
            state = state.keep(_rows(left, live[left]), left)
            rule.keep(left)
            limit, history.present, chosen = limit[left], history.present[left], chosen[left]
            everyone = everyone[: len(left)]
        elif parents is not None:
            state = state.select(_rows(everyone, parents))
        state = ahead.read(chosen, state, t, before + t + 1)
    history.finish(rule.stored())
    return history


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


def _spread(state: State, sentences: Int[Tensor, " b"], beam: int, past: int) -> State:
    """Of every sentence's hypothesis `beam` ones; none has moved yet."""
    return state if beam == 1 else spread(state, sentences.repeat_interleave(beam), past)


def _limits(
    limit: Int[Tensor, " B"], exact: int, prefix: _Prefix | None
) -> tuple[Int[Tensor, " B"], int, Int[Tensor, " B"] | None]:
    """M of each sentence, at least its prefix; the longest prefix; the lengths of the prefixes."""
    limit = torch.full_like(limit, exact - 1) if exact else limit
    if prefix is None:
        return limit, 0, None
    return torch.maximum(limit, prefix.lengths), prefix.longest, prefix.lengths


def _begin(
    scorer: Scorer, room: int, sentences: int, settings: SearchSettings, prefix: _Prefix | None
) -> tuple[Hidden, State, Tensor | None]:
    """z before the first word to choose, the state after the prefixes, and the log-probability of the prefixes.

    Until that word is chosen a sentence has one hypothesis, and one row.
    """
    device, state = scorer.like.device, scorer.start(room)
    words = torch.full((sentences, 1), BOS, device=device)
    if prefix is None:
        hidden, state = scorer.read(words, state, 1, 1, None)
        return next_of(hidden), state, None
    words, parts = torch.cat([words, prefix.words], 1), []
    for at in range(0, words.shape[1], PREFIX_WORDS):
        some = slice(at, at + PREFIX_WORDS)
        part = words[:, some]
        z, state = scorer.read(
            part, state, at + part.shape[1], 1, None if prefix.mask is None else prefix.mask[:, some]
        )
        parts.append(z)
    hidden = tuple(torch.cat(each, 1) for each in zip(*parts, strict=True))
    logp = scorer.like.new_zeros(sentences)
    for t in range(settings.given, prefix.longest):  # all logits at once would be many
        each = scorer.logits(tuple(z[:, t] for z in hidden), state, 1)
        each = each if scorer.normalised else each.log_softmax(1)
        logp += each.gather(1, prefix.words[:, t : t + 1])[:, 0].masked_fill(prefix.lengths <= t, 0)
    row = torch.arange(len(words), device=device)
    return tuple(z[row, prefix.lengths] for z in hidden), state, logp


def _rule(settings: SearchSettings, begin: SearchStart) -> SearchRule:
    if settings.sampling is not None:
        return Sample(settings, begin)
    return (Greedy if settings.beam == 1 else Beam)(settings, begin)


def _rows(sentences: Int[Tensor, " c"], parents: Int[Tensor, "c K"]) -> Int[Tensor, " cK"]:
    """The rows of the state that hypotheses with these parents continue."""
    if parents.shape[1] == 1:
        return sentences
    return (sentences[:, None] * parents.shape[1] + parents).flatten()


def _read(
    history: _History, n_best: int, candidates: Candidates, prefixes: Sequence[Sequence[int]] | None
) -> Hypotheses:
    """The finished hypotheses as Python values, with their words."""
    stored = FinishedHypotheses(*(x[:, :n_best] for x in history.finished))
    words = candidates.words(history.trace(stored)).permute(1, 2, 0).tolist()
    scores, logps, ends = stored.score.tolist(), stored.logp.tolist(), stored.end.tolist()
    hypotheses = Hypotheses([], [], [])
    for b in range(len(scores)):
        full = [k for k in range(len(scores[b])) if scores[b][k] != -torch.inf]
        before = [] if prefixes is None else list(prefixes[b])
        hypotheses.tokens.append([before + words[b][k][: ends[b][k] - 1] for k in full])
        hypotheses.scores.append([scores[b][k] for k in full])
        hypotheses.logps.append([logps[b][k] for k in full])
    return hypotheses
