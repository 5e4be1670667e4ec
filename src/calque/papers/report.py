"""The report of a table, of trained rows or of timed ones: the column of the paper beside them, and the files."""

import functools
import itertools
import json
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from calque.ground.diagnostics import CalqueError, Place, error, nearest, render_all
from calque.ground.files import write_whole
from calque.ground.table import aligned, pipes
from calque.papers.claims import ClaimVerdict, ContrastResult
from calque.papers.learning import LearningCurves
from calque.papers.metrics import TIMED, TRAINED
from calque.papers.paper import Column, Figure, Paper, PrintedTable
from calque.papers.picture import Bars, picture
from calque.papers.request import Request, Tell
from calque.papers.under_trained import RULE
from calque.run.tensors import writing


@dataclass(frozen=True)
class ReportOptions:
    """The column of the paper beside our figures, and how many trials test its claims.

    Without a `metric` it is BLEU, or, where the table has no BLEU, its first metric that is measured here. Without a `pair` it is
    `default`, the pair that the output folder is about, else the first pair with the metric.
    """

    pair: str | None = None
    metric: str | None = None
    trials: int = 10_000
    default: str | None = None

    def column(self, paper: Paper, table: PrintedTable, metrics: Sequence[str] = (*TRAINED, *TIMED)) -> Column:
        """The column of a table whose metric is one of `metrics`. Raises X707 and X708."""
        printed = [column.metric for column in table.columns]
        metric = self.metric or next((m for m in ("bleu", *printed) if m in printed and m in metrics), metrics[0])
        columns = [column for column in table.columns if column.metric == metric and self.pair in (None, column.pair)]
        if not columns:
            name = metric if self.pair is None else f"{self.pair} {metric}"
            names = [str(column) for column in table.columns]
            raise error(
                "X707", None, table=f"{paper.name}/{table.name}", name=name, near=nearest(name, names), names=names
            )
        if columns[0].of.obstacle:
            raise error("X708", None, metric=metric, reason=columns[0].of.obstacle)
        return next((column for column in columns if self.pair is None and column.pair == self.default), columns[0])

    def column_in(self, out: Path, request: Request, metrics: Sequence[str] = (*TRAINED, *TIMED)) -> Column:
        """The column beside the rows of an output folder. Raises X707, X708, and X851 where the paper takes other sizes for its
        pair than these rows have."""
        column = self.column(request.whole, request.printed, metrics)
        if not request.has_sizes_of(column.pair):
            raise error("X851", Place(str(out)), expected=request.pair or "no language pair", found=column.pair)
        return column


