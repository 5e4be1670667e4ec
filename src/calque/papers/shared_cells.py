"""Cells of one table of a paper that are cells of another one too: rows of several tables have the same definition."""

import functools
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace

from calque.ground.diagnostics import CalqueError, Text
from calque.ledger.entry import Entry
from calque.papers.halving import DROPOUTS
from calque.papers.paper import Row
from calque.papers.plan import by_name, checked_row
from calque.papers.request import MEMBERS, Request

TRAINED_AS = "trained as"
"""The condition of a cell in another table that names its own: TABLE/ROW."""
Ways = dict[str, dict[Request, list[Entry]]]
"""The cells of a table: row -> how it was trained -> an entry for each seed."""


def lend(tables: Mapping[Request, Ways]) -> None:
    """Gives each table that has cells those of the paper's other tables whose definitions are those of rows that it lacks.

    The keys of `tables` say what the cells of one have in common, see `calque.papers.ledger_tables.comparable`. Definitions are
    compared at the sizes of the table that borrows, with the dropout of the one that lends.
    """
    own = {table: {row: dict(ways) for row, ways in rows.items()} for table, rows in tables.items()}
    for table, rows in tables.items():
        for row in table.printed.rows if table.match is None else ():
            if row.key not in rows and row.model_of is None:
                for other in own:
                    if other.table != table.table and _texts_of(other) == _texts_of(table):
                        for request, entries in _lent(table, row, own[other]):
                            rows.setdefault(row.key, {}).setdefault(request, []).extend(entries)


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
    text = Text(row, table.printed.row(row).at(table.pair))
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
