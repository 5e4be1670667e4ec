"""Where two systems differ: sentence by sentence, by length, by order and frequency of words, n-gram by n-gram, in examples.

Systems are lists of runs. For several runs, scores of sentences and counts of n-grams are means; everything else treats the runs
as one corpus. Examples show the first run.
"""

from bisect import bisect_right
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise

import numpy as np
from jaxtyping import Float

from calque.evaluate.significance import Comparison, compare_statistics
from calque.evaluate.statistics import ORDERS, Measure
from calque.evaluate.word_matches import (
    FREQUENCIES,
    Gram,
    Overlap,
    Sentence,
    bucket_name,
    count_words,
    frequency_bucket,
    matches,
    overlaps,
    salient,
    tokeniser,
)
from calque.ground.table import Cell, Table

STEPS = (5, 10, 20, 40)
"""The upper ends of buckets of differences, in points."""
LENGTHS = (10, 20, 30, 40, 50, 60)
"""The lower ends of buckets of lengths, in words."""
MOST = 15
"""At most so many n-grams of each system are shown."""
TIE = 1e-9


@dataclass(frozen=True)
class ComparedSentence:
    """A sentence and its translations by the first runs. `line` counts from 1; `gain` is how much better a is."""

    line: int
    gain: float
    source: str | None
    reference: str
    a: str
    b: str


@dataclass(frozen=True)
class ComparisonResult:
    """Tests, tables, scores of every sentence, and the examples in which a, or b, is better by most."""

    comparisons: tuple[Comparison, ...]
    tables: tuple[Table, ...]
    sentences: Table
    better_a: tuple[ComparedSentence, ...]
    better_b: tuple[ComparedSentence, ...]


@dataclass(frozen=True)
class Systems:
    """The texts to compare: runs of a and of b, references, sources where they are known, and how words are cut."""

    a: Sequence[Sequence[str]]
    b: Sequence[Sequence[str]]
    references: Sequence[str]
    sources: Sequence[str] | None = None
    tokenize: str = "13a"
    lowercase: bool = False
    more: Sequence[Sequence[str]] = ()
    """Further references of the same sentences, for scores; lengths, words and examples are of the first."""


def compare_systems(
    systems: Systems,
    metrics: Sequence[Measure],
    *,
    trials: int = 10_000,
    seed: int = 1,
    frequencies: Mapping[str, int] | None = None,
    examples: int = 3,
) -> ComparisonResult:
    """All tests, tables and examples. `frequencies` are counts of words in a training text; None: in the references.

    For each system, `examples` sentences with the largest differences by the first metric. Raises what the metrics raise.
    """
    statistics = [
        tuple(
            np.stack([m.statistics(run, systems.references, *systems.more) for run in runs])
            for runs in (systems.a, systems.b)
        )
        for m in metrics
    ]
    tests = tuple(
        compare_statistics(m, a, b, trials=trials, seed=seed) for m, (a, b) in zip(metrics, statistics, strict=True)
    )
    cut = tokeniser(systems.tokenize, systems.lowercase)
    references = [cut(line) for line in systems.references]
    scores = [(sentence_scores(m, a), sentence_scores(m, b)) for m, (a, b) in zip(metrics, statistics, strict=True)]
    gains = [gain(m, a, b) for m, (a, b) in zip(metrics, scores, strict=True)]
    lengths = [len(r) for r in references]
    tables = [
        *(differences(m.name, g) for m, g in zip(metrics, gains, strict=True)),
        *(by_length(m, a, b, lengths) for m, (a, b) in zip(metrics, statistics, strict=True)),
        *_word_tables(systems, references, frequencies),
    ]
    better = [_examples(systems, gains[0], sign, examples) for sign in (1, -1)]
    return ComparisonResult(tests, tuple(tables), _sentences(metrics, scores, lengths), *better)


def _word_tables(
    systems: Systems, references: Sequence[Sentence], frequencies: Mapping[str, int] | None
) -> Iterator[Table]:
    """The tables of words and n-grams: by order, by frequency, and those that one system has more often."""
    cut = tokeniser(systems.tokenize, systems.lowercase)
    words_a, words_b = ([[cut(line) for line in run] for run in runs] for runs in (systems.a, systems.b))
    yield by_order(words_a, words_b, references)
    yield by_frequency(words_a, words_b, references, frequencies)
    yield from _ngrams(words_a, words_b, references)


def sentence_scores(metric: Measure, statistics: Float[np.ndarray, "R N k"]) -> Float[np.ndarray, " N"]:
    """The score of each single sentence, the mean over runs."""
    return np.asarray(metric.sentence(statistics).mean(0), np.float64)


def gain(metric: Measure, a: Float[np.ndarray, " N"], b: Float[np.ndarray, " N"]) -> Float[np.ndarray, " N"]:
    """How much better a is than b, in points of the metric."""
    return np.asarray(a - b if metric.higher_is_better else b - a, np.float64)


def names_of(metric: str) -> tuple[str, str]:
    """The names of the tables of a metric: the one of differences, the one of lengths."""
    return f"differences-{metric.lower()}", f"lengths-{metric.lower()}"


