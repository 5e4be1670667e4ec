"""The tables of papers that a ledger has: cells that can be compared stand in one, whatever recipe each row was trained by."""

import dataclasses
import shlex
import statistics
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

from calque.ground.diagnostics import CalqueError
from calque.ledger.convergence import why_not_converged
from calque.ledger.entry import Entry
from calque.papers import timed_report, trained_report
from calque.papers.claims import ClaimVerdict, Evidence, Resampling
from calque.papers.commands import asked_by
from calque.papers.evidence import LedgerEvidence, scores_of
from calque.papers.halving import DROPOUTS
from calque.papers.metrics import TEXTS, TIMED, TRAINED
from calque.papers.paper import Claim
from calque.papers.report import Report, ReportOptions
from calque.papers.request import MEMBERS, MODELS, SPEED, Request
from calque.papers.shared_cells import TRAINED_AS, Ways, borrowed, lend, own_row, tests_a_claim
from calque.papers.trained_report import NO_TEXT, Collect, TrainedCells
from calque.zoo.row_texts import place

TRIALS = ReportOptions().trials
"""Of each test."""
NEAR = 1.02
"""Times the lowest validation perplexity of a row's ways of training: within it, more seeds count for more."""


@dataclass(frozen=True)
class ReproducedTable:
    """A table of a paper as the ledger has it: its report, and the entries that it is made of.

    `name` is that of its picture, `PAPER-TABLE`, numbered where a table was reproduced several times.
    """

    name: str
    report: Report
    entries: tuple[Entry, ...]

    @property
    def timed(self) -> bool:
        """Whether its rows were timed."""
        return self.entries[0].kind == SPEED

    @property
    def random(self) -> bool:
        """Whether models with random weights were timed, on random words."""
        return self.entries[0].conditions.get("weights") == "random"

    @property
    def row_count(self) -> int:
        """How many of the paper's rows it has."""
        return len(set(self.report.keys))

    @property
    def by_row(self) -> dict[str, list[Entry]]:
        """The entries of each trained row."""
        rows: dict[str, list[Entry]] = {}
        for entry in self.entries:
            if "row" in entry.conditions:
                rows.setdefault(str(entry.conditions["row"]), []).append(entry)
        return rows

    @property
    def seeds(self) -> str:
        """How many seeds a row has, in words."""
        counts = sorted({len(some) for some in self.by_row.values()} or {1})
        words = " to ".join(map(str, (counts[0], counts[-1])[: len(counts)]))
        return "one seed" if words == "1" else f"{words} seeds"

    @property
    def title(self) -> str:
        """What its section is called."""
        number = self.name.rpartition("-")[2]
        again = f", {number}" if number.isdigit() else ""
        return place(self.report.request.table).capitalize() + ": speed" * self.timed + again

    @property
    def requests(self) -> dict[str, Request]:
        """By row: how it was trained."""
        return {row: found for row, some in self.by_row.items() if (found := asked_by(some[0]))}

    @property
    def commands(self) -> list[str]:
        """The commands that make it again, one for each way in which rows were trained."""
        if self.timed:
            return [self.report.command]
        return list(self.commands_for(tuple(self.requests)))

    def commands_for(self, rows: Sequence[str]) -> Iterator[str]:
        """The commands that make some of its trained rows again, each as it was trained."""
        chosen: dict[str, list[Entry]] = {}
        for row in rows:
            if row in self.requests:
                chosen.setdefault(self.requests[row].command, []).extend(self.by_row[row])
        for command, cells in chosen.items():
            names = ",".join(dict.fromkeys(map(own_row, cells)))
            yield f"{command} {shlex.join(['--rows', names, '--seeds', str(max(int(str(e.seed)) for e in cells))])}"

    @property
    def borrowed(self) -> dict[str, str]:
        """Rows that are cells of other tables, and what they are there: TABLE/ROW."""
        return borrowed(self.entries)

    @property
    def budgets(self) -> list[str]:
        """The budgets of its cells, each once."""
        return list(dict.fromkeys(request.budget for request in self.requests.values()))

    @property
    def recipes(self) -> list[str]:
        """The recipes of its cells, each once."""
        return list(dict.fromkeys(request.recipe for request in self.requests.values())) or [self.report.request.recipe]


