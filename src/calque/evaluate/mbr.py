"""Minimum Bayes risk decoding: of several candidates for a translation, the one that is most like all of them."""

from collections.abc import Callable, Iterable, Iterator, Sequence
from itertools import islice
from pathlib import Path
from typing import NamedTuple

import numpy as np

from calque.data.lines import Lines
from calque.evaluate.statistics import Measure
from calque.ground.diagnostics import Place, error

_LEAST = -1e30
"""In place of -inf, the score where a search found nothing."""


class Candidates(NamedTuple):
    """The candidates for one sentence, and how much each counts."""

    texts: Sequence[str]
    weights: Sequence[float] | None = None
    """None: all the same"""


def relative(scores: Sequence[float], scale: float) -> list[float]:
    """e^(scale score), their sum 1; a score of -inf is that of no candidate."""
    x = scale * np.maximum(np.array(scores), _LEAST)
    powers = np.exp(x - x.max())
    return list(powers / powers.sum())


class Choice(NamedTuple):
    """The candidate that is chosen, and its expected score."""

    text: str
    score: float


def most_alike(candidates: Candidates, measure: Measure) -> Choice:
    """The candidate h with the best sum over all candidates r of w_r u(h, r), the w of all being 1; of equal ones the first.

    u is the score of a single sentence with r as its reference. The w stand for the model's distribution: equal ones for samples,
    which are drawn from it (Eikema and Aziz 2020), and powers of probabilities for the best of a search (Kumar and Byrne 2004).
    What occurs several times counts as often. Empty candidates are left out where others are not: with `--n-best`,
    `calque translate` writes them in place of those that a search did not find.
    """
    given = candidates.weights or [1.0] * len(candidates.texts)
    some = any(candidates.texts)
    weight_of: dict[str, float] = {}
    for text, weight in zip(candidates.texts, given, strict=True):
        if text or not some:
            weight_of[text] = weight_of.get(text, 0.0) + weight
    texts, weights = list(weight_of), np.array(list(weight_of.values()))
    scores = measure.sentence(measure.among(texts)) @ weights / weights.sum()
    best = int(np.argmax(scores if measure.higher_is_better else -scores))
    return Choice(texts[best], float(scores[best]))


def read_candidates(
    files: Sequence[Path],
    n_best: int,
    scale: float | None = None,
    read: Callable[[Path], Iterable[str]] = Lines,
) -> Iterator[Candidates]:
    """The candidates of each sentence: `n_best` lines of each file, as they come.

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
        return Candidates([line for part in parts for line in part])
    texts, weights = [], []
    for file, part in zip(files, parts, strict=True):
        scored = [_scored(line, Place(str(file), number)) for number, line in enumerate(part, before + 1)]
        texts += [text for text, _ in scored]
        weights += relative([score for _, score in scored], scale)
    return Candidates(texts, weights)


def _scored(line: str, place: Place) -> tuple[str, float]:
    score, tab, text = line.partition("\t")
    try:
        number = float(score) if tab else np.nan
    except ValueError:
        number = np.nan
    if not number < np.inf:
        raise error("D526", place)
    return text, number
