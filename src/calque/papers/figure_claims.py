"""What the papers say of their figures, `figure_claims.toml`, and the verdicts on it, by what a ledger has of trained rows."""

import functools
import tomllib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from importlib import resources

import numpy as np

from calque.papers.claims import UNTESTED, ContrastResult, verdict_of
from calque.papers.evidence import LedgerEvidence
from calque.papers.figure_tests import Part, SentenceOrder, SentenceTests, alike, cost, parts_of
from calque.papers.ledger_tables import TRIALS, ReproducedTable
from calque.papers.trained_report import NO_TEXT
from calque.papers.under_trained import UNDER_TRAINED
from calque.zoo.row_texts import place

RULE = (
    "Claims about figures. Brackets: 95 % bootstrap intervals, the same sentences for all rows, the runs of each row drawn too; "
    "the interval decides, `about` and `not below` by whether it lies within 0.5 BLEU, or 5 % of the words. Sentences stand in "
    "parts of one size. Of learning curves: the lowest and the highest difference over all pairs of seeds and all validations of "
    "that half; `about` is within 5 %."
)
FEWEST = 30
"""Sentences in a part."""


@dataclass(frozen=True)
class FigureClaim:
    """A sentence of a paper about a figure; the keys are those of `figure_claims.toml`."""

    paper: str
    figure: str
    section: str
    text: str
    table: str
    test: str = ""
    expect: str = ""
    by: str = ""
    parts: int = 1
    over: int = 0
    measured: str = "bleu"
    when: str = "second"
    base: str = ""
    pairs: tuple[tuple[str, ...], ...] = ()
    needs: str = ""
    ours: bool = False

    @property
    def compared(self) -> tuple[str, ...]:
        """Every row that it needs."""
        rows = [*([self.base] if self.base else []), *(row for pair in self.pairs for row in pair)]
        return tuple(dict.fromkeys(rows))

    @property
    def where(self) -> str:
        """The figure in words."""
        return place(self.figure)


@dataclass(frozen=True)
class FigureVerdict:
    """What a table of the ledger says of a claim; `why` where nothing can be said."""

    claim: FigureClaim
    verdict: str
    tested: tuple[ContrastResult, ...] = ()
    why: str = ""


@functools.cache
def figure_claims() -> Mapping[str, tuple[FigureClaim, ...]]:
    """By paper."""
    text = resources.files("calque.papers").joinpath("figure_claims.toml").read_text(encoding="utf-8")
    return {paper: tuple(_claim(paper, entry) for entry in some) for paper, some in tomllib.loads(text).items()}


def _claim(paper: str, entry: Mapping[str, object]) -> FigureClaim:
    pairs = entry.get("pairs", ())
    assert isinstance(pairs, Sequence)
    return FigureClaim(paper, **{**entry, "pairs": tuple(tuple(pair) for pair in pairs)})  # type: ignore[arg-type]


def judge_figure(claim: FigureClaim, table: ReproducedTable | None, evidence: LedgerEvidence | None) -> FigureVerdict:
    """The verdict on a claim by the cells of its table; None where the ledger has no such table."""
    if why := _obstacle(claim, table):
        return FigureVerdict(claim, UNTESTED, why=why)
    assert table is not None
    if claim.test == "cost":
        tested = [cost(pair, table.by_row, claim.when, claim.expect) for pair in claim.pairs]
        missing = "no common epochs with two validations" * (None in tested)
        found = [one for one in tested if one is not None]
        return FigureVerdict(claim, UNTESTED if missing else verdict_of(found), tuple(found), missing)
    return _by_sentences(claim, table, evidence)


def _obstacle(claim: FigureClaim, table: ReproducedTable | None) -> str:
    if claim.needs or table is None:
        return claim.needs or f"no row of {place(claim.table)} is trained here"
    if missing := [row for row in claim.compared if row not in table.by_row]:
        return f"no cell of {', '.join(missing)}"
    under = [row for row in claim.compared if row in table.report.under_trained]
    return f"{', '.join(under)} {'is' if len(under) == 1 else 'are'} {UNDER_TRAINED}" if under else ""


def _by_sentences(claim: FigureClaim, table: ReproducedTable, evidence: LedgerEvidence | None) -> FigureVerdict:
    held = evidence.rows({row: table.by_row[row] for row in claim.compared}) if evidence is not None else {}
    if evidence is None or set(claim.compared) - held.keys():
        return FigureVerdict(claim, UNTESTED, why=NO_TEXT)
    held = alike(held, claim.by)
    order = parts_of(claim.by, held[claim.base or claim.compared[0]])
    if order is None:
        return FigureVerdict(claim, UNTESTED, why="the ledger does not have where the heads of this model look")
    tests = SentenceTests(held, TRIALS, evidence.remembered)
    if claim.test == "share":
        return _verdict(claim, [tests.share(claim.by, claim.expect, *pair) for pair in claim.pairs])
    parts = sentence_parts(claim, order)
    if min(map(len, parts)) < FEWEST:
        return FigureVerdict(claim, UNTESTED, why=f"a part of the text has fewer than {FEWEST} sentences")
    return _verdict(claim, [one for pair in claim.pairs for one in _results(claim, tests, parts, pair)])


def sentence_parts(claim: FigureClaim, order: SentenceOrder) -> list[list[int]]:
    """The sentences that are compared: those above a bound, or all of them in parts of one size."""
    if claim.test == "longer":
        return [[int(i) for i in np.flatnonzero(order.keys > claim.over)]]
    return order.parts(claim.parts)


def _results(
    claim: FigureClaim, tests: SentenceTests, parts: Sequence[Part], pair: Sequence[str]
) -> list[ContrastResult]:
    first, last = parts[0], parts[-1]
    if claim.test in ("grows", "keeps"):
        return [tests.change(pair, first, last, claim.expect)]
    chosen = {"each": parts, "longer": parts, "first": [first], "last": [last]}[claim.test]
    return [tests.difference(claim.measured, pair, part, claim.expect) for part in chosen]


def _verdict(claim: FigureClaim, tested: Sequence[ContrastResult]) -> FigureVerdict:
    return FigureVerdict(claim, verdict_of(tested), tuple(tested))
