"""Search over `Model.step`: tensor operations only, no Python per sentence or word inside a step.

The rule, for a sentence with limit M (words, end symbol left out) and a beam of K, at step t = 1, 2, ...:

1. Candidates are the K live hypotheses, each extended by every word but PAD and BOS; at t = M + 1 by EOS alone. At
   t = 1 there is one live hypothesis, the empty one. The best 2K by log-probability are looked at; equals in the order
   of the live hypothesis, then of the word's id.
2. Those among the best K that end in EOS are finished. The K best finished ones by score are stored, of equals the
   older.
3. The best K that do not end in EOS are live. One that ends in EOS but is not among the best K is dropped.
4. The sentence is done when t = M + 1, or
   none          the n_best-th stored hypothesis is at least as probable as the best live one, which cannot overtake it;
   length, gnmt  K hypotheses are stored (Gehring et al. 2017).

The score of a finished hypothesis of T words, EOS included: logp (none), logp / T^alpha (length),
logp / ((5 + T)/6)^alpha (gnmt). With K = 1 this is greedy search. Every decision is made within a sentence, so that
what it becomes does not depend on its batch.

Rows of a sentence are adjacent: row = sentence * K + hypothesis.
"""

from typing import NamedTuple, Protocol

import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor

from calque.data.vocabulary import BOS, EOS, UNK
from calque.decode.beam import Beam
from calque.decode.greedy import Greedy
from calque.decode.rule import Rule, SearchSettings, Stored
from calque.layers.state import State
from calque.model import Model

__all__ = ["Hypotheses", "Scorer", "SearchSettings", "search"]

DROP = 8
"""Finished sentences leave the batch when they are at least one in so many: each time costs a copy of the state."""


class Hypotheses(NamedTuple):
    """By sentence, the best first; fewer than n_best where the model's vocabulary has no more."""

    tokens: list[list[list[int]]]
    """without begin and end symbols"""
    scores: list[list[float]]
    logps: list[list[float]]
    """natural logarithms, end symbol included"""


class Scorer(Protocol):
    """What gives a search its logits."""

    @property
    def like(self) -> Tensor:
        """An empty tensor of the logits' type, on their device."""
        ...

    def start(self, source: Int[Tensor, "B S"], mask: Bool[Tensor, "B S"], capacity: int, beams: int) -> State:
        """The state before the first word."""
        ...

    def step(self, words: Int[Tensor, " R"], state: State, t: int, beams: int) -> tuple[Float[Tensor, "R V"], State]:
        """The logits of word t, from 1, after word t - 1; float32 at least, and the caller's to overwrite."""
        ...


class SingleModel:
    """The logits of one model."""

    def __init__(self, model: Model):
        self.model = model
        weight = model.target_embedding.weight
        self.like = torch.empty(0, dtype=torch.promote_types(weight.dtype, torch.float32), device=weight.device)

    def start(self, source: Tensor, mask: Tensor, capacity: int, beams: int) -> State:
        return self.model.init_state(self.model.encode(source, mask), capacity, beams)

    def step(self, words: Tensor, state: State, t: int, beams: int) -> tuple[Tensor, State]:
        z, state = self.model.step(words[:, None], state, t, beams)
        return self.model.logits(z[:, 0]).to(self.like.dtype), state


def search(
    model: Model,
    source: Int[Tensor, "B S"],
    mask: Bool[Tensor, "B S"],
    max_length: Int[Tensor, " B"],
    settings: SearchSettings,
) -> Hypotheses:
    """The best hypotheses of a batch, under the rule above.

    Sources are on the model's device; `max_length` is M of each sentence and lies on the CPU.
    """
    with torch.inference_mode():
        stored, history = _run(SingleModel(model), source, mask, max_length, settings)
        return _read(stored, history, settings.n_best)


class _History:
    """The words of every step, of the sentences then present, and which live hypotheses they extended."""

    def __init__(self, sentences: int, beam: int, device: torch.device):
        self.present = torch.arange(sentences, device=device)
        self.shape = (sentences, beam)
        self.steps: list[tuple[Tensor, Tensor, Tensor | None]] = []

    def trace(self, stored: Stored) -> Int[Tensor, "T B K"]:
        """The words of stored hypotheses, position by position; past their ends anything."""
        slot, found = stored.slot, []
        for i in reversed(range(len(self.steps))):
            present, words, parents = self.steps[i]
            inside = stored.end >= i + 2
            found.append(self._all(present, words).gather(1, slot))
            if parents is not None:
                slot = torch.where(inside, self._all(present, parents).gather(1, slot), slot)
        return torch.stack(found[::-1])

    def copy(self, stored: Stored, results: Stored) -> None:
        """Put the finished hypotheses of the sentences present where they belong."""
        for result, now in zip(results, stored, strict=True):
            result.index_copy_(0, self.present, now)

    def _all(self, present: Tensor, x: Tensor) -> Tensor:
        return x.new_zeros(self.shape).index_copy_(0, present, x)


def _run(
    scorer: Scorer, source: Tensor, mask: Tensor, max_length: Tensor, settings: SearchSettings
) -> tuple[Stored, _History]:
    beam, exact, device = settings.beam, settings.exact_length, source.device
    if exact:
        max_length = torch.full_like(max_length, exact - 1)
    closes = {limit + 1 for limit in max_length.tolist()}
    limit = max_length.to(device)
    state = scorer.start(source, mask, settings.capacity or max(closes), beam)
    rule: Rule = (Greedy if beam == 1 else Beam)(settings, len(limit), scorer.like)
    results = Stored(*(torch.zeros_like(x) for x in rule.stored()))
    words = torch.full((len(limit) * beam,), BOS, device=device)
    history = _History(len(limit), beam, device)
    same = torch.arange(beam, device=device)
    for t in range(1, max(closes) + 1):
        logits, state = scorer.step(words, state, t, beam)
        chosen, parents = rule.advance(logits, t, UNK if t < exact else EOS, limit < t if t in closes else None)
        history.steps.append((history.present, chosen, parents))
        counts = [rule.done.sum()] if parents is None else [rule.done.sum(), (parents != same).sum()]
        done, *moved = torch.stack(counts).tolist()  # the one wait for the device in a step
        if done == len(limit):
            break
        if done * DROP >= len(limit) and not settings.capacity:
            history.copy(rule.stored(), results)
            left = (~rule.done).nonzero()[:, 0]
            state = state.keep(left if parents is None else _rows(left, parents[left]), left)
            rule.keep(left)
            limit, history.present, chosen = limit[left], history.present[left], chosen[left]
        elif any(moved) and parents is not None:
            state = state.select(_rows(torch.arange(len(limit), device=device), parents))
        words = chosen.flatten()
    history.copy(rule.stored(), results)
    return results, history


def _rows(sentences: Int[Tensor, " c"], parents: Int[Tensor, "c K"]) -> Int[Tensor, " cK"]:
    return (sentences[:, None] * parents.shape[1] + parents).flatten()


def _read(stored: Stored, history: _History, n_best: int) -> Hypotheses:
    stored = Stored(*(x[:, :n_best] for x in stored))
    words = history.trace(stored).permute(1, 2, 0).tolist()
    scores, logps, ends = stored.score.tolist(), stored.logp.tolist(), stored.end.tolist()
    found = Hypotheses([], [], [])
    for b in range(len(scores)):
        full = [k for k in range(len(scores[b])) if scores[b][k] != -torch.inf]
        found.tokens.append([words[b][k][: ends[b][k] - 1] for k in full])
        found.scores.append([scores[b][k] for k in full])
        found.logps.append([logps[b][k] for k in full])
    return found