def differences(metric: str, gains: Float[np.ndarray, " N"]) -> Table:
    """Counts of sentences by difference; a bucket includes its upper end."""
    names = [f"by up to {STEPS[0]}", *(f"by {lo} to {hi}" for lo, hi in pairwise(STEPS))]
    names.append(f"by more than {STEPS[-1]}")
    counts = [[0] * len(names), [0] * len(names)]
    for g in gains.tolist():
        if abs(g) > TIE:
            counts[g < 0][sum(abs(g) - TIE > step for step in STEPS)] += 1
    rows = [(f"A better {name}", count) for name, count in zip(names[::-1], counts[0][::-1], strict=True)]
    rows += [("equal", len(gains) - sum(map(sum, counts)))]
    rows += [(f"B better {name}", count) for name, count in zip(names, counts[1], strict=True)]
    shares = tuple((name, count, 100 * count / len(gains)) for name, count in rows)
    title = f"Sentences by difference of {metric}, in points"
    return Table(("difference", "sentences", "%"), shares, names_of(metric)[0], title)


def by_length(
    metric: Measure, a: Float[np.ndarray, "R N k"], b: Float[np.ndarray, "R N k"], lengths: Sequence[int]
) -> Table:
    """Corpus scores of the sentences in buckets by the length of the reference."""
    buckets = np.asarray([bisect_right(LENGTHS, n) for n in lengths])
    rows: list[tuple[Cell, ...]] = []
    for k in range(len(LENGTHS) + 1):
        there = buckets == k
        if there.any():
            x, y = (float(metric.score(s[:, there].sum((0, 1)))) for s in (a, b))
            rows.append((bucket_name(LENGTHS, k), int(there.sum()), x, y, x - y))
    head = ("words", "sentences", "A", "B", "A - B")
    title = f"{metric.name} by words of the reference" + ("" if metric.higher_is_better else ", less is better")
    return Table(head, tuple(rows), names_of(metric.name)[1], title)


Runs = Sequence[Sequence[Sentence]]
_HEAD = ("A precision", "A recall", "A F1", "B precision", "B recall", "B F1", "A - B F1")


def by_order(a: Runs, b: Runs, references: Sequence[Sentence]) -> Table:
    """Precision and recall of n-grams of each order."""
    rows = []
    for n in range(1, ORDERS + 1):
        both = [overlaps(_pairs(runs, references), n, len).get(n, Overlap()) for runs in (a, b)]
        rows.append((str(n), *_figures(*both)))
    return Table(("n", *_HEAD), tuple(rows), "orders", "N-grams of the references, by order")


def by_frequency(
    a: Runs, b: Runs, references: Sequence[Sentence], frequencies: Mapping[str, int] | None = None
) -> Table:
    """Precision and recall of words, by their frequency in the training text, or else in the references."""
    where = "the references" if frequencies is None else "the training text"
    known = count_words(references) if frequencies is None else frequencies

    def bucket(gram: Gram) -> int:
        return frequency_bucket(known.get(gram[0], 0))

    both = [overlaps(_pairs(runs, references), 1, bucket) for runs in (a, b)]
    total = overlaps(_pairs([references], references), 1, bucket)
    rows = []
    for k in range(len(FREQUENCIES) + 1):
        if any(k in one for one in both) or k in total:
            figures = _figures(*(one.get(k, Overlap()) for one in both))
            rows.append((bucket_name(FREQUENCIES, k), total.get(k, Overlap()).reference, *figures))
    return Table(("seen", "words", *_HEAD), tuple(rows), "frequencies", f"Words, by their frequency in {where}")


def _pairs(runs: Runs, references: Sequence[Sentence]) -> Iterator[tuple[Sentence, Sentence]]:
    for run in runs:
        yield from zip(run, references, strict=True)


def _figures(a: Overlap, b: Overlap) -> tuple[Cell, ...]:
    more = None if a.f1 is None or b.f1 is None else a.f1 - b.f1
    return (a.precision, a.recall, a.f1, b.precision, b.recall, b.f1, more)


def _ngrams(a: Runs, b: Runs, references: Sequence[Sentence]) -> Iterator[Table]:
    """The n-grams of the references that one system has and the other lacks most."""
    both = salient(matches(a, references, ORDERS), matches(b, references, ORDERS), MOST)
    for name, grams in zip("AB", both, strict=True):
        rows = tuple((" ".join(s.gram), _whole(s.a), _whole(s.b)) for s in grams)
        title = f"N-grams of the references that {name} has more often"
        yield Table(("n-gram", "A", "B"), rows, f"ngrams-{name.lower()}", title)


def _whole(number: float) -> Cell:
    return int(number) if number == int(number) else number


def _sentences(
    metrics: Sequence[Measure], scores: Sequence[tuple[np.ndarray, np.ndarray]], lengths: Sequence[int]
) -> Table:
    head = ["line", "words"]
    for m in metrics:
        head += [f"A {m.name}", f"B {m.name}", f"A - B {m.name}"]
    rows = []
    for k, n in enumerate(lengths):
        row: list[Cell] = [k + 1, n]
        for a, b in scores:
            row += [float(a[k]), float(b[k]), float(a[k] - b[k])]
        rows.append(tuple(row))
    return Table(tuple(head), tuple(rows), "sentences", "Scores of every sentence", left=0)


def _examples(systems: Systems, gains: Float[np.ndarray, " N"], sign: int, most: int) -> tuple[ComparedSentence, ...]:
    order = sorted((k for k in range(len(gains)) if sign * gains[k] > TIE), key=lambda k: (-sign * gains[k], k))
    sources = systems.sources
    return tuple(
        ComparedSentence(
            k + 1,
            float(gains[k]),
            None if sources is None else sources[k],
            systems.references[k],
            systems.a[0][k],
            systems.b[0][k],
        )
        for k in order[:most]
    )
