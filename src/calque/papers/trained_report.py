"""The report of the trained cells of an output folder, or of a ledger."""

import dataclasses
import statistics
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from calque.evaluate.scores import read_aligned
from calque.evaluate.significance import Runs
from calque.evaluate.statistics import Measure
from calque.ground.diagnostics import Place, error
from calque.ledger.entry import Entry
from calque.ledger.entry import read as read_entries
from calque.papers import claims, read_paper
from calque.papers.claims import Evidence, claims_of, judge_all
from calque.papers.convergence import UNDER_TRAINED, marked_rows, why_untested
from calque.papers.intervals import Ranges, Resampling, statistics_of
from calque.papers.layout import CELLS, FAILURES, Tell
from calque.papers.measures import complete
from calque.papers.metrics import METRICS, SHOWN, TEXTS
from calque.papers.own_corpus import corpus_in
from calque.papers.paper import Claim, Column, Figure, Paper, PrintedTable
from calque.papers.picture import Bars
from calque.papers.render import under_trained_remarks, write_report
from calque.papers.report import Report, ReportOptions, check_sizes, paper_text
from calque.papers.request import Request, request_in
from calque.papers.scoring import measure_of, translations
from calque.zoo.row_texts import place

CONDITIONS = ("machine", "accelerator", "threads", "precision", "torch", "commit", "sizes", "keys")
SOURCES = ("NIST BLEU of", "AER of", "accuracy of")
"""Conditions of cells that say what a figure was computed from."""
NO_TEXT = "its translations are not in the ledger, and a test needs them"
ByRow = Mapping[str, list[Entry]]
Collect = Callable[[Sequence[Claim], ByRow], Evidence]
"""Collects the evidence that claims need, from the cells of rows."""


class NoFigure(Exception):
    """No cell has a figure of the metric."""


@dataclass(frozen=True)
class TrainedRow:
    """A row of the report: mean and deviation of each figure over seeds; no deviation of one seed."""

    row: str
    label: str
    seeds: tuple[int, ...]
    figures: Mapping[str, tuple[float, float | None]]
    settings: str
    paper: Figure | None


def report_trained(out: Path, root: Path, options: ReportOptions, tell: Tell) -> str:
    """Writes `report.md`, `report.json` and `report.png`, and returns the report as text.

    First measures what cells lack, see `calque.papers.measures`. Raises X706 where no cell is finished, X707, X708 where none
    has a figure of the metric, and X851 where the paper takes other sizes for the pair.
    """
    unmeasured = complete(out, root, tell)
    request = request_in(out)
    column = options.column(request.paper, request.printed)
    check_sizes(out, request, column)
    failures = tuple(file.read_text(encoding="utf-8") for file in sorted((out / FAILURES).glob("*.txt")))
    if not (entries := read_entries(out / CELLS)):
        raise error("X706", Place(str(out)))

    def collect(tested: Sequence[Claim], by_row: ByRow) -> Evidence:
        if column.metric not in TEXTS:
            return _single_figures(by_row, request.printed, column)
        metrics = [column.metric, *(c.metric for claim in tested if claim.kind == "grows" for c in claim.columns)]
        scores = {m: _scores(m, request, root, out, by_row) for m in dict.fromkeys(metrics) if m in TEXTS}
        return Resampling(scores, column, options.trials)

    try:
        report = make_report(request, entries, column, collect, failures, unmeasured)
    except NoFigure:
        named = (column.metric, str(column))
        why = next((why for what, why in unmeasured.items() if what.partition(" of ")[0] in named), None)
        raise error("X708", Place(str(out)), metric=column.metric, reason=why) from None
    return write_report(report, out, "report", tell)


def _single_figures(by_row: ByRow, table: PrintedTable, column: Column) -> Ranges:
    """The figures of each seed, in the columns that measure the same as the report's, or other kinds of error."""
    columns = [c for c in table.columns if c.metric == column.metric and (c.pair == column.pair or c.of.percentage)]
    values = {c: {row: _values(entries, c.figure) for row, entries in by_row.items()} for c in columns}
    held = {c: {row: some for row, some in rows.items() if some} for c, rows in values.items()}
    return Ranges({c: rows for c, rows in held.items() if rows})


