"""What bare figures say of a paper's claims: speeds, one for each repeat, perplexities and rates, one for each seed.

Nothing can be shuffled between two rows, and a few values make no test. So the whole range decides: a claim holds where it
holds whichever value of each row is taken, does not where it fails with all of them, and else is undecided; of a row with
one value nothing is decided.
"""

import math
import statistics
from collections.abc import Mapping, Sequence

from calque.evaluate.significance import FAILS, HOLDS, UNDECIDED
from calque.papers.paper import LOWER_IS_BETTER, Claim, Column, Contrast, PrintedTable
from calque.papers.verdicts import UNTESTED, ClaimVerdict, ContrastResult, judged

POINTS = ("accuracy",)
"""Percentages that are compared by differences; all others are by ratios, which have no unit."""
ALIKE_POINTS, ALIKE_RATIO = 0.5, 1.05
"""What counts as alike."""
LEAST = 1e-9
"""What an error rate of 0 counts as in a ratio."""
EXPLAINED = (
    f"Brackets: from the least to the most favourable choice of a value of each row; a claim holds or fails where all of them "
    f"agree. `about` and `no gain`: within {ALIKE_RATIO} times, percentages within {ALIKE_POINTS}."
)
Values = Mapping[Column, Mapping[str, Sequence[float]]]
"""Column -> row -> its values."""
Term = tuple[int, str, Column]


def judge(values: Values, claim: Claim, table: PrintedTable) -> ClaimVerdict:
    """A claim of a table, in each column of `values` that measures the same as one of the claim's, of whatever pair."""
    said_of = set(map(_what, claim.columns))
    columns = [c for c in values if _what(c) in said_of]
    rows = dict.fromkeys(row for contrast in claim.contrasts for _, row in contrast.terms)
    missing = [row for row in rows if not all(row in values[c] for c in columns)]
    if missing or len(columns) < (2 if claim.kind == "grows" else 1):
        return ClaimVerdict(claim, UNTESTED, (), tuple(missing or map(str, claim.columns)))
    tested = []
    for contrast in claim.contrasts:
        if claim.kind == "grows":
            first, last = columns[0], columns[-1]
            terms = [(factor, row, last) for factor, row in contrast.terms]
            terms += [(-factor, row, first) for factor, row in contrast.terms]
            tested.append(
                _test(values, table, terms, contrast.relation, f"{_rows(contrast)}, {last.what} over {first.what}")
            )
            continue
        for column in columns:
            at = f", {_what(column)}" if len(columns) > 1 else ""
            terms = [(factor, row, column) for factor, row in contrast.terms]
            tested.append(_test(values, table, terms, contrast.relation, _rows(contrast) + at))
    return judged(claim, tested)


def _what(column: Column) -> str:
    """What a column measures, of whatever pair; the pairs of an accuracy are kinds of error, and no two measure the same."""
    return str(column) if column.metric in POINTS else column.what


def _rows(contrast: Contrast) -> str:
    if len(contrast.terms) == 2:
        (_, a), (_, b) = sorted(contrast.terms, reverse=True)
        return f"{a} against {b}"
    (_, end), (_, start), (_, b), (_, a) = contrast.terms
    return f"({end} against {start}) against ({b} against {a})"


def _test(values: Values, table: PrintedTable, terms: Sequence[Term], relation: str, text: str) -> ContrastResult:
    ratio = terms[0][2].metric not in POINTS
    margin = math.log(ALIKE_RATIO) if ratio else ALIKE_POINTS
    low = middle = high = 0.0
    for factor, row, column in terms:
        worth = sorted(factor * _worth(value, column) for value in values[column][row])
        low, middle, high = low + worth[0], middle + statistics.median(worth), high + worth[-1]
    printed = [(factor, table.row(row).figure(column), column) for factor, row, column in terms]
    paper = None
    if all(figure is not None for _, figure, _ in printed):
        paper = sum(factor * _worth(figure.value, column) for factor, figure, column in printed if figure)
    alone = any(len(values[column][row]) < 2 for _, row, column in terms)
    said = UNDECIDED if alone else _verdict(relation, low, high, margin)
    told = [math.exp(x) if ratio else x for x in (middle, low, high, paper or 0.0)]
    return ContrastResult(text, told[0], (told[1], told[2]), None, None if paper is None else told[3], said, ratio)


def _worth(value: float, column: Column) -> float:
    """A figure on a scale on which more is better and differences count."""
    scaled = value if column.metric in POINTS else math.log(max(value, LEAST))
    return -scaled if column.metric in LOWER_IS_BETTER else scaled


def _verdict(relation: str, low: float, high: float, margin: float) -> str:
    holds, fails = {
        "above": (low > 0, high < 0),
        "not-above": (high < margin, low > margin),
        "about": (-margin < low and high < margin, low > margin or high < -margin),
    }[relation]
    return HOLDS if holds else FAILS if fails else UNDECIDED
