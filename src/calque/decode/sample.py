"""Sampling: K independent hypotheses per sentence, drawn from the model's distribution or from its most probable part."""

import math
from dataclasses import replace

import torch
from jaxtyping import Float, Int
from torch import Tensor

from calque.data.vocabulary import EOS
from calque.decode.beam import only_end
from calque.decode.best_words import best_word, best_words
from calque.decode.noise import stream, uniform
from calque.decode.rule import (
    FinishedHypotheses,
    Looked,
    Sampling,
    SearchRule,
    SearchSettings,
    SearchStart,
    Step,
    Wanted,
    score_of,
)
from calque.native.kernels import Best

FEW = 256
"""Words among which a nucleus is looked for first."""
BEST = 64
"""Words that are drawn without the logits of the others, at most."""


class Sample(SearchRule):
    """A hypothesis ends where the end symbol is drawn, or at its limit. Scores are those of the model, whatever the temperature.

    The word drawn depends on the seed, the sentence's line, the hypothesis and the step, never on the batch. Where only few words
    can be drawn, a step looks at these alone, as a search does.
    """

    def __init__(self, settings: SearchSettings, begin: SearchStart):
        if settings.sampling is None:
            raise ValueError("expected settings with a sampling")
        self.settings, self.sampling, self.normalised = settings, settings.sampling, begin.normalised
        self.few = few(settings.sampling)
        self.wanted = Wanted(self.few, 0.0, total=True) if self.few and not begin.normalised else None
        self.prefix, device = begin.prefix, begin.like.device
        shape = len(begin.limit), settings.beam
        each = torch.arange(settings.beam, device=device)
        self.streams = stream(self.sampling.seed, begin.lines[:, None], each)
        self.logp = begin.like.new_zeros(shape) if begin.logp is None else begin.logp[:, None].expand(shape)
        self.end = torch.zeros(shape, dtype=torch.int64, device=device)
        self.ended = torch.zeros(shape, dtype=torch.bool, device=device)
        self.done = self.ended.all(1)

    def choose(self, best: Best, closing: Tensor | None) -> Looked:
        values, words = best.logits, best.words
        return *((values, words) if closing is None else only_end(values, words, best.end, closing)), best.total

    def look(self, logits: Tensor, t: Step, first: int, closing: Tensor | None, of: slice) -> Looked:
        if self.few:
            total = logits.new_zeros(len(logits)) if self.normalised else logits.logsumexp(1)
            return self.choose(Best(*best_words(logits, self.few, first), logits[:, EOS], total), closing)
        noise = uniform(self.streams[of], t).flatten()
        logits = logits.repeat_interleave(len(noise) // len(logits), 0)
        words = draw(logits, first, self.sampling, noise)
        if closing is not None:
            words = words.masked_fill(closing.repeat_interleave(self.settings.beam), EOS)
        logp = logits if self.normalised else logits.log_softmax(1)
        return words, logp.gather(1, words[:, None])[:, 0]

    def advance(self, seen: Looked, t: Step, closing: Tensor | None) -> tuple[Tensor, None]:
        if self.few:
            values, words, total = seen
            seen = draw_of_best(values, words, total, self.sampling, uniform(self.streams, t).flatten())
        words, gained = (x.view_as(self.ended) for x in seen)
        if closing is not None:  # also where logits are no numbers
            words = words.masked_fill(closing[:, None], EOS)
        self.logp = self.logp + gained.masked_fill(self.ended, 0)
        now = (words == EOS) & ~self.ended
        self.end = torch.where(now, t, self.end)
        self.ended = self.ended | now
        self.done = self.ended.all(1)
        return words, None

    def divide(self) -> None:
        """From here on each sample is a sentence of its own."""
        copies, self.settings = self.settings.beam, replace(self.settings, beam=1, n_best=1)
        self.streams, self.logp, self.end, self.ended = (
            x.reshape(-1, 1) for x in (self.streams, self.logp, self.end, self.ended)
        )
        self.done = self.ended[:, 0]
        self.prefix = None if self.prefix is None else self.prefix.repeat_interleave(copies)

    def stored(self) -> FinishedHypotheses:
        score = score_of(self.settings, self.logp, self.end if self.prefix is None else self.end + self.prefix[:, None])
        slot = torch.arange(self.settings.beam, device=self.end.device).expand_as(self.end)
        return FinishedHypotheses(score, self.logp, self.end, slot)


def few(how: Sampling) -> int:
    """How many of the best words of a step can be drawn, where these are few and follow from their logits; else 0."""
    if how.epsilon and how.temperature != 1:  # all logits decide which words are probable enough
        return 0
    of_epsilon = int(1 / how.epsilon) if how.epsilon >= 1 / BEST else 0
    most = min((bound for bound in (how.top_k, of_epsilon) if bound), default=0)
    return most if most <= BEST else 0


def draw_of_best(
    values: Float[Tensor, "R n"],
    words: Int[Tensor, "R n"],
    total: Float[Tensor, " R"],
    how: Sampling,
    u: Float[Tensor, " R"],
) -> tuple[Int[Tensor, " R"], Float[Tensor, " R"]]:
    """A word for each row, as `draw` does, and its log-probability: of the best ones, and `total` as in `Best`."""
    can = values
    if how.epsilon:
        less = values - total[:, None] < math.log(how.epsilon)
        less[:, 0] = False
        can = values.masked_fill(less, -torch.inf)
    place = _places(_softmax(can, how), how.top_p, u)
    return words.gather(1, place)[:, 0], values.gather(1, place)[:, 0] - total


def draw(logits: Float[Tensor, "R V"], first: int, how: Sampling, u: Float[Tensor, " R"]) -> Int[Tensor, " R"]:
    """A word for each row.

    p = softmax(logits / temperature) over the words from `first` on that have, among all words, a p of at least `epsilon`
    or are the best one (epsilon sampling, Hewitt et al. 2022), and of these over the `top_k` best ones if that is not 0. Among them
    in the order of p, equals by id, the nucleus is those before which less than `top_p` lies (Holtzman et al. 2020, section
    3.1). With c the running sum of p and C its value at the last of the nucleus, the word is the first whose
    c is greater than u C, so each is drawn with probability p / C for a uniform u.
    """
    if how.epsilon:
        less = _softmax(logits, how) < how.epsilon
        logits = logits.masked_fill(less.scatter(1, best_word(logits, first)[:, None], False), -torch.inf)
    if how.top_k:
        values, words = best_words(logits, how.top_k, first)
        return words.gather(1, _places(_softmax(values, how), how.top_p, u))[:, 0]
    p = _softmax(logits[:, first:], how)
    if how.top_p == 1:
        return _places(p, 1.0, u)[:, 0] + first
    if p.shape[1] <= FEW or p.device.type != "cpu":
        return _of_nucleus(p, how.top_p, u) + first
    # Most nuclei lie within the most probable words, whose order and sums are the same. Which words `topk` gives of those that are
    # as probable as the last one is not defined, so that a nucleus may reach none of them.
    words = p.topk(FEW, 1).indices.sort(1).values
    best, order = p.gather(1, words).sort(stable=True, dim=1, descending=True)
    found = words.gather(1, order).gather(1, _places(best, how.top_p, u))[:, 0]
    certain = best.masked_fill(best == best[:, -1:], 0).cumsum(1, dtype=torch.float64)[:, -1]
    wide = certain < how.top_p
    if bool(wide.any()):
        found[wide] = _of_nucleus(p[wide], how.top_p, u[wide])
    return found + first


def _softmax(logits: Float[Tensor, "R n"], how: Sampling) -> Float[Tensor, "R n"]:
    return (logits if how.temperature == 1 else logits / how.temperature).softmax(1)


def _of_nucleus(p: Float[Tensor, "R V"], top_p: float, u: Float[Tensor, " R"]) -> Int[Tensor, " R"]:
    """The words drawn from the nuclei of whole distributions."""
    ordered, words = p.sort(stable=True, dim=1, descending=True)
    return words.gather(1, _places(ordered, top_p, u))[:, 0]


def _places(p: Float[Tensor, "R n"], top_p: float, u: Float[Tensor, " R"]) -> Int[Tensor, "R 1"]:
    """The places that are drawn, of probabilities in the order of the nucleus."""
    running = p.cumsum(1, dtype=torch.float64)
    whole = running[:, -1]
    if top_p < 1:
        whole = running.masked_fill(running - p >= top_p, 0).amax(1)
    return torch.searchsorted(running, (u * whole)[:, None], right=True).clamp(max=p.shape[1] - 1)
