"""Greedy search: the best word, one hypothesis per sentence. It is beam search of beam 1, in fewer operations."""

import torch
from jaxtyping import Bool, Float
from torch import Tensor

from calque.data.vocabulary import EOS
from calque.decode.rule import Rule, SearchSettings, Stored, penalty
from calque.decode.words import log_normaliser


class Greedy(Rule):
    """A hypothesis ends at the first end symbol that is the best word, or at its limit."""

    def __init__(self, settings: SearchSettings, sentences: int, like: Tensor):
        self.settings = settings
        self.logp = like.new_zeros(sentences)
        self.end = torch.zeros(sentences, dtype=torch.int64, device=like.device)
        self.done = torch.zeros(sentences, dtype=torch.bool, device=like.device)

    def advance(
        self, logits: Float[Tensor, "b V"], t: int, first: int, closing: Bool[Tensor, " b"] | None
    ) -> tuple[Tensor, None]:
        best, words = logits[:, first:].max(1)
        words = words + first
        value = best
        if closing is not None:
            value = torch.where(closing, logits[:, EOS], best)
            words = words.masked_fill(closing, EOS)
        gained = value - log_normaliser(logits, best, first)
        self.logp = self.logp + gained.masked_fill(self.done, 0)
        now = (words == EOS) & ~self.done
        self.end = self.end.masked_fill(now, t)
        self.done = self.done | now
        return words[:, None], None

    def keep(self, sentences: Tensor) -> None:
        self.logp, self.end, self.done = self.logp[sentences], self.end[sentences], self.done[sentences]

    def stored(self) -> Stored:
        score = self.logp / penalty(self.settings, self.end.to(self.logp.dtype))
        return Stored(score[:, None], self.logp[:, None], self.end[:, None], torch.zeros_like(self.end)[:, None])