def comparable(request: Request) -> Request:
    """What cells have to share to stand in one table: everything but recipe, budget, dropout and keys of training."""
    settings = tuple(one for one in request.settings if one.partition("=")[0].strip() not in DROPOUTS)
    overrides = tuple(one for one in request.overrides if not one.startswith("train."))
    return Request(
        request.paper,
        request.table,
        request.corpus,
        "",
        match=request.match,
        settings=tuple(sorted(settings)),
        overrides=tuple(sorted(overrides)),
        pair=request.other_pair[0] if request.other_pair else None,
        file=request.file,
    )


def groups(entries: Sequence[Entry]) -> list[tuple[Request, list[Entry]]]:
    """The cells of entries in groups, each a table; of a row that was trained in several ways the best one comes first.

    A table has the cells of the paper's other tables that are of its own rows as well, see `calque.papers.shared_cells`; its
    request is that of its first cell, or of a borrowed one in its place. One that has borrowed cells alone is made where they test
    a claim about it. The best has converged, if one has, and has the lowest validation perplexity; of those within `NEAR` times
    that, it has the most seeds. The next best stand in a table of their own, borrowed ones in that of their own table alone.
    """
    alike: dict[Request, Ways] = {}
    for entry in entries:
        request = asked_by(entry)
        if request is not None and "row" in entry.conditions:
            rows = alike.setdefault(comparable(request), {})
            rows.setdefault(str(entry.conditions["row"]), {}).setdefault(request.training, []).append(entry)
    lend(alike)
    made = []
    for table, rows in alike.items():
        ranked = [_ranked(list(ways.values())) for ways in rows.values()]
        for k in range(max(map(len, ranked), default=0)):
            some = [entry for ways in ranked if k < len(ways) for entry in ways[k]]
            own = any(TRAINED_AS not in entry.conditions for entry in some)
            if own or (k == 0 and tests_a_claim(table, some)):
                made.append((_request(table, some), some))
    return sorted(made, key=_order)


def _order(group: tuple[Request, Sequence[Entry]]) -> int:
    """Which of its paper's tables a group is of."""
    request, _ = group
    return next(i for i, table in enumerate(request.whole.tables) if table.name == request.table)


def _request(table: Request, entries: Sequence[Entry]) -> Request:
    """The request of the first cell of a table."""
    asked = asked_by(entries[0])
    assert asked is not None
    if TRAINED_AS not in entries[0].conditions:
        return asked
    dropout = [one for one in asked.settings if one.partition("=")[0].strip() in DROPOUTS]
    return dataclasses.replace(asked, table=table.table, pair=table.pair, settings=(*table.settings, *dropout))


def _ranked(ways: Sequence[list[Entry]]) -> list[list[Entry]]:
    """The ways in which a row was trained, the best first."""
    order = sorted(ways, key=_standing)
    (unlearned, lowest), *_ = map(_standing, order)
    near = [way for way in order if _standing(way) <= (unlearned, NEAR * lowest)]
    return [*sorted(near, key=lambda way: -len(way)), *order[len(near) :]]


def _standing(entries: Sequence[Entry]) -> tuple[bool, float]:
    """What the ways of training a row are ordered by."""
    learned = all(MEMBERS in e.conditions or not why_not_converged(e.validations) for e in entries)
    perplexities = [e.figures["validation perplexity"] for e in entries if "validation perplexity" in e.figures]
    return not learned, statistics.mean(perplexities) if perplexities else 0.0


