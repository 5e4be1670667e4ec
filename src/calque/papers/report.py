"""The report of an output folder: figures beside the paper's, claims, and where all of it is from."""

import dataclasses
import json
import statistics
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from calque.evaluate.scores import read_aligned
from calque.evaluate.significance import Runs
from calque.evaluate.statistics import Measure
from calque.ground.diagnostics import CalqueError, Place, error, nearest, render_all
from calque.ground.files import write_whole
from calque.ledger.entry import Entry
from calque.ledger.entry import read as read_entries
from calque.papers import ranges, read_paper, verdicts
from calque.papers.columns import TRAININGS, complete, figure_of
from calque.papers.own_corpus import corpus_in
from calque.papers.paper import Claim, Column, Figure, Paper, PrintedTable
from calque.papers.plan import CELLS, FAILURES, Tell
from calque.papers.request import Request, asked_in
from calque.papers.speed import TIMED
from calque.papers.texts import TEXTS, measure_of
from calque.papers.trained import UNDER_TRAINED, marked_rows, why_untested
from calque.papers.verdicts import UNTESTED, ClaimVerdict, Judge, claims_of, statistics_of
from calque.run.tensors import writing
from calque.zoo.rows import place

OF = ("NIST BLEU of", "AER of", "accuracy of")
"""Conditions of cells that say what a figure was taken of."""
ByRow = Mapping[str, list[Entry]]
Testing = Callable[[Sequence[Claim], ByRow], Sequence[ClaimVerdict]]
"""Tests claims on the cells of rows."""
UNMEASURED = {
    "batch-tokens": "the largest batch is that of one accelerator's memory; a processor shares its memory with all else that runs",
}
"""Metrics that nothing here measures, of which reports show the paper's figures, and why."""


@dataclass(frozen=True)
class ReportOptions:
    """Which column of the paper stands beside our figures, and how hard claims are tested."""

    pair: str | None = None
    metric: str | None = None
    """Without one BLEU, or the table's first metric that is measured here where it has no BLEU."""
    trials: int = 10_000
    held: str | None = None
    """The pair that the cells are of, which is meant where none is named."""

    def column(self, paper: str, table: PrintedTable) -> Column:
        """The column of a table: of the pair named, else of that of the cells, else the first one. Raises X707 and X708."""
        metric = self.metric or next(
            (m for m in ("bleu", *(c.metric for c in table.columns)) if _prints(table, m) and _is_measured(m)), "bleu"
        )
        found = [column for column in table.columns if column.metric == metric and self.pair in (None, column.pair)]
        if not found:
            name = metric if self.pair is None else f"{self.pair} {metric}"
            names = [str(column) for column in table.columns]
            raise error("X707", None, table=f"{paper}/{table.name}", name=name, near=nearest(name, names), names=names)
        if not _is_measured(metric):
            raise error("X708", None, metric=metric, reason=UNMEASURED.get(metric))
        return next((column for column in found if self.pair is None and column.pair == self.held), found[0])


def _prints(table: PrintedTable, metric: str) -> bool:
    return any(column.metric == metric for column in table.columns)


def _is_measured(metric: str) -> bool:
    return metric in TRAININGS or metric in TIMED


@dataclass(frozen=True)
class ReportRow:
    """A row of the report: means over seeds, deviations where there are two seeds or more. `label` says if it is under-trained."""

    row: str
    label: str
    seeds: tuple[int, ...]
    figures: Mapping[str, tuple[float, float | None]]
    settings: str
    paper: Figure | None


@dataclass(frozen=True)
class TableReport:
    """All that the report says."""

    asked: Request
    title: str
    columns: tuple[Column, ...]
    """All of the table's."""
    corpus: str
    column: Column
    """The paper's that stands beside, and its language pair in words."""
    pair: str
    printed: str
    """Its metric as a heading."""
    metric: str
    """What cells call it."""
    lines: tuple[ReportRow, ...]
    claims: tuple[ClaimVerdict, ...]
    failures: tuple[str, ...]
    unmeasured: Mapping[str, str]
    """Rows and columns without a figure, and why."""
    under_trained: Mapping[str, str]
    """Rows whose models have not learned enough to test a claim, and why."""
    signature: str
    """Of scores of translations."""
    tests: str
    """How claims are tested."""
    notes: tuple[str, ...]
    conditions: Mapping[str, tuple[str, ...]]

    @property
    def command(self) -> str:
        """What makes all of it anew."""
        seeds = max(max(line.seeds) for line in self.lines)
        rows = ",".join(line.row for line in self.lines)
        beside = f"--pair {self.column.pair} --metric {self.column.metric}"
        asked = dataclasses.replace(self.asked, pair=None)
        return f"{asked.command} --rows {rows} --seeds {seeds} {beside}"


