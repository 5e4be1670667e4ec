"""The report of a table's speeds: ours beside the paper's, how many times as fast as the first row, and claims."""

import dataclasses
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from calque.ledger.entry import Entry
from calque.ledger.entry import read as read_entries
from calque.papers.claims import ClaimVerdict, claims_of, judge_all
from calque.papers.commands import current_form, name_in_ledger
from calque.papers.metrics import METRICS, TIMED, UNMEASURED
from calque.papers.output import OutputFolder
from calque.papers.paper import Column, Figure, PrintedTable, Row
from calque.papers.ranges import Ranges
from calque.papers.report import Report, ReportOptions, paper_text, under_trained_remarks
from calque.papers.request import CELLS, MODELS, SPEED, Request
from calque.papers.timings import Repeats, measured, repeated, times, timing_in
from calque.papers.under_trained import label_of, marked_rows, why_untested

HEAD = ("", "", "row", "here", "lowest", "highest", "times", "paper", "times")


@dataclass(frozen=True)
class SpeedLine:
    """A row in a column.

    values       median, lowest and highest; of one repeat the median alone; empty where nothing was measured
    times        how many times as good as the first row that was timed and has a figure of the paper, else the first
    paper_times  the same of the paper's figures
    """

    column: Column
    row: str
    label: str
    values: tuple[float, ...]
    times: float | None
    paper: Figure | None
    paper_times: float | None

    @property
    def texts(self) -> tuple[str, ...]:
        """The line as a report shows it."""
        ours = [f"{value:.4g}" for value in self.values] or ["not measured"]
        paper = [paper_text(self.paper), _ratio(self.paper_times)]
        return (self.column.what, self.label, self.row, *(ours + ["-"] * 3)[:3], _ratio(self.times), *paper)


def report_timing(folder: OutputFolder, options: ReportOptions, others: Sequence[Path] = ()) -> str:
    """Writes `speed.md` and `speed.json`, and returns the report as text; models of `others`, output folders, may have been timed.

    Raises X706 where nothing is timed, X707 and X708 where the table has no such speed, X851 where the paper takes other sizes
    for the pair.
    """
    request, out = folder.request, folder.out
    column = options.column_in(out, request, TIMED)
    cells = [entry for one in (out, *others) for entry in read_entries(one / CELLS)]
    timing = timing_in(out)
    return make_report(request, timing, timed_cells(timing, cells), column).write(out, SPEED, folder.tell)


def timed_cells(timing: Entry, cells: Sequence[Entry]) -> list[Entry]:
    """The cells whose models a timing names; all of them where it names none, as timings of earlier versions."""
    named = str(timing.conditions.get(MODELS) or "").split(", ")
    return [cell for cell in cells if {cell.id, name_in_ledger(cell)} & set(named)] if named != [""] else list(cells)


def make_report(request: Request, entry: Entry, cells: Sequence[Entry], column: Column) -> Report:
    """The report of a timing beside the paper's pair that `column` names; `cells` are those whose models were timed, if any."""
    paper, table = request.whole, request.printed
    timed = measured(entry, table)
    here, ranges = _beside(timed, column, table), _ranges(entry, table, column)
    rows = [row for row in table.rows if any(row.key in values for values in timed.values())]
    under_trained = _under_trained(entry, cells, rows)
    verdicts = judge_all(
        claims_of(paper.claims, table.name, *TIMED, *UNMEASURED),
        table,
        lambda claim: why_untested(claim, request, under_trained),
        lambda tested: ranges,
    )
    lines = [line for c, values in here.items() for line in _lines(c, rows, values, under_trained)]
    pair = paper.pair(column.pair).title
    return Report(
        request=request,
        beside=f"The paper's: {pair}." if table.has_figures else "",
        head=HEAD,
        rows=tuple(line.texts for line in lines),
        left=(0, 1, 2),
        keys=tuple(line.row for line in lines),
        claims=verdicts,
        under_trained=under_trained,
        remarks=tuple(_remarks(entry, lines, verdicts, under_trained, ranges.rule)),
        command=current_form(entry.command),
        content={
            "title": request.title,
            "pair": pair,
            "columns": [dataclasses.asdict(c) for c in table.columns],
            "lines": [dataclasses.asdict(line) for line in lines],
            "claims": [one.as_json() for one in verdicts],
            "under_trained": under_trained,
            "entry": dataclasses.asdict(entry),
        },
    )


def _ranges(entry: Entry, table: PrintedTable, column: Column) -> Ranges:
    """The repeats of a timing, else, where an entry has no single ones, their medians and ranges."""
    single = repeated(entry, table)
    beside = _beside(single or measured(entry, table), column, table)
    return Ranges({c: values for c, values in beside.items() if values}, paired=bool(single))


def _beside(timed: Repeats, column: Column, table: PrintedTable) -> Repeats:
    """The columns of the pair that `column` names, and what was timed for each."""
    columns = [c for c in table.columns if c.pair == column.pair and c.metric in (*TIMED, *UNMEASURED)]
    return {c: timed.get(dataclasses.replace(c, pair=""), {}) for c in columns}


def _under_trained(entry: Entry, cells: Sequence[Entry], rows: Sequence[Row]) -> dict[str, str]:
    """Rows whose timed models have not learned and so write other lengths; with random weights all lengths are given."""
    if entry.conditions.get("weights") != "trained":
        return {}
    known, marked = {str(cell.conditions["row"]) for cell in cells}, marked_rows(cells)
    reasons = {}
    for row in rows:
        names = [name for name in (row.key, row.model_of, row.reading_of) if name]
        if not known.intersection(names):
            reasons[row.key] = "nothing is recorded of its training"
        elif reason := next((marked[name] for name in names if name in marked), ""):
            reasons[row.key] = reason
    return reasons


def _lines(
    column: Column, rows: Sequence[Row], values: Mapping[str, tuple[float, ...]], under_trained: Mapping[str, str]
) -> Iterator[SpeedLine]:
    first = next((row for row in rows if row.figure(column)), rows[0])
    for row in rows:
        ours, theirs, base = values.get(row.key, ()), row.figure(column), first.figure(column)
        yield SpeedLine(
            column,
            row.key,
            row.label + (f" ({label_of(under_trained[row.key])})" if row.key in under_trained else ""),
            ours,
            times(ours[0], values[first.key][0], column) if ours else None,
            theirs,
            times(theirs.value, base.value, column) if theirs and base else None,
        )


def _ratio(value: float | None) -> str:
    return "-" if value is None else f"{value:.2f}"


def _remarks(
    entry: Entry,
    lines: Sequence[SpeedLine],
    verdicts: Sequence[ClaimVerdict],
    under_trained: Mapping[str, str],
    rule: str,
) -> Iterator[str]:
    yield (
        "Here: the median of the repeats, the lowest and the highest. times: how many times as good as the first row of which "
        "the paper has a figure, else the first, here of medians."
    )
    if any(verdict.tested for verdict in verdicts):
        yield rule
    yield from under_trained_remarks(under_trained)
    yield entry.notes
    yield from (f"{key}: {value}" for key, value in entry.conditions.items() if value is not None)
    for metric in dict.fromkeys(line.column.metric for line in lines):
        if METRICS[metric].obstacle:
            yield f"Not measured: {metric}: {METRICS[metric].obstacle}."
