"""The report of the trained cells of an output folder, or of a ledger."""

import dataclasses
import statistics
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np

from calque.evaluate.files import read_aligned
from calque.evaluate.significance import Runs
from calque.evaluate.statistics import Measure
from calque.ground.diagnostics import Place, error
from calque.ledger.entry import Entry
from calque.ledger.entry import read as read_entries
from calque.papers.claims import ClaimVerdict, Evidence, Resampling, claims_of, judge_all
from calque.papers.learning import LearningCurves
from calque.papers.measures import complete
from calque.papers.metrics import METRICS, SHOWN, TEXTS
from calque.papers.output import OutputFolder
from calque.papers.paper import Claim, Column, Figure
from calque.papers.picture import Bars
from calque.papers.ranges import Ranges
from calque.papers.report import Report, ReportOptions, paper_text, under_trained_remarks
from calque.papers.request import CELLS, FAILURES, Request
from calque.papers.scoring import measure_of, translations
from calque.papers.under_trained import label_of, marked_rows, why_untested

CONDITIONS = ("machine", "accelerator", "threads", "precision", "torch", "commit", "sizes", "keys")
SOURCES = ("NIST BLEU of", "AER of", "accuracy of")
"""Conditions of cells that say what a figure was computed from."""
NO_TEXT = "the ledger has no numbers of sentences of a cell, which a test needs"
Collect = Callable[[Sequence[Claim]], Evidence]
"""Collects the evidence that claims need."""


@dataclass(frozen=True)
class TrainedRow:
    """A row of the report: mean and deviation of each figure over seeds; no deviation of one seed."""

    row: str
    label: str
    seeds: tuple[int, ...]
    figures: Mapping[str, tuple[float, float | None]]
    settings: str
    paper: Figure | None


@dataclass(frozen=True)
class TrainedCells:
    """Finished cells of a table, and the column of the paper beside them.

    failures    the texts of cells that failed
    unmeasured  the figures that are missing, and why
    """

    request: Request
    entries: Sequence[Entry]
    column: Column
    failures: Sequence[str] = ()
    unmeasured: Mapping[str, str] = dataclasses.field(default_factory=dict)

    @cached_property
    def by_row(self) -> dict[str, list[Entry]]:
        """The entries of each row that has some, by seed, in the paper's order."""
        ordered = sorted(self.entries, key=lambda e: int(str(e.seed)))
        rows = {
            row.key: [e for e in ordered if e.conditions.get("row") == row.key] for row in self.request.printed.rows
        }
        return {row: some for row, some in rows.items() if some}

    @cached_property
    def under_trained(self) -> dict[str, str]:
        """The rows whose models have not learned, and why."""
        marked = marked_rows(self.entries)
        return {row: marked[row] for row in self.by_row if row in marked}

    @cached_property
    def rows(self) -> list[TrainedRow]:
        """The rows of the report."""
        return [self._row(key, entries) for key, entries in self.by_row.items()]

    def _row(self, key: str, entries: Sequence[Entry]) -> TrainedRow:
        figures: dict[str, tuple[float, float | None]] = {}
        for name in dict.fromkeys(name for entry in entries for name in entry.figures):
            if (found := mean_and_deviation(entries, name)) is not None:
                figures[name] = found
        printed = self.request.printed.row(key)
        reason = self.under_trained.get(key)
        label = printed.label + (f" ({label_of(reason)})" if reason else "")
        seeds = tuple(int(str(entry.seed)) for entry in entries)
        settings = "; ".join(_condition(entries, "settings"))
        return TrainedRow(key, label, seeds, figures, settings, printed.figure(self.column))

    @property
    def corpus(self) -> str:
        """The text that they were trained on."""
        return "; ".join(_condition(self.entries, "corpus"))

    @property
    def pair(self) -> str:
        """The paper's language pair, in words."""
        return self.request.whole.pair(self.column.pair).title

    @property
    def printed(self) -> str:
        """What the report calls the figure of the column."""
        return self.column.figure if self.column.metric in TEXTS else self.column.metric

    @property
    def signature(self) -> str:
        """How translations were scored."""
        if self.column.metric not in TEXTS:
            return ""
        scored = [entry for entry in self.entries if self.column.figure in entry.figures]
        return "; ".join(one for one in _condition(scored, f"{self.column.figure} signature") if one)

    @property
    def notes(self) -> list[str]:
        """The notes of the entries, and rows that earlier versions trained without a key that the paper's file sets."""
        notes = list(_unique(entry.notes for entry in self.entries if entry.notes))
        for key in self.request.whole.keys:
            without = (e for e in self.entries if key not in str(e.conditions.get("keys", key)).split())
            rows = ", ".join(_unique(str(e.conditions["row"]) for e in without))
            notes += [f"Trained without `{key}`, which the paper's rows need: {rows}."] if rows else []
        return notes

    @property
    def conditions(self) -> dict[str, tuple[str, ...]]:
        """Under which conditions they were measured."""
        values = {key: _condition(self.entries, key) for key in (*CONDITIONS, *SOURCES)}
        return {**values, "data": _unique(str(e.data_hash) for e in self.entries)}


