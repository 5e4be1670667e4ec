"""Tests of what papers say of figures: differences between rows on some of the sentences, and between learning curves."""

import itertools
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np
from jaxtyping import Float

from calque.analyse.lengths import buckets
from calque.evaluate.significance import FAILS, HOLDS, UNDECIDED, Runs
from calque.evaluate.statistics import CorpusScores, Measure, Sums, measure
from calque.ledger.entry import Entry
from calque.papers.claims import ContrastResult, Resampling
from calque.papers.evidence import SentenceNumbers
from calque.papers.paper import Column
from calque.papers.ranges import ALIKE_POINTS, ALIKE_RATIO
from calque.papers.remembered import Remembered

Part = Sequence[int]
"""The numbers of some sentences."""
REFERENCE_WORDS = 1
"""The column of BLEU's statistics."""


@dataclass(frozen=True)
class SentenceOrder:
    """What sentences are ordered by, a number of each."""

    title: str
    keys: Float[np.ndarray, " N"]

    def parts(self, count: int) -> list[list[int]]:
        """Parts of one size, the lowest numbers first."""
        return buckets([round(1000 * key) for key in self.keys.tolist()], count)


def parts_of(by: str, cells: Sequence[SentenceNumbers]) -> SentenceOrder | None:
    """The order by words of the source or the reference, or by how far a side of the first cell looks; None where a cell does not
    have that.
    """
    one = cells[0]
    if by == "source":
        return SentenceOrder("words of the source", one.source_words)
    if by == "reference":
        return SentenceOrder("words of the reference", one.counts["bleu"][:, REFERENCE_WORDS])
    known = all(by in cell.away for cell in cells)
    return SentenceOrder(f"tokens of the {by} that look away", one.away[by]) if known else None


def alike(cells: Mapping[str, Sequence[SentenceNumbers]], by: str) -> dict[str, list[SentenceNumbers]]:
    """The sentences that all cells have, and of which it is known where a side looks, if they are ordered `by` that."""
    every = [one for some in cells.values() for one in some]
    count = min([len(one.source_words) for one in every] + [len(one.away[by]) for one in every if by in one.away])
    return {row: [one.first(count) for one in some] for row, some in cells.items()}


def decided(expect: str, low: float, high: float, margin: float) -> str:
    """Whether an interval is on the side that is expected: `above`, `below`, `about` or `not-below` zero, within the margin."""
    holds, fails = {
        "above": (low > 0, high < 0),
        "below": (high < 0, low > 0),
        "not-below": (low > -margin, high < -margin),
        "about": (-margin < low and high < margin, low > margin or high < -margin),
    }[expect]
    return HOLDS if holds else FAILS if fails else UNDECIDED


