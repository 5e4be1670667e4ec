"""From lines to lines: encode, group by length, search, restore the order."""

import itertools
import math
from collections.abc import Callable, Generator, Iterable, Iterator, Sequence
from dataclasses import replace

import numpy as np
import torch

from calque.data.batches import decode_plan
from calque.decode.encode import BUCKET, rounded
from calque.decode.rule import Sampling
from calque.decode.score import Scores
from calque.decode.scorer import Models
from calque.decode.search import Hypotheses, SearchSettings, search_with
from calque.decode.sentences import (
    EMPTY,
    SLAB,
    InputLine,
    Prefix,
    Sentence,
    Source,
    Translation,
    Translator,
    as_batch,
    lengths_of,
    sentences_of,
)
from calque.decode.unknown import replace_unknown, with_given
from calque.experiment import DecodeSettings
from calque.ground.diagnostics import Diagnostic, Place

__all__ = [
    "EMPTY",
    "InputLine",
    "Prefix",
    "Sentence",
    "Translation",
    "Translator",
    "chunks",
    "force",
    "translate_batch",
    "translate_lines",
    "translate_stream",
]


def translate_lines(
    loaded: Translator,
    asked: Sequence[InputLine],
    n_best: int = 1,
    invariant: bool = False,
    first: int = 1,
    warn: Callable[[Diagnostic], None] | None = None,
    progress: Callable[[int], None] | None = None,
) -> list[list[Translation]]:
    """The translations of each line, in the order of the lines, the best first; samples in the order of their numbers.

    A line of n tokens gets at most ceil(max_length_factor * n) + max_length_offset words, end symbols not counted on either
    side. A line is cut after `max_source_tokens` tokens, with the warning D606; D607 warns of one for which
    the model computes no numbers. A line without tokens has the empty translation
    alone, whatever its prefix. A prefix that is text stays as it is, words that the vocabulary lacks included. The beam is at least
    `n_best`. `first` is the number of the first line. `progress` is called with the number of lines that each batch has finished.

    A matrix product with another number of rows may round differently. In rare cases, most of them in bfloat16, the batch
    therefore decides between two equally good words. With `invariant` the shape of a batch follows from the lengths of its
    sentences, and a translation depends on its line alone, bit for bit; this costs time. Words are then selected by sentence.
    """
    done = progress or (lambda lines: None)
    sentences = sentences_of(loaded, asked, first, warn)
    numbers = np.flatnonzero([all(map(len, s.sources)) for s in sentences])
    results = [[EMPTY] for _ in asked]
    for batch in _batches(loaded, [sentences[i] for i in numbers], n_best, invariant):
        rows = numbers[batch]
        each = translate_batch(loaded, [sentences[i] for i in rows], n_best, SLAB if invariant else 0)
        for i, translations in zip(rows, each, strict=True):
            results[i] = translations or [EMPTY]
            if warn is not None and math.isnan(results[i][0].logp):
                warn(Diagnostic("D607", Place("stdin", first + int(i)), severity="warning"))
        done(len(rows))
    done(len(asked) - len(numbers))
    return _finished(loaded, asked, [s.prefix for s in sentences], results, invariant)


def _finished(
    loaded: Translator,
    asked: Sequence[InputLine],
    prefixes: Sequence[Sequence[int]],
    results: list[list[Translation]],
    invariant: bool,
) -> list[list[Translation]]:
    """The translations without unknown words, where these are replaced, and with the words of the prefixes."""
    if loaded.decode.replace_unknown:
        given = [len(ids) for ids in prefixes]
        results = replace_unknown(loaded, list(map(_source, asked)), results, invariant, given)
    texts = [line[1] if isinstance(line, tuple) and isinstance(line[1], str) else "" for line in asked]
    return [with_given(loaded, *each) for each in zip(texts, prefixes, results, strict=True)]


def _source(line: InputLine) -> str:
    """The text to translate, without its prefix."""
    return line if isinstance(line, str) else line[0]


def _batches(loaded: Translator, sentences: Sequence[Sentence], n_best: int, invariant: bool) -> list[Source]:
    """The batches of sentences, as their numbers."""
    lengths = np.array([lengths_of(loaded, s) for s in sentences], np.int64).reshape(-1, len(loaded.members) + 1)
    if invariant:
        return _slabs(lengths)
    tokens = lengths[:, :-1].max(1, initial=0) + lengths[:, -1]
    return decode_plan(tokens * _hypotheses(loaded.decode, n_best), loaded.decode.batch_tokens)


