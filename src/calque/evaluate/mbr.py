"""Minimum Bayes risk decoding: of several candidates for a translation, the one that is most like all of them."""

from collections.abc import Callable, Iterable, Iterator, Sequence
from itertools import islice
from pathlib import Path
from typing import NamedTuple

import numpy as np

from calque.data.lines import Lines
from calque.evaluate.statistics import Measure
from calque.ground.diagnostics import Place, error


class Candidates(NamedTuple):
    """The candidates for one sentence, and how much each counts."""

    texts: Sequence[str]
    weights: Sequence[float] | None = None
    """None: all the same"""


def relative(scores: Sequence[float], scale: float) -> list[float]:
    """e^(scale score), their sum 1. A score of -inf is that of no candidate; where there is no other, all count the same."""
    each = np.array(scores, dtype=np.float64)
    found = each > -np.inf
    if not found.any():
        return [1 / len(scores)] * len(scores)
    with np.errstate(over="ignore"):
        behind = np.maximum(each - each.max(), -1e300)  # no infinite number, for a scale of 0
    powers = np.where(found, np.exp(scale * behind), 0)
    return list(powers / powers.sum())


class Choice(NamedTuple):
    """The candidate that is chosen, and its expected score."""

    text: str
    score: float


def most_alike(candidates: Candidates, measure: Measure) -> Choice:
    """The candidate h with the best sum over all candidates r of w_r u(h, r), the w of all being 1; of equal ones the first.

    u is the score of a single sentence with r as its reference, see `Measure.sentence`; that of two empty texts is the best one.
    The w stand for the model's distribution: equal ones for samples, which are drawn from it (Eikema and Aziz 2020), and powers of
    probabilities for the best of a search (Kumar and Byrne 2004). What occurs several times counts as often.
    """
    given = [1.0] * len(candidates.texts) if candidates.weights is None else candidates.weights
    weight_of: dict[str, float] = {}
    for text, weight in zip(candidates.texts, given, strict=True):
        weight_of[text] = weight_of.get(text, 0.0) + weight
    texts, weights = list(weight_of), np.array(list(weight_of.values()))
    if not weights.sum() > 0:
        raise ValueError("expected candidates with weights above 0")
    score = measure.sentence(measure.among(texts))
    blank = [not text.strip() for text in texts]
    score[np.ix_(blank, blank)] = 100.0 if measure.higher_is_better else 0.0
    expected = score @ weights / weights.sum()
    best = int(np.argmax(expected if measure.higher_is_better else -expected))
    return Choice(texts[best], float(expected[best]))


def read_candidates(
    files: Sequence[Path],
    n_best: int,
    scale: float | None = None,
    read: Callable[[Path], Iterable[str]] = Lines,
) -> Iterator[Candidates]:
    """The candidates of each sentence: `n_best` lines of each file, as they come.

    What a search did not find is left out: empty lines behind others of a sentence in one file, with scores those of -inf.
    `scale`: lines are a score, a tab and a text. Those of one file then count e^(scale score), and all files the same.

    Raises D524 where a file ends within the candidates of a sentence, D525 where another one has more sentences, D526 for a line
    without a score, and what `read` does.
    """
    texts = [iter(read(file)) for file in files]
    sentences = 0
    while True:
        parts = [list(islice(text, n_best)) for text in texts]
        for file, part in zip(files, parts, strict=True):
            if 0 < len(part) < n_best:
                raise error("D524", Place(str(file), sentences * n_best + len(part)), n=n_best, found=len(part))
        if not all(parts):
            break
        yield _together(files, parts, sentences * n_best, scale)
        sentences += 1
    for file, part in zip(files, parts, strict=True):
        if part:
            ended = files[parts.index([])]
            raise error("D525", Place(str(file), sentences * n_best + 1), ended=str(ended), sentences=sentences)


def _together(files: Sequence[Path], parts: Sequence[Sequence[str]], before: int, scale: float | None) -> Candidates:
    """The candidates that the files have of a sentence, behind so many lines of each."""
    if scale is None:
        return Candidates([line for part in parts for line in _found(part)])
    texts, weights = [], []
    for file, part in zip(files, parts, strict=True):
        each = [_scored(line, Place(str(file), number)) for number, line in enumerate(part, before + 1)]
        texts += [text for text, _ in each]
        weights += relative([score for _, score in each], scale)
    return Candidates(texts, weights)


def _found(lines: Sequence[str]) -> Sequence[str]:
    """Without the empty ones at the end, where others are not."""
    last = max((k for k, line in enumerate(lines) if line), default=len(lines) - 1)
    return lines[: last + 1]


def _scored(line: str, place: Place) -> tuple[str, float]:
    if not scored(line):
        raise error("D526", place)
    score, _, text = line.partition("\t")
    return text, float(score)


def scored(line: str) -> bool:
    """Whether a line is a score, a tab and a text."""
    score, tab, _ = line.partition("\t")
    try:
        return bool(tab) and float(score) < np.inf
    except ValueError:
        return False
