"""Cells of one table of a paper that are cells of another one too: rows of several tables have the same definition."""

import functools
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace

from calque.ground.diagnostics import CalqueError, Text
from calque.ledger.entry import Entry
from calque.papers.halving import DROPOUTS
from calque.papers.paper import PrintedTable, Row
from calque.papers.plan import by_name, checked_row
from calque.papers.request import MEMBERS, Request

TRAINED_AS = "trained as"
"""The condition of a cell in another table that names its own: TABLE/ROW."""
Ways = dict[str, dict[Request, list[Entry]]]
"""The cells of a table: row -> how it was trained -> an entry for each seed."""


def lend(tables: dict[Request, Ways]) -> None:
    """Gives each table that has cells those of the paper's other tables whose definitions are those of rows that it lacks.

    A table that has no cells of its own at some sizes joins with those of others. The keys of `tables` say what the cells of one
    have in common, see `calque.papers.ledger_tables.comparable`. Definitions are compared at the sizes of the table that borrows,
    with the dropout of the one that lends.
    """
    own = {table: {row: dict(ways) for row, ways in rows.items()} for table, rows in tables.items()}
    others = (like for lender in own for like in tables_like(lender) if not any(_same_rows(like, one) for one in own))
    for table in dict.fromkeys([*own, *others]):
        rows = tables.setdefault(table, {})
        rows.update(_borrowed(table, tuple(rows), own))


def _borrowed(
    table: Request, held: Sequence[str], own: Mapping[Request, Ways]
) -> Iterator[tuple[str, dict[Request, list[Entry]]]]:
    """The rows of a table, of those that are not held, for which other tables have cells of their own."""
    for row in table.printed.rows if table.match is None else ():
        if row.key not in held and row.model_of is None:
            ways: dict[Request, list[Entry]] = {}
            for other, rows in own.items():
                if other.table != table.table and _texts_of(other) == _texts_of(table):
                    for request, entries in _lent(table, row, rows):
                        ways.setdefault(request, []).extend(entries)
            if ways:
                yield row.key, ways


def tables_like(request: Request) -> Iterator[Request]:
    """The paper's other tables at the sizes that a table's rows have."""
    paper = request.whole
    sizes = paper.pair(request.pair or request.printed.pairs[0]).settings
    for table in paper.tables if request.match is None else ():
        if table.name != request.table:
            same = paper.pair(table.pairs[0]).settings == sizes
            given = by_name([] if same else [f"{name}={value}" for name, value in sizes.items()]) | by_name(
                request.settings
            )
            yield replace(request, table=table.name, pair=None, settings=tuple(sorted(given.values())))


def tables_with(request: Request, definition: str) -> Iterator[PrintedTable]:
    """The paper's other tables with a row that has a definition, by its hash, at these sizes."""
    for table in tables_like(request):
        if any(
            row.model_of is None and _hash(table, row.key, table.settings) == definition for row in table.printed.rows
        ):
            yield table.printed


def tests_a_claim(table: Request, entries: Sequence[Entry]) -> bool:
    """Whether a claim about a table is of rows all of whose cells have a figure of one of its columns, or of two where it is about
    growth."""
    having: dict[str, set[str]] = {}
    for entry in entries:
        row = str(entry.conditions["row"])
        having[row] = having.get(row, set(entry.figures)) & entry.figures.keys()
    for claim in table.whole.claims:
        if claim.table == table.table:
            shared = set.intersection(*(having.get(row, set()) for row in claim.compared))
            if sum(column.figure in shared for column in claim.columns) >= (2 if claim.across else 1):
                return True
    return False


def _same_rows(table: Request, other: Request) -> bool:
    """Whether two requests are for the same rows of a table, at sizes that are written differently."""
    return (
        table.table == other.table
        and _texts_of(table) == _texts_of(other)
        and all(
            _hash(table, row.key, table.settings) == _hash(other, row.key, other.settings) for row in table.printed.rows
        )
    )


def _texts_of(table: Request) -> tuple[object, ...]:
    """What two tables share whose cells are trained on the same text in the same way."""
    return table.paper, table.corpus, table.file, table.match, table.overrides


def _lent(table: Request, row: Row, other: Ways) -> Iterator[tuple[Request, list[Entry]]]:
    for name, ways in other.items():
        for request, entries in ways.items():
            dropout = [one for one in request.settings if one.partition("=")[0].strip() in DROPOUTS]
            wanted = _hash(table, row.key, (*table.settings, *dropout))
            if wanted and all(e.architecture_hash == wanted and MEMBERS not in e.conditions for e in entries):
                origin = {"row": row.key, TRAINED_AS: f"{request.table}/{name}"}
                yield request, [replace(entry, conditions={**entry.conditions, **origin}) for entry in entries]


@functools.cache
def _hash(table: Request, row: str, settings: tuple[str, ...]) -> str:
    """The hash of a row's definition; empty where it has none at these sizes."""
    text = Text(row, table.printed.row(row).at(table.pair or table.printed.pairs[0]))
    try:
        return checked_row(text, by_name(settings))[0].hash
    except CalqueError:
        return ""


def own_row(entry: Entry) -> str:
    """The row that a cell was trained as."""
    return str(entry.conditions.get(TRAINED_AS) or entry.conditions["row"]).rpartition("/")[2]


def borrowed(entries: Sequence[Entry]) -> dict[str, str]:
    """The rows of cells of other tables, and what they are there."""
    return {str(e.conditions["row"]): str(e.conditions[TRAINED_AS]) for e in entries if TRAINED_AS in e.conditions}
