"""What was planned, what it cost, and what is missing: the sections of the page of claims about the cells themselves."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from calque.ground.table import pipes
from calque.ledger.entry import Entry
from calque.papers import read_paper
from calque.papers.commands import asked_by
from calque.papers.notes import Plan, PlannedTable
from calque.papers.request import MEMBERS, Request
from calque.papers.under_trained import UNDER_TRAINED, marks
from calque.zoo.row_texts import place


def cost_section(entries: Sequence[Entry], plan: Plan | None) -> Iterator[str]:
    """Cells and hours of a core by table, beside what was planned, and the planned cells that are missing."""
    cells = trained_cells(entries)
    planned = {(one.paper, one.table): len(one.cells) for one in plan.tables} if plan is not None else {}
    minutes = plan.minutes if plan is not None else 0.0
    rows = []
    for key in dict.fromkeys([*planned, *cells]):
        some, wanted = cells.get(key, []), planned.get(key, 0)
        machines = "; ".join(sorted({str(entry.conditions["machine"]) for entry in some}))
        spent = (str(len(some)), f"{sum(map(core_hours, some)):.1f}")
        beside = (str(wanted), f"{wanted * minutes / 60:.1f}") if wanted else ("-", "-")
        rows.append((read_paper.paper(key[0]).cite, place(key[1]), *spent, *beside, machines or "-"))
    head = ("paper", "table", "cells", "hours of a core", "cells planned", "hours planned", "processor")
    yield from (
        "## Cost",
        "",
        *pipes(head, rows, (0, 1, 6)),
        "",
        _in_all([e for some in cells.values() for e in some], plan),
    )
    if plan is not None:
        yield from ("", "## Planned and missing", "", *_missing_section(entries, plan))


def trained_cells(entries: Sequence[Entry]) -> dict[tuple[str, str], list[Entry]]:
    """The cells that were trained, by paper and table; a model that two tables have is counted at the first."""
    cells: dict[tuple[str, str], list[Entry]] = {}
    seen = set()
    for entry in entries:
        request = asked_by(entry)
        if request is not None and "row" in entry.conditions and MEMBERS not in entry.conditions:
            training = entry.architecture_hash, entry.data_hash, str(entry.seed), entry.figures.get("training seconds")
            if None not in training and training in seen:
                continue
            seen.add(training)
            cells.setdefault((request.paper, request.table), []).append(entry)
    return cells


def core_hours(entry: Entry) -> float:
    """Hours of training of a cell, times its threads."""
    threads = entry.conditions.get("threads")
    return entry.figures.get("training seconds", 0.0) * (int(threads) if isinstance(threads, int | float) else 1) / 3600


def _in_all(cells: Sequence[Entry], plan: Plan | None) -> str:
    said = f"In all {len(cells)} cells in {sum(map(core_hours, cells)):.1f} hours of a core, validation left out."
    if plan is None:
        return said
    wanted = sum(len(one.cells) for one in plan.tables)
    return (
        f"{said} {wanted} cells were planned, of {plan.minutes:g} minutes of a core each, {plan.hours:g} hours in all."
    )


@dataclass(frozen=True)
class MissingCell:
    """A planned cell that the ledger lacks, or whose model has not learned enough."""

    row: str
    seed: int
    under_trained: bool


def missing(entries: Sequence[Entry], planned: PlannedTable) -> list[MissingCell]:
    """The planned cells of a table of which the ledger has none that can test a claim."""
    learned = marks(entries)
    there: dict[tuple[str, int], bool] = {}
    for entry in entries:
        request = asked_by(entry)
        if request is None or "row" not in entry.conditions or not _asks_for(planned, request):
            continue
        cell = str(entry.conditions["row"]), int(str(entry.seed))
        there[cell] = there.get(cell, False) or entry.id not in learned
    return [MissingCell(*cell, cell in there) for cell in planned.cells if not there.get(cell)]


def _asks_for(planned: PlannedTable, request: Request) -> bool:
    same = (request.paper, request.table) == (planned.paper, planned.table)
    return same and set(planned.overrides) <= set(request.overrides)


def _missing_section(entries: Sequence[Entry], plan: Plan) -> list[str]:
    rows = []
    for one in plan.tables:
        if lacking := missing(entries, one):
            seeds = {row: [cell for cell in lacking if cell.row == row] for row in one.rows}
            words = "; ".join(_words(row, cells, one.seeds) for row, cells in seeds.items() if cells)
            rows.append((read_paper.paper(one.paper).cite, place(one.table), str(len(lacking)), words))
    return pipes(("paper", "table", "cells", "which"), rows, (0, 1, 3)) if rows else ["None."]


def _words(row: str, cells: Sequence[MissingCell], seeds: int) -> str:
    """A row, the seeds of it that are missing where several were planned, and whether there are models that learned too little."""
    which = [f"seed {' and '.join(str(cell.seed) for cell in cells)}"] if seeds > 1 else []
    if any(cell.under_trained for cell in cells):
        which.append(UNDER_TRAINED)
    return f"{row} ({', '.join(which)})" if which else row
