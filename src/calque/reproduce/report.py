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
from calque.evaluate.measure import Measure, measure
from calque.evaluate.scores import read_aligned
from calque.ledger import Entry
from calque.ledger import read as read_entries
from calque.reproduce import ranges, verdicts
from calque.reproduce.cell import meteor_settings
from calque.reproduce.corpora import CORPORA, TOKENIZE
from calque.reproduce.plan import CELLS, FAILURES, HYPOTHESES, REFERENCE, Asked, Tell, asked_in
from calque.reproduce.speed import TIMED
from calque.reproduce.verdicts import Judge, Judged, claims_of, statistics_of
from calque.run import writing
from calque.whole import write_whole
from calque.zoo.paper import Column, Figure, Table, place

FROM_TEXT = {"bleu": "BLEU", "meteor": "METEOR"}
FROM_CELLS = {"perplexity": "validation perplexity", "accuracy": "accuracy", "aer": "AER"}
"""Metrics of trainings: those computed anew from translations, which can be resampled, and figures that stand in cells; what
cells call them."""
TRAINED = {**FROM_TEXT, **FROM_CELLS}


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
            raise error("X708", None, metric=metric)
        return found[0]


def _prints(table: Table, metric: str) -> bool:
    return any(column.metric == metric for column in table.columns)


def _is_measured(metric: str) -> bool:
    return metric in TRAINED or metric in TIMED


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

    Raises X706 where no cell is finished, X707, and for METEOR D520 and X301.
    """
    from calque.reproduce import render
    from calque.reproduce.picture import draw

    report = make_report(out, root, shown)
    text = render.text(report)
    with writing(out):
        write_whole(out / "report.md", render.markdown(report).encode())
        write_whole(out / "report.json", (json.dumps(as_json(report), indent=1, ensure_ascii=False) + "\n").encode())
        try:
            draw(report, out / "report.png")
        except CalqueError as fault:  # no picture where its library is not installed
            tell(render_all(fault.diagnostics))
    return text


def make_report(out: Path, root: Path, shown: Shown) -> Report:
    """The report of what is finished in an output folder. Raises what `write_report` raises."""
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
    metric = TRAINED[column.metric]
    lines = tuple(_line(table, row, found, column) for row, found in by_row.items())
    said = claims_of(paper.claims, table.name, column.metric)
    if column.metric in FROM_TEXT:
        made = _measure(asked, root, column.metric)
        hypotheses, references = _read_text(out, by_row)
        judge = Judge(made, statistics_of(made, hypotheses, references), shown.trials)
        claims = [judge.judge(c, table, column) for c in said]
        signature, tests = made.signature(), verdicts.EXPLAINED
    else:
        values = {
            row: [float(e.figures[metric]) for e in found if metric in e.figures] for row, found in by_row.items()
        }
        values = {row: found for row, found in values.items() if found}
        if not values:
            raise error("X708", Place(str(out)), metric=column.metric)
        claims = [ranges.judge({column: values}, c, table) for c in said]
        signature, tests = "", ranges.EXPLAINED
    pair = next(pair for pair in paper.pairs if pair.name == column.pair)
    where = ("machine", "accelerator", "threads", "precision", "torch", "commit", "keys")
    return Report(
        asked,
        f"{paper.cite}, {place(table.name)}: {table.title}",
        table.columns,
        CORPORA[asked.corpus].title,
        column,
        pair.title,
        FROM_TEXT.get(column.metric, column.metric),
        metric,
        lines,
        tuple(claims),
        failures,
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


def _measure(asked: Asked, root: Path, metric: str) -> Measure:
    if metric == "bleu":
        return measure("bleu", tokenize=TOKENIZE)
    return measure("meteor", tokenize=TOKENIZE, meteor=meteor_settings(CORPORA[asked.corpus], root))


def _read_text(out: Path, by_row: Mapping[str, list[Entry]]) -> tuple[dict[str, list[list[str]]], list[str]]:
    files = {row: [out / HYPOTHESES / row / f"{entry.seed}.txt" for entry in found] for row, found in by_row.items()}
    lines, references = read_aligned([file for some in files.values() for file in some], out / REFERENCE)
    rest = iter(lines)
    return {row: [next(rest) for _ in some] for row, some in files.items()}, references


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
