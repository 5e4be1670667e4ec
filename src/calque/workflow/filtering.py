"""Leaves out of a corpus the pairs that are no translations of each other, see `calque.align.mutual`."""

import itertools
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from calque.align.ibm import Floats
from calque.align.mutual import Mutual, Pair
from calque.data.lines import Lines, check_corpus, check_rereadable, raw_lines
from calque.ground.diagnostics import Place, error
from calque.ground.files import written_whole

LEARNED = 100_000
"""Pairs that are learned from, unless the caller says otherwise."""
CHANCE = 10_000, 300
"""Pairs put together at random: a tenth of those learned from, but at most the first of these, and at least the second."""
AT_ONCE = 2_000
"""Pairs that are read and scored together."""


class Filtered(NamedTuple):
    """What was kept: of so many `pairs`, those that have `words` on both sides and a score of at least `least`.

    Of pairs put together at random, the share `chance` has such a score; None where there are no such pairs.
    """

    pairs: int
    words: int
    kept: int
    least: float
    chance: float | None


def filter_corpus(
    corpus: Pair | tuple[Path, Path],
    out: tuple[Path, Path] | None = None,
    accept: float = 0.01,
    keep: float | None = None,
    scores: Path | None = None,
    learn: int = LEARNED,
    progress: Callable[[int], Callable[[int], None]] | None = None,
) -> Filtered:
    """Writes the pairs of a corpus that are kept, in their order and to the byte, and the scores of all, where they are wanted.

    accept    pairs are kept whose scores no more than about this share of pairs put together at random reaches
    keep      instead, this share of all pairs is kept, the best ones
    learn     pairs whose words are learned, evenly spread
    progress  is called with the number of pairs, and returns what is called with the number of those that are done

    Raises what `check_corpus` raises, D108, D139 where no pairs can be put together at random, and OSError where a file cannot be
    written.
    """
    source, target = map(Path, corpus)
    for path in (source, target):
        check_rereadable(path)
    pairs = check_corpus(source, target).pairs
    done = (lambda count: None) if progress is None else progress(pairs)
    learned = list(itertools.islice(_evenly(_pairs(source, target), pairs, learn), learn))
    wrong = _at_random(learned)
    mutual = Mutual([*learned, *wrong])  # so that they have what wrong pairs of the corpus have
    by_chance = mutual.scores(wrong)
    by_chance = by_chance[np.isfinite(by_chance)]
    if keep is None and not len(by_chance):
        raise error("D139", Place(str(source)), target=str(target))
    found = _scores(_pairs(source, target), pairs, mutual, done)
    least = _least(found, by_chance, accept, keep)
    kept = (found >= least) & np.isfinite(found)
    _write(found, kept, (source, target), out, scores)
    chance = float((by_chance >= least).mean()) if len(by_chance) else None
    return Filtered(pairs, int(np.isfinite(found).sum()), int(kept.sum()), least, chance)


def _pairs(source: Path, target: Path) -> Iterator[Pair]:
    return zip(Lines(source), Lines(target), strict=True)


def _scores(lines: Iterator[Pair], pairs: int, mutual: Mutual, done: Callable[[int], None]) -> Floats:
    found, at = np.empty(pairs), 0
    while some := list(itertools.islice(lines, AT_ONCE)):
        found[at : at + len(some)] = mutual.scores(some)
        at += len(some)
        done(len(some))
    return found


def _evenly(pairs: Iterator[Pair], count: int, wanted: int) -> Iterator[Pair]:
    """So many of the pairs, evenly spread."""
    for k, pair in enumerate(pairs):
        if k * wanted // count != (k + 1) * wanted // count or wanted >= count:
            yield pair


def _at_random(pairs: Sequence[Pair]) -> list[Pair]:
    """The source of one pair and the target of another, where these are not a pair themselves; the same at each call."""
    most, least = CHANCE
    count = min(most, max(least, len(pairs) // 10), len(pairs))
    draws = np.random.default_rng(1).integers(0, max(1, len(pairs)), (count, 2)).tolist()
    known = set(pairs)
    return [pair for i, j in draws if (pair := (pairs[i][0], pairs[j][1])) not in known]


def _least(found: Floats, by_chance: Floats, accept: float, keep: float | None) -> float:
    """The score that decides."""
    if keep is not None:
        last = int(np.ceil(keep * len(found)))
        return float(-np.partition(-found, last - 1)[last - 1]) if last else np.inf
    return float(np.quantile(by_chance, 1 - accept))


def _write(
    found: Floats,
    kept: NDArray[np.bool_],
    corpus: tuple[Path, Path],
    out: tuple[Path, Path] | None,
    scores: Path | None,
) -> None:
    paths = (*(out or ()), *([scores] if scores else []))
    with written_whole(*paths) as files:
        for path, file in zip(corpus if out else (), files, strict=False):
            for line, is_kept in zip(raw_lines(path), kept.tolist(), strict=True):
                if is_kept:
                    file.write(line if line.endswith(b"\n") else line + b"\n")
        if scores:
            files[-1].writelines(f"{score:.4f}\n".encode() for score in found.tolist())
