"""Greedy search: the best word, one hypothesis per sentence. It is beam search of beam 1, in fewer operations."""

import torch
from jaxtyping import Bool, Float
from torch import Tensor

from calque.data.vocabulary import EOS
from calque.decode.rule import Begin, Rule, SearchSettings, Stored, score_of
from calque.decode.words import log_normaliser


class Greedy(Rule):
    """A hypothesis ends at the first end symbol that is the best word, or at its limit."""

    def __init__(self, settings: SearchSettings, begin: Begin):
        self.settings, self.prefix, self.normalised = settings, begin.prefix, begin.normalised
        sentences, device = len(begin.limit), begin.like.device
        self.logp = begin.like.new_zeros(sentences) if begin.logp is None else begin.logp
        self.end = torch.zeros(sentences, dtype=torch.int64, device=device)
        self.done = torch.zeros(sentences, dtype=torch.bool, device=device)

    def advance(
        self, logits: Float[Tensor, "b V"], t: int, first: int, closing: Bool[Tensor, " b"] | None
    ) -> tuple[Tensor, None]:
        if reward := self.settings.word_penalty:  # every word has it but the end symbol
            end = logits[:, EOS].clone()
            logits[:, EOS] -= reward
        best, words = logits[:, first:].max(1)
        words = words + first
        value = best
        if reward:
            logits[:, EOS] = end
            value = torch.where(words == EOS, end, best)
        if closing is not None:
            value = torch.where(closing, logits[:, EOS], value)
            words = words.masked_fill(closing, EOS)
        gained = value if self.normalised else value - log_normaliser(logits, best, first)
        self.logp = self.logp + gained.masked_fill(self.done, 0)
        now = (words == EOS) & ~self.done
        self.end = self.end.masked_fill(now, t)
        self.done = self.done | now
        return words[:, None], None

    def keep(self, sentences: Tensor) -> None:
        self.logp, self.end, self.done = self.logp[sentences], self.end[sentences], self.done[sentences]
        if self.prefix is not None:
            self.prefix = self.prefix[sentences]

    def stored(self) -> Stored:
        score = score_of(self.settings, self.logp, self.end if self.prefix is None else self.end + self.prefix)
        return Stored(score[:, None], self.logp[:, None], self.end[:, None], torch.zeros_like(self.end)[:, None])