def tables_of(entries: Sequence[Entry], evidence: LedgerEvidence | None = None) -> dict[str, list[ReproducedTable]]:
    """The tables of each paper that entries of a ledger reproduce: one for cells that can be compared, one for each timing.

    Without `evidence` no claim about translations is tested.
    """
    made: list[tuple[str, Report, tuple[Entry, ...]]] = []
    cells: dict[Request, list[Entry]] = {}
    for request, some in groups(entries):
        cells.setdefault(comparable(request), []).extend(some)
        made.append((f"{request.paper}-{request.table}", _trained(request, some, evidence), tuple(some)))
    for entry in entries:
        asked = asked_by(entry)
        if asked is not None and "row" not in entry.conditions and entry.kind == SPEED:
            stem = f"{asked.paper}-{asked.table}-{SPEED}"
            timed = entries if entry.conditions.get(MODELS) else _timed_cells(asked, cells)
            made.append((stem, _timed(asked, entry, timed_report.timed_cells(entry, timed)), (entry,)))
    tables: dict[str, list[ReproducedTable]] = {}
    count: Counter[str] = Counter()
    for stem, report, some_of_them in made:
        count[stem] += 1
        name = stem if count[stem] == 1 else f"{stem}-{count[stem]}"
        tables.setdefault(report.request.paper, []).append(ReproducedTable(name, report, some_of_them))
    return tables


def _timed_cells(asked: Request, cells: Mapping[Request, Sequence[Entry]]) -> list[Entry]:
    """The cells whose models a timing may have timed: those of its own request, where there are some."""
    alike = list(cells.get(comparable(asked), ()))
    return [entry for entry in alike if asked_by(entry) == asked] or alike


def _timed(request: Request, entry: Entry, cells: Sequence[Entry]) -> Report:
    column = ReportOptions(default=request.pair).column(request.whole, request.printed, TIMED)
    return timed_report.make_report(request, entry, cells, column)


def _trained(request: Request, entries: Sequence[Entry], evidence: LedgerEvidence | None) -> Report:
    """The report in BLEU, with the claims about all other columns that cells are measured in."""
    chosen = ReportOptions(default=request.pair).column(request.whole, request.printed)
    report = trained_report.make_report(*_evidence(TrainedCells(request, entries, chosen), evidence))
    judged = {one.claim: one for one in report.claims}
    for metric in dict.fromkeys(c.metric for c in request.printed.columns if c.metric in TRAINED):
        try:
            column = ReportOptions(metric=metric, default=request.pair).column(request.whole, request.printed)
        except CalqueError:  # nothing here measures it
            continue
        cells = TrainedCells(request, entries, column)
        if any(column.figure in row.figures for row in cells.rows):
            for one in trained_report.verdicts(*_evidence(cells, evidence)):
                judged.setdefault(one.claim, one)
    order = request.whole.claims
    return dataclasses.replace(report, claims=tuple(judged[claim] for claim in order if claim in judged))


def _evidence(
    cells: TrainedCells, evidence: LedgerEvidence | None
) -> tuple[TrainedCells, Collect | None, Mapping[str, str]]:
    """Cells, what collects the evidence for claims about them, and the rows of which the ledger has none, with the reason."""
    if cells.column.metric not in TEXTS:
        return cells, lambda tested: trained_report.single_figures(cells), {}
    if evidence is None:
        return cells, None, {}
    held = evidence.rows(cells.by_row)
    sentences = evidence.sentences([entry for row in held for entry in cells.by_row[row]])

    def collect(tested: Sequence[Claim]) -> Evidence:
        metrics = [cells.column.metric, *(c.metric for claim in tested if claim.across for c in claim.columns)]
        scores = {metric: scores_of(metric, held) for metric in dict.fromkeys(metrics) if metric in TEXTS}
        return Resampling(scores, cells.column, TRIALS, remembered=evidence.remembered, sentences=sentences)

    return cells, collect, dict.fromkeys((row for row in cells.by_row if row not in held), NO_TEXT)


def verdicts_on(claim: Claim, tables: Sequence[ReproducedTable]) -> Iterator[tuple[ReproducedTable, ClaimVerdict]]:
    """What each table says of a claim."""
    for table in tables:
        yield from ((table, one) for one in table.report.claims if one.claim == claim)
