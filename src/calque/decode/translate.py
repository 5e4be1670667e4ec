"""From lines to lines: encode, group by length, search, restore the order."""

import functools
import itertools
import math
import re
from collections import defaultdict
from collections.abc import Callable, Generator, Iterable, Iterator, Sequence
from dataclasses import replace

import numpy as np
import torch

from calque.data.batches import decode_plan
from calque.decode.again import lacking, searched
from calque.decode.encode import BUCKET, rounded
from calque.decode.required import flat, rows_needed, words_needed
from calque.decode.rule import Sampling, score_of
from calque.decode.score import Scores
from calque.decode.scorer import Candidates, Models, SourceBatch
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
from calque.decode.terms import edges_of
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

FEWER = 64
"""With a translation memory: sentences in a batch, at most."""
UNDILUTED = "gnmt", 0.6
"""How finished hypotheses with required phrases are compared where the settings say `length`: a mean over words is best for those
with many probable words around the improbable ones, such as phrases behind a sentence that is complete.
"""


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
    side. A line is cut after `max_source_tokens` tokens, with the warning D606; D607 warns of one for which the model computes no
    numbers, D611 of one whose translation lacks what is required after all. A line without tokens has the empty translation alone,
    whatever its prefix. A prefix that is text stays as it is, words that the vocabulary lacks included. The beam is at least
    `n_best`. `first` is the number of the first line. `progress` is called with the number of lines that each batch has finished.

    A line of which a translation lacks a term of `loaded.terms`, or a phrase that is asked for, is searched again, and all of its
    translations have them (`calque.decode.constrained`), in the order of that search, see `UNDILUTED`. Raises D610 for a phrase
    that the vocabulary cannot write, and X807 where samples are to have phrases.

    A matrix product with another number of rows may round differently. In rare cases, most of them in bfloat16, the batch
    therefore decides between two equally good words. With `invariant` the shape of a batch follows from the lengths of its
    sentences, and a translation depends on its line alone, bit for bit; this costs time. Words are then selected by sentence.
    """
    sentences = sentences_of(loaded, asked, first, warn)
    done = progress or (lambda lines: None)
    numbers = [i for i, s in enumerate(sentences) if all(map(len, s.sources))]
    done(len(sentences) - len(numbers))
    search = functools.partial(_by_batches, loaded, n_best, invariant)
    results = searched(loaded.target, sentences, numbers, search, done)
    if warn is not None:
        _warn_of(loaded, sentences, results, first, warn)
    return _finished(loaded, asked, [s.prefix for s in sentences], results, invariant)


def _warn_of(
    loaded: Translator,
    sentences: Sequence[Sentence],
    results: Sequence[Sequence[Translation]],
    first: int,
    warn: Callable[[Diagnostic], None],
) -> None:
    """Warns of lines without numbers, and of those that lack what is required nevertheless."""
    without = {i for i, (best, *_) in enumerate(results) if math.isnan(best.logp)}
    translated = [i for i, s in enumerate(sentences) if i not in without and all(map(len, s.sources))]
    lack = set(lacking(loaded.target, sentences, results, translated))
    for i in sorted(without | lack):
        warn(Diagnostic("D611" if i in lack else "D607", Place("stdin", first + i), severity="warning"))


def _by_batches(
    loaded: Translator, n_best: int, invariant: bool, sentences: list[Sentence], numbers: list[int]
) -> Iterator[tuple[list[int], list[list[Translation]]]]:
    """A `Search` with batches of any size; `invariant`: of shapes that follow from the sentences."""
    for together in alike(loaded, sentences, numbers, n_best):
        for batch in _batches(loaded, [sentences[i] for i in together], n_best, invariant):
            here = [together[i] for i in batch.tolist()]
            yield here, translate_batch(loaded, [sentences[i] for i in here], n_best, SLAB if invariant else 0)


def alike(loaded: Translator, sentences: Sequence[Sentence], numbers: Iterable[int], n_best: int) -> list[list[int]]:
    """Some sentences in groups that can share batches: with as many hypotheses, and as much room for what is required."""
    groups: defaultdict[tuple[int, int], list[int]] = defaultdict(list)
    for i in numbers:
        required = sentences[i].required
        groups[_hypotheses(loaded.decode, n_best, sentences[i]), rounded(words_needed(required))].append(i)
    return list(groups.values())


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
    results = [with_given(loaded, *each) for each in zip(texts, prefixes, results, strict=True)]
    return [
        each if given else in_letters_of(loaded, _source(line), each)
        for line, given, each in zip(asked, map(_is_given, asked), results, strict=True)
    ]


def in_letters_of(loaded: Translator, line: str, translations: Sequence[Translation]) -> list[Translation]:
    """The translations of a line in capitals in capitals, where the model reads such lines in small letters."""
    return [one._replace(text=loaded.source.in_letters_of(line, one.text)) for one in translations]


def _is_given(line: InputLine) -> bool:
    """Whether some words of the translation are given, whose letter case stays."""
    return not isinstance(line, str) and any(map(len, line[1:]))


def _source(line: InputLine) -> str:
    """The text to translate, without its prefix."""
    return line if isinstance(line, str) else line[0]


def _batches(loaded: Translator, sentences: Sequence[Sentence], n_best: int, invariant: bool) -> list[Source]:
    """The batches of sentences that are `alike`, as their numbers."""
    lengths = np.array([lengths_of(loaded, s) for s in sentences], np.int64).reshape(-1, len(loaded.members) + 1)
    if invariant:
        return _slabs(lengths)
    tokens = (lengths[:, :-1].max(1, initial=0) + lengths[:, -1]) * _hypotheses(loaded.decode, n_best, sentences[0])
    if loaded.recall is not None:  # with pairs for each sentence, which take room, too
        tokens = np.maximum(tokens, loaded.decode.batch_tokens // FEWER)
    return decode_plan(tokens, loaded.decode.batch_tokens)


def _hypotheses(decode: DecodeSettings, n_best: int, sentence: Sentence) -> int:
    """How many hypotheses the search of a sentence has."""
    return n_best if decode.sample else rows_needed(sentence.required, max(decode.beam, n_best), n_best)


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
    """The translations of encoded sentences, all in one batch; in one of `slab` rows and rounded lengths, if given. All require
    something, with as many hypotheses (`calque.decode.required.rows_needed`), or none of them does.
    """
    count, decode = len(sentences), loaded.decode
    sentences = [*sentences, *[sentences[0]] * (slab - count)]
    sourced = [as_batch(member, [s.sources[m] for s in sentences], slab) for m, member in enumerate(loaded.members)]
    prefixes, required = [s.prefix for s in sentences], [s.required for s in sentences]
    longest, needed = max(map(len, prefixes)), any(required)
    before = rounded(longest) if slab else longest
    room = before + _limit(decode, sourced[0].source.shape[1]) + rounded(max(map(words_needed, required))) + 1
    settings = _settings(loaded, n_best, sentences[0], room if slab else 0)
    scorer = _scorer(loaded, sourced, sentences, bool(slab))
    limits = torch.tensor(list(map(functools.partial(_limit_of, decode), sentences)))
    lines = torch.tensor([s.line for s in sentences])
    edges = edges_of(loaded.target) if needed else None
    hypotheses = search_with(scorer, limits, settings, prefixes, lines, before if slab else 0, required, edges)
    if not needed:
        return [_translations(loaded, hypotheses, b) for b in range(count)]
    hypotheses = _scored_freely(hypotheses, decode)
    return [_spaced_once(_translations(loaded, hypotheses, b)) for b in range(count)]


def _scorer(loaded: Translator, sourced: Sequence[SourceBatch], sentences: Sequence[Sentence], whole: bool) -> Models:
    candidates = _candidates(loaded, sourced[0], sentences, whole)
    if loaded.recall is None:
        return Models(sourced, loaded.combine, candidates, whole)
    return loaded.recall.scorer(loaded, sourced, candidates, sentences, whole)


def _candidates(
    loaded: Translator, sourced: SourceBatch, sentences: Sequence[Sentence], whole: bool
) -> Candidates | None:
    """The words that can be chosen, those of prefixes, of what is required and of a memory among them; None: all."""
    if loaded.selection is None:
        return None
    given = [[*s.prefix, *flat(s.required)] for s in sentences]
    if loaded.recall is not None:
        given = [[*words, *loaded.recall.words(loaded, s)] for words, s in zip(given, sentences, strict=True)]
    return loaded.selection.candidates(sourced.source, given, whole=whole)


def _settings(loaded: Translator, n_best: int, sentence: Sentence, capacity: int) -> SearchSettings:
    """How a batch is searched of which this is a sentence."""
    decode = loaded.decode
    diluted = bool(sentence.required) and decode.normalise == "length"
    normalise, alpha = UNDILUTED if diluted else (decode.normalise, decode.alpha)
    return SearchSettings(
        _hypotheses(decode, n_best, sentence),
        normalise,
        alpha,
        n_best,
        capacity=capacity,
        word_penalty=decode.word_penalty,
        sampling=_sampling(decode) if decode.sample else None,
        scores=loaded.scores,
        given=len(loaded.target.begins),
        stop=decode.stop,
    )


def _sampling(decode: DecodeSettings) -> Sampling:
    return Sampling(decode.temperature, decode.top_k, decode.top_p, decode.seed, decode.epsilon)


def _scored_freely(hypotheses: Hypotheses, decode: DecodeSettings) -> Hypotheses:
    """The same with the scores that they would have in a search without required phrases."""
    settings = SearchSettings(normalise=decode.normalise, alpha=decode.alpha, word_penalty=decode.word_penalty)
    scores = [
        [float(score_of(settings, torch.tensor(logp), len(ids) + 1)) for ids, logp in zip(*each, strict=True)]
        for each in zip(hypotheses.tokens, hypotheses.logps, strict=True)
    ]
    return hypotheses._replace(scores=scores)


def force(loaded: Translator, lines: Sequence[str], targets: Sequence[Sequence[int]]) -> Scores:
    """log p of given translations by an ensemble, with whole targets as prefixes. `calque.decode.score` is faster for one model."""
    whole = replace(loaded, decode=replace(loaded.decode, max_source_tokens=0), recall=None)
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


def _limit_of(decode: DecodeSettings, sentence: Sentence) -> int:
    """The most words of a translation, with room for what is required, behind a long prefix as well."""
    limit = _limit(decode, len(sentence.sources[0]))
    return max(limit, len(sentence.prefix)) + words_needed(sentence.required) if sentence.required else limit


def _limit(decode: DecodeSettings, words: int) -> int:
    return math.ceil(decode.max_length_factor * words) + decode.max_length_offset


def _translations(loaded: Translator, hypotheses: Hypotheses, b: int) -> list[Translation]:
    each = zip(hypotheses.tokens[b], hypotheses.scores[b], hypotheses.logps[b], strict=True)
    return [Translation(loaded.target.decode(ids), tuple(ids), score, logp) for ids, score, logp in each]


def _spaced_once(translations: list[Translation]) -> list[Translation]:
    """The same texts with one space between words: a phrase may follow a piece that is a space alone."""
    return [one._replace(text=re.sub(" +", " ", one.text)) for one in translations]
