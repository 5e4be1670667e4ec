"""How much the two sides of a pair say about each other, by what all other pairs say of their words.

Of a source f_1..f_n and a target e_1..e_m, in nats per target word:

    gain(e | f)  = 1/m sum_i log(p(e_i | f) / u(e_i))
    p(e_i | f)   = p0 u(e_i) + (1 - p0)/n sum_j theta(e_i | f_j)
    theta(e | f) = (c(f, e) + A u(e) + B [e = f]) / (c(f) + A + B [f is a word of both sides])

u(e) is the share of a word among all target words, p0 the probability that a word comes from no source word, and c are the expected
counts of IBM model 1 over the other pairs: those of the pair itself are left out, since a word that is nowhere else would explain
itself. B is for names and numbers, which are the same in both languages. The score of a pair is the lesser of gain(e | f) and
gain(f | e): a translation says as much as its source, and no more.

Pairs that are equal count once. Words are cut to their first letters, so that few pairs show each often enough.
"""

import functools
import re
import unicodedata
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from calque.align.ibm import AlignerSettings, Floats, Whole, cells_of, distinct, word_counts

Pair = tuple[str, str]
NULL = 0.1
"""p0."""
ANY, SAME = 2.0, 1.0
"""A and B: how many occurrences of a word the shares of all words, and a word that is the same, count for."""
LETTERS = 5
"""Of a word, the first ones."""
LONGEST = 200
"""Words of a side that are read, at most."""
CELLS = 1_000_000
"""Pairs of words that are in memory together, about."""
OPTIONAL = 10
"""From this combining class on, marks that NFC leaves apart may be missing, as vowels of Arabic and Hebrew; others are letters."""


@functools.cache
def _word() -> re.Pattern[str]:
    marks = "".join(re.escape(c) for c in map(chr, range(0x300, 0xFFFF)) if unicodedata.category(c).startswith("M"))
    # Scripts without spaces, letter by letter: those of South-East Asia, Japanese and Chinese.
    unspaced = r"[\u0e00-\u0eff\u1000-\u109f\u1780-\u17ff\u3040-\u30ff\u3400-\u9fff\uf900-\ufaff]"
    return re.compile(rf"{unspaced}|[^\W\d_](?:[^\W\d_]|[{marks}])*|\d+|[^\w\s]")


def words_of(line: str) -> list[str]:
    """The words of a line, in small letters, without their ends."""
    text = line.lower()
    if not text.isascii():
        text = "".join(c for c in unicodedata.normalize("NFC", text) if unicodedata.combining(c) < OPTIONAL)
    found = (match[0][:LETTERS] for match in _word().finditer(text))
    return [word for word, _ in zip(found, range(LONGEST), strict=False)]


@dataclass(frozen=True)
class _Direction:
    """What is known of target words where source words are: pairs of words as `cells_of` numbers them, ascending."""

    pairs: Whole
    theta: Floats
    counts: Floats
    of_source: Floats
    """the sum of the counts of each source word, the null word first"""
    share: Floats
    """u of each target word, the last of one that was never seen"""
    both: Whole
    """the source words that are target words, too"""


