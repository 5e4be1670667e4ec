"""Greedy search: the best word, one hypothesis per sentence. It is beam search of beam 1, in fewer operations."""

import torch
from torch import Tensor

from calque.data.vocabulary import EOS
from calque.decode.best_words import best_word
from calque.decode.rule import (
    FinishedHypotheses,
    Looked,
    Onward,
    SearchRule,
    SearchSettings,
    SearchStart,
    Step,
    Wanted,
    score_of,
)
from calque.native.kernels import Best


class Greedy(SearchRule):
    """A hypothesis ends at the first end symbol that is the best word, or at its limit.

    Without scores the least logit of the words so far stands for the log-probability: it is a number where all of them are.
    """

    def __init__(self, settings: SearchSettings, begin: SearchStart):
        self.settings, self.prefix, self.normalised = settings, begin.prefix, begin.normalised
        sentences, device = len(begin.limit), begin.like.device
        self.wanted = None if begin.normalised else Wanted(1, settings.word_penalty, settings.scores)
        self.logp = begin.like.new_zeros(sentences) if begin.logp is None else begin.logp
        self.end = torch.zeros(sentences, dtype=torch.int64, device=device)
        self.done = torch.zeros(sentences, dtype=torch.bool, device=device)
        self.any_ended = False

    def choose(self, best: Best, closing: Tensor | None) -> Looked:
        words = best.words[:, 0]
        if closing is not None:
            words = words.masked_fill(closing, EOS)
        if not self.settings.scores:
            return words, best.logits[:, 0]
        return words, torch.where(words == EOS, best.end, best.logits[:, 0]) - best.total

    def look(self, logits: Tensor, t: Step, first: int, closing: Tensor | None, of: slice) -> Looked:
        if reward := self.settings.word_penalty:  # every word has it except the end symbol
            end = logits[:, EOS].clone()
            logits[:, EOS] -= reward
        words = best_word(logits, first)
        if reward:
            logits[:, EOS] = end
        if closing is not None:
            words = words.masked_fill(closing, EOS)
        logp = logits if self.normalised or not self.settings.scores else logits.log_softmax(1)
        return words, logp.gather(1, words[:, None])[:, 0]

    def advance(self, seen: Looked, t: Step, closing: Tensor | None) -> tuple[Tensor, None]:
        words = seen[0]
        if self.settings.scores:
            self.logp = self.logp + seen[1].masked_fill(self.done, 0)
        else:
            self.logp = torch.minimum(self.logp, seen[1])
        now = words == EOS
        # Nothing ends in most steps. On an accelerator, looking would cost more than it saves.
        if now.device.type == "cpu" and not now.any():
            return words[:, None], None
        self.any_ended = True
        self.end = torch.where(now & ~self.done, t, self.end)
        self.done = self.done | now
        return words[:, None], None

    def onward(self) -> Onward | None:
        return None if self.wanted is None else Onward((~self.done).long())

    def stored(self) -> FinishedHypotheses:
        logp = self.logp if self.settings.scores else 0 * self.logp  # of what is infinite: nan
        score = score_of(self.settings, logp, self.end if self.prefix is None else self.end + self.prefix)
        return FinishedHypotheses(score[:, None], logp[:, None], self.end[:, None], torch.zeros_like(self.end)[:, None])
