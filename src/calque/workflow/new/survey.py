"""The survey of a corpus before training: its size, its lengths, and the faults that ruin a first training."""

from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from itertools import chain, islice
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from calque.align.mutual import Mutual
from calque.data.lines import Lines, check_corpus
from calque.data.scripts import unspaced
from calque.ground.diagnostics import Diagnostic, Place

SAMPLE = 10_000
"""Pairs, evenly spaced over the corpus, from which a vocabulary is learned and lengths are measured."""
FEW = 5_000
"""A corpus of fewer pairs is too small; the page of `FEW_PAIRS` explains the number."""
FEW_PAIRS = "D132"
COPIES = 0.05
"""From this share of pairs with equal sides on, they are reported (D130)."""
TABS = 0.5
"""From this share of lines with a tab on, a side counts as a table (D131)."""
UNRELATED = 0.3
"""With a lower rank correlation of the lengths of both sides, the lines do not belong together (D134)."""
LOOKED_AT = 2_000
"""Of the sample, pairs that are scored by `calque.align.mutual`."""
WRONG = 0.25
"""From this share of pairs on whose sides say nothing about each other, they are reported (D138)."""
ENOUGH = 200
"""A correlation of lengths is meaningful from so many pairs on."""


@dataclass(frozen=True)
class Survey:
    """The figures and the faults of a corpus."""

    pairs: int
    blank: int
    """Pairs of which a side has no words: training leaves them out."""
    words: tuple[float, float]
    """Mean length of source and target in the other pairs of the sample, in `units`."""
    units: tuple[str, str]
    """Words, split at white space; characters of a side that has no spaces between words."""
    sample: tuple[list[str], list[str]]
    """Up to `SAMPLE` pairs, spread evenly over the corpus."""
    warnings: tuple[Diagnostic, ...]


def survey(source: Path, target: Path) -> Survey:
    """Checks the corpus with `check_corpus`, then looks for faults that make a training useless. Raises what `check_corpus` raises.

    Warnings: equal sides (D130), tables (D131), too few pairs (D132), lines that do not belong together: all (D134), some (D138).
    """
    checked = check_corpus(source, target)
    copies = blank = 0
    tabs = [0, 0]
    for pair in zip(Lines(source), Lines(target), strict=True):
        copies += pair[0] == pair[1] and any(c.isalpha() for c in pair[0])
        blank += not all(side.strip() for side in pair)
        for side in (0, 1):
            tabs[side] += "\t" in pair[side]
    sample = sample_of((source, target), checked.pairs)
    warnings = [*checked.warnings, *_tables((source, target), tabs, checked.pairs)]
    if copies >= COPIES * checked.pairs:
        warnings.append(
            _warning("D130", target, share=f"{copies / checked.pairs:.0%}", n=f"{copies:,}", source=str(source))
        )
    elif len(sample[0]) >= ENOUGH and (related := correlation(*sample)) < UNRELATED:
        warnings.append(_warning("D134", target, found=f"{related:.2f}", least=UNRELATED, source=str(source)))
    elif len(some := list(zip(*sample, strict=True))[:: -(-len(sample[0]) // LOOKED_AT)]) >= ENOUGH:
        scores = Mutual(some).scores(some)
        wrong = float(((scores < 0) & np.isfinite(scores)).mean())
        if wrong >= WRONG:
            fields = {"share": f"{wrong:.0%}", "n": f"{len(some):,}", "source": source, "target": target}
            warnings.append(_warning("D138", target, **fields))
    if (left := checked.pairs - blank) < FEW:
        warnings.append(_warning(FEW_PAIRS, source, n=f"{left:,}", least=f"{FEW:,}"))
    return Survey(checked.pairs, blank, *_mean_lengths(sample), sample, tuple(warnings))


def _mean_lengths(sample: tuple[list[str], list[str]]) -> tuple[tuple[float, float], tuple[str, str]]:
    full = [pair for pair in zip(*sample, strict=True) if all(side.strip() for side in pair)]
    ways = [_split_of(side) for side in sample]
    source, target = (sum(len(ways[k](pair[k])) for pair in full) / max(1, len(full)) for k in (0, 1))
    one, other = ("words" if way is str.split else "characters" for way in ways)
    return (source, target), (one, other)


def _split_of(side: Sequence[str]) -> Callable[[str], list[str]]:
    """How lines become words, or characters in text that has no spaces between words."""
    return (lambda line: list("".join(line.split()))) if unspaced(side) else str.split


def _words(side: Sequence[str]) -> Iterator[str]:
    return chain.from_iterable(map(_split_of(side), side))


def sample_of(files: Sequence[Path], pairs: int) -> tuple[list[str], list[str]]:
    """Up to `SAMPLE` pairs, spread evenly over a corpus of `pairs`."""
    count = min(pairs, SAMPLE)
    chosen = {number * pairs // count for number in range(count)}
    source, target = ([line for number, line in enumerate(Lines(file)) if number in chosen] for file in files)
    return source, target


def _tables(files: Sequence[Path], tabs: Sequence[int], lines: int) -> Iterator[Diagnostic]:
    for file, n in dict(zip(files, tabs, strict=True)).items():
        if n >= TABS * lines:
            yield _warning("D131", file, n=f"{n:,}", lines=f"{lines:,}", file=str(file))


def crossed(train: tuple[Sequence[str], Sequence[str]], files: Sequence[Path]) -> Diagnostic | None:
    """The warning D133 where the sides of the validation text are exchanged, judged by the words of the training text."""
    known = [set(_words(side)) for side in train]
    tried = [Counter(_words(list(islice(Lines(file), 2000)))) for file in files]

    def share(side: int, of: int) -> float:
        return sum(n for word, n in tried[side].items() if word in known[of]) / max(1, tried[side].total())

    if share(0, 1) > share(0, 0) and share(1, 0) > share(1, 1):
        return _warning("D133", files[0], target=str(files[1]))
    return None


def correlation(source: Sequence[str], target: Sequence[str]) -> float:
    """Spearman's rank correlation of the lengths of pairs in characters; 1 where a side has one length only."""
    one, other = (_ranks(np.array([len(line) for line in side])) for side in (source, target))
    if min(one.std(), other.std()) == 0:
        return 1.0
    return float(np.corrcoef(one, other)[0, 1])


def _ranks(values: NDArray[np.int64]) -> NDArray[np.float64]:
    """Ranks; equal values have the mean of their ranks."""
    _, place, counts = np.unique(values, return_inverse=True, return_counts=True)
    ranks: NDArray[np.float64] = np.cumsum(counts) - (counts - 1) / 2
    return ranks[place]


def _warning(code: str, where: Path, /, **fields: object) -> Diagnostic:
    return Diagnostic(code, Place(str(where)), fields, severity="warning")
