"""From lines to lines: encode, group by length, search, restore the order."""

import itertools
import math
from collections.abc import Callable, Generator, Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from typing import NamedTuple

import numpy as np
import torch

from calque.data.batches import decode_plan
from calque.data.subwords import Codec
from calque.data.vocabulary import EOS, PAD
from calque.decode.rule import Sampling
from calque.decode.score import Scores
from calque.decode.scorer import COMBINE, Models, Sourced
from calque.decode.search import Hypotheses, SearchSettings, search_with
from calque.decode.select import Selection
from calque.diagnostics import Diagnostic, Place
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
    """A model ready to decode, and what surrounds it. `source_end`: sources are closed with the end symbol.

    others     the further models of an ensemble, each with its own source codec; the first has the target codec, the settings
               and the source words by which lengths are bounded and words are selected
    combine    how their distributions become one, see `calque.decode.scorer.Models`
    selection  the words that can be chosen; None: all
    scores     whether translations need their scores: greedy search is faster without, and they are nan
    """

    model: Model
    source: Codec
    target: Codec
    decode: Decode
    source_end: bool = True
    others: tuple["Loaded", ...] = ()
    combine: str = COMBINE[0]
    selection: Selection | None = None
    scores: bool = True

    @property
    def members(self) -> tuple["Loaded", ...]:
        """All models."""
        return self, *self.others


SLAB, BUCKET = 32, 16
"""Of invariant decoding: sentences in a batch, and what source and prefix lengths are rounded up to."""

Source = np.ndarray[tuple[int], np.dtype[np.int64]]
Prefix = str | Sequence[int]
"""What a translation has to begin with: text, or ids."""
Asked = str | tuple[str, Prefix]
"""A line, perhaps with a prefix."""


class Sentence(NamedTuple):
    """A line as ids: for each model of an ensemble, without end symbols."""

    sources: tuple[Source, ...]
    prefix: tuple[int, ...] = ()
    line: int = 0
    """its number in the input, by which samples are drawn"""


def translate_lines(
    loaded: Loaded,
    asked: Sequence[Asked],
    n_best: int = 1,
    invariant: bool = False,
    first: int = 1,
    warn: Callable[[Diagnostic], None] | None = None,
) -> list[list[Translation]]:
    """The translations of each line, in the order of the lines, the best first; samples in the order of their numbers.

    A line of n tokens gets at most ceil(max_length_factor * n) + max_length_offset words, end symbols left out on both
    sides; of a line with more than `max_source_tokens` tokens the rest is cut off, with the warning D606. A line without
    tokens becomes the one empty translation, whatever its prefix. The beam is at least `n_best`. `first` is the number of the
    first line.

    A product over another number of rows may round otherwise, so in rare cases, most of them in bfloat16, the batch still
    decides between two equally good words. With `invariant` every batch has the one shape that belongs to the lengths
    of its sentences, and what a line becomes depends on nothing else, bit for bit; this costs time. Words are then selected by
    sentence.
    """
    sentences = _sentences(loaded, asked, first, warn)
    numbers = np.flatnonzero([all(len(ids) for ids in s.sources) for s in sentences])
    found = [[EMPTY] for _ in asked]
    lengths = np.array([_lengths(loaded, sentences[i]) for i in numbers], np.int64).reshape(
        len(numbers), len(loaded.members) + 1
    )
    if invariant:
        batches = _slabs(lengths)
    else:
        tokens = lengths[:, :-1].max(1, initial=0) + lengths[:, -1]
        batches = decode_plan(tokens * _hypotheses(loaded.decode, n_best), loaded.decode.batch_tokens)
    for batch in batches:
        rows = numbers[batch]
        each = translate_batch(loaded, [sentences[i] for i in rows], n_best, SLAB if invariant else 0)
        for i, translations in zip(rows, each, strict=True):
            found[i] = translations or [EMPTY]
    return found


def _sentences(
    loaded: Loaded, asked: Sequence[Asked], first: int, warn: Callable[[Diagnostic], None] | None
) -> list[Sentence]:
    lines = [one if isinstance(one, str) else one[0] for one in asked]
    prefixes = ["" if isinstance(one, str) else one[1] for one in asked]
    most = loaded.decode.max_source_tokens or None
    encoded = [member.source.encode(lines) for member in loaded.members]
    written = iter(loaded.target.encode([p for p in prefixes if isinstance(p, str)]))
    found = []
    for number, (ids, prefix) in enumerate(zip(zip(*encoded, strict=True), prefixes, strict=True), first):
        longest = max(map(len, ids))
        if warn is not None and most is not None and longest > most:
            warn(Diagnostic("D606", Place("stdin", number), {"found": longest, "most": most}, severity="warning"))
        begins = next(written) if isinstance(prefix, str) else prefix
        found.append(Sentence(tuple(np.array(one[:most], np.int64) for one in ids), tuple(begins), number))
    return found


def _lengths(loaded: Loaded, sentence: Sentence) -> list[int]:
    """Of the sources, end symbols counted, and of the prefix."""
    closed = zip(loaded.members, sentence.sources, strict=True)
    return [*(len(ids) + member.source_end for member, ids in closed), len(sentence.prefix)]


def _hypotheses(decode: Decode, n_best: int) -> int:
    return n_best if decode.sample else max(decode.beam, n_best)


