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


def translate_lines(loaded: Loaded, lines: Sequence[str], n_best: int = 1) -> list[list[Translation]]:
    """The translations of each line, in the order of the lines, the best first.

    A line of n tokens gets at most ceil(max_length_factor * n) + max_length_offset words, end symbols left out on both
    sides. A line without tokens becomes the one empty translation.
    """
    sources = [np.array(ids, np.int64) for ids in loaded.source.encode(lines)]
    numbers = np.flatnonzero([len(ids) > 0 for ids in sources])
    found = [[EMPTY] for _ in lines]
    decode = loaded.decode
    settings = SearchSettings(decode.beam, decode.normalise, decode.alpha, n_best)
    lengths = np.array([len(sources[i]) + loaded.source_end for i in numbers], np.int64)
    for batch in decode_plan(lengths * decode.beam, decode.batch_tokens):
        rows = numbers[batch]
        for i, translations in zip(rows, _translations(loaded, [sources[i] for i in rows], settings), strict=True):
            found[i] = translations or [EMPTY]
    return found


def translate_stream(
    loaded: Loaded, lines: Iterable[str], n_best: int = 1, chunk: int = 2000
) -> Iterator[list[Translation]]:
    """The translations of each line as they come, in constant memory: `chunk` lines are read, then translated."""
    lines = iter(lines)
    while some := list(itertools.islice(lines, chunk)):
        yield from translate_lines(loaded, some, n_best)


def _translations(
    loaded: Loaded, sources: Sequence[np.ndarray[tuple[int], np.dtype[np.int64]]], settings: SearchSettings
) -> list[list[Translation]]:
    decode = loaded.decode
    limits = torch.tensor([math.ceil(decode.max_length_factor * len(s)) + decode.max_length_offset for s in sources])
    lengths = np.array([len(s) + loaded.source_end for s in sources])
    source = np.full((len(sources), lengths.max()), PAD)
    for row, ids in zip(source, sources, strict=True):
        row[: len(ids) + loaded.source_end] = [*ids, EOS] if loaded.source_end else ids
    mask = torch.from_numpy(np.arange(source.shape[1]) < lengths[:, None])
    device = loaded.model.device
    hypotheses = search(loaded.model, torch.from_numpy(source).to(device), mask.to(device), limits, settings)
    return [_sentence(loaded, hypotheses, b) for b in range(len(sources))]


def _sentence(loaded: Loaded, hypotheses: Hypotheses, b: int) -> list[Translation]:
    each = zip(hypotheses.tokens[b], hypotheses.scores[b], hypotheses.logps[b], strict=True)
    return [Translation(loaded.target.decode(ids), tuple(ids), score, logp) for ids, score, logp in each]
