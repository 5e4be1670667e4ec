"""The judge of a paper's claims. What decides a single comparison of rows is an `Evidence` of `calque.papers.intervals`."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Any, Protocol

from calque.evaluate.significance import FAILS, HOLDS, UNDECIDED
from calque.papers.paper import Claim, Column, Contrast, PrintedTable

UNTESTED = "not tested"


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


class Evidence(Protocol):
    """What was measured here, and the rule by which an interval decides a comparison of rows."""

    @property
    def rule(self) -> str: ...

    def columns(self, claim: Claim) -> Sequence[Column]:
        """The columns in which a claim can be tested."""

    def missing(self, claim: Claim, columns: Sequence[Column]) -> tuple[str, ...]:
        """The rows or columns that a test lacks figures of."""

    def difference(self, contrast: Contrast, column: Column, table: PrintedTable) -> ContrastResult:
        """The test of a comparison in one column."""

    def growth(self, contrast: Contrast, first: Column, last: Column, table: PrintedTable) -> ContrastResult:
        """The test whether the first row's advantage is greater in the last column than in the first."""


def judge(claim: Claim, table: PrintedTable, evidence: Evidence) -> ClaimVerdict:
    """The verdict on a claim about a table; all of its comparisons have to hold, in all columns."""
    columns = evidence.columns(claim)
    if missing := evidence.missing(claim, columns):
        return ClaimVerdict(claim, UNTESTED, missing=missing)
    if claim.kind == "grows":
        tested = [evidence.growth(contrast, columns[0], columns[-1], table) for contrast in claim.contrasts]
    else:
        tested = [
            _difference(contrast, columns, k, table, evidence)
            for contrast in claim.contrasts
            for k in range(len(columns))
        ]
    verdicts = {one.verdict for one in tested}
    verdict = FAILS if FAILS in verdicts else HOLDS if verdicts == {HOLDS} else UNDECIDED
    return ClaimVerdict(claim, verdict, tuple(tested))


def _difference(
    contrast: Contrast, columns: Sequence[Column], k: int, table: PrintedTable, evidence: Evidence
) -> ContrastResult:
    """The test of a comparison in one of the columns, which it names where there are several."""
    result = evidence.difference(contrast, columns[k], table)
    return replace(result, text=f"{result.text}, {columns[k].quantity}") if len(columns) > 1 else result


def judge_all(
    claims: Sequence[Claim],
    table: PrintedTable,
    obstacle: Callable[[Claim], str],
    evidence: Callable[[Sequence[Claim]], Evidence],
) -> tuple[ClaimVerdict, ...]:
    """The verdicts on claims; `obstacle` says why a claim cannot be tested, if so.

    `evidence` collects what the other claims need. Where there is none of these it is not called, since it may take long.
    """
    obstacles = [obstacle(claim) for claim in claims]
    tested = [claim for claim, why in zip(claims, obstacles, strict=True) if not why]
    held = evidence(tested) if tested else None
    return tuple(
        ClaimVerdict(claim, UNTESTED, reason=why) if why or held is None else judge(claim, table, held)
        for claim, why in zip(claims, obstacles, strict=True)
    )


def claims_of(claims: Sequence[Claim], table: str, *metrics: str) -> list[Claim]:
    """The claims that a paper makes about a table in those metrics."""
    return [c for c in claims if c.table == table and any(column.metric in metrics for column in c.columns)]


def as_json(verdicts: Sequence[ClaimVerdict]) -> list[dict[str, Any]]:
    """Verdicts for programs."""
    return [
        {
            "claim": {
                "text": one.claim.text,
                "section": one.claim.section,
                "columns": [str(column) for column in one.claim.columns],
            },
            "verdict": one.verdict,
            "tested": [vars(result) for result in one.tested],
            "missing": one.missing,
            "reason": one.reason,
        }
        for one in verdicts
    ]
