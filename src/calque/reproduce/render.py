"""The report as text and as Markdown."""

from collections.abc import Sequence

from calque.reproduce.report import Line, Report
from calque.reproduce.verdicts import Judged, Tested

_FIGURES = (
    ("BLEU", "BLEU", 2),
    ("METEOR", "METEOR", 2),
    ("validation perplexity", "perplexity", 2),
    ("parameters", "parameters", 0),
    ("updates", "updates", 0),
    ("training seconds", "seconds", 0),
    ("target tokens/s", "tokens/s", 0),
)
"""Name in an entry, head of the column, decimals."""


def text(report: Report) -> str:
    """The report for a terminal."""
    head, rows = _table(report)
    lines = [report.title, _beside(report), "", *_aligned(head, rows), "", "Claims of the paper, tested here:", ""]
    for judged in report.claims:
        lines.append(f"  {judged.verdict:<13}  {judged.claim.text} ({_of(judged, report)})")
        lines += [f"{'':17}{_tested(one)}" for one in judged.tested]
        lines += [f"{'':17}no finished cell of {', '.join(judged.missing)}"] if judged.missing else []
    lines += ["", *_remarks(report), "", report.command]
    return "\n".join(lines) + "\n"


def markdown(report: Report) -> str:
    """The report as a page, with its picture `report.png`."""
    head, rows = _table(report)
    lines = [f"# {report.title}", "", _beside(report), "", *_pipes(head, rows), "", "![the figures](report.png)", ""]
    lines += ["## Claims", ""]
    claims = []
    for judged in report.claims:
        told = "; ".join(_tested(one) for one in judged.tested) or f"no cell of {', '.join(judged.missing)}"
        claims.append([judged.claim.text, _of(judged, report), judged.verdict, told])
    lines += [*_pipes(["claim", "said of", "here", "tested"], claims), ""]
    lines += [*(f"- {one}" for one in _remarks(report)), "", f"    {report.command}", ""]
    return "\n".join(lines)


def _beside(report: Report) -> str:
    return f"Here: {report.corpus}. The paper's {report.metric}: {report.column}."


def _of(judged: Judged, report: Report) -> str:
    columns = judged.claim.columns
    told = "all columns" if set(columns) == set(report.columns) else ", ".join(map(str, columns))
    return f"section {judged.claim.section}, of {told}"


def _table(report: Report) -> tuple[list[str], list[list[str]]]:
    shown = [f for f in _FIGURES if any(f[0] in line.figures for line in report.lines)]
    head = ["", "row", "seeds", *(title for _, title, _ in shown), f"paper {report.metric}", "settings"]
    return head, [_row(line, shown) for line in report.lines]


def _row(line: Line, shown: Sequence[tuple[str, str, int]]) -> list[str]:
    cells = [line.label, line.row, str(len(line.seeds))]
    for name, _, decimals in shown:
        mean, deviation = line.figures.get(name, (None, None))
        told = "-" if mean is None else f"{mean:,.{decimals}f}"
        spread = deviation is not None and (decimals > 0 or deviation > 0)
        cells.append(f"{told} ± {deviation:,.{decimals}f}" if spread else told)
    paper = "-"
    if line.paper is not None:
        paper = f"{line.paper.value}" + (f" ± {line.paper.deviation}" if line.paper.deviation is not None else "")
    return [*cells, paper, line.settings]


def _tested(one: Tested) -> str:
    low, high = one.interval
    p = "" if one.p is None else f", p {one.p:.4f}"
    paper = "" if one.paper is None else f"; paper {one.paper:+.1f}"
    return f"{one.text} = {one.value:+.2f} [{low:+.2f}, {high:+.2f}]{p}: {one.verdict}{paper}"


def _remarks(report: Report) -> list[str]:
    seeds = [len(line.seeds) for line in report.lines]
    found = [
        "Brackets: 95 % bootstrap intervals. p: approximate randomisation, two-sided, level 0.05; differences of gains are "
        "decided by their interval, `about` and `no gain` by whether theirs lies within 0.5.",
        f"{report.metric} signature: {report.signature}.",
    ]
    if min(seeds) == 1:
        found.append("Rows with one seed: the tests hold for these runs, not for what another seed would give.")
    if min(seeds) != max(seeds):
        found.append("Rows differ in their number of finished seeds.")
    found += report.notes
    found += [f"{key}: {'; '.join(values)}" for key, values in report.conditions.items() if values]
    if report.failures:
        told = "; ".join(one.split("\n")[1] for one in report.failures)
        found.append(f"Failed cells, with the reason below `failures`: {told}.")
    return found


def _aligned(head: Sequence[str], rows: Sequence[Sequence[str]]) -> list[str]:
    widths = [max(len(row[k]) for row in (head, *rows)) for k in range(len(head))]
    last = len(head) - 1
    return [
        "  ".join(
            c.ljust(w) if k in (0, 1, last) else c.rjust(w) for k, (c, w) in enumerate(zip(row, widths, strict=True))
        ).rstrip()
        for row in (head, *rows)
    ]


def _pipes(head: Sequence[str], rows: Sequence[Sequence[str]]) -> list[str]:
    rule = ["---"] * len(head)
    return [
        "| " + " | ".join(" ".join(c.split()).replace("|", "\\|") for c in row) + " |" for row in (head, rule, *rows)
    ]
