"""Beam search over fixed-size tensors: K live and K finished hypotheses for every sentence."""

import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor

from calque.data.vocabulary import EOS
from calque.decode.best_words import best_words, first_of_best
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
from calque.native.accelerator import MOST, accelerator_kernels_for
from calque.native.kernels import Best, Continued, kernels_for_numbers


class Beam(SearchRule):
    """The rule of `calque.decode.search` for K > 1. A slot whose log-probability is -inf is empty.

    Live hypotheses are compared by log-probability alone, since all of a sentence have the same number of words. An end symbol,
    which has no word penalty w, is compared with them by its log-probability minus w.
    """

    def __init__(self, settings: SearchSettings, begin: SearchStart):
        self.settings, self.prefix, self.normalised = settings, begin.prefix, begin.normalised
        self.wanted = None if begin.normalised else Wanted(2 * settings.beam, settings.word_penalty, total=True)
        self.limit, like = begin.limit, begin.like
        shape = (len(begin.limit), settings.beam)
        self.live = like.new_full(shape, -torch.inf)
        self.live[:, 0] = 0 if begin.logp is None else begin.logp
        empty = torch.zeros(shape, dtype=torch.int64, device=like.device)
        self.finished = FinishedHypotheses(
            like.new_full(shape, -torch.inf), like.new_full(shape, -torch.inf), empty, empty
        )
        self.done = torch.zeros(len(begin.limit), dtype=torch.bool, device=like.device)
        self.any_ended = False
        self._native = kernels_for_numbers(self.done)

    def choose(self, best: Best, closing: Tensor | None) -> Looked:
        if closing is None:
            return best.logits, best.words, best.total
        values, words = best.logits - best.total[:, None], best.words
        end = best.end - self.settings.word_penalty - best.total
        return only_end(values, words, end, closing)

    def look(self, logits: Tensor, t: Step, first: int, closing: Tensor | None, of: slice) -> Looked:
        logp = logits if self.normalised else logits.log_softmax(1)
        if reward := self.settings.word_penalty:
            logp[:, EOS] -= reward
        values, words = best_words(logp, 2 * self.settings.beam, first)
        if closing is not None:
            values, words = only_end(values, words, logp[:, EOS], closing)
        return values, words

    def advance(self, seen: Looked, t: Step, closing: Tensor | None) -> tuple[Tensor, Tensor | None]:
        beam = self.settings.beam
        logp, parents, words, any_ends, moved = self._continued(*seen)
        # Nothing ends in most steps.
        if closing is None and not any_ends:
            self.live, chosen = logp[:, :beam], words[:, :beam].contiguous()
            self._go_on(chosen, parents)
            if self.any_ended:
                self._stop(t, None)
            return chosen, parents[:, :beam] if moved else None
        self.any_ended, ends = True, words == EOS
        self._store(logp[:, :beam].masked_fill(~ends[:, :beam], -torch.inf), parents[:, :beam], t)
        # No row has two end symbols, so at least K of the 2K candidates continue.
        on = ends.to(torch.uint8).sort(stable=True, dim=1).indices[:, :beam]
        self.live, chosen, parents = logp.gather(1, on), words.gather(1, on), parents.gather(1, on)
        self._go_on(chosen, parents)
        self._stop(t, closing)
        return chosen, parents

    def onward(self) -> Onward | None:
        if self.wanted is None:
            return None
        stored = self.settings.n_best if self.settings.normalise == "none" else self.settings.beam
        needed = torch.full((len(self.done),), stored)
        if self.any_ended:
            needed = (needed - (self.finished.score > -torch.inf).sum(1)).masked_fill(self.done, 0)
        return Onward(needed, self.live)

    def _go_on(self, words: Int[Tensor, "b K"], parents: Int[Tensor, "b n"]) -> None:
        """The live hypotheses extend the first K `parents` by these words: for rules that know more of them."""

    def _continued(self, values: Tensor, words: Tensor, total: Tensor | None = None) -> Continued:
        """The 2K best continuations of each sentence; `total` is still to be taken from the log-probabilities `values`."""
        beam, each = self.settings.beam, values.shape[1]
        if self._native is not None and each == 2 * beam and values.dtype == torch.float32:
            return self._native.continued(values, words, self.live, total, EOS)
        if values.dtype == torch.float32 and each == 2 * beam <= MOST and (fast := accelerator_kernels_for(values)):
            return fast.continued(values, words, self.live, total)
        if total is not None:
            values = values - total[:, None]
        logp = (values.view(-1, beam, each) + self.live[:, :, None]).flatten(1)
        logp, order = first_of_best(logp, 2 * beam)
        parents, words = order // each, words.view(-1, beam * each).gather(1, order)
        if words.device.type != "cpu":  # looking would cost more than it saves
            return Continued(logp, parents, words, True, True)
        moved = parents[:, :beam] != torch.arange(beam)
        return Continued(logp, parents, words, bool((words == EOS).any()), bool(moved.any()))

    def _store(self, logp: Float[Tensor, "b K"], parents: Tensor, t: Step) -> None:
        """Merges new finished hypotheses into the store; of equal ones the older come first."""
        if self.settings.word_penalty:
            logp = logp + self.settings.word_penalty
        length = t if self.prefix is None else t + self.prefix[:, None]
        new = FinishedHypotheses(score_of(self.settings, logp, length), logp, torch.zeros_like(parents) + t, parents)
        both = [torch.cat(pair, 1) for pair in zip(self.finished, new, strict=True)]
        best = both[0].sort(stable=True, dim=1, descending=True).indices[:, : self.settings.beam]
        self.finished = FinishedHypotheses(*(x.gather(1, best) for x in both))

    def _stop(self, t: Step, closing: Bool[Tensor, " b"] | None) -> None:
        if self.settings.normalise == "none":
            now = self.finished.score[:, self.settings.n_best - 1] >= self._highest(t)
        else:
            now = self._enough()
            if self.settings.stop == "best":
                now &= self.finished.score[:, self.settings.n_best - 1] >= self._next_end(t)
        self.done = self.done | now if closing is None else self.done | now | closing
        # A finished sentence that is still in the batch has no live hypothesis: its store no longer changes.
        self.live = self.live.masked_fill(self.done[:, None], -torch.inf)

    def _enough(self) -> Bool[Tensor, " b"]:
        """Whether as many hypotheses are finished as must be."""
        return self.finished.score[:, -1] > -torch.inf

    def _next_end(self, t: Step) -> Float[Tensor, " b"]:
        """The score of the best live hypothesis, were the end its next word for certain."""
        return score_of(self.settings, self.live[:, 0], t + 1 if self.prefix is None else t + 1 + self.prefix)

    def _highest(self, t: Step) -> Float[Tensor, " b"]:
        """The upper bound of the continuations of live hypotheses."""
        best = self.live.amax(1)
        if not (reward := self.settings.word_penalty):
            return best
        # A penalty lowers every further word; a reward may come with each word up to the limit.
        words = self.limit if reward > 0 else t if self.prefix is None else t + self.prefix
        return best + (reward * words.to(self.live.dtype) if isinstance(words, Tensor) else reward * words)

    def stored(self) -> FinishedHypotheses:
        return self.finished


def only_end(values: Tensor, words: Tensor, end: Tensor, closing: Tensor) -> tuple[Tensor, Tensor]:
    """The candidates of a step; those of sentences that close are the end symbol alone."""
    closing = closing.repeat_interleave(len(values) // len(closing))
    values, words = values.masked_fill(closing[:, None], -torch.inf), words.clone()
    values[:, 0] = torch.where(closing, end, values[:, 0])
    words[:, 0] = words[:, 0].masked_fill(closing, EOS)
    return values, words
