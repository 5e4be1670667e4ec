"""How a search begins: its sentences and their prefixes are read, and the rule knows where it starts."""

from collections.abc import Sequence
from typing import NamedTuple

import torch
from jaxtyping import Bool, Int
from torch import Tensor

from calque.data.vocabulary import BOS, PAD
from calque.decode.ahead import next_of
from calque.decode.beam import Beam
from calque.decode.constrained import Constrained
from calque.decode.greedy import Greedy
from calque.decode.required import Automata, Edges, Matched, Required, automata
from calque.decode.rule import SearchRule, SearchSettings, SearchStart
from calque.decode.sample import Sample
from calque.decode.scorer import Hidden, Scorer
from calque.layers.state import State, mapped, spread

PREFIX_WORDS = 64
"""Of a sentence, read at a time before a search begins."""


class Prefixes(NamedTuple):
    """Prefixes of different lengths, padded at the end."""

    words: Int[Tensor, "B P"]
    """places of words among the candidates"""
    lengths: Int[Tensor, " B"]
    longest: int
    mask: Bool[Tensor, "B P+1"] | None
    """begin symbols and words; None: all are real"""


def padded_prefixes(prefixes: Sequence[Sequence[int]], width: int, scorer: Scorer) -> Prefixes:
    """Of at least `width` words each, on the scorer's device."""
    lengths = torch.tensor([len(ids) for ids in prefixes])
    longest = max(width, int(lengths.max()))
    padded = torch.tensor([[*ids, *[PAD] * (longest - len(ids))] for ids in prefixes])
    mask = None if not width and bool((lengths == longest).all()) else torch.arange(longest + 1) <= lengths[:, None]
    device = scorer.like.device
    words = scorer.candidates.places(padded.to(device))
    return Prefixes(words, lengths.to(device), longest, None if mask is None else mask.to(device))


def read_prefixes(
    scorer: Scorer, room: int, sentences: int, settings: SearchSettings, prefix: Prefixes | None
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


def required_of(
    required: Sequence[Required], prefixes: Sequence[Sequence[int]] | None, edges: Edges | None, scorer: Scorer
) -> tuple[Automata, Matched]:
    """What each sentence requires, and what its prefix has of it, on the scorer's device."""
    ids, device = scorer.candidates.ids, scorer.like.device
    edges = edges or Edges.of_words(scorer.size if ids is None else int(ids.max()) + 1)
    found, matched = automata(required, prefixes, edges)
    found, matched = mapped(found, lambda x: x.to(device)), mapped(matched, lambda x: x.to(device))
    if ids is not None:
        found = found._replace(begins=found.begins[:, ids], opens=found.opens[:, ids])
    return found._replace(words=scorer.candidates.places(found.words).masked_fill(found.words < 0, -1)), matched


def rule_of(settings: SearchSettings, start: SearchStart) -> SearchRule:
    """The rule that these settings ask for."""
    if settings.sampling is not None:
        return Sample(settings, start)
    if start.required is not None:
        return Constrained(settings, start)
    return (Greedy if settings.beam == 1 else Beam)(settings, start)


def spread_hypotheses(state: State, sentences: Int[Tensor, " b"], beam: int, past: int) -> State:
    """Of every sentence's hypothesis `beam` ones; none has moved yet. No row holds more than `past` positions."""
    return state if beam == 1 else spread(state, sentences.repeat_interleave(beam), past)
