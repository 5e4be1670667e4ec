"""What the stored translations say of a paper's claims. `calque.papers.ranges` does the same on bare figures."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from jaxtyping import Float

from calque.evaluate.significance import BLOCK, FAILS, HOLDS, UNDECIDED, Runs, compare_statistics, verdict
from calque.evaluate.statistics import Measure
from calque.papers.paper import Claim, Column, Contrast, PrintedTable

RELATION = {"above": ">", "not-above": "<=", "about": "~"}
UNTESTED = "not tested"
LEVEL = 0.05
EXPLAINED = (
    "Brackets: 95 % bootstrap intervals. p: approximate randomisation, two-sided, level 0.05; differences of gains are "
    "decided by their interval, `about` and `no gain` by whether theirs lies within 0.5, and what grows from column to "
    "column by that of the ratio of ratios."
)
LEAST = 1e-9
"""What a score of 0 counts as in a ratio."""
Scores = tuple[Measure, Mapping[str, Runs]]
"""A metric, and the statistics of each row's runs."""


@dataclass(frozen=True)
class ContrastResult:
    """A contrast of rows: its value here, its interval, p where there is a test of it, and the paper's value.

    These are differences, or, with `ratio`, how many times as good the first row is.
    """

    text: str
    value: float
    interval: tuple[float, float]
    p: float | None
    paper: float | None
    verdict: str
    ratio: bool = False


@dataclass(frozen=True)
class ClaimVerdict:
    """A claim: `verdict` is `does not hold` where one of its contrasts does not, `holds` where all do, else `undecided`.

    `missing` are rows without a finished cell, and columns that nothing here measures; then it is `not tested`. So it is for
    another `reason`, such as rows that have not learned.
    """

    claim: Claim
    verdict: str
    tested: tuple[ContrastResult, ...]
    missing: tuple[str, ...]
    reason: str = ""

    @property
    def why(self) -> str:
        """Why it is not tested."""
        return self.reason or f"no figure of {', '.join(self.missing)}"


def judged(claim: Claim, tested: Sequence[ContrastResult]) -> ClaimVerdict:
    """A claim of which every contrast is tested."""
    verdicts = {one.verdict for one in tested}
    said = FAILS if FAILS in verdicts else HOLDS if verdicts == {HOLDS} else UNDECIDED
    return ClaimVerdict(claim, said, tuple(tested), ())