def _slabs(lengths: np.ndarray[tuple[int, int], np.dtype[np.int64]]) -> list[Source]:
    """Sentences whose lengths round up to the same numbers, SLAB at a time."""
    _, kind = np.unique(-(-lengths // BUCKET), axis=0, return_inverse=True)
    alike = [np.flatnonzero(kind.ravel() == k) for k in range(kind.max(initial=-1) + 1)]
    return [rows[k : k + SLAB] for rows in alike for k in range(0, len(rows), SLAB)]


def translate_stream(
    loaded: Loaded,
    asked: Iterable[Asked],
    n_best: int = 1,
    invariant: bool = False,
    chunk: int = 2000,
    warn: Callable[[Diagnostic], None] | None = None,
) -> Generator[list[Translation], None, None]:
    """The translations of each line as they come, in constant memory: `chunk` lines are read, then translated."""
    for first, some in chunks(asked, chunk):
        yield from translate_lines(loaded, some, n_best, invariant, first, warn)


def chunks(asked: Iterable[Asked], size: int) -> Iterator[tuple[int, list[Asked]]]:
    """Runs of `size` lines, each with the number of its first."""
    asked, first = iter(asked), 1
    while some := list(itertools.islice(asked, size)):
        yield first, some
        first += len(some)


def translate_batch(
    loaded: Loaded, sentences: Sequence[Sentence], n_best: int = 1, slab: int = 0
) -> list[list[Translation]]:
    """The translations of encoded sentences, all in one batch; in one of `slab` rows and rounded lengths, if given."""
    count, decode = len(sentences), loaded.decode
    sentences = [*sentences, *[sentences[0]] * (slab - count)]
    sourced = [_sourced(member, [s.sources[m] for s in sentences], slab) for m, member in enumerate(loaded.members)]
    prefixes = [s.prefix for s in sentences]
    before = _rounded(max(map(len, prefixes)), slab)
    width = sourced[0].source.shape[1]
    sampling = Sampling(decode.temperature, decode.top_k, decode.top_p, decode.seed) if decode.sample else None
    settings = SearchSettings(
        _hypotheses(decode, n_best),
        decode.normalise,
        decode.alpha,
        n_best,
        capacity=before + _limit(decode, width) + 1 if slab else 0,
        word_penalty=decode.word_penalty,
        sampling=sampling,
        scores=loaded.scores,
    )
    chosen = None
    if loaded.selection is not None:
        chosen = loaded.selection.candidates(sourced[0].source, prefixes, whole=bool(slab))
    scorer = Models(sourced, loaded.combine, chosen, whole=bool(slab))
    limits = torch.tensor([_limit(decode, len(s.sources[0])) for s in sentences])
    lines = torch.tensor([s.line for s in sentences])
    hypotheses = search_with(scorer, limits, settings, prefixes, lines, before if slab else 0)
    return [_translations(loaded, hypotheses, b) for b in range(count)]


def force(loaded: Loaded, lines: Sequence[str], targets: Sequence[Sequence[int]]) -> Scores:
    """log p of given translations under an ensemble: whole targets as prefixes. `calque.decode.score` is faster for one model."""
    whole = replace(loaded, decode=replace(loaded.decode, max_source_tokens=0))
    sentences = _sentences(whole, list(zip(lines, targets, strict=True)), 1, None)
    lengths = np.array([sum(_lengths(loaded, s)) for s in sentences], np.int64)
    logp = torch.zeros(len(sentences))
    for rows in decode_plan(lengths, loaded.decode.batch_tokens):
        here = [sentences[i] for i in rows]
        sourced = [_sourced(member, [s.sources[m] for s in here], 0) for m, member in enumerate(loaded.members)]
        prefixes = [s.prefix for s in here]
        limits = torch.tensor([len(ids) for ids in prefixes])
        found = search_with(Models(sourced, loaded.combine), limits, SearchSettings(1, "none"), prefixes)
        logp[torch.from_numpy(rows)] = torch.tensor([logps[0] for logps in found.logps])
    return Scores(logp, torch.tensor([len(ids) + 1 for ids in targets], dtype=torch.int64))


def _sourced(member: Loaded, sources: Sequence[Source], slab: int) -> Sourced:
    lengths = np.array([len(ids) + member.source_end for ids in sources])
    width = max(1, _rounded(int(lengths.max()), slab))  # a blank line without end symbol takes one, masked, position
    source = np.full((len(sources), width), PAD)
    for row, ids in zip(source, sources, strict=True):
        row[: len(ids) + member.source_end] = [*ids, EOS] if member.source_end else ids
    mask = torch.from_numpy(np.arange(width) < lengths[:, None])
    device = member.model.device
    return Sourced(member.model, torch.from_numpy(source).to(device), mask.to(device))


def _rounded(length: int, slab: int) -> int:
    return -(-length // BUCKET) * BUCKET if slab else length


def _limit(decode: Decode, words: int) -> int:
    return math.ceil(decode.max_length_factor * words) + decode.max_length_offset


def _translations(loaded: Loaded, hypotheses: Hypotheses, b: int) -> list[Translation]:
    each = zip(hypotheses.tokens[b], hypotheses.scores[b], hypotheses.logps[b], strict=True)
    return [Translation(loaded.target.decode(ids), tuple(ids), score, logp) for ids, score, logp in each]
