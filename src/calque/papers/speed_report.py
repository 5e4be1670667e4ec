"""The report of a table's speeds: ours beside the paper's, how many times as fast as the first row, and claims."""

import dataclasses
import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from calque.ground.files import write_whole
from calque.ground.table import aligned, pipes
from calque.ledger.entry import Entry
from calque.ledger.entry import read as read_entries
from calque.papers import ranges, read_paper
from calque.papers.paper import Column, Figure, Row
from calque.papers.plan import CELLS
from calque.papers.render import claims_page, claims_text, paper_text, under_trained_head, under_trained_remarks
from calque.papers.report import UNMEASURED, check_sizes, claims_json
from calque.papers.request import Request, asked_in
from calque.papers.speed import TIMED, measured, times, timing_in
from calque.papers.trained import UNDER_TRAINED, marked_rows, why_untested
from calque.papers.verdicts import UNTESTED, ClaimVerdict, claims_of
from calque.run.tensors import writing
from calque.zoo.rows import place

HEAD = ("", "", "row", "here", "lowest", "highest", "times", "paper", "times")


@dataclass(frozen=True)
class SpeedLine:
    """A row in a column. `times`: as good as the first row that was timed and has a figure there, else the first.

    `paper_times`: the same of the paper's figures.
    """

    column: Column
    row: str
    label: str
    values: tuple[float, ...]
    """Median, lowest and highest; the median alone of one repeat; nothing where nothing is measured."""
    times: float | None
    paper: Figure | None
    paper_times: float | None


@dataclass(frozen=True)
class SpeedReport:
    """All that the report says."""

    title: str
    pair: str
    columns: tuple[Column, ...]
    """All of the table's."""
    lines: tuple[SpeedLine, ...]
    claims: tuple[ClaimVerdict, ...]
    under_trained: Mapping[str, str]
    """Rows whose models have not learned enough to test a claim, and why."""
    entry: Entry


def write_speed_report(out: Path, column: Column) -> str:
    """Writes `speed.md` and `speed.json` beside the figures of the paper's pair that `column` names; returns it as text.

    Raises X706 where nothing is timed, X851 where the paper takes other sizes for the pair.
    """
    report = report_in(out, column)
    with writing(out):
        write_whole(out / "speed.md", markdown(report).encode())
        write_whole(out / "speed.json", (json.dumps(_json(report), indent=1, ensure_ascii=False) + "\n").encode())
    return _text(report)


def report_in(out: Path, column: Column) -> SpeedReport:
    """The report of what is timed in an output folder. Raises what `write_speed_report` raises."""
    asked = asked_in(out)
    check_sizes(out, asked, column)
    return make_report(asked, timing_in(out), read_entries(out / CELLS), column)


def make_report(asked: Request, entry: Entry, cells: Sequence[Entry], column: Column) -> SpeedReport:
    """The report of a timing beside the paper's pair that `column` names; `cells` are those whose models were timed, if any."""
    paper, table = read_paper.paper(asked.paper), asked.printed
    found = measured(entry, table)
    here = {
        c: found.get(dataclasses.replace(c, pair=""), {})
        for c in table.columns
        if c.pair == column.pair and c.metric in (*TIMED, *UNMEASURED)
    }
    timed = {c: values for c, values in here.items() if values}
    rows = [row for row in table.rows if any(row.key in values for values in found.values())]
    why = _under_trained(entry, cells, rows)
    claims = []
    for claim in claims_of(paper.claims, table.name, *TIMED, *UNMEASURED):
        reason = why_untested(claim, asked, why)
        claims.append(ClaimVerdict(claim, UNTESTED, (), (), reason) if reason else ranges.judge(timed, claim, table))
    return SpeedReport(
        f"{paper.cite}, {place(table.name)}: {table.title}",
        next(pair.title for pair in paper.pairs if pair.name == column.pair),
        table.columns,
        tuple(line for c, values in here.items() for line in _lines(c, rows, values, why)),
        tuple(claims),
        why,
        entry,
    )


def _under_trained(entry: Entry, cells: Sequence[Entry], rows: Sequence[Row]) -> dict[str, str]:
    """Rows whose timed models have not learned and so write other lengths; with random weights all lengths are given."""
    if entry.conditions.get("weights") != "trained":
        return {}
    known, marked = {str(cell.conditions["row"]) for cell in cells}, marked_rows(cells)
    found = {}
    for row in rows:
        names = [name for name in (row.key, row.model_of) if name]
        if not any(name in known for name in names):
            found[row.key] = "nothing is recorded of its training"
        elif reason := next((marked[name] for name in names if name in marked), ""):
            found[row.key] = reason
    return found


def _lines(
    column: Column, rows: Sequence[Row], values: Mapping[str, tuple[float, ...]], under_trained: Mapping[str, str]
) -> Iterator[SpeedLine]:
    first = next((row for row in rows if row.figure(column)), rows[0])
    for row in rows:
        ours, theirs, base = values.get(row.key, ()), row.figure(column), first.figure(column)
        yield SpeedLine(
            column,
            row.key,
            row.label + f" ({UNDER_TRAINED})" * (row.key in under_trained),
            ours,
            times(ours[0], values[first.key][0], column) if ours else None,
            theirs,
            times(theirs.value, base.value, column) if theirs and base else None,
        )


def _table(report: SpeedReport) -> list[list[str]]:
    found = []
    for line in report.lines:
        ours = [f"{value:.4g}" for value in line.values] or ["not measured"]
        paper = [paper_text(line.paper), _times(line.paper_times)]
        found.append(
            [line.column.what, line.label, line.row, *(ours + ["-"] * 3)[:3], _times(line.times), *paper],
        )
    return found


def _times(value: float | None) -> str:
    return "-" if value is None else f"{value:.2f}"


def _remarks(report: SpeedReport) -> list[str]:
    entry = report.entry
    return [
        "Here: the median of the repeats, the lowest and the highest. times: how many times as good as the first row of which "
        "the paper has a figure, else the first, here of medians.",
        *[ranges.EXPLAINED] * any(judged.tested for judged in report.claims),
        *under_trained_remarks(report.under_trained),
        entry.notes,
        *(f"{key}: {value}" for key, value in entry.conditions.items() if value is not None),
        *(
            f"Not measured: {m}: {why}."
            for m, why in UNMEASURED.items()
            if any(m == x.column.metric for x in report.lines)
        ),
    ]


def _head(report: SpeedReport) -> list[str]:
    count = len(report.under_trained)
    return under_trained_head(count, len({line.row for line in report.lines})) if count else []


def _text(report: SpeedReport) -> str:
    lines = [
        report.title,
        f"The paper's: {report.pair}.",
        *_head(report),
        "",
        *aligned(HEAD, _table(report), (0, 1, 2)),
        "",
    ]
    lines += [*claims_text(report.claims, report.columns), "", *_remarks(report), "", report.entry.command]
    return "\n".join(lines) + "\n"


def markdown(report: SpeedReport) -> str:
    """The report as a page."""
    lines = [
        f"# {report.title}",
        "",
        *(f"**{one}**\n" for one in _head(report)),
        f"The paper's: {report.pair}.",
        "",
        *pipes(HEAD, _table(report), (0, 1, 2)),
        "",
    ]
    lines += [*claims_page(report.claims, report.columns), ""]
    lines += [*(f"- {one}" for one in _remarks(report)), "", f"    {report.entry.command}", ""]
    return "\n".join(lines)


def _json(report: SpeedReport) -> dict[str, Any]:
    return {**dataclasses.asdict(report), "claims": claims_json(report.claims)}
