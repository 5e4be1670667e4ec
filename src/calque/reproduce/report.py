"""The report of an output folder: figures beside the paper's, claims, and where all of it is from."""

import dataclasses
import json
import statistics
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from calque import zoo
from calque.diagnostics import CalqueError, Place, error, nearest, render_all
from calque.evaluate.measure import Measure
from calque.evaluate.scores import read_aligned
from calque.evaluate.significance import Runs
from calque.ledger import Entry
from calque.ledger import read as read_entries
from calque.reproduce import ranges, verdicts
from calque.reproduce.columns import TRAININGS, complete, figure_of
from calque.reproduce.corpora import CORPORA
from calque.reproduce.plan import CELLS, FAILURES, Asked, Tell, asked_in
from calque.reproduce.speed import TIMED
from calque.reproduce.texts import TEXTS, measure_of
from calque.reproduce.verdicts import Judge, Judged, claims_of, statistics_of
from calque.run import writing
from calque.whole import write_whole
from calque.zoo.paper import Claim, Column, Figure, Table, place

OF = ("NIST BLEU of", "AER of", "accuracy of")
"""Conditions of cells that say what a figure was taken of."""
UNMEASURED = {
    "batch-tokens": "the largest batch is that of one accelerator's memory; a processor shares its memory with all else that runs",
}
"""Metrics that nothing here measures, and why."""


@dataclass(frozen=True)
class Shown:
    """Which column of the paper stands beside our figures, and how hard claims are tested."""

    pair: str | None = None
    metric: str | None = None
    """Without one BLEU, or the table's first metric that is measured here where it has no BLEU."""
    trials: int = 10_000

    def column(self, paper: str, table: Table) -> Column:
        """The column of a table; its first one of that metric where no pair is named. Raises X707 and X708."""
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
        return found[0]


def _prints(table: Table, metric: str) -> bool:
    return any(column.metric == metric for column in table.columns)


def _is_measured(metric: str) -> bool:
    return metric in TRAININGS or metric in TIMED


@dataclass(frozen=True)
class Line:
    """A row of the report: means over seeds, deviations where there are two seeds or more."""

    row: str
    label: str
    seeds: tuple[int, ...]
    figures: Mapping[str, tuple[float, float | None]]
    settings: str
    paper: Figure | None


@dataclass(frozen=True)
class Report:
    """All that the report says."""

    asked: Asked
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
    lines: tuple[Line, ...]
    claims: tuple[Judged, ...]
    failures: tuple[str, ...]
    unmeasured: tuple[str, ...]
    """Rows and columns without a figure, and why."""
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
        return f"{self.asked.command} --rows {rows} --seeds {seeds} {beside}"


def write_report(out: Path, root: Path, shown: Shown, tell: Tell) -> str:
    """Writes `report.md`, `report.json` and `report.png`, and returns the report as text.

    First measures what is missing in cells, see `calque.reproduce.columns`. Raises X706 where no cell is finished, X707,
    and X708 where none has a figure of the metric.
    """
    from calque.reproduce import render
    from calque.reproduce.picture import draw

    report = make_report(out, root, shown, complete(out, root, tell))
    text = render.text(report)
    with writing(out):
        write_whole(out / "report.md", render.markdown(report).encode())
        write_whole(out / "report.json", (json.dumps(as_json(report), indent=1, ensure_ascii=False) + "\n").encode())
        try:
            draw(report, out / "report.png")
        except CalqueError as fault:  # no picture where its library is not installed
            tell(render_all(fault.diagnostics))
    return text


