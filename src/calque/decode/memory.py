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
    """The memory of two files, sources and their translations line by line; lines without words are left out.

    Raises D101, D103, D105 (unreadable), D102 (unequal numbers of lines) and D106 (no pair).
    """
    memory = Memory(*paired(source, target, list(Lines(source)), list(Lines(target))))
    if not len(memory):
        raise error("D106", Place(str(source)))
    return memory


class Memory:
    """Pairs of sentences, each once, and an index of the words of their sources.

    Two sources are as alike as the cosine of their vectors, which have log(N / n_w) for each of their words w, in small letters,
    that n_w of N sources have. So rare words count most.
    """

    def __init__(self, sources: Sequence[str], targets: Sequence[str]):
        self.pairs = list(
            dict.fromkeys(pair for pair in zip(sources, targets, strict=True) if all(map(str.strip, pair)))
        )
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
        self._weights = np.log(max(1, len(self.pairs)) / np.maximum(counts, 1))
        norms = np.bincount(row_of, self._weights[number] ** 2, minlength=len(self.pairs))
        self._norms = np.sqrt(np.maximum(norms, 1e-12))

    def __len__(self) -> int:
        return len(self.pairs)

    def like(self, line: str, most: int) -> tuple[int, ...]:
        """The pairs whose sources are most like a line, at most so many, the most alike first; none without a common word."""
        return tuple(islice(self._ranked(line), most))

    def like_another(self, number: int, most: int) -> tuple[int, ...]:
        """`like` the source of a pair, among the pairs with another source and another target."""
        own = self.pairs[number]
        others = (i for i in self._ranked(own[0]) if not any(map(str.__eq__, self.pairs[i], own)))
        return tuple(islice(others, most))

    def _ranked(self, line: str) -> Iterator[int]:
        numbers = [k for word in _words(line) if (k := self._numbers.get(word)) is not None and self._weights[k] > 0]
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


def _words(text: str) -> dict[str, None]:
    """The different words of a text, in their order."""
    return dict.fromkeys(word.lower() for word in words_of(text))
