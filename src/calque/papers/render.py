"""A report as text, as Markdown, and as files."""

import itertools
import json
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path

from calque.ground.diagnostics import CalqueError, render_all
from calque.ground.files import write_whole
from calque.ground.table import aligned, pipes
from calque.papers.claims import ClaimVerdict, ContrastResult
from calque.papers.convergence import RULE
from calque.papers.layout import Tell
from calque.papers.paper import Column
from calque.papers.picture import picture
from calque.papers.report import Report
from calque.run.tensors import writing


def write_report(report: Report, out: Path, name: str, tell: Tell) -> str:
    """Writes NAME.md, NAME.json, and NAME.png where the report has a picture, into a folder; returns the report as text."""
    with writing(out):
        write_whole(out / f"{name}.md", markdown(report, f"{name}.png").encode())
        content = json.dumps(report.content, indent=1, ensure_ascii=False)
        write_whole(out / f"{name}.json", (content + "\n").encode())
        if report.bars is not None:
            try:
                write_whole(out / f"{name}.png", picture(report.bars))
            except CalqueError as fault:  # matplotlib is not installed
                tell(render_all(fault.diagnostics))
    return text(report)


def text(report: Report) -> str:
    """The report for a terminal."""
    table = aligned(report.head, report.rows, report.left)
    lines = [report.title, report.beside, *warnings(report), "", *table, "", *_claims_text(report), ""]
    return "\n".join([*lines, *report.remarks, "", report.command]) + "\n"


def markdown(report: Report, image: str) -> str:
    """The report as a page, with its picture where it has one."""
    lines = [f"# {report.title}", "", *(f"**{one}**\n" for one in warnings(report)), report.beside, ""]
    lines += [*pipes(report.head, report.rows, report.left), ""]
    lines += [f"![the figures]({image})", ""] * (report.bars is not None)
    lines += ["## Claims", "", *claims_table(report.claims, report.columns), ""]
    return "\n".join([*lines, *(f"- {one}" for one in report.remarks), "", f"    {report.command}", ""])


def warnings(report: Report) -> list[str]:
    """What the top of a report says where rows have not learned."""
    count, rows = len(report.under_trained), len(set(report.keys))
    some = "All rows are" if count == rows else f"{count} of {rows} rows are"
    explained = "Models that have not learned say nothing about a text: claims about them are not tested."
    return [f"{some} under-trained. {explained}"] * bool(count)


def under_trained_remarks(reasons: Mapping[str, str]) -> list[str]:
    """Why rows are under-trained; rows with the same reason share a line."""
    rows: dict[str, list[str]] = {}
    for row, reason in reasons.items():
        rows.setdefault(reason, []).append(row)
    return [RULE] * bool(rows) + [f"Under-trained: {', '.join(some)}: {reason}." for reason, some in rows.items()]


def _claims_text(report: Report) -> list[str]:
    lines = ["Claims of the paper, tested here:", ""]
    for one in report.claims:
        lines.append(f"  {one.verdict:<13}  {one.claim.text} ({_source(one, report.columns)})")
        lines += [f"{'':17}{line}" for line in [*map(_result, one.tested)] or [one.why]]
    return lines


def claims_table(claims: Sequence[ClaimVerdict], columns: Sequence[Column]) -> list[str]:
    """Claims as a Markdown table; `columns` are all of the paper's table."""
    rows = [
        [one.claim.text, _source(one, columns), one.verdict, "; ".join(map(_result, one.tested)) or one.why]
        for one in claims
    ]
    return pipes(["claim", "said of", "here", "tested"], rows, range(4))


def _source(one: ClaimVerdict, columns: Sequence[Column]) -> str:
    """The section of a claim, and the columns that it is about."""
    whole = set(one.claim.columns) == set(columns)
    return f"section {one.claim.section}, of " + ("all columns" if whole else ", ".join(_columns(one.claim.columns)))


def _columns(columns: Sequence[Column]) -> Iterator[str]:
    """Columns in words; those that differ in the beam alone share a name."""
    for _, some in itertools.groupby(columns, key=lambda c: (c.pair, c.metric)):
        first, *rest = some
        yield ", ".join([str(first), *(str(c.beam) for c in rest)])


def _result(one: ContrastResult) -> str:
    low, high = one.interval
    if one.ratio:
        paper = "" if one.paper is None else f"; paper {one.paper:.2f}"
        return f"{one.text} = {one.value:.2f} times as good [{low:.2f}, {high:.2f}]: {one.verdict}{paper}"
    p = "" if one.p is None else f", p {one.p:.4f}"
    paper = "" if one.paper is None else f"; paper {one.paper:+.1f}"
    return f"{one.text} = {one.value:+.2f} [{low:+.2f}, {high:+.2f}]{p}: {one.verdict}{paper}"