class Judge:
    """Tests claims on the statistics of each row's runs; `beside` are those of other metrics, by name, of the same sentences."""

    def __init__(
        self,
        measure: Measure,
        runs: Mapping[str, Runs],
        trials: int,
        seed: int = 1,
        beside: Mapping[str, Scores] | None = None,
    ):
        self.measure, self.runs, self.trials, self.seed = measure, runs, trials, seed
        self.beside = beside or {}

    def judge(self, claim: Claim, table: PrintedTable, column: Column) -> ClaimVerdict:
        """A claim of a table; `column` says which figures of the paper stand beside it."""
        needed = dict.fromkeys(row for contrast in claim.contrasts for _, row in contrast.terms)
        missing = tuple(row for row in needed if row not in self.runs)
        if claim.kind == "grows":
            ends = claim.columns[0], claim.columns[-1]
            if missing := missing or tuple(str(c) for c in ends if not needed.keys() <= self._rows(c)):
                return ClaimVerdict(claim, UNTESTED, (), missing)
            return judged(claim, [self._grows(contrast, ends, table, column.pair) for contrast in claim.contrasts])
        if missing:
            return ClaimVerdict(claim, UNTESTED, (), missing)
        printed = {row: table.row(row).figure(column) for row in needed}
        scores = {row: figure.value for row, figure in printed.items() if figure is not None}
        tested = []
        for contrast in claim.contrasts:
            known = all(row in scores for _, row in contrast.terms)
            tested.append(self.test(contrast, contrast.value(scores) if known else None))
        return judged(claim, tested)

    def test(self, contrast: Contrast, paper: float | None) -> ContrastResult:
        """Two rows: approximate randomisation and the bootstrap interval, as `calque.evaluate.significance` says.

        A difference of differences has no shuffle under which it vanishes, so there its bootstrap interval decides: all of
        it above zero, the claim holds; all of it below, it does not.
        """
        if len(contrast.terms) == 2:
            (_, a), (_, b) = sorted(contrast.terms, reverse=True)
            found = compare_statistics(
                self.measure, self.runs[a], self.runs[b], trials=self.trials, seed=self.seed, level=LEVEL
            )
            said = verdict(RELATION[contrast.relation], found)
            return ContrastResult(f"{a} - {b}", found.delta, found.interval, found.p, paper, said)
        resampled = self._resampled([(row, self.measure, self.runs[row]) for _, row in contrast.terms])
        drawn = sum(factor * score for (factor, _), score in zip(contrast.terms, resampled, strict=True))
        low, high = (float(q) for q in np.quantile(drawn, [LEVEL / 2, 1 - LEVEL / 2]))
        whole = {row: float(self.measure.score(self.runs[row].sum((0, 1)))) for _, row in contrast.terms}
        said = HOLDS if low > 0 else FAILS if high < 0 else UNDECIDED
        (_, end), (_, start), (_, b), (_, a) = contrast.terms
        return ContrastResult(f"({end} - {start}) - ({b} - {a})", contrast.value(whole), (low, high), None, paper, said)

    def _rows(self, column: Column) -> set[str]:
        return set(self.beside[column.metric][1]) if column.metric in self.beside else set()

    def _grows(self, contrast: Contrast, ends: tuple[Column, Column], table: PrintedTable, pair: str) -> ContrastResult:
        """By how many times more the first row is better in the last column than in the first; its bootstrap interval decides."""
        (_, a), (_, b) = sorted(contrast.terms, reverse=True)
        signed = [(sign * way, row, c) for way, c in ((-1, ends[0]), (1, ends[1])) for sign, row in ((1, a), (-1, b))]
        scored = [(row, self.beside[c.metric][0], self.beside[c.metric][1][row]) for _, row, c in signed]

        def ratio(scores: Iterable[Any]) -> Any:
            logs = [np.log(np.maximum(score, LEAST)) for score in scores]
            return np.exp(sum(sign * log for (sign, _, _), log in zip(signed, logs, strict=True)))

        low, high = (float(q) for q in np.quantile(ratio(self._resampled(scored)), [LEVEL / 2, 1 - LEVEL / 2]))
        whole = float(ratio(measure.score(runs.sum((0, 1))) for _, measure, runs in scored))
        printed = [table.row(row).figure(replace(c, pair=pair)) for _, row, c in signed]
        paper = float(ratio(figure.value for figure in printed if figure)) if all(printed) else None
        said = HOLDS if low > 1 else FAILS if high < 1 else UNDECIDED
        text = f"{a} against {b}, {ends[1].what} over {ends[0].what}"
        return ContrastResult(text, whole, (low, high), None, paper, said, True)

    def _resampled(self, scored: Sequence[tuple[str, Measure, Runs]]) -> list[Float[np.ndarray, " T"]]:
        """Scores of rows on resampled corpora: the same sentences for all, each row's runs drawn for itself."""
        rng = np.random.default_rng([self.seed, 2])
        sentences = scored[0][2].shape[1]
        most, found = max(1, BLOCK // sentences), []
        for start in range(0, self.trials, most):
            size = min(most, self.trials - start)
            drawn = rng.multinomial(sentences, np.full(sentences, 1 / sentences), size=size).astype(np.float64)
            weights: dict[tuple[str, int], Any] = {}
            some = []
            for row, measure, runs in scored:
                if (row, n := len(runs)) not in weights:
                    weights[row, n] = rng.multinomial(n, np.full(n, 1 / n), size=size)
                some.append(measure.score(np.einsum("tr,rtk->tk", weights[row, n], drawn @ runs)))
            found.append(some)
        return [np.concatenate(each) for each in zip(*found, strict=True)]


def statistics_of(
    measure: Measure, hypotheses: Mapping[str, Sequence[Sequence[str]]], references: Sequence[str]
) -> dict[str, Runs]:
    """Of each row the statistics of its runs: runs by sentences by statistics."""
    return {row: np.stack([measure.statistics(run, references) for run in runs]) for row, runs in hypotheses.items()}


def claims_of(claims: Sequence[Claim], table: str, *metrics: str) -> list[Claim]:
    """The claims that a paper makes of a table in those metrics."""
    return [c for c in claims if c.table == table and any(column.metric in metrics for column in c.columns)]
