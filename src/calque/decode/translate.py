"""From lines to lines: encode, group by length, search, restore the order."""

import itertools
import math
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
import torch

from calque.data.batches import decode_plan
from calque.data.subwords import Codec
from calque.data.vocabulary import EOS, PAD
from calque.decode.search import Hypotheses, SearchSettings, search
from calque.experiment import Decode
from calque.model import Model


class Translation(NamedTuple):
    """One translation of a line."""

    text: str
    ids: tuple[int, ...]
    """without begin and end symbols"""
    score: float
    logp: float


EMPTY = Translation("", (), 0.0, 0.0)
"""What a line without words becomes; the model is not asked."""


@dataclass(frozen=True)
class Loaded:
    """A model ready to decode, and what surrounds it. `source_end`: sources are closed with the end symbol."""

    model: Model
    source: Codec
    target: Codec
    decode: Decode
    source_end: bool = True


SLAB, BUCKET = 32, 16
"""Of invariant decoding: sentences in a batch, and what source lengths are rounded up to."""

Source = np.ndarray[tuple[int], np.dtype[np.int64]]


def translate_lines(
    loaded: Loaded, lines: Sequence[str], n_best: int = 1, invariant: bool = False
) -> list[list[Translation]]:
    """The translations of each line, in the order of the lines, the best first.

    A line of n tokens gets at most ceil(max_length_factor * n) + max_length_offset words, end symbols left out on both
    sides. A line without tokens becomes the one empty translation. The beam is at least `n_best`.

    A product over another number of rows may round otherwise, so in rare cases, most of them in bfloat16, the batch still
    decides between two equally good words. With `invariant` every batch has the one shape that belongs to the lengths
    of its sentences, and what a line becomes depends on nothing else, bit for bit; this costs time.
    """
    sources = [np.array(ids, np.int64) for ids in loaded.source.encode(lines)]
    numbers = np.flatnonzero([len(ids) > 0 for ids in sources])
    found = [[EMPTY] for _ in lines]
    lengths = np.array([len(sources[i]) + loaded.source_end for i in numbers], np.int64)
    if invariant:
        batches = _slabs(lengths)
    else:
        batches = decode_plan(lengths * max(loaded.decode.beam, n_best), loaded.decode.batch_tokens)
    for batch in batches:
        rows = numbers[batch]
        each = translate_batch(loaded, [sources[i] for i in rows], n_best, SLAB if invariant else 0)
        for i, translations in zip(rows, each, strict=True):
            found[i] = translations or [EMPTY]
    return found


def _slabs(lengths: Source) -> list[Source]:
    """Sentences whose lengths round up to the same number, SLAB at a time."""
    buckets = -(-lengths // BUCKET)
    alike = [np.flatnonzero(buckets == b) for b in np.unique(buckets)]
    return [rows[k : k + SLAB] for rows in alike for k in range(0, len(rows), SLAB)]


def translate_stream(
    loaded: Loaded, lines: Iterable[str], n_best: int = 1, invariant: bool = False, chunk: int = 2000
) -> Iterator[list[Translation]]:
    """The translations of each line as they come, in constant memory: `chunk` lines are read, then translated."""
    lines = iter(lines)
    while some := list(itertools.islice(lines, chunk)):
        yield from translate_lines(loaded, some, n_best, invariant)


def translate_batch(
    loaded: Loaded, sources: Sequence[Source], n_best: int = 1, slab: int = 0
) -> list[list[Translation]]:
    """The translations of encoded sentences, all in one batch; in one of `slab` rows and rounded lengths, if given."""
    count, decode = len(sources), loaded.decode
    sources = [*sources, *[sources[0]] * (slab - count)]
    lengths = np.array([len(s) + loaded.source_end for s in sources])
    width = int(-(-lengths.max() // BUCKET) * BUCKET if slab else lengths.max())
    limits = torch.tensor([_limit(decode, len(s)) for s in sources])
    capacity = _limit(decode, width) + 1 if slab else 0
    settings = SearchSettings(max(decode.beam, n_best), decode.normalise, decode.alpha, n_best, capacity=capacity)
    source = np.full((len(sources), width), PAD)
    for row, ids in zip(source, sources, strict=True):
        row[: len(ids) + loaded.source_end] = [*ids, EOS] if loaded.source_end else ids
    mask = torch.from_numpy(np.arange(width) < lengths[:, None])
    device = loaded.model.device
    hypotheses = search(loaded.model, torch.from_numpy(source).to(device), mask.to(device), limits, settings)
    return [_sentence(loaded, hypotheses, b) for b in range(count)]


def _limit(decode: Decode, words: int) -> int:
    return math.ceil(decode.max_length_factor * words) + decode.max_length_offset


def _sentence(loaded: Loaded, hypotheses: Hypotheses, b: int) -> list[Translation]:
    each = zip(hypotheses.tokens[b], hypotheses.scores[b], hypotheses.logps[b], strict=True)
    return [Translation(loaded.target.decode(ids), tuple(ids), score, logp) for ids, score, logp in each]
