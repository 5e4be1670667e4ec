"""The judge of a paper's claims, and the evidence it decides by where there are translations: they are resampled."""

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, Protocol, TypeVar

import numpy as np
from jaxtyping import Float

from calque.evaluate.significance import (
    BLOCK,
    FAILS,
    HOLDS,
    UNDECIDED,
    Comparison,
    Runs,
    compare_statistics,
    verdict,
)
from calque.evaluate.statistics import Measure
from calque.papers.paper import Claim, Column, Contrast, PrintedTable
from calque.papers.remembered import Remembered

UNTESTED = "not tested"
RELATION = {"above": ">", "not-above": "<=", "about": "~"}
LEVEL = 0.05
LEAST = 1e-9
"""What a figure of 0 counts as in a ratio."""
K = TypeVar("K")
Scores = tuple[Measure, Mapping[str, Runs]]
"""A metric, and the statistics of each row's runs."""


@dataclass(frozen=True)
class ContrastResult:
    """A comparison of rows: its value here, its interval, p where there is a test of it, and the paper's value.

    These are differences, or, with `ratio`, how many times as good the first row is.
    """

    text: str
    value: float
    interval: tuple[float, float]
    p: float | None
    paper: float | None
    verdict: str
    ratio: bool = False
    unit: str = "times as good"


class Evidence(Protocol):
    """What was measured here, and the rule by which an interval decides a comparison of rows."""

    @property
    def rule(self) -> str:
        """The rule, for a reader."""

    def columns(self, claim: Claim) -> Sequence[Column]:
        """The columns in which a claim is tested."""

    def missing(self, claim: Claim, columns: Sequence[Column]) -> tuple[str, ...]:
        """The rows or columns that lack what a test needs."""

    def difference(self, contrast: Contrast, column: Column, table: PrintedTable) -> ContrastResult:
        """A comparison of rows in a column."""

    def growth(self, contrast: Contrast, first: Column, last: Column, table: PrintedTable) -> ContrastResult:
        """A comparison in the last column against that in the first."""


@dataclass(frozen=True)
class ClaimVerdict:
    """A claim: `verdict` is `does not hold` if one of its comparisons fails, `holds` if all of them hold, else `undecided`.

    It is `not tested` where figures are `missing`, of rows or of columns, or for another `reason`, such as rows that have not
    learned.
    """

    claim: Claim
    verdict: str
    tested: tuple[ContrastResult, ...] = ()
    missing: tuple[str, ...] = ()
    reason: str = ""

    @property
    def why(self) -> str:
        """Why it is not tested."""
        return self.reason or f"no figure of {', '.join(self.missing)}"

    def as_json(self) -> dict[str, object]:
        """The verdict for programs."""
        columns = [str(column) for column in self.claim.columns]
        return {
            "claim": {"text": self.claim.text, "section": self.claim.section, "columns": columns},
            "verdict": self.verdict,
            "tested": [vars(result) for result in self.tested],
            "missing": self.missing,
            "reason": self.reason,
        }


