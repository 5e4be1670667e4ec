"""IBM model 1, then model 2 with the log-linear prior of Dyer, Chahuneau and Smith 2013 (section 2).

Of a source sentence f_1..f_n and a target sentence e_1..e_m, every target word has one source word or none:

    p(e, a | f) = prod_i  delta(a_i | i, m, n) theta(e_i | f_{a_i}),   f_0 the null word
    delta(0 | i, m, n) = p0
    delta(j | i, m, n) = (1 - p0) exp(-lambda |i/m - j/n|) / Z_lambda(i, m, n),   j = 1..n

In model 1 lambda is 0: all source words are equally likely. EM runs over all cells (i, j) of all pairs at once. Given lambda, the
posteriors of a pair have closed formulas; the expected counts give theta, and lambda is the tension at which they are most likely
(the likelihood is concave in it). The paper takes a few steps of gradient ascent for lambda; here it is solved. The paper sums Z in
constant time by a series; here the cells of each pair of lengths (m, n) are computed once for all pairs with these lengths.
"""

import itertools
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import torch
from jaxtyping import Float, Int
from numpy.typing import NDArray

from calque.align.links import Links

Floats = NDArray[np.float64]
Whole = NDArray[np.int64]

BLOCK = 4_000_000
"""The posteriors of so many cells are in memory together."""


@dataclass(frozen=True)
class AlignerSettings:
    """The settings of training.

    model1, model2   iterations of each model
    null             p0, the probability of the null word
    tension          the initial lambda
    alpha            parameter of the Dirichlet prior over each theta(. | f), on the words that occur with f; the posterior mean is
                     that of the logarithm (variational Bayes, section 2.2 of the paper); 0: maximum likelihood
    """

    model1: int = 5
    model2: int = 5
    null: float = 0.08
    tension: float = 4.0
    alpha: float = 0.01


@dataclass(frozen=True)
class AlignedDirection:
    """A trained direction: for each pair, the most probable source word of each target word, -1 for none."""

    sources: list[list[int]]
    tension: float
    logp: tuple[float, ...]
    """log p(e | f) of the corpus before each iteration, natural, without lengths; with a prior only near the bound"""

    def links(self, turned: bool = False) -> list[Links]:
        """Links (source, target); `turned`: the model was trained from target to source."""
        pairs = [[(s, t) for t, s in enumerate(row) if s >= 0] for row in self.sources]
        return [frozenset((t, s) for s, t in row) if turned else frozenset(row) for row in pairs]


class _PairShapes:
    """The cells of all pairs of lengths (m, n) that occur. Row i of such a pair has the null cell, then j = 1..n."""

    def __init__(self, targets: Whole, sources: Whole):
        kinds, self.of_pair = np.unique(np.stack([targets, sources], 1), axis=0, return_inverse=True)
        self.of_pair = self.of_pair.ravel()
        m, n = kinds[:, 0], kinds[:, 1]
        self.first = np.concatenate([[0], np.cumsum(m * (n + 1))])
        rows = np.repeat(n + 1, m)  # cells of each row
        self.row = np.concatenate([[0], np.cumsum(rows)])[:-1]
        i = _counted(m) + 1
        j = _counted(rows)
        self.cells = rows
        self.null = j == 0
        offset = np.abs(np.repeat(i / np.repeat(m, m), rows) - j / np.repeat(np.repeat(n, m), rows))
        self.offset: Floats = np.where(self.null, 0.0, offset)

    def prior(self, tension: float, null: float) -> Floats:
        """delta of every cell."""
        within = self._within(tension)
        return np.where(self.null, null, (1 - null) * within)

    def fit(self, counts: Floats, tension: float) -> float:
        """The tension at which the expected counts of the cells are most likely, between 0 and LARGEST, by Newton's rule."""
        counts = np.where(self.null, 0.0, counts)
        mass = np.add.reduceat(counts, self.row)
        seen = float(counts @ self.offset)
        low, high = 0.0, LARGEST
        for _ in range(50):
            within = self._within(tension)
            mean = np.add.reduceat(within * self.offset, self.row)
            spread = np.add.reduceat(within * self.offset**2, self.row) - mean**2
            slope = float(mass @ mean) - seen  # of the log-likelihood
            low, high = (tension, high) if slope > 0 else (low, tension)
            curve = float(mass @ spread)
            step = tension + slope / curve if curve > 0 else np.inf
            # Newton's step; the middle of the interval where the step leaves it.
            step = step if low < step < high else (low + high) / 2
            if abs(step - tension) < 1e-9:
                break
            tension = step
        return tension

    def _within(self, tension: float) -> Floats:
        weights = np.where(self.null, 0.0, np.exp(-tension * self.offset))
        total: Floats = np.repeat(np.add.reduceat(weights, self.row), self.cells)
        return np.divide(weights, total, dtype=np.float64)