def _scores(metric: str, request: Request, root: Path, out: Path, by_row: ByRow) -> tuple[Measure, Mapping[str, Runs]]:
    """A metric of translations, and the statistics of the cells that have its figure."""
    measure = measure_of(metric, corpus_in(out, request.corpus), root, out)
    files = {
        row: [translations(metric, out, row, int(str(e.seed))) for e in entries if METRICS[metric].figure in e.figures]
        for row, entries in by_row.items()
    }
    files = {row: some for row, some in files.items() if some}
    lines, references = read_aligned(
        [file for some in files.values() for file in some], out / METRICS[metric].reference
    )
    rest = iter(lines)
    return measure, statistics_of(measure, {row: [next(rest) for _ in some] for row, some in files.items()}, references)


def make_report(
    request: Request,
    entries: Sequence[Entry],
    column: Column,
    collect: Collect | None,
    failures: Sequence[str] = (),
    unmeasured: Mapping[str, str] | None = None,
) -> Report:
    """The report of cells beside a column of the paper. Without `collect`, translations are missing and no claim is tested.

    `failures` are the texts of cells that failed, `unmeasured` says why figures are missing. Raises NoFigure.
    """
    paper, table = read_paper.paper(request.paper), request.printed
    held = {row.key: _of_row(entries, row.key) for row in table.rows}
    by_row = {row: some for row, some in held.items() if some}
    marked = marked_rows(entries)
    under_trained = {row: marked[row] for row in by_row if row in marked}
    lines = tuple(_line(table, row, some, column, row in under_trained) for row, some in by_row.items())
    if not any(column.figure in line.figures for line in lines):
        raise NoFigure

    def obstacle(claim: Claim) -> str:
        return why_untested(claim, request, under_trained) or NO_TEXT * (collect is None)

    def evidence(tested: Sequence[Claim]) -> Evidence:
        assert collect is not None
        return collect(tested, by_row)

    verdicts = judge_all(claims_of(paper.claims, table.name, column.metric), table, obstacle, evidence)
    conditions = {key: _condition(entries, key) for key in (*CONDITIONS, *SOURCES)}
    content = {
        "asked": dataclasses.asdict(request),
        "title": f"{paper.cite}, {place(table.name)}: {table.title}",
        "columns": [dataclasses.asdict(c) for c in table.columns],
        "corpus": "; ".join(_condition(entries, "corpus")),
        "column": dataclasses.asdict(column),
        "pair": paper.pair(column.pair).title,
        "printed": column.figure if column.metric in TEXTS else column.metric,
        "metric": column.figure,
        "lines": [dataclasses.asdict(line) for line in lines],
        "claims": claims.as_json(verdicts),
        "failures": failures,
        "unmeasured": unmeasured or {},
        "under_trained": under_trained,
        "signature": _signature(entries, column),
        "tests": (Resampling if column.metric in TEXTS else Ranges).rule,
        "notes": [*_unique(entry.notes for entry in entries if entry.notes), *_deviations(paper, entries)],
        "conditions": {**conditions, "data": _unique(str(e.data_hash) for e in entries)},
    }
    return _report(request, column, lines, verdicts, content)


def _report(
    request: Request,
    column: Column,
    lines: Sequence[TrainedRow],
    verdicts: tuple[claims.ClaimVerdict, ...],
    content: dict[str, Any],
) -> Report:
    """The texts of a report, from its content."""
    rows, seeds = ",".join(line.row for line in lines), max(max(line.seeds) for line in lines)
    base = dataclasses.replace(request, pair=None).command
    command = f"{base} --rows {rows} --seeds {seeds} --pair {column.pair} --metric {column.metric}"
    shown = SHOWN if any(f[0] == column.figure for f in SHOWN) else ((column.figure, column.figure, 1), *SHOWN)
    shown = tuple(f for f in shown if any(f[0] in line.figures for line in lines))
    head = ("", "row", "seeds", *(title for _, title, _ in shown), f"paper {content['printed']}", "settings")
    return Report(
        request=request,
        title=content["title"],
        beside=f"Here: {content['corpus']}. The paper's {content['printed']}: {content['pair']}.",
        head=head,
        rows=tuple(_texts(line, shown) for line in lines),
        left=(0, 1, len(head) - 1),
        keys=tuple(line.row for line in lines),
        columns=request.printed.columns,
        claims=verdicts,
        under_trained=content["under_trained"],
        remarks=tuple(_remarks(lines, verdicts, content)),
        command=command,
        content={"command": command, **content},
        bars=_bars(lines, column, content, command),
    )