def report_trained(folder: OutputFolder, options: ReportOptions) -> str:
    """Writes `report.md`, `report.json` and `report.png`, and returns the report as text.

    First measures what cells lack, see `calque.papers.measures`. Raises X706 where no cell is finished, X707, X708 where none
    has a figure of the metric, and X851 where the paper takes other sizes for the pair.
    """
    unmeasured = complete(folder)
    request, out = folder.request, folder.out
    column = options.column_in(out, request)
    failures = tuple(file.read_text(encoding="utf-8") for file in sorted((out / FAILURES).glob("*.txt")))
    if not (entries := read_entries(out / CELLS)):
        raise error("X706", Place(str(out)))
    cells = TrainedCells(request, entries, column, failures, unmeasured)
    if not any(column.figure in row.figures for row in cells.rows):
        named = (column.metric, str(column))
        why = next((why for what, why in unmeasured.items() if what.partition(" of ")[0] in named), None)
        raise error("X708", Place(str(out)), metric=column.metric, reason=why)

    def collect(tested: Sequence[Claim]) -> Evidence:
        if column.metric not in TEXTS:
            return single_figures(cells)
        metrics = [column.metric, *(c.metric for claim in tested if claim.across for c in claim.columns)]
        scores = {m: _scores(m, cells, folder) for m in dict.fromkeys(metrics) if m in TEXTS}
        return Resampling(scores, column, options.trials)

    return make_report(cells, collect).write(out, "report", folder.tell)


def single_figures(cells: TrainedCells) -> Ranges:
    """The figures of each seed, in the columns that measure the same as the report's, or other kinds of error."""
    column = cells.column
    values: dict[Column, dict[str, list[float]]] = {}
    for c in cells.request.printed.columns:
        if c.metric == column.metric and (c.pair == column.pair or c.of.percentage):
            rows = {row: _values(entries, c.figure) for row, entries in cells.by_row.items()}
            values[c] = {row: some for row, some in rows.items() if some}
    return Ranges({c: rows for c, rows in values.items() if rows})


def _scores(metric: str, cells: TrainedCells, folder: OutputFolder) -> tuple[Measure, Mapping[str, Runs]]:
    """A metric of translations, and the statistics of the cells that have its figure."""
    measure = measure_of(metric, folder)
    scored = {row: [e for e in some if METRICS[metric].figure in e.figures] for row, some in cells.by_row.items()}
    files = {
        row: [translations(metric, folder.out, row, int(str(e.seed))) for e in some]
        for row, some in scored.items()
        if some
    }
    lines, references = read_aligned(
        [file for some in files.values() for file in some], folder.out / METRICS[metric].reference
    )
    rest = iter(lines)
    return measure, statistics_of(measure, {row: [next(rest) for _ in some] for row, some in files.items()}, references)


def statistics_of(
    measure: Measure, hypotheses: Mapping[str, Sequence[Sequence[str]]], references: Sequence[str]
) -> dict[str, Runs]:
    """The statistics of each row's runs: runs by sentences by statistics."""
    return {row: np.stack([measure.statistics(run, references) for run in runs]) for row, runs in hypotheses.items()}


def verdicts(
    cells: TrainedCells, collect: Collect | None, lacking: Mapping[str, str] | None = None
) -> tuple[ClaimVerdict, ...]:
    """The verdicts on the claims about cells in their column, see `make_report`."""
    request, column = cells.request, cells.column

    def obstacle(claim: Claim) -> str:
        why = why_untested(claim, request, cells.under_trained) or NO_TEXT * (collect is None)
        return why or next((reason for row, reason in (lacking or {}).items() if row in claim.compared), "")

    claims = claims_of(request.whole.claims, request.table, column.metric)
    return judge_all(claims, request.printed, obstacle, collect or (lambda tested: Ranges({})))


def make_report(cells: TrainedCells, collect: Collect | None, lacking: Mapping[str, str] | None = None) -> Report:
    """The report of cells. Without `collect`, translations are missing and no claim is tested; `lacking` has rows about which none
    is tested, with the reason."""
    request, column, rows = cells.request, cells.column, cells.rows
    judged = verdicts(cells, collect, lacking)
    keys, seeds = ",".join(row.row for row in rows), max(max(row.seeds) for row in rows)
    base = dataclasses.replace(request, pair=None).command
    pair = f" --pair {column.pair}" * (request.own is None)
    command = f"{base} --rows {keys} --seeds {seeds}{pair} --metric {column.metric}"
    shown = (
        SHOWN
        if any(f[0] == column.figure for f in SHOWN)
        else ((column.figure, column.figure, column.of.decimals), *SHOWN)
    )
    shown = tuple(f for f in shown if any(f[0] in row.figures for row in rows))
    beside_paper = request.printed.has_figures
    paper = (f"paper {cells.printed}",) * beside_paper
    head = ("", "row", "seeds", *(title for _, title, _ in shown), *paper, "settings")
    return Report(
        request=request,
        beside=f"Here: {cells.corpus}." + f" The paper's {cells.printed}: {cells.pair}." * beside_paper,
        head=head,
        rows=tuple(_texts(row, shown, beside_paper) for row in rows),
        left=(0, 1, len(head) - 1),
        keys=tuple(row.row for row in rows),
        claims=judged,
        under_trained=cells.under_trained,
        remarks=tuple(_remarks(cells, judged)),
        command=command,
        content={"command": command, **_content(cells, judged)},
        bars=_bars(cells, command),
        curves=_curves(cells),
    )