def make_report(out: Path, root: Path, shown: Shown, unmeasured: tuple[str, ...] = ()) -> Report:
    """The report of what is finished in an output folder; `unmeasured` says why figures are missing. Raises what `write_report`
    raises."""
    asked = asked_in(out)
    paper = zoo.paper(asked.paper)
    table = paper.table(asked.table)
    column = shown.column(asked.paper, table)
    entries = read_entries(out / CELLS)
    failures = tuple(file.read_text(encoding="utf-8") for file in sorted((out / FAILURES).glob("*.txt")))
    if not entries:
        raise error("X706", Place(str(out)))
    by_row = {row.key: _of_row(entries, row.key) for row in table.rows}
    by_row = {row: found for row, found in by_row.items() if found}
    metric = figure_of(column)
    lines = tuple(_line(table, row, found, column) for row, found in by_row.items())
    if not any(metric in line.figures for line in lines):
        why = next((one for one in unmeasured if one.startswith(f"Not measured: {column.metric}")), None)
        raise error("X708", Place(str(out)), metric=column.metric, reason=why)
    said = claims_of(paper.claims, table.name, column.metric)
    if column.metric in TEXTS:
        sets = {
            m: _set(m, asked, root, out, by_row)
            for m in dict.fromkeys([column.metric, *(c.metric for claim in said for c in _grown(claim))])
            if m in TEXTS
        }
        made, runs = sets[column.metric]
        judge = Judge(made, runs, shown.trials, beside=sets)
        claims = [judge.judge(c, table, column) for c in said]
        signature, tests = made.signature(), verdicts.EXPLAINED
    else:
        columns = [
            c for c in table.columns if c.metric == column.metric and (c.pair == column.pair or c.metric == "accuracy")
        ]
        values = {c: _values(by_row, figure_of(c)) for c in columns}
        claims = [ranges.judge({c: v for c, v in values.items() if v}, claim, table) for claim in said]
        signature, tests = "", ranges.EXPLAINED
    pair = next(pair for pair in paper.pairs if pair.name == column.pair)
    where = ("machine", "accelerator", "threads", "precision", "torch", "commit", "keys", *OF)
    return Report(
        asked,
        f"{paper.cite}, {place(table.name)}: {table.title}",
        table.columns,
        CORPORA[asked.corpus].title,
        column,
        pair.title,
        TEXTS[column.metric].figure if column.metric in TEXTS else column.metric,
        metric,
        lines,
        tuple(claims),
        failures,
        unmeasured,
        signature,
        tests,
        _each(entry.notes for entry in entries if entry.notes),
        {
            **{
                key: _each(str(e.conditions[key]) for e in entries if e.conditions.get(key) is not None)
                for key in where
            },
            "data": _each(str(e.data_hash) for e in entries),
        },
    )


def _of_row(entries: Sequence[Entry], row: str) -> list[Entry]:
    return sorted((e for e in entries if e.conditions.get("row") == row), key=lambda e: int(str(e.seed)))


def _each(values: Any) -> tuple[str, ...]:
    return tuple(dict.fromkeys(values))


def _grown(claim: Claim) -> tuple[Column, ...]:
    """The columns of a claim that needs them all."""
    return claim.columns if claim.kind == "grows" else ()


def _values(by_row: Mapping[str, list[Entry]], figure: str) -> dict[str, list[float]]:
    values = {row: [float(e.figures[figure]) for e in found if figure in e.figures] for row, found in by_row.items()}
    return {row: found for row, found in values.items() if found}


def _set(
    metric: str, asked: Asked, root: Path, out: Path, by_row: Mapping[str, list[Entry]]
) -> tuple[Measure, dict[str, Runs]]:
    """A metric of translations, and the statistics of the cells that have its figure."""
    made, scored = measure_of(metric, CORPORA[asked.corpus], root, out), TEXTS[metric]
    files = {
        row: [scored.file(out, row, int(str(e.seed))) for e in found if scored.figure in e.figures]
        for row, found in by_row.items()
    }
    files = {row: some for row, some in files.items() if some}
    lines, references = read_aligned([file for some in files.values() for file in some], out / scored.reference)
    rest = iter(lines)
    return made, statistics_of(made, {row: [next(rest) for _ in some] for row, some in files.items()}, references)


def _line(table: Table, row: str, found: Sequence[Entry], column: Column) -> Line:
    figures: dict[str, tuple[float, float | None]] = {}
    for name in dict.fromkeys(name for entry in found for name in entry.figures):
        values = [float(entry.figures[name]) for entry in found if name in entry.figures]
        figures[name] = statistics.mean(values), statistics.stdev(values) if len(values) > 1 else None
    settings = _each(str(entry.conditions["settings"]) for entry in found)
    here = table.row(row)
    seeds = tuple(int(str(entry.seed)) for entry in found)
    return Line(row, here.label, seeds, figures, "; ".join(settings), here.figure(column))


def as_json(report: Report) -> dict[str, Any]:
    """The report for programs."""
    return {"command": report.command, **dataclasses.asdict(report), "claims": claims_json(report.claims)}


def claims_json(claims: Sequence[Judged]) -> list[dict[str, Any]]:
    """Tested claims for programs."""
    found = []
    for judged in claims:
        claim = judged.claim
        told = {"text": claim.text, "section": claim.section, "columns": [str(c) for c in claim.columns]}
        found.append({**dataclasses.asdict(judged), "claim": told})
    return found