def write_report(out: Path, root: Path, shown: ReportOptions, tell: Tell) -> str:
    """Writes `report.md`, `report.json` and `report.png`, and returns the report as text.

    First measures what is missing in cells, see `calque.papers.columns`. Raises X706 where no cell is finished, X707, X708
    where none has a figure of the metric, and X851 where the paper takes other sizes for the pair.
    """
    from calque.papers import render
    from calque.papers.picture import draw

    report = report_in(out, root, shown, complete(out, root, tell))
    text = render.text(report)
    with writing(out):
        write_whole(out / "report.md", render.markdown(report).encode())
        write_whole(out / "report.json", (json.dumps(as_json(report), indent=1, ensure_ascii=False) + "\n").encode())
        try:
            draw(report, out / "report.png")
        except CalqueError as fault:  # no picture where its library is not installed
            tell(render_all(fault.diagnostics))
    return text


def report_in(out: Path, root: Path, shown: ReportOptions, unmeasured: Mapping[str, str]) -> TableReport:
    """The report of what is finished in an output folder; `unmeasured` says why figures are missing. Raises what `write_report`
    raises."""
    asked = asked_in(out)
    column = shown.column(asked.paper, read_paper.paper(asked.paper).table(asked.table))
    check_sizes(out, asked, column)
    failures = tuple(file.read_text(encoding="utf-8") for file in sorted((out / FAILURES).glob("*.txt")))
    entries = read_entries(out / CELLS)
    if not entries:
        raise error("X706", Place(str(out)))

    def test(claims: Sequence[Claim], by_row: ByRow) -> list[ClaimVerdict]:
        if column.metric in TEXTS:
            return _by_translations(claims, by_row, asked, column, root, out, shown.trials)
        return _by_ranges(claims, by_row, asked.printed, column)

    try:
        return make_report(asked, entries, column, test, failures, unmeasured)
    except NoFigure:
        named = (column.metric, str(column))
        why = next((why for what, why in unmeasured.items() if what.partition(" of ")[0] in named), None)
        raise error("X708", Place(str(out)), metric=column.metric, reason=why) from None


def check_sizes(out: Path, asked: Request, column: Column) -> None:
    """Raises X851 where the rows of a folder have other sizes than the paper takes for the pair of a column."""
    if not asked.has_sizes_of(column.pair):
        held = asked.pair or "no language pair"
        raise error("X851", Place(str(out)), expected=held, found=column.pair)


class NoFigure(Exception):
    """No cell has a figure of the metric."""


def make_report(
    asked: Request,
    entries: Sequence[Entry],
    column: Column,
    test: Testing,
    failures: tuple[str, ...] = (),
    unmeasured: Mapping[str, str] | None = None,
) -> TableReport:
    """The report of cells beside a column of the paper; `test` is given the claims that the cells can test. Raises NoFigure."""
    paper, table, metric = read_paper.paper(asked.paper), asked.printed, figure_of(column)
    by_row = {row.key: _of_row(entries, row.key) for row in table.rows}
    by_row = {row: found for row, found in by_row.items() if found}
    marked = marked_rows(entries)
    under_trained = {row: marked[row] for row in by_row if row in marked}
    lines = tuple(_line(table, row, found, column, row in under_trained) for row, found in by_row.items())
    if not any(metric in line.figures for line in lines):
        raise NoFigure
    where = ("machine", "accelerator", "threads", "precision", "torch", "commit", "sizes", "keys", *OF)
    conditions = {
        key: _each(str(e.conditions[key]) for e in entries if e.conditions.get(key) is not None) for key in where
    }
    signatures = _each(str(e.conditions.get(f"{metric} signature", "")) for e in entries if metric in e.figures)
    return TableReport(
        asked,
        f"{paper.cite}, {place(table.name)}: {table.title}",
        table.columns,
        "; ".join(_each(str(e.conditions["corpus"]) for e in entries)),
        column,
        next(pair.title for pair in paper.pairs if pair.name == column.pair),
        TEXTS[column.metric].figure if column.metric in TEXTS else column.metric,
        metric,
        lines,
        tuple(_tested(claims_of(paper.claims, table.name, column.metric), asked, under_trained, by_row, test)),
        failures,
        unmeasured or {},
        under_trained,
        "; ".join(one for one in signatures if one) if column.metric in TEXTS else "",
        verdicts.EXPLAINED if column.metric in TEXTS else ranges.EXPLAINED,
        (*_each(entry.notes for entry in entries if entry.notes), *_deviations(paper, entries)),
        {**conditions, "data": _each(str(e.data_hash) for e in entries)},
    )