def _hypotheses(decode: DecodeSettings, n_best: int) -> int:
    return n_best if decode.sample else max(decode.beam, n_best)


def _slabs(lengths: np.ndarray[tuple[int, int], np.dtype[np.int64]]) -> list[Source]:
    """Sentences whose lengths round up to the same numbers, SLAB at a time."""
    _, kind = np.unique(-(-lengths // BUCKET), axis=0, return_inverse=True)
    alike = [np.flatnonzero(kind.ravel() == k) for k in range(kind.max(initial=-1) + 1)]
    return [rows[k : k + SLAB] for rows in alike for k in range(0, len(rows), SLAB)]


def translate_stream(
    loaded: Translator,
    asked: Iterable[InputLine],
    n_best: int = 1,
    invariant: bool = False,
    chunk: int = 2000,
    warn: Callable[[Diagnostic], None] | None = None,
    progress: Callable[[int], None] | None = None,
) -> Generator[list[Translation], None, None]:
    """The translations of each line in constant memory: reads `chunk` lines, translates them, and continues."""
    for first, some in chunks(asked, chunk):
        yield from translate_lines(loaded, some, n_best, invariant, first, warn, progress)


def chunks(asked: Iterable[InputLine], size: int) -> Iterator[tuple[int, list[InputLine]]]:
    """Runs of `size` lines, each with the number of its first."""
    asked, first = iter(asked), 1
    while some := list(itertools.islice(asked, size)):
        yield first, some
        first += len(some)


def translate_batch(
    loaded: Translator, sentences: Sequence[Sentence], n_best: int = 1, slab: int = 0
) -> list[list[Translation]]:
    """The translations of encoded sentences, all in one batch; in one of `slab` rows and rounded lengths, if given."""
    count, decode = len(sentences), loaded.decode
    sentences = [*sentences, *[sentences[0]] * (slab - count)]
    sourced = [as_batch(member, [s.sources[m] for s in sentences], slab) for m, member in enumerate(loaded.members)]
    prefixes = [s.prefix for s in sentences]
    longest = max(map(len, prefixes))
    before = rounded(longest) if slab else longest
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
        given=len(loaded.target.begins),
        stop=decode.stop,
    )
    chosen = None
    if loaded.selection is not None:
        chosen = loaded.selection.candidates(sourced[0].source, prefixes, whole=bool(slab))
    scorer = Models(sourced, loaded.combine, chosen, whole=bool(slab))
    limits = torch.tensor([_limit(decode, len(s.sources[0])) for s in sentences])
    lines = torch.tensor([s.line for s in sentences])
    hypotheses = search_with(scorer, limits, settings, prefixes, lines, before if slab else 0)
    return [_translations(loaded, hypotheses, b) for b in range(count)]


def force(loaded: Translator, lines: Sequence[str], targets: Sequence[Sequence[int]]) -> Scores:
    """log p of given translations by an ensemble, with whole targets as prefixes. `calque.decode.score` is faster for one model."""
    whole = replace(loaded, decode=replace(loaded.decode, max_source_tokens=0))
    sentences = sentences_of(whole, list(zip(lines, targets, strict=True)))
    lengths = np.array([sum(lengths_of(loaded, s)) for s in sentences], np.int64)
    logp = torch.zeros(len(sentences))
    for rows in decode_plan(lengths, loaded.decode.batch_tokens):
        here = [sentences[i] for i in rows]
        sourced = [as_batch(member, [s.sources[m] for s in here]) for m, member in enumerate(loaded.members)]
        prefixes = [s.prefix for s in here]
        limits = torch.tensor([len(ids) for ids in prefixes])
        hypotheses = search_with(
            Models(sourced, loaded.combine),
            limits,
            SearchSettings(1, "none", given=len(loaded.target.begins)),
            prefixes,
        )
        logp[torch.from_numpy(rows)] = torch.tensor([logps[0] for logps in hypotheses.logps])
    return Scores(logp, torch.tensor([len(ids) + 1 for ids in targets], dtype=torch.int64))


def _limit(decode: DecodeSettings, words: int) -> int:
    return math.ceil(decode.max_length_factor * words) + decode.max_length_offset


def _translations(loaded: Translator, hypotheses: Hypotheses, b: int) -> list[Translation]:
    each = zip(hypotheses.tokens[b], hypotheses.scores[b], hypotheses.logps[b], strict=True)
    return [Translation(loaded.target.decode(ids), tuple(ids), score, logp) for ids, score, logp in each]