def _content(cells: TrainedCells, judged: Sequence[ClaimVerdict]) -> dict[str, object]:
    """The report for programs."""
    request, column = cells.request, cells.column
    return {
        "asked": request.asked,
        "title": request.title,
        "columns": [dataclasses.asdict(c) for c in request.printed.columns],
        "corpus": cells.corpus,
        "column": dataclasses.asdict(column),
        "pair": cells.pair,
        "printed": cells.printed,
        "metric": column.figure,
        "lines": [dataclasses.asdict(row) for row in cells.rows],
        "claims": [one.as_json() for one in judged],
        "failures": cells.failures,
        "unmeasured": cells.unmeasured,
        "under_trained": cells.under_trained,
        "validations": {row: {str(e.seed): e.validations for e in some} for row, some in cells.by_row.items()},
        "signature": cells.signature,
        "tests": (Resampling if column.metric in TEXTS else Ranges({})).rule,
        "notes": cells.notes,
        "conditions": cells.conditions,
    }


def _texts(row: TrainedRow, shown: Sequence[tuple[str, str, int]], beside_paper: bool) -> tuple[str, ...]:
    cells = [row.label, row.row, str(len(row.seeds))]
    for name, _, decimals in shown:
        mean, deviation = row.figures.get(name, (None, None))
        text = "-" if mean is None else f"{mean:,.{decimals}f}"
        spread = deviation is not None and (decimals > 0 or deviation > 0)
        cells.append(f"{text} ± {deviation:,.{decimals}f}" if spread else text)
    return (*cells, *[paper_text(row.paper)] * beside_paper, row.settings)


def _remarks(cells: TrainedCells, judged: Sequence[ClaimVerdict]) -> list[str]:
    seeds = [len(row.seeds) for row in cells.rows]
    tested = any(one.tested for one in judged)
    remarks = [(Resampling if cells.column.metric in TEXTS else Ranges({})).rule] * tested
    remarks += [f"{cells.column.figure} signature: {cells.signature}."] * bool(cells.signature)
    if tested and min(seeds) == 1:
        remarks.append("Rows with one seed: the tests hold for these runs, not for what another seed would give.")
    if min(seeds) != max(seeds):
        remarks.append("Rows differ in their number of finished seeds.")
    remarks += [*under_trained_remarks(cells.under_trained), *cells.notes]
    remarks += [f"Not measured: {what}: {why}." for what, why in cells.unmeasured.items()]
    remarks += [f"{key}: {'; '.join(values)}" for key, values in cells.conditions.items() if values]
    if cells.failures:
        failed = "; ".join(one.split("\n")[1] for one in cells.failures)
        remarks.append(f"Failed cells, with the reason below `failures`: {failed}.")
    return remarks


def _bars(cells: TrainedCells, command: str) -> Bars:
    column, rows = cells.column, cells.rows
    seeds = sorted({len(row.seeds) for row in rows})
    counted = "–".join(map(str, (seeds[0], seeds[-1])[: len(seeds)]))
    here = [row.figures.get(column.figure, (None, None)) for row in rows]
    paper = [(p.value, p.deviation) if (p := row.paper) else (None, None) for row in rows]
    spread = ", mean and deviation over seeds" if any(one is not None for _, one in (*here, *paper)) else ""
    return Bars(
        cells.request.title,
        [row.label for row in rows],
        here,
        paper,
        (f"here: {cells.corpus}, {counted} seed{'s' * (seeds[-1] > 1)} a row", f"paper: {cells.pair}"),
        f"{cells.printed}{spread}; {'lower' if column.of.lower else 'higher'} is better",
        command,
    )


def _curves(cells: TrainedCells) -> LearningCurves | None:
    """The learning curves of all rows that were trained, one for each seed; None where none has more than a point."""
    curves = {row.label: [e.validations for e in cells.by_row[row.row] if len(e.validations) > 1] for row in cells.rows}
    return LearningCurves({label: some for label, some in curves.items() if some}) if any(curves.values()) else None


def _condition(entries: Sequence[Entry], key: str) -> tuple[str, ...]:
    """The values that a condition has in entries, each once."""
    return _unique(str(e.conditions[key]) for e in entries if e.conditions.get(key) is not None)


def _unique(values: Iterable[str]) -> tuple[str, ...]:
    return tuple(dict.fromkeys(values))


def _values(entries: Sequence[Entry], figure: str) -> list[float]:
    return [float(entry.figures[figure]) for entry in entries if figure in entry.figures]


def mean_and_deviation(entries: Sequence[Entry], figure: str) -> tuple[float, float | None] | None:
    """The mean of a figure over cells, and its deviation where there are several; None where no cell has it."""
    values = _values(entries, figure)
    return (statistics.mean(values), statistics.stdev(values) if len(values) > 1 else None) if values else None