class Mutual:
    """The words of some pairs, by which others, and these themselves, are scored."""

    def __init__(self, pairs: Sequence[Pair]):
        self._known: dict[str, int] = {}
        self._learned = set(map(_identity, pairs))
        numbers = [self._numbered(pair, self._known) for pair in {_identity(pair): pair for pair in pairs}.values()]
        usable = [both for both in numbers if min(map(len, both))]
        sides = [side for both in usable for side in both]
        self._ways = [self._direction(sides[k::2], sides[1 - k :: 2]) for k in (0, 1)] if usable else []

    def scores(self, pairs: Sequence[Pair]) -> Floats:
        """The score of each pair; -inf where a side has no word."""
        found = np.full(len(pairs), -np.inf)
        words = dict(self._known)
        numbers = [self._numbered(pair, words) for pair in pairs]
        own = np.array([_identity(pair) in self._learned for pair in pairs], np.bool_)
        usable = [k for k, both in enumerate(numbers) if min(map(len, both))]
        for some in _together(usable, [len(a) * len(b) for a, b in numbers]) if self._ways else ():
            at = np.array(some)
            gains = [
                _gains(way, [numbers[i][k] for i in some], [numbers[i][1 - k] for i in some], own[at])
                for k, way in enumerate(self._ways)
            ]
            found[at] = np.minimum(*gains)
        return found

    def _numbered(self, pair: Pair, known: dict[str, int]) -> tuple[Whole, Whole]:
        """The words of both sides as numbers, the same for words that are the same."""
        first, second = (np.array([known.setdefault(w, len(known)) for w in words_of(side)], np.int64) for side in pair)
        return first, second

    def _direction(self, source: Sequence[Whole], target: Sequence[Whole]) -> _Direction:
        learned = word_counts(source, target, AlignerSettings(model1=5, model2=0, null=NULL, alpha=0))
        size = len(self._known)
        of_source = np.asarray(np.bincount(learned.pairs >> 32, learned.counts, size + 1), np.float64)
        seen = np.bincount(np.concatenate(target), minlength=size + 1) + 0.5
        both = np.intersect1d(np.unique(np.concatenate(source)), np.unique(np.concatenate(target)))
        return _Direction(learned.pairs, learned.theta, learned.counts, of_source, seen / seen.sum(), both + 1)


def _identity(pair: Pair) -> Pair:
    return pair[0].strip(), pair[1].strip()


def _together(usable: Sequence[int], cells: Sequence[int]) -> Iterator[list[int]]:
    """Pairs in their order, as many together as have cells that fit into memory."""
    some: list[int] = []
    held = 0
    for k in usable:
        if some and held + cells[k] > CELLS:
            yield some
            some, held = [], 0
        some.append(k)
        held += cells[k]
    if some:
        yield some


def _gains(way: _Direction, source: Sequence[Whole], target: Sequence[Whole], own: NDArray[np.bool_]) -> Floats:
    """gain(e | f) of some pairs; `own`: whether a pair is among those learned from."""
    pairs, lengths = cells_of([f + 1 for f in source], target)
    m = np.array([len(e) for e in target])
    row = np.concatenate([[0], np.cumsum(lengths)])[:-1]
    of_row = np.repeat(np.arange(len(m)), m)
    of_cell = np.repeat(of_row, lengths)
    prior = np.repeat((1 - NULL) / (lengths - 1), lengths)
    prior[row] = NULL
    f, e = pairs >> 32, pairs & ((1 << 32) - 1)
    place = np.minimum(np.searchsorted(way.pairs, pairs), len(way.pairs) - 1)
    known = way.pairs[place] == pairs
    counts = np.where(known, way.counts[place], 0.0)
    of_source = np.where(f < len(way.of_source), way.of_source[np.minimum(f, len(way.of_source) - 1)], 0.0)
    if own.any():
        posterior = np.where(known, way.theta[place], 0.0) * prior
        total = np.repeat(np.add.reduceat(posterior, row), lengths)
        mine = np.divide(posterior, total, out=np.zeros_like(total), where=total > 0) * own[of_cell]
        counts = np.maximum(counts - _sums(of_cell, place, mine, len(way.pairs)), 0.0)
        of_source = np.maximum(of_source - _sums(of_cell, f, mine, int(f.max()) + 1), 0.0)
    share = way.share[np.minimum(e, len(way.share) - 1)]
    same = SAME * (f == e + 1)
    theta = (counts + ANY * share + same) / (of_source + ANY + SAME * np.isin(f, way.both))
    theta[row] = share[row]
    gain = np.log(np.add.reduceat(theta * prior, row)) - np.log(share[row])
    return np.asarray(np.bincount(of_row, gain, len(m)) / m, np.float64)


def _sums(group: Whole, number: Whole, value: Floats, numbers: int) -> Floats:
    """Of each value the sum of those with the same number, below `numbers`, in the same group."""
    keys = group * numbers + number
    at = np.searchsorted(distinct(keys), keys)
    return np.asarray(np.bincount(at, value)[at], np.float64)
