"""Pairs of which only a beginning is learned, so that a model translates sentences that are still being read."""

import functools
from collections.abc import Sequence
from random import Random

from calque.data.codecs import JOINER, Codec
from calque.data.cuts import START
from calque.data.scripts import without_spaces

Ids = list[int]


def beginnings(
    sources: Sequence[Ids], targets: Sequence[Ids], codecs: tuple[Codec, Codec], share: float, seed: int
) -> tuple[list[Ids], list[Ids]]:
    """The pairs, a share of them cut, drawn at random: the same ones for the same seed (Niehues et al. 2018, section 3.2).

    Of a source of X words and a target of Y, the first n and the first ⌊n Y / X⌋ words stay, n drawn from 1 to X - 1: so a
    translation says no more than was read, where both say things in the same order. Pieces of a word stay together. Pairs whose
    source has one word stay whole.
    """
    random, source_codec, target_codec = Random(seed), *codecs
    cut: tuple[list[Ids], list[Ids]] = [], []
    for source, target in zip(sources, targets, strict=True):
        words = word_ends(source_codec, source)
        if random.random() < share and len(words) > 1:
            n, written = random.randrange(1, len(words)), word_ends(target_codec, target)
            m = n * len(written) // len(words)
            source = _first(source_codec, source, words[n - 1])
            target = _first(target_codec, target, written[m - 1] if m else len(target_codec.begins))
        cut[0].append(source)
        cut[1].append(target)
    return cut


def word_ends(codec: Codec, ids: Ids) -> list[int]:
    """Behind how many ids each word of a sentence ends; symbols, and what every sentence begins and ends with, are no words."""
    first, last = len(codec.begins), len(ids) - len(codec.closes)
    begins, opens = _edges(codec)
    ends = [
        i for i in range(first + 1, last) if begins[ids[i]] and not opens[ids[i - 1]]
    ]  # a symbol opens the next word
    return [*ends, last] if last > first else []


def _first(codec: Codec, ids: Ids, end: int) -> Ids:
    return [*ids[:end], *ids[len(ids) - len(codec.closes) :]]


@functools.lru_cache(maxsize=4)
def _edges(codec: Codec) -> tuple[list[bool], list[bool]]:
    """For each entry of a vocabulary, whether it may begin a word, and whether it always goes on with the next, as symbols do."""
    tokens = codec.tokens(range(codec.size))
    pieces = any(token.startswith(START) for token in tokens)
    begins = [not pieces or token.startswith(START) or without_spaces(token[:1] or " ") for token in tokens]
    return begins, [token.endswith(JOINER) or token in codec.symbols for token in tokens]
