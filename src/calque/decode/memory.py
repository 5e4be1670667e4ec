"""A translation memory: pairs of sentences, and which of them are like a line."""

from array import array
from collections.abc import Iterator, Sequence
from itertools import islice
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from calque.data.lines import Lines, paired
from calque.decode.terms import words_of
from calque.ground.diagnostics import Place, error


def read_memory(source: Path, target: Path) -> "Memory":
    """The memory of two files, sources and their translations line by line.

    Raises D101, D103, D105 (unreadable), D102 (unequal numbers of lines), D106 (no line) and D612 (no pair).
    """
    memory = Memory(*paired(source, target, list(Lines(source)), list(Lines(target))))
    if not len(memory):
        raise error("D612", Place(str(source)), target=str(target), longest=LONGEST)
    return memory


LONGEST = 2000
"""Characters of a side: pairs with more are left out, whose outputs would take long to compute."""


class Memory:
    """Pairs of sentences, each once, and an index of the words of their sources. Pairs with a blank or overlong side are left out.

    Two sources are as alike as the cosine of their vectors, which have log((N + 1) / n_w) for each of their words w, in small
    letters, that n_w of N sources have. So rare words count most.
    """

    def __init__(self, sources: Sequence[str], targets: Sequence[str]):
        self.pairs = list(dict.fromkeys(pair for pair in zip(sources, targets, strict=True) if all(map(_fits, pair))))
        self._numbers: dict[str, int] = {}
        rows, words = array("q"), array("q")
        for row, (source, _) in enumerate(self.pairs):
            for word in _words(source):
                rows.append(row)
                words.append(self._numbers.setdefault(word, len(self._numbers)))
        number, row_of = np.frombuffer(words, np.int64), np.frombuffer(rows, np.int64)
        order = np.argsort(number, kind="stable")
        self._rows = row_of[order]
        counts = np.bincount(number, minlength=len(self._numbers))
        self._begins = np.concatenate([[0], np.cumsum(counts)])
        self._weights = np.log((len(self.pairs) + 1) / np.maximum(counts, 1))
        norms = np.bincount(row_of, self._weights[number] ** 2, minlength=len(self.pairs))
        self._norms = np.sqrt(np.maximum(norms, 1e-12))

    def __len__(self) -> int:
        return len(self.pairs)

    def like(self, line: str, most: int, least: float = 0.0) -> tuple[int, ...]:
        """The pairs whose sources are most like a line, at most so many, the most alike first; none without a common word, and none
        at all where the first of them is less like it than `least`.
        """
        found = tuple(islice(self._ranked(line), most))
        return found if found and (not least or self.likeness(line, found[0]) >= least) else ()

    def like_another(self, number: int, most: int) -> tuple[int, ...]:
        """`like` the source of a pair, among the pairs whose sources and targets have other letters."""
        own = [_letters(side) for side in self.pairs[number]]
        others = (i for i in self._ranked(self.pairs[number][0]) if not self._shares_a_side(i, own))
        return tuple(islice(others, most))

    def _shares_a_side(self, number: int, sides: Sequence[str]) -> bool:
        return any(_letters(one) == other for one, other in zip(self.pairs[number], sides, strict=True))

    def likeness(self, line: str, number: int) -> float:
        """How alike a line and the source of a pair are, from 0 to 1. A word that no source has counts as if one had it."""
        rarest = np.log(len(self.pairs) + 1)
        known, words = _words(self.pairs[number][0]), _words(line)
        squares = {word: float(self._weights[k]) ** 2 for word in words if (k := self._numbers.get(word)) is not None}
        norm = np.sqrt(sum(squares.get(word, rarest**2) for word in words)) * self._norms[number]
        return float(sum(square for word, square in squares.items() if word in known) / norm) if norm else 0.0

    def _ranked(self, line: str) -> Iterator[int]:
        numbers = [k for word in _words(line) if (k := self._numbers.get(word)) is not None]
        scores = np.zeros(len(self.pairs))
        for k in numbers:
            scores[self._rows[self._begins[k] : self._begins[k + 1]]] += self._weights[k] ** 2
        scores /= self._norms  # the norm of the line is the same for all
        found = np.flatnonzero(scores)
        yield from _falling(found, scores[found])


def _falling(numbers: NDArray[np.int64], scores: NDArray[np.float64]) -> Iterator[int]:
    """The numbers by falling scores, those of equal scores in their order."""
    size = 64
    while len(numbers):
        least = np.partition(scores, len(scores) - size)[-size] if size < len(scores) else -np.inf
        best = scores >= least
        yield from numbers[best][np.argsort(-scores[best], kind="stable")].tolist()
        numbers, scores, size = numbers[~best], scores[~best], 4 * size


def _fits(side: str) -> bool:
    return bool(side.strip()) and len(side) <= LONGEST


def _letters(text: str) -> str:
    """A text without letter case, white space and punctuation."""
    return "".join(filter(str.isalnum, text.lower()))


def _words(text: str) -> dict[str, None]:
    """The different words of a text, in their order."""
    return dict.fromkeys(word.lower() for word in words_of(text))
