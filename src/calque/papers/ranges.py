"""Evidence for claims from single figures: speeds, one for each repeat; perplexities and rates, one for each seed."""

import math
import statistics
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from calque.evaluate.significance import FAILS, HOLDS, UNDECIDED, median_interval
from calque.papers.claims import LEAST, ContrastResult
from calque.papers.paper import Claim, Column, Contrast, PrintedTable

ALIKE_POINTS, ALIKE_RATIO = 0.5, 1.05
"""Within these, single figures count as alike."""
Term = tuple[int, str, Column]
"""Factor, row and column of a figure in a sum."""


@dataclass(frozen=True)
class Ranges:
    """Evidence from single figures: speeds, one for each repeat; perplexities and rates, one for each seed.

    A few values make no test. So the whole range decides: a claim holds if it holds whichever value of each row is taken,
    fails if it fails with all of them, and else is undecided. A row with one value decides nothing. With `paired` value k of
    all rows is of one repeat: rows are compared within each, and the `median_interval` of the repeats decides.

    `values` holds each column that was measured: row -> its values. A column of the paper is tested in those that measure
    the same, whatever the language pair.
    """

    values: Mapping[Column, Mapping[str, Sequence[float]]]
    paired: bool = False

    @property
    def rule(self) -> str:
        """What brackets are, for a reader."""
        each = "from the least to the most favourable choice of a value of each row"
        median = (
            "the 95 % interval of the median of the repeats, rows compared within each; of less than six their range"
        )
        return (
            f"Brackets: {median if self.paired else each}; a claim holds or fails where all of it agrees. "
            f"`about` and `no gain`: within {ALIKE_RATIO} times, percentages within {ALIKE_POINTS}."
        )

    def columns(self, claim: Claim) -> Sequence[Column]:
        """The measured columns that measure what the claim is about."""
        meant = {column.quantity for column in claim.columns}
        return [c for c in self.values if c.quantity in meant]

    def missing(self, claim: Claim, columns: Sequence[Column]) -> tuple[str, ...]:
        """Rows without a figure in one of the columns, else all columns of the claim where too few are measured."""
        rows = tuple(row for row in claim.compared if not all(row in self.values[c] for c in columns))
        few = len(columns) < (2 if claim.across else 1)
        return rows or (tuple(map(str, claim.columns)) if few else ())

    def difference(self, contrast: Contrast, column: Column, table: PrintedTable) -> ContrastResult:
        """The comparison over the ranges of all rows."""
        terms = [(factor, row, column) for factor, row in contrast.terms]
        return self._test(terms, contrast, _rows(contrast), table)

    def growth(self, contrast: Contrast, first: Column, last: Column, table: PrintedTable) -> ContrastResult:
        """The comparison in the last column against that in the first."""
        terms = [(way * factor, row, c) for way, c in ((1, last), (-1, first)) for factor, row in contrast.terms]
        return self._test(terms, contrast, f"{_rows(contrast)}, {last.what} over {first.what}", table)

    def _test(self, terms: Sequence[Term], contrast: Contrast, text: str, table: PrintedTable) -> ContrastResult:
        ratio = not terms[0][2].of.percentage
        margin = math.log(ALIKE_RATIO) if ratio else ALIKE_POINTS
        worth = [[factor * _worth(x, column) for x in self.values[column][row]] for factor, row, column in terms]
        low, middle, high = self._bounds(worth)
        printed = [(factor, table.row(row).figure(column), column) for factor, row, column in terms]
        paper = sum(factor * _worth(figure.value, column) for factor, figure, column in printed if figure)
        known = all(figure is not None for _, figure, _ in printed)
        alone = any(len(some) < 2 for some in worth)
        decided = UNDECIDED if alone else _decided(contrast, low, high, margin)
        middle, low, high, paper = (math.exp(x) if ratio else x for x in (middle, low, high, paper))
        return ContrastResult(text, middle, (low, high), None, paper if known else None, decided, ratio)

    def _bounds(self, worth: Sequence[Sequence[float]]) -> tuple[float, float, float]:
        """The least, the middle and the greatest sum of a value of each term."""
        if self.paired:
            return median_interval([sum(each) for each in zip(*worth, strict=True)])
        return sum(map(min, worth), 0.0), sum(map(statistics.median, worth), 0.0), sum(map(max, worth), 0.0)


def _rows(contrast: Contrast) -> str:
    if len(contrast.terms) == 2:
        return "{} against {}".format(*contrast.pair)
    (_, end), (_, start), (_, b), (_, a) = contrast.terms
    return f"({end} against {start}) against ({b} against {a})"


def _worth(value: float, column: Column) -> float:
    """A figure on a scale on which more is better and differences count."""
    scaled = value if column.of.percentage else math.log(max(value, LEAST))
    return -scaled if column.of.lower else scaled


def _decided(contrast: Contrast, low: float, high: float, margin: float) -> str:
    least = math.log(contrast.times)
    holds, fails = {
        "above": (low > least, high < least),
        "not-above": (high < margin, low > margin),
        "about": (-margin < low and high < margin, low > margin or high < -margin),
    }[contrast.relation]
    return HOLDS if holds else FAILS if fails else UNDECIDED
