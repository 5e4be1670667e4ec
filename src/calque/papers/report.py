"""The report of a table, of trained rows or of timed ones, and which column of the paper stands beside them."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from calque.ground.diagnostics import Place, error, nearest
from calque.papers.claims import ClaimVerdict
from calque.papers.metrics import TIMED, TRAINED
from calque.papers.paper import Column, Figure, PrintedTable
from calque.papers.picture import Bars
from calque.papers.request import Request


@dataclass(frozen=True)
class ReportOptions:
    """Which column of the paper stands beside our figures, and how many trials test its claims.

    Without a `metric` it is BLEU, or, where the table has no BLEU, its first metric that is measured here. Without a `pair` it is
    `held`, the pair that the output folder is about, else the first pair with the metric.
    """

    pair: str | None = None
    metric: str | None = None
    trials: int = 10_000
    held: str | None = None

    def column(self, paper: str, table: PrintedTable, metrics: Sequence[str] = (*TRAINED, *TIMED)) -> Column:
        """The column of a table whose metric is one of `metrics`. Raises X707 and X708."""
        printed = [column.metric for column in table.columns]
        metric = self.metric or next((m for m in ("bleu", *printed) if m in printed and m in metrics), metrics[0])
        columns = [column for column in table.columns if column.metric == metric and self.pair in (None, column.pair)]
        if not columns:
            name = metric if self.pair is None else f"{self.pair} {metric}"
            names = [str(column) for column in table.columns]
            raise error("X707", None, table=f"{paper}/{table.name}", name=name, near=nearest(name, names), names=names)
        if columns[0].of.obstacle:
            raise error("X708", None, metric=metric, reason=columns[0].of.obstacle)
        return next((column for column in columns if self.pair is None and column.pair == self.held), columns[0])


@dataclass(frozen=True)
class Report:
    """A table of the paper beside what was measured here.

    beside          a sentence that names both corpora
    head, rows      the table, as texts; columns `left` are words
    keys            of each line of the table: the paper's row
    columns         all of the paper's table
    claims          the verdicts on the paper's claims
    under_trained   rows whose models have not learned enough to test a claim, and why
    remarks         how to read the figures, and under which conditions they were measured
    command         what measures all of it again
    content         the report for programs
    bars            its picture, where it has one
    """

    request: Request
    title: str
    beside: str
    head: tuple[str, ...]
    rows: tuple[tuple[str, ...], ...]
    left: tuple[int, ...]
    keys: tuple[str, ...]
    columns: tuple[Column, ...]
    claims: tuple[ClaimVerdict, ...]
    under_trained: Mapping[str, str]
    remarks: tuple[str, ...]
    command: str
    content: Mapping[str, object]
    bars: Bars | None = None


def check_sizes(out: Path, request: Request, column: Column) -> None:
    """Raises X851 where the rows of a folder have other sizes than the paper takes for the pair of a column."""
    if not request.has_sizes_of(column.pair):
        held = request.pair or "no language pair"
        raise error("X851", Place(str(out)), expected=held, found=column.pair)


def paper_text(figure: Figure | None) -> str:
    """A figure as the paper prints it."""
    if figure is None:
        return "-"
    return f"{figure.value}" + (f" ± {figure.deviation}" if figure.deviation is not None else "")