def _texts(line: TrainedRow, shown: Sequence[tuple[str, str, int]]) -> tuple[str, ...]:
    cells = [line.label, line.row, str(len(line.seeds))]
    for name, _, decimals in shown:
        mean, deviation = line.figures.get(name, (None, None))
        text = "-" if mean is None else f"{mean:,.{decimals}f}"
        spread = deviation is not None and (decimals > 0 or deviation > 0)
        cells.append(f"{text} ± {deviation:,.{decimals}f}" if spread else text)
    return (*cells, paper_text(line.paper), line.settings)


def _remarks(
    lines: Sequence[TrainedRow], verdicts: Sequence[claims.ClaimVerdict], content: dict[str, Any]
) -> list[str]:
    seeds = [len(line.seeds) for line in lines]
    tested = any(verdict.tested for verdict in verdicts)
    remarks = [content["tests"]] * tested
    remarks += [f"{content['metric']} signature: {content['signature']}."] if content["signature"] else []
    if tested and min(seeds) == 1:
        remarks.append("Rows with one seed: the tests hold for these runs, not for what another seed would give.")
    if min(seeds) != max(seeds):
        remarks.append("Rows differ in their number of finished seeds.")
    remarks += under_trained_remarks(content["under_trained"])
    remarks += content["notes"]
    remarks += [f"Not measured: {what}: {why}." for what, why in content["unmeasured"].items()]
    remarks += [f"{key}: {'; '.join(values)}" for key, values in content["conditions"].items() if values]
    if content["failures"]:
        failed = "; ".join(one.split("\n")[1] for one in content["failures"])
        remarks.append(f"Failed cells, with the reason below `failures`: {failed}.")
    return remarks


def _bars(lines: Sequence[TrainedRow], column: Column, content: dict[str, Any], command: str) -> Bars:
    seeds = sorted({len(line.seeds) for line in lines})
    counted = "–".join(map(str, (seeds[0], seeds[-1])[: len(seeds)]))
    here = [line.figures.get(column.figure, (None, None)) for line in lines]
    paper = [(p.value, p.deviation) if (p := line.paper) else (None, None) for line in lines]
    spread = ", mean and deviation over seeds" if any(one is not None for _, one in (*here, *paper)) else ""
    return Bars(
        content["title"],
        [line.label for line in lines],
        here,
        paper,
        (f"here: {content['corpus']}, {counted} seed{'s' * (seeds[-1] > 1)} a row", f"paper: {content['pair']}"),
        f"{content['printed']}{spread}; {'lower' if column.of.lower else 'higher'} is better",
        command,
    )


def _deviations(paper: Paper, entries: Sequence[Entry]) -> list[str]:
    """Rows that earlier versions trained without a key that the paper's file sets."""
    remarks = []
    for key in paper.keys:
        rows = _unique(
            str(e.conditions["row"]) for e in entries if key not in str(e.conditions.get("keys", key)).split()
        )
        remarks += [f"Trained without `{key}`, which the paper's rows need: {', '.join(rows)}."] if rows else []
    return remarks


def _signature(entries: Sequence[Entry], column: Column) -> str:
    """How translations were scored."""
    if column.metric not in TEXTS:
        return ""
    scored = [entry for entry in entries if column.figure in entry.figures]
    return "; ".join(one for one in _condition(scored, f"{column.figure} signature") if one)


def _of_row(entries: Sequence[Entry], row: str) -> list[Entry]:
    return sorted((e for e in entries if e.conditions.get("row") == row), key=lambda e: int(str(e.seed)))


def _condition(entries: Sequence[Entry], key: str) -> tuple[str, ...]:
    """The values that a condition has in entries, each once."""
    return _unique(str(e.conditions[key]) for e in entries if e.conditions.get(key) is not None)


def _unique(values: Iterable[str]) -> tuple[str, ...]:
    return tuple(dict.fromkeys(values))


def _values(entries: Sequence[Entry], figure: str) -> list[float]:
    return [float(entry.figures[figure]) for entry in entries if figure in entry.figures]


def _line(table: PrintedTable, row: str, entries: Sequence[Entry], column: Column, under_trained: bool) -> TrainedRow:
    figures: dict[str, tuple[float, float | None]] = {}
    for name in dict.fromkeys(name for entry in entries for name in entry.figures):
        values = _values(entries, name)
        figures[name] = statistics.mean(values), statistics.stdev(values) if len(values) > 1 else None
    printed = table.row(row)
    seeds = tuple(int(str(entry.seed)) for entry in entries)
    label = printed.label + f" ({UNDER_TRAINED})" * under_trained
    return TrainedRow(row, label, seeds, figures, "; ".join(_condition(entries, "settings")), printed.figure(column))
