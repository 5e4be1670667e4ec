"""The words that a search has chosen, step by step, and what they say of its finished hypotheses."""

from collections.abc import Sequence
from typing import NamedTuple

import torch
from jaxtyping import Int
from torch import Tensor

from calque.decode.rule import FinishedHypotheses
from calque.decode.scorer import Candidates
from calque.layers.state import mapped


class Hypotheses(NamedTuple):
    """By sentence, the best first; fewer than n_best where the model's vocabulary has no more."""

    tokens: list[list[list[int]]]
    """without begin and end symbols"""
    scores: list[list[float]]
    logps: list[list[float]]
    """natural logarithms, end symbol included"""


class ChosenWords:
    """The words of every step, of the sentences then present, and which live hypotheses they extended.

    `finished`: the finished hypotheses of all sentences.
    """

    def __init__(self, beam: int, stored: FinishedHypotheses):
        self.finished = FinishedHypotheses(*map(torch.zeros_like, stored))
        sentences = len(stored.end)
        self.present = torch.arange(sentences, device=stored.end.device)
        self.shape = (sentences, beam)
        self.copies = 1
        """how many of these sentences are samples of one"""
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

    def divide(self) -> None:
        """From here on each hypothesis is a sentence of its own; none has moved yet."""
        sentences, self.copies = self.shape
        self.shape = (sentences * self.copies, 1)
        self.present = torch.arange(self.shape[0], device=self.present.device)
        self.steps = [(self.present, words.reshape(-1, 1), None) for _, words, _ in self.steps]
        self.finished = mapped(self.finished, lambda x: x.reshape(-1, 1))

    def add(self, words: Int[Tensor, "n b K"], parents: Int[Tensor, "n b K"] | None) -> None:
        """Several steps of the sentences present."""
        each = [None] * len(words) if parents is None else parents.unbind()
        self.steps += [(self.present, w, p) for w, p in zip(words, each, strict=True)]

    def finish(self, stored: FinishedHypotheses) -> None:
        """Copies the finished hypotheses of the sentences present."""
        for values, of_present in zip(self.finished, stored, strict=True):
            values.index_copy_(0, self.present, of_present)

    def to_host(self) -> None:
        """Moves everything to the processor, on which a trace is made of many small operations."""
        present = {id(each): each for each, _, _ in self.steps}  # of many steps it is one tensor
        present = {key: each.cpu() for key, each in present.items()}
        self.steps = [(present[id(p)], w.cpu(), None if q is None else q.cpu()) for p, w, q in self.steps]
        self.finished = mapped(self.finished, Tensor.cpu)

    def read(self, n_best: int, candidates: Candidates, prefixes: Sequence[Sequence[int]] | None) -> Hypotheses:
        """The finished hypotheses as Python values, with their words."""
        stored = self.finished if self.copies > 1 else mapped(self.finished, lambda x: x[:, :n_best])
        traced = candidates.words(self.trace(stored)).permute(1, 2, 0)
        if self.copies > 1:
            traced = traced.reshape(-1, self.copies, traced.shape[2])[:, :n_best]
            stored = mapped(stored, lambda x: x.view(-1, self.copies)[:, :n_best])
        words = traced.tolist()
        scores, logps, ends = stored.score.tolist(), stored.logp.tolist(), stored.end.tolist()
        hypotheses = Hypotheses([], [], [])
        for b in range(len(scores)):
            full = [k for k in range(len(scores[b])) if scores[b][k] != -torch.inf]
            before = [] if prefixes is None else list(prefixes[b])
            hypotheses.tokens.append([before + words[b][k][: ends[b][k] - 1] for k in full])
            hypotheses.scores.append([scores[b][k] for k in full])
            hypotheses.logps.append([logps[b][k] for k in full])
        return hypotheses

    def _all(self, present: Tensor, x: Tensor) -> Tensor:
        return x if len(x) == self.shape[0] else x.new_zeros(self.shape).index_copy_(0, present, x)


def rows_of(sentences: Int[Tensor, " c"], parents: Int[Tensor, "c K"]) -> Int[Tensor, " cK"]:
    """The rows of the state that hypotheses with these parents continue."""
    if parents.shape[1] == 1:
        return sentences
    return (sentences[:, None] * parents.shape[1] + parents).flatten()