_LOW = (1 << 32) - 1
LARGEST = 100.0
"""The largest tension: with it, any two cells of a sentence of fewer than 100 words differ clearly."""


@dataclass(frozen=True)
class _Block:
    """The cells of some pairs of sentences: for each pair and target word, the null cell and one for each source word."""

    pair: Int[np.ndarray, " C"]
    """number of the pair of words of each cell"""
    place: Int[np.ndarray, " C"]
    """number of its cell among the shapes"""
    row: Int[np.ndarray, " R"]
    """first cell of each row"""
    cells: Int[np.ndarray, " R"]


def align(
    source: Sequence[Sequence[int]], target: Sequence[Sequence[int]], settings: AlignerSettings = AlignerSettings()
) -> AlignedDirection:
    """Trains on pairs of sentences, whose words are numbers from 0, and aligns them. Empty sentences have no links."""
    usable = np.array([k for k, (f, e) in enumerate(zip(source, target, strict=True)) if f and e], np.int64)
    sources: list[list[int]] = [[-1] * len(e) for e in target]
    if not len(usable):
        return AlignedDirection(sources, settings.tension, ())
    f = [np.asarray(source[k], np.int64) + 1 for k in usable]  # 0 is the null word
    e = [np.asarray(target[k], np.int64) for k in usable]
    n, m = np.array([len(x) for x in f]), np.array([len(x) for x in e])
    shapes = _PairShapes(m, n)
    words, blocks = _blocks(f, e, shapes, m * (n + 1))
    theta, tension, history = _train(words, blocks, shapes, settings)
    prior = shapes.prior(tension, settings.null)
    best = np.concatenate([_best(theta[b.pair] * prior[b.place], b) for b in blocks])
    for k, row in zip(usable, np.split(best, np.cumsum(m)[:-1]), strict=True):
        sources[k] = row.tolist()
    return AlignedDirection(sources, tension, tuple(history))


def _train(
    words: Whole, blocks: Sequence[_Block], shapes: _PairShapes, settings: AlignerSettings
) -> tuple[Floats, float, list[float]]:
    """EM: theta of every pair of words, lambda, and log p(e | f) before each iteration. Model 1 has lambda = 0."""
    theta = np.full(len(words), 1 / len(np.unique(words & _LOW)))
    tension, history = 0.0, []
    first_of_word = np.flatnonzero(np.diff(words >> 32, prepend=-1))
    size = np.diff(np.append(first_of_word, len(words)))
    for iteration in range(settings.model1 + settings.model2):
        if iteration == settings.model1:
            tension = settings.tension
        counts, cells, logp = _expect(theta, shapes.prior(tension, settings.null), blocks)
        history.append(logp)
        theta = _normalised(counts, first_of_word, size, settings.alpha)
        if iteration >= settings.model1:
            tension = shapes.fit(cells, tension)
    return theta, tension, history


@dataclass(frozen=True)
class WordCounts:
    """Pairs of words that occur together, as `cells_of` numbers them, ascending: theta, and how often they are linked."""

    pairs: Whole
    theta: Floats
    counts: Floats


def word_counts(source: Sequence[Whole], target: Sequence[Whole], settings: AlignerSettings) -> WordCounts:
    """What training learns of words; no sentence is empty. Counts are expected ones, with the theta that is returned."""
    f = [words + 1 for words in source]
    n, m = np.array([len(x) for x in f]), np.array([len(x) for x in target])
    shapes = _PairShapes(m, n)
    pairs, blocks = _blocks(f, target, shapes, m * (n + 1))
    theta, tension, _ = _train(pairs, blocks, shapes, settings)
    return WordCounts(pairs, theta, _expect(theta, shapes.prior(tension, settings.null), blocks)[0])


