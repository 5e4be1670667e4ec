"""What an entry of a timing holds: its figures by column and row, with those of single repeats."""

import dataclasses
from pathlib import Path

from calque.ground.diagnostics import Place, error
from calque.ledger.entry import Entry
from calque.ledger.entry import read as read_entries
from calque.papers.metrics import TIMED
from calque.papers.paper import Column, PrintedTable
from calque.papers.request import SPEED

LOWEST, HIGHEST, REPEAT = "lowest", "highest", "repeat"

Repeats = dict[Column, dict[str, tuple[float, ...]]]
"""Column -> row -> median, lowest and highest of the repeats; the median alone of one repeat."""


def columns_of(table: PrintedTable) -> list[Column]:
    """What the table's columns of speed measure, each once, with no pair: that of the data is another."""
    return list(dict.fromkeys(dataclasses.replace(c, pair="") for c in table.columns if c.metric in TIMED))


def figure_name(row: str, column: Column, which: str = "") -> str:
    """What a figure is called in an entry; without `which` the median of the repeats."""
    return f"{row}, {column.what}" + (f", {which}" if which else "")


def times(one: float, other: float, column: Column) -> float:
    """How many times as good the first figure is as the second."""
    return other / one if column.of.lower else one / other


def timing_in(out: Path) -> Entry:
    """The entry of an output folder: that of trained models where there are two. Raises X706 where there is none."""
    entries = read_entries(out / SPEED)
    if not entries:
        raise error("X706", Place(str(out)))
    return max(entries, key=lambda e: (e.conditions.get("weights") == "trained", e.date))


def measured(entry: Entry, table: PrintedTable) -> Repeats:
    """What an entry has for the columns of a table, each with no pair."""
    repeats: Repeats = {}
    for column in columns_of(table):
        repeats[column] = {}
        for row in table.rows:
            names = [figure_name(row.key, column, which) for which in ("", LOWEST, HIGHEST)]
            if names[0] in entry.figures:
                repeats[column][row.key] = tuple(float(entry.figures[n]) for n in names if n in entry.figures)
    return repeats


def repeated(entry: Entry, table: PrintedTable) -> Repeats:
    """The values of all repeats in their order, where an entry has them for every row that was timed; else empty."""
    repeats: Repeats = {}
    for column, rows in measured(entry, table).items():
        numbers = range(1, int(str(entry.conditions.get("repeats") or 0)) + 1)
        names = {row: [figure_name(row, column, f"{REPEAT} {k}") for k in numbers] for row in rows}
        if not all(name in entry.figures for some in names.values() for name in some):
            return {}
        repeats[column] = {row: tuple(float(entry.figures[name]) for name in some) for row, some in names.items()}
    return repeats