@dataclass(frozen=True)
class Resampling:
    """Evidence from stored translations: approximate randomisation and bootstrap intervals (`calque.evaluate.significance`).

    `scores` holds each metric by its name, all of the same sentences. Claims are tested in `column`, beside whose figures they
    stand; those that compare columns need the scores of all of theirs. `remembered` has the results of earlier tests.

    Where a row has more sentences than another one, behind the same first ones, those that all compared rows have are taken.
    `sentences` are those of the test text; comparisons of more say how many.
    """

    scores: Mapping[str, Scores]
    column: Column
    trials: int
    seed: int = 1
    remembered: Remembered = field(default_factory=Remembered)
    sentences: int | None = None
    rule: str = (
        "Brackets: 95 % bootstrap intervals over sentences and seeds. p: approximate randomisation, two-sided; below 0.05 the side "
        "on which the whole interval lies decides. Differences of gains are decided by their interval, `about` and `no gain` by "
        "whether theirs lies within 0.5, and what grows from column to column by that of the ratio of ratios."
    )

    def columns(self, claim: Claim) -> Sequence[Column]:
        """The first and the last column of a claim that compares columns, else the one of the report, or one that it is about."""
        if claim.across:
            return claim.columns[0], claim.columns[-1]
        alike = [column for column in claim.columns if column.metric == self.column.metric]
        return alike[:1] if self.column not in alike and alike else (self.column,)

    def missing(self, claim: Claim, columns: Sequence[Column]) -> tuple[str, ...]:
        """Rows without translations, else columns that are not scored for every row."""
        rows = [row for row in claim.compared if row not in self.scores[self.column.metric][1]]
        scored = {c: self.scores[c.metric][1] if c.metric in self.scores else {} for c in columns}
        return tuple(rows or (str(c) for c in columns if not set(claim.compared) <= scored[c].keys()))

    def difference(self, contrast: Contrast, column: Column, table: PrintedTable) -> ContrastResult:
        """Two rows: approximate randomisation and the bootstrap interval.

        A difference of differences has no shuffle under which it vanishes, so there its bootstrap interval decides: all of
        it above zero, the claim holds; all of it below, it does not.
        """
        figures = {row: table.row(row).figure(column) for _, row in contrast.terms}
        models = {row: table.row(row).model_of or row for row in figures}
        printed = {row: figure.value for row, figure in figures.items() if figure is not None}
        paper = contrast.value(printed) if printed.keys() == figures.keys() else None
        measure, every = self.scores[column.metric]
        runs = common({row: every[row] for row in figures})
        if len(contrast.terms) == 2:
            a, b = contrast.pair
            paired = len(runs[a]) == len(runs[b]) and models[a] == models[b]
            result = self.compared(measure, runs[a], runs[b], paired)
            decided = verdict(RELATION[contrast.relation], result)
            return ContrastResult(
                f"{a} - {b}{self.among(runs)}", result.delta, result.interval, result.p, paper, decided
            )

        def differences(scores: Sequence[Float[np.ndarray, " T"]]) -> Float[np.ndarray, " T"]:
            terms = [factor * score for (factor, _), score in zip(contrast.terms, scores, strict=True)]
            return np.asarray(np.sum(terms, axis=0))

        interval = self.interval("gain", [(models[row], measure, runs[row]) for _, row in contrast.terms], differences)
        whole = {row: float(measure.score(runs[row].sum((0, 1)))) for _, row in contrast.terms}
        (_, end), (_, start), (_, b), (_, a) = contrast.terms
        text = f"({end} - {start}) - ({b} - {a}){self.among(runs)}"
        return ContrastResult(text, contrast.value(whole), interval, None, paper, _outside(interval, 0))

    def growth(self, contrast: Contrast, first: Column, last: Column, table: PrintedTable) -> ContrastResult:
        """By how many times the first row's advantage is greater in the last column; its bootstrap interval decides."""
        a, b = contrast.pair
        signed = [(sign * way, row, c) for way, c in ((-1, first), (1, last)) for sign, row in ((1, a), (-1, b))]
        runs = common({(row, c.metric): self.scores[c.metric][1][row] for _, row, c in signed})
        scored = [(row, self.scores[c.metric][0], runs[row, c.metric]) for _, row, c in signed]

        def ratio(scores: Iterable[Float[np.ndarray, " T"] | float]) -> Float[np.ndarray, " T"]:
            logs = [np.log(np.maximum(score, LEAST)) for score in scores]
            return np.asarray(np.exp(sum(sign * log for (sign, _, _), log in zip(signed, logs, strict=True))))

        interval = self.interval("growth", scored, ratio)
        whole = float(ratio(measure.score(runs.sum((0, 1))) for _, measure, runs in scored))
        printed = [table.row(row).figure(replace(c, pair=self.column.pair)) for _, row, c in signed]
        paper = float(ratio(figure.value for figure in printed if figure)) if all(printed) else None
        text = f"{a} against {b}, {last.what} over {first.what}"
        return ContrastResult(text, whole, interval, None, paper, _outside(interval, 1), True)

    def among(self, runs: Mapping[Any, Runs]) -> str:
        """How many sentences are compared, where there are more than the test text has."""
        count = next(iter(runs.values())).shape[1]
        return f", {count:,} sentences" if self.sentences is not None and count > self.sentences else ""

    def compared(self, measure: Measure, a: Runs, b: Runs, paired: bool = False) -> Comparison:
        """Two systems by approximate randomisation and bootstrap, from statistics; remembered by these.

        `paired`: the runs of both are by the same models, one after the other.
        """
        higher = measure.higher_is_better

        def compute() -> tuple[float, ...]:
            found = compare_statistics(measure, a, b, trials=self.trials, seed=self.seed, level=LEVEL, paired=paired)
            return found.delta, found.p, found.p_bootstrap, *found.interval

        parts = ("difference of pairs" if paired else "difference", measure.name, self.trials, self.seed, LEVEL, a, b)
        delta, p, p_bootstrap, low, high = self.remembered(parts, compute)
        mine, theirs = (tuple(measure.score(runs.sum(1)).tolist()) for runs in (a, b))
        whole = (low, high)
        return Comparison(
            measure.name, "", higher, mine, theirs, delta, p, p_bootstrap, whole, LEVEL, self.trials, self.seed
        )

    def interval(
        self,
        what: str,
        scored: Sequence[tuple[str, Measure, Runs]],
        value: Callable[[Sequence[Float[np.ndarray, " T"]]], Float[np.ndarray, " T"]],
    ) -> tuple[float, float]:
        """The bootstrap interval of a value of several scores, remembered by `what` it is and by their statistics.

        `scored` names the models of each: those of one name are drawn together.
        """
        parts = [
            what,
            self.trials,
            self.seed,
            LEVEL,
            *(part for row, m, runs in scored for part in (row, m.name, runs)),
        ]
        low, high = self.remembered(parts, lambda: _quantiles(value(self._resampled(scored))))
        return low, high

    def _resampled(self, scored: Sequence[tuple[str, Measure, Runs]]) -> list[Float[np.ndarray, " T"]]:
        """Scores of rows on resampled corpora: the same sentences for all rows; the runs of each row are drawn separately."""
        rng = np.random.default_rng([self.seed, 2])
        sentences = scored[0][2].shape[1]
        block, blocks = max(1, BLOCK // sentences), []
        for start in range(0, self.trials, block):
            size = min(block, self.trials - start)
            drawn = rng.multinomial(sentences, np.full(sentences, 1 / sentences), size=size).astype(np.float64)
            weights: dict[tuple[str, int], Float[np.ndarray, "T runs"]] = {}
            scores = []
            for row, measure, runs in scored:
                if (row, n := len(runs)) not in weights:
                    weights[row, n] = rng.multinomial(n, np.full(n, 1 / n), size=size)
                scores.append(measure.score(np.einsum("tr,rtk->tk", weights[row, n], drawn @ runs)))
            blocks.append(scores)
        return [np.concatenate(each) for each in zip(*blocks, strict=True)]


def common(runs: Mapping[K, Runs]) -> dict[K, Runs]:
    """The statistics of the sentences that all have, the first ones."""
    count = min(one.shape[1] for one in runs.values())
    return {key: one[:, :count] for key, one in runs.items()}


def _quantiles(drawn: Float[np.ndarray, " T"]) -> tuple[float, float]:
    low, high = np.quantile(drawn, [LEVEL / 2, 1 - LEVEL / 2])
    return float(low), float(high)


def _outside(interval: tuple[float, float], neutral: float) -> str:
    low, high = interval
    return HOLDS if low > neutral else FAILS if high < neutral else UNDECIDED


def judge(claim: Claim, table: PrintedTable, evidence: Evidence) -> ClaimVerdict:
    """The verdict on a claim about a table; all of its comparisons have to hold, in all columns."""
    columns = evidence.columns(claim)
    if missing := evidence.missing(claim, columns):
        return ClaimVerdict(claim, UNTESTED, missing=missing)
    tested = []
    for contrast in claim.contrasts:
        if claim.across:
            tested.append(evidence.growth(contrast, columns[0], columns[-1], table))
            continue
        for column in columns:
            result = evidence.difference(contrast, column, table)
            named = f"{result.text}, {column.quantity}" if len(columns) > 1 else result.text
            tested.append(replace(result, text=named))
    return ClaimVerdict(claim, verdict_of(tested), tuple(tested))


def verdict_of(tested: Sequence[ContrastResult]) -> str:
    """The verdict on a claim, all of whose comparisons have to hold."""
    verdicts = {one.verdict for one in tested}
    return FAILS if FAILS in verdicts else HOLDS if verdicts == {HOLDS} else UNDECIDED


def judge_all(
    claims: Sequence[Claim],
    table: PrintedTable,
    obstacle: Callable[[Claim], str],
    collect: Callable[[Sequence[Claim]], Evidence],
) -> tuple[ClaimVerdict, ...]:
    """The verdicts on claims; `obstacle` says why a claim cannot be tested, and is empty where it can.

    `collect` returns the evidence for the other claims. It is not called where there are none, since it may take long.
    """
    obstacles = {claim: obstacle(claim) for claim in claims}
    tested = [claim for claim in claims if not obstacles[claim]]
    evidence = collect(tested) if tested else None
    return tuple(
        judge(claim, table, evidence) if evidence is not None and not why else ClaimVerdict(claim, UNTESTED, reason=why)
        for claim, why in obstacles.items()
    )


def claims_of(claims: Sequence[Claim], table: str, *metrics: str) -> list[Claim]:
    """The claims that a paper makes about a table in those metrics."""
    return [c for c in claims if c.table == table and any(column.metric in metrics for column in c.columns)]