@dataclass(frozen=True)
class SentenceTests:
    """Differences between rows on parts of the test text, by bootstrap. `cells` has the numbers of each row's runs."""

    cells: Mapping[str, Sequence[SentenceNumbers]]
    trials: int
    remembered: Remembered

    def change(self, rows: Sequence[str], first: Part, last: Part, expect: str) -> ContrastResult:
        """BLEU of the first of `rows`, less that of the second where there is one, on the last part less the same on the first."""
        terms = [
            (way * sign, row, part)
            for way, part in ((1, last), (-1, first))
            for sign, row in zip((1, -1), rows, strict=False)
        ]
        what = " - ".join(rows)
        text = f"{what} on the last {len(last)} sentences less {'the same' if len(rows) > 1 else what} on the first {len(first)}"
        return self._points(text, terms, expect)

    def difference(self, measured: str, rows: Sequence[str], part: Part, expect: str) -> ContrastResult:
        """The first row against the second on a part: BLEU as a difference, words as a ratio."""
        a, b = rows
        words = self.cells[a][0].source_words[list(part)]
        where = f"{len(part)} sentences of {words.min():.0f} to {words.max():.0f} words"
        if measured == "bleu":
            return self._points(f"{a} - {b}, {where}", [(1, a, part), (-1, b, part)], expect)
        return self._ratio(f"words of {a} against {b}, {where}", a, b, part, expect)

    def share(self, side: str, expect: str, row: str) -> ContrastResult:
        """The mean share of a row's tokens that look away, in per cent, less 50; sentences and runs are drawn."""
        shares = 100 * np.stack([one.away[side] for one in self.cells[row]])
        runs, sentences = shares.shape

        def compute() -> tuple[float, float]:
            rng = np.random.default_rng(1)
            drawn = rng.multinomial(sentences, np.full(sentences, 1 / sentences), size=self.trials) / sentences
            weights = rng.multinomial(runs, np.full(runs, 1 / runs), size=self.trials) / runs
            low, high = np.quantile(((drawn @ shares.T) * weights).sum(1), [0.025, 0.975])
            return float(low), float(high)

        low, high = (x - 50 for x in self.remembered(("share", self.trials, shares), compute))
        text = f"tokens of the {side} of {row} that look two steps away or more, in %, less 50"
        return ContrastResult(text, float(shares.mean()) - 50, (low, high), None, None, decided(expect, low, high, 0))

    def _points(self, text: str, terms: Sequence[tuple[int, str, Part]], expect: str) -> ContrastResult:
        bleu = measure("bleu", tokenize="none")
        scored = [(row, bleu, self._runs(row, part)) for _, row, part in terms]

        def value(scores: Sequence[CorpusScores]) -> CorpusScores:
            return np.asarray(sum(sign * score for (sign, *_), score in zip(terms, scores, strict=True)))

        whole = float(value([bleu.score(runs.sum((0, 1))) for _, _, runs in scored]))
        low, high = self._resampling.interval(f"figure {[sign for sign, *_ in terms]}", scored, value)
        return ContrastResult(text, whole, (low, high), None, None, decided(expect, low, high, ALIKE_POINTS))

    def _ratio(self, text: str, a: str, b: str, part: Part, expect: str) -> ContrastResult:
        words = Measure("words", _no_text, _words, str)
        scored = [(row, words, self._runs(row, part)) for row in (a, b)]

        def value(scores: Sequence[CorpusScores]) -> CorpusScores:
            return np.asarray(np.log(scores[0]) - np.log(scores[1]))

        whole = float(value([words.score(runs.sum((0, 1))) for _, _, runs in scored]))
        low, high = self._resampling.interval("words", scored, value)
        found = decided(expect, low, high, math.log(ALIKE_RATIO))
        return ContrastResult(
            text, math.exp(whole), (math.exp(low), math.exp(high)), None, None, found, True, unit="times as many"
        )

    @property
    def _resampling(self) -> Resampling:
        return Resampling({}, Column("", "bleu"), self.trials, remembered=self.remembered)

    def _runs(self, row: str, part: Part) -> Runs:
        """The statistics of a row with nothing outside of a part, so that the same sentences are drawn for all parts."""
        runs = np.zeros((len(self.cells[row]), *self.cells[row][0].counts["bleu"].shape))
        runs[:, list(part)] = np.stack([one.counts["bleu"][list(part)] for one in self.cells[row]])
        return runs


def _words(sums: Sums) -> CorpusScores:
    """Words for each word of the reference."""
    ratio: CorpusScores = np.maximum(sums[..., 0], 1) / np.maximum(sums[..., REFERENCE_WORDS], 1)
    return ratio


def _no_text(hypotheses: Sequence[str], references: Sequence[str]) -> Float[np.ndarray, "N k"]:
    raise NotImplementedError("words are counted from the statistics of BLEU")


def cost(pair: Sequence[str], cells: Mapping[str, Sequence[Entry]], when: str, expect: str) -> ContrastResult | None:
    """ln of validation perplexity, of row b less that of row a, over the first or the second half of the epochs that both have.

    None where a pair of seeds has no common epochs with two validations.
    """
    a, b = pair
    differences = []
    for one, other in itertools.product(cells[a], cells[b]):
        ours, theirs = (np.array(entry.validations, np.float64).reshape(-1, 3) for entry in (one, other))
        if min(len(ours), len(theirs)) < 2:
            return None
        low, high = max(ours[0, 1], theirs[0, 1]), min(ours[-1, 1], theirs[-1, 1])
        middle = (low + high) / 2
        ends = (low, middle) if when == "first" else (middle, high)
        at = np.unique([epoch for epoch in (*ours[:, 1], *theirs[:, 1], *ends) if ends[0] <= epoch <= ends[1]])
        if high <= low:
            return None
        curves = [np.interp(at, curve[:, 1], np.log(curve[:, 2])) for curve in (ours, theirs)]
        differences.append(curves[1] - curves[0])
    every = np.concatenate(differences)
    low, high = float(every.min()), float(every.max())
    value = float(np.mean([one.mean() for one in differences]))
    text = f"ln perplexity of {b} less that of {a}, {when} half of the epochs"
    return ContrastResult(text, value, (low, high), None, None, decided(expect, low, high, math.log(ALIKE_RATIO)))