def _deviations(paper: Paper, entries: Sequence[Entry]) -> list[str]:
    """Rows that were trained without a key of the paper's file, by versions that had none."""
    found = []
    for key in paper.keys:
        rows = _each(str(e.conditions["row"]) for e in entries if key not in str(e.conditions.get("keys", key)).split())
        found += [f"Trained without `{key}`, which the paper's rows need: {', '.join(rows)}."] if rows else []
    return found


def _tested(
    claims: Sequence[Claim], asked: Request, under_trained: Mapping[str, str], by_row: ByRow, test: Testing
) -> Sequence[ClaimVerdict]:
    """Claims in their order, those tested that can be."""
    why = [why_untested(claim, asked, under_trained) for claim in claims]
    rest = [claim for claim, reason in zip(claims, why, strict=True) if not reason]
    found = iter(test(rest, by_row) if rest else ())
    return [
        ClaimVerdict(c, UNTESTED, (), (), reason) if reason else next(found)
        for c, reason in zip(claims, why, strict=True)
    ]


def _by_translations(
    claims: Sequence[Claim], by_row: ByRow, asked: Request, column: Column, root: Path, out: Path, trials: int
) -> list[ClaimVerdict]:
    """Claims tested on the stored translations."""
    metrics = [column.metric, *(c.metric for claim in claims for c in _grown(claim))]
    sets = {m: _set(m, asked, root, out, by_row) for m in dict.fromkeys(metrics) if m in TEXTS}
    made, runs = sets[column.metric]
    judge = Judge(made, runs, trials, beside=sets)
    return [judge.judge(claim, asked.printed, column) for claim in claims]


def _by_ranges(claims: Sequence[Claim], by_row: ByRow, table: PrintedTable, column: Column) -> list[ClaimVerdict]:
    """Claims tested on single figures of trainings."""
    columns = [
        c for c in table.columns if c.metric == column.metric and (c.pair == column.pair or c.metric == "accuracy")
    ]
    values = {c: _values(by_row, figure_of(c)) for c in columns}
    return [ranges.judge({c: v for c, v in values.items() if v}, claim, table) for claim in claims]


def _of_row(entries: Sequence[Entry], row: str) -> list[Entry]:
    return sorted((e for e in entries if e.conditions.get("row") == row), key=lambda e: int(str(e.seed)))


def _each(values: Any) -> tuple[str, ...]:
    return tuple(dict.fromkeys(values))


def _grown(claim: Claim) -> tuple[Column, ...]:
    """The columns of a claim that needs them all."""
    return claim.columns if claim.kind == "grows" else ()


def _values(by_row: ByRow, figure: str) -> dict[str, list[float]]:
    values = {row: [float(e.figures[figure]) for e in found if figure in e.figures] for row, found in by_row.items()}
    return {row: found for row, found in values.items() if found}


def _set(metric: str, asked: Request, root: Path, out: Path, by_row: ByRow) -> tuple[Measure, dict[str, Runs]]:
    """A metric of translations, and the statistics of the cells that have its figure."""
    made, scored = measure_of(metric, corpus_in(out, asked.corpus), root, out), TEXTS[metric]
    files = {
        row: [scored.file(out, row, int(str(e.seed))) for e in found if scored.figure in e.figures]
        for row, found in by_row.items()
    }
    files = {row: some for row, some in files.items() if some}
    lines, references = read_aligned([file for some in files.values() for file in some], out / scored.reference)
    rest = iter(lines)
    return made, statistics_of(made, {row: [next(rest) for _ in some] for row, some in files.items()}, references)


def _line(table: PrintedTable, row: str, found: Sequence[Entry], column: Column, under_trained: bool) -> ReportRow:
    figures: dict[str, tuple[float, float | None]] = {}
    for name in dict.fromkeys(name for entry in found for name in entry.figures):
        values = [float(entry.figures[name]) for entry in found if name in entry.figures]
        figures[name] = statistics.mean(values), statistics.stdev(values) if len(values) > 1 else None
    settings = _each(str(entry.conditions["settings"]) for entry in found)
    here = table.row(row)
    seeds = tuple(int(str(entry.seed)) for entry in found)
    label = here.label + f" ({UNDER_TRAINED})" * under_trained
    return ReportRow(row, label, seeds, figures, "; ".join(settings), here.figure(column))


def as_json(report: TableReport) -> dict[str, Any]:
    """The report for programs."""
    return {"command": report.command, **dataclasses.asdict(report), "claims": claims_json(report.claims)}


def claims_json(claims: Sequence[ClaimVerdict]) -> list[dict[str, Any]]:
    """Tested claims for programs."""
    found = []
    for judged in claims:
        claim = judged.claim
        told = {"text": claim.text, "section": claim.section, "columns": [str(c) for c in claim.columns]}
        found.append({**dataclasses.asdict(judged), "claim": told})
    return found