def _expect(theta: Floats, prior: Floats, blocks: Sequence[_Block]) -> tuple[Floats, Floats, float]:
    """The E step: expected counts of pairs of words and of cells, and log p(e | f)."""
    counts, cells, logp = np.zeros(len(theta)), np.zeros(len(prior)), 0.0
    for block in blocks:
        posterior = theta[block.pair] * prior[block.place]
        likelihood = np.add.reduceat(posterior, block.row)
        posterior /= np.repeat(likelihood, block.cells)
        logp += float(np.log(likelihood).sum())
        counts += np.bincount(block.pair, posterior, len(theta))
        cells += np.bincount(block.place, posterior, len(prior))
    return counts, cells, logp


def align_text(
    source: Sequence[Sequence[str]], target: Sequence[Sequence[str]], settings: AlignerSettings = AlignerSettings()
) -> tuple[list[Links], list[Links]]:
    """Links (source, target) of a model in each direction: one source word for each target word, and the other way round."""
    f, e = _numbers(source), _numbers(target)
    return align(f, e, settings).links(), align(e, f, settings).links(turned=True)


def _numbers(side: Sequence[Sequence[str]]) -> list[list[int]]:
    known: dict[str, int] = {}
    return [[known.setdefault(word, len(known)) for word in words] for words in side]


def _normalised(counts: Floats, first: Whole, size: Whole, alpha: float) -> Float[np.ndarray, " W"]:
    if not alpha:
        total = np.maximum(np.add.reduceat(counts, first), np.finfo(float).tiny)
        return np.asarray(counts / np.repeat(total, size), np.float64)
    counts = counts + alpha
    total = np.repeat(_digamma(np.add.reduceat(counts, first)), size)
    return np.asarray(np.exp(_digamma(counts) - total), np.float64)


def _digamma(x: Floats) -> Floats:
    return np.asarray(torch.digamma(torch.from_numpy(x)).numpy(), np.float64)


def _best(score: Floats, block: _Block) -> Whole:
    """The best column of each row, minus 1; of equals the first, so the null word before the others."""
    highest = np.repeat(np.maximum.reduceat(score, block.row), block.cells)
    at = np.flatnonzero(score == highest)
    rows = np.repeat(np.arange(len(block.row)), block.cells)[at]
    return np.asarray(at[np.searchsorted(rows, np.arange(len(block.row)))] - block.row - 1, np.int64)


def _blocks(f: Sequence[Whole], e: Sequence[Whole], shapes: _PairShapes, cells: Whole) -> tuple[Whole, list[_Block]]:
    """The pairs of words that occur together, each as one number, ascending; and the blocks of all cells."""
    where = np.concatenate([[0], np.cumsum(cells)])
    cuts = [0]
    while cuts[-1] < len(f):
        cuts.append(max(cuts[-1] + 1, int(np.searchsorted(where, where[cuts[-1]] + BLOCK, "right")) - 1))
    # Computes the keys twice, but never holds all cells.
    keys_of = [distinct(cells_of(f[a:b], e[a:b])[0]) for a, b in itertools.pairwise(cuts)]
    words = distinct(np.concatenate(keys_of))
    blocks = []
    for a, b in itertools.pairwise(cuts):
        keys, lengths = cells_of(f[a:b], e[a:b])
        start = shapes.first[shapes.of_pair[a:b]]
        place = np.repeat(start, cells[a:b]) + _counted(cells[a:b])
        row = np.concatenate([[0], np.cumsum(lengths)])[:-1]
        number = np.searchsorted(words, keys).astype(np.int32)
        blocks.append(_Block(number, place.astype(np.int32), row, lengths))
    return words, blocks


def cells_of(f: Sequence[Whole], e: Sequence[Whole]) -> tuple[Whole, Whole]:
    """The source word, times 2^32, and the target word of every cell as one number, and the number of cells of each row.

    A row is a target word; its first cell has the null word, 0.
    """
    keys = []
    for source, target in zip(f, e, strict=True):
        columns = np.concatenate([[0], source]) << 32
        keys.append((columns[None, :] | target[:, None]).ravel())
    return np.concatenate(keys), np.repeat([len(source) + 1 for source in f], [len(target) for target in e])


def distinct(numbers: Whole) -> Whole:
    """The different ones of some numbers, ascending: NumPy's own function takes thirty times as long for those that we have."""
    ordered = np.sort(numbers)
    return ordered[np.diff(ordered, prepend=ordered[:1] - 1) > 0]


def _counted(lengths: Whole) -> Whole:
    """0, 1, ..., length - 1 for each length, concatenated."""
    ends = np.cumsum(lengths)
    return np.asarray(np.arange(ends[-1]) - np.repeat(ends - lengths, lengths), np.int64)
