"""The report as text and as Markdown; and what the report of speeds shares with it."""

import itertools
from collections.abc import Iterator, Mapping, Sequence

from calque.ground.table import aligned, pipes
from calque.papers.paper import Column, Figure
from calque.papers.report import ReportRow, TableReport
from calque.papers.trained import RULE
from calque.papers.verdicts import ClaimVerdict, ContrastResult

_FIGURES = (
    ("BLEU", "BLEU", 2),
    ("uncased BLEU", "uncased", 2),
    ("BLEU, unknown words replaced", "+ unk", 2),
    ("NIST BLEU", "NIST", 2),
    ("METEOR", "METEOR", 2),
    ("AER", "AER", 3),
    ("validation perplexity", "perplexity", 2),
    ("parameters", "parameters", 0),
    ("updates", "updates", 0),
    ("training seconds", "seconds", 0),
    ("target tokens/s", "tokens/s", 0),
)
"""Name in an entry, head of the column, decimals."""


def text(report: TableReport) -> str:
    """The report for a terminal."""
    head, rows = _table(report)
    lines = [
        report.title,
        _beside(report),
        *under_trained_text(report),
        "",
        *aligned(head, rows, (0, 1, len(head) - 1)),
        "",
    ]
    lines += [*claims_text(report.claims, report.columns), "", *_remarks(report), "", report.command]
    return "\n".join(lines) + "\n"


def markdown(report: TableReport, picture: str = "report.png") -> str:
    """The report as a page, with its picture."""
    head, rows = _table(report)
    lines = [
        f"# {report.title}",
        "",
        *(f"**{one}**\n" for one in under_trained_text(report)),
        _beside(report),
        "",
        *pipes(head, rows, (0, 1, len(head) - 1)),
        "",
        f"![the figures]({picture})",
        "",
    ]
    lines += [*claims_page(report.claims, report.columns), ""]
    lines += [*(f"- {one}" for one in _remarks(report)), "", f"    {report.command}", ""]
    return "\n".join(lines)


def claims_text(claims: Sequence[ClaimVerdict], columns: Sequence[Column]) -> list[str]:
    """Claims for a terminal; `columns` are all of the table's."""
    lines = ["Claims of the paper, tested here:", ""]
    for judged in claims:
        lines.append(f"  {judged.verdict:<13}  {judged.claim.text} ({_of(judged, columns)})")
        lines += [f"{'':17}{_tested(one)}" for one in judged.tested]
        lines += [] if judged.tested else [f"{'':17}{judged.why}"]
    return lines


def claims_page(claims: Sequence[ClaimVerdict], columns: Sequence[Column]) -> list[str]:
    """The same as a section of a page."""
    rows = []
    for judged in claims:
        told = "; ".join(_tested(one) for one in judged.tested) or judged.why
        rows.append([judged.claim.text, _of(judged, columns), judged.verdict, told])
    return ["## Claims", "", *pipes(["claim", "said of", "here", "tested"], rows, range(4))]


def under_trained_text(report: TableReport) -> list[str]:
    """What the top of a report says where rows have not learned."""
    count, rows = len(report.under_trained), len(report.lines)
    return under_trained_head(count, rows) if count else []


def under_trained_head(count: int, rows: int) -> list[str]:
    """The same for any number of rows."""
    some = "All rows are" if count == rows else f"{count} of {rows} rows are"
    return [
        f"{some} under-trained. Models that have not learned say nothing about a text: claims about them are not tested."
    ]


def under_trained_remarks(why: Mapping[str, str]) -> list[str]:
    """Why rows are under-trained, those with one reason together."""
    rows: dict[str, list[str]] = {}
    for row, reason in why.items():
        rows.setdefault(reason, []).append(row)
    return [RULE] * bool(rows) + [f"Under-trained: {', '.join(some)}: {reason}." for reason, some in rows.items()]


def _beside(report: TableReport) -> str:
    return f"Here: {report.corpus}. The paper's {report.printed}: {report.pair}."


def _of(judged: ClaimVerdict, all_columns: Sequence[Column]) -> str:
    columns = judged.claim.columns
    told = "all columns" if set(columns) == set(all_columns) else ", ".join(_columns(columns))
    return f"section {judged.claim.section}, of {told}"


def _columns(columns: Sequence[Column]) -> Iterator[str]:
    """Columns in words, those that differ in the beam alone together."""
    for _, some in itertools.groupby(columns, key=lambda c: (c.pair, c.metric)):
        first, *rest = some
        yield ", ".join([str(first), *(str(c.beam) for c in rest)])


def _table(report: TableReport) -> tuple[list[str], list[list[str]]]:
    known = _FIGURES if any(f[0] == report.metric for f in _FIGURES) else ((report.metric, report.metric, 1), *_FIGURES)
    shown = [f for f in known if any(f[0] in line.figures for line in report.lines)]
    head = ["", "row", "seeds", *(title for _, title, _ in shown), f"paper {report.printed}", "settings"]
    return head, [_row(line, shown) for line in report.lines]


def _row(line: ReportRow, shown: Sequence[tuple[str, str, int]]) -> list[str]:
    cells = [line.label, line.row, str(len(line.seeds))]
    for name, _, decimals in shown:
        mean, deviation = line.figures.get(name, (None, None))
        told = "-" if mean is None else f"{mean:,.{decimals}f}"
        spread = deviation is not None and (decimals > 0 or deviation > 0)
        cells.append(f"{told} ± {deviation:,.{decimals}f}" if spread else told)
    return [*cells, paper_text(line.paper), line.settings]


def paper_text(figure: Figure | None) -> str:
    """A figure as printed."""
    if figure is None:
        return "-"
    return f"{figure.value}" + (f" ± {figure.deviation}" if figure.deviation is not None else "")


def _tested(one: ContrastResult) -> str:
    low, high = one.interval
    if one.ratio:
        paper = "" if one.paper is None else f"; paper {one.paper:.2f}"
        return f"{one.text} = {one.value:.2f} times as good [{low:.2f}, {high:.2f}]: {one.verdict}{paper}"
    p = "" if one.p is None else f", p {one.p:.4f}"
    paper = "" if one.paper is None else f"; paper {one.paper:+.1f}"
    return f"{one.text} = {one.value:+.2f} [{low:+.2f}, {high:+.2f}]{p}: {one.verdict}{paper}"


def _remarks(report: TableReport) -> list[str]:
    seeds = [len(line.seeds) for line in report.lines]
    tested = any(judged.tested for judged in report.claims)
    found = [report.tests] * tested
    found += [f"{report.metric} signature: {report.signature}."] if report.signature else []
    if tested and min(seeds) == 1:
        found.append("Rows with one seed: the tests hold for these runs, not for what another seed would give.")
    if min(seeds) != max(seeds):
        found.append("Rows differ in their number of finished seeds.")
    found += under_trained_remarks(report.under_trained)
    found += report.notes
    found += [f"Not measured: {what}: {why}." for what, why in report.unmeasured.items()]
    found += [f"{key}: {'; '.join(values)}" for key, values in report.conditions.items() if values]
    if report.failures:
        told = "; ".join(one.split("\n")[1] for one in report.failures)
        found.append(f"Failed cells, with the reason below `failures`: {told}.")
    return found