@dataclass(frozen=True)
class Report:
    """A table of the paper beside what was measured here.

    beside          a sentence that names both corpora
    head, rows      the table, as texts; columns `left` are words
    keys            of each line of the table: the paper's row
    claims          the verdicts on the paper's claims
    under_trained   rows whose models have not learned enough to test a claim, and why
    remarks         how to read the figures, and under which conditions they were measured
    command         what measures all of it again
    content         the report for programs
    bars            its picture, where it has one
    curves          the learning curves of its rows, where they have some
    """

    request: Request
    beside: str
    head: tuple[str, ...]
    rows: tuple[tuple[str, ...], ...]
    left: tuple[int, ...]
    keys: tuple[str, ...]
    claims: tuple[ClaimVerdict, ...]
    under_trained: Mapping[str, str]
    remarks: tuple[str, ...]
    command: str
    content: Mapping[str, object]
    bars: Bars | None = None
    curves: LearningCurves | None = None

    @property
    def warnings(self) -> list[str]:
        """What the top of the report says where rows have not learned."""
        count, rows = len(self.under_trained), len(set(self.keys))
        some = "All rows are" if count == rows else f"{count} of {rows} rows are"
        explained = "Models that have not learned say nothing about a text: claims about them are not tested."
        return [f"{some} under-trained. {explained}"] * bool(count)

    def text(self) -> str:
        """The report for a terminal."""
        table = aligned(self.head, self.rows, self.left)
        lines = [
            self.request.title,
            self.beside,
            *self.warnings,
            "",
            *table,
            "",
            *[f"Claims{' of the paper' * (self.request.own is None)}, tested here:", ""] * bool(self.claims),
        ]
        for one in self.claims:
            said_of = _said_of(one, self.request.printed.columns)
            lines.append(f"  {one.verdict:<13}  {one.claim.text} ({said_of})")
            lines += [f"{'':17}{line}" for line in [*map(result_text, one.tested)] or [one.why]]
        return "\n".join([*lines, *[""] * bool(self.claims), *self.remarks, "", self.command]) + "\n"

    def markdown(self, image: str, curves: str) -> str:
        """The report as a page, with its pictures where it has some."""
        lines = [f"# {self.request.title}", "", *(f"**{one}**\n" for one in self.warnings), self.beside, ""]
        lines += [*pipes(self.head, self.rows, self.left), ""]
        lines += [f"![the figures]({image})", ""] * (self.bars is not None)
        lines += ["## Learning curves", "", f"![learning curves]({curves})", ""] * (self.curves is not None)
        if self.claims:
            lines += ["## Claims", "", *claims_table(self.claims, self.request.printed.columns), ""]
        return "\n".join([*lines, *(f"- {one}" for one in self.remarks), "", f"    {self.command}", ""])

    def write(self, out: Path, name: str, tell: Tell) -> str:
        """Writes NAME.md, NAME.json, and the pictures that the report has, NAME.png and NAME-curves.png, into a folder.

        Returns the report as text."""
        pictures: dict[str, Callable[[], bytes]] = {}
        if self.bars is not None:
            pictures[f"{name}.png"] = functools.partial(picture, self.bars)
        if self.curves is not None:
            pictures[f"{name}-curves.png"] = self.curves.picture
        with writing(out):
            write_whole(out / f"{name}.md", self.markdown(f"{name}.png", f"{name}-curves.png").encode())
            content = json.dumps(self.content, indent=1, ensure_ascii=False)
            write_whole(out / f"{name}.json", (content + "\n").encode())
            try:
                for file, draw in pictures.items():
                    write_whole(out / file, draw())
            except CalqueError as fault:  # matplotlib is not installed
                tell(render_all(fault.diagnostics))
        return self.text()


def paper_text(figure: Figure | None) -> str:
    """A figure as the paper prints it."""
    if figure is None:
        return "-"
    return f"{figure.value}" + (f" ± {figure.deviation}" if figure.deviation is not None else "")


def under_trained_remarks(reasons: Mapping[str, str]) -> list[str]:
    """Why rows are under-trained; rows with the same reason share a line."""
    rows: dict[str, list[str]] = {}
    for row, reason in reasons.items():
        rows.setdefault(reason, []).append(row)
    return [RULE] * bool(rows) + [f"Under-trained: {', '.join(some)}: {reason}." for reason, some in rows.items()]


def claims_table(claims: Sequence[ClaimVerdict], columns: Sequence[Column]) -> list[str]:
    """Claims as a Markdown table; `columns` are all of the paper's table."""
    rows = [
        [one.claim.text, _said_of(one, columns), one.verdict, "; ".join(map(result_text, one.tested)) or one.why]
        for one in claims
    ]
    return pipes(["claim", "said of", "here", "tested"], rows, range(4))


def _said_of(one: ClaimVerdict, columns: Sequence[Column]) -> str:
    """The section of a claim, and the columns that it is about."""
    whole = set(one.claim.columns) == set(columns)
    where = "not in the paper, " if one.claim.ours else f"section {one.claim.section}, "
    where = where if one.claim.ours or one.claim.section else ""  # a claim of the user's has no section
    return f"{where}of " + ("all columns" if whole else ", ".join(_columns(one.claim.columns)))


def _columns(columns: Sequence[Column]) -> Iterator[str]:
    """Columns in words; those that differ in the beam or the length alone share a name."""
    for _, some in itertools.groupby(columns, key=lambda c: (c.pair, c.metric, c.beam is None, c.length is None)):
        first, *rest = some
        yield ", ".join([str(first), *(str(c.beam or c.length) for c in rest)])


def result_text(one: ContrastResult) -> str:
    low, high = one.interval
    if one.ratio:
        paper = "" if one.paper is None else f"; paper {one.paper:.2f}"
        return f"{one.text} = {one.value:.2f} {one.unit} [{low:.2f}, {high:.2f}]: {one.verdict}{paper}"
    p = "" if one.p is None else f", p {one.p:.4f}"
    paper = "" if one.paper is None else f"; paper {one.paper:+.1f}"
    return f"{one.text} = {one.value:+.2f} [{low:+.2f}, {high:+.2f}]{p}: {one.verdict}{paper}"
