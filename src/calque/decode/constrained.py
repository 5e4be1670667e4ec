"""Beam search for translations that contain given phrases (Hokamp and Liu 2017; Post and Vilar 2018)."""

import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor

from calque.data.vocabulary import EOS
from calque.decode.beam import Beam, only_end
from calque.decode.best_words import best_words
from calque.decode.required import Matched
from calque.decode.rule import Looked, SearchSettings, SearchStart, Step, score_of
from calque.native.kernels import Continued


class Constrained(Beam):
    """Beam search in which no hypothesis ends before it contains every phrase of its sentence in one of its forms.

    Candidates are, beside the best words of each hypothesis, all words of all forms. A hypothesis belongs to a bank by the number
    of words that it still needs (`Automata.needed`), and the banks take turns: first the best candidate of each, that which needs
    least first, then the second best of each, until K are live. This is dynamic beam allocation (Post and Vilar 2018, section 3.2)
    but for these differences: a phrase is found wherever its words stand, so that what has been matched is never begun twice; it
    ends where its last word does; it may have several forms; a bank without candidates leaves its places to all others, not to
    its neighbours. The hypothesis that needs least is always live, and one of its candidates needs less, so where R words are
    needed, R steps contain all phrases.

    A sentence is done when K / (R + 1) hypotheses have ended, which is the part of a bank, and the n_best-th of them is as good as
    each live one would be if all words that it needs, and the end, came next with probability 1.
    """

    def __init__(self, settings: SearchSettings, begin: SearchStart):
        super().__init__(settings, begin)
        if begin.required is None:
            raise ValueError("expected what is required")
        self.wanted = None
        self.automata, start = begin.required
        beam = settings.beam
        self.matched = Matched(
            start.node[:, None].expand(-1, beam), start.has[:, None].expand(-1, beam, start.has.shape[1])
        )
        needed = self.automata.needed(self.matched)[:, 0]
        self.enough = (beam // (needed + 1)).clamp(min=settings.n_best)

    def look(
        self,
        logits: Float[Tensor, "r V"],
        t: Step,
        first: int,
        closing: Bool[Tensor, " s"] | None,
        of: slice,
    ) -> Looked:
        """The best 2K words of each row, and behind them the words of all forms."""
        logp = logits if self.normalised else logits.log_softmax(1)
        own = self.automata.words[of]
        rows = len(logp) // len(own)
        early = self.automata.needed(self.matched)[of, :rows] > 0
        # A limit that leaves no room for all phrases ends a sentence nevertheless.
        cut = (early | (self.live[of, :rows] == -torch.inf)).all(1, keepdim=True)
        cut &= self.finished.score[of, :1] == -torch.inf
        end = logp[:, EOS] - self.settings.word_penalty
        logp[:, EOS] = end.masked_fill(early.flatten(), -torch.inf)
        end = end.masked_fill((early & ~cut).flatten(), -torch.inf)
        own = own.repeat_interleave(rows, 0)
        held = logp.gather(1, own.clamp(min=0)).masked_fill(own < first, -torch.inf)
        values, words = best_words(logp, 2 * self.settings.beam, first)
        twice = (words[:, :, None] == own[:, None]).any(2)
        values = torch.cat([values.masked_fill(twice, -torch.inf), held], 1)
        words = torch.cat([words, own.clamp(min=0)], 1)
        return (values, words) if closing is None else only_end(values, words, end, closing)

    def _continued(self, values: Tensor, words: Tensor, total: Tensor | None = None) -> Continued:
        beam, each = self.settings.beam, values.shape[1]
        logp = (values.view(-1, beam, each) + self.live[:, :, None]).flatten(1)
        words, own = words.view(-1, beam, each), self.automata.words.shape[1]
        needed = torch.cat(
            [
                self.automata.elsewhere(self.matched, words[:, :, : each - own]),
                self.automata.needed(self.automata.behind(self.matched)),
            ],
            2,
        )
        order = in_turns(logp, needed.flatten(1))[:, : 2 * beam]
        words = words.flatten(1).gather(1, order)
        return Continued(logp.gather(1, order), order // each, words, True, True)

    def _go_on(self, words: Tensor, parents: Tensor) -> None:
        node, has = self.matched
        parents = parents[:, : words.shape[1]]
        has = has.gather(1, parents[:, :, None].expand_as(has))
        self.matched = self.automata.after(Matched(node.gather(1, parents), has), words)

    def _enough(self) -> Tensor:
        return self.finished.score.gather(1, self.enough[:, None] - 1)[:, 0] > -torch.inf

    def _next_end(self, t: Step) -> Tensor:
        length = t + 1 + self.automata.needed(self.matched)
        if self.prefix is not None:
            length = length + self.prefix[:, None]
        return score_of(self.settings, self.live, length).amax(1)


def in_turns(logp: Float[Tensor, "b n"], bank: Int[Tensor, "b n"]) -> Int[Tensor, "b n"]:
    """The places of candidates in the order in which banks take turns, the lowest bank first; in a bank the best first, of equals
    the first. What is -inf comes last.
    """
    best = logp.sort(stable=True, dim=1, descending=True).indices
    banks, by_bank = bank.gather(1, best).sort(stable=True, dim=1)
    order = best.gather(1, by_bank)
    place = torch.arange(order.shape[1], device=order.device).expand_as(order)
    begins = torch.ones_like(banks, dtype=torch.bool)
    begins[:, 1:] = banks[:, 1:] != banks[:, :-1]
    rank = place - place.masked_fill(~begins, 0).cummax(1).values
    turn = rank * (bank.amax() + 1) + banks
    turn = turn.masked_fill(logp.gather(1, order) == -torch.inf, torch.iinfo(torch.int64).max)
    return order.gather(1, turn.sort(stable=True, dim=1).indices)
