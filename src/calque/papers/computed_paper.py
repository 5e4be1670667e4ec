"""A paper's tables that no training fills: orders of complexity, and counts of the data."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

ORDERS = ("complexity", "sequential", "path")
"""How multiply-adds, operations that wait for each other, and the longest path grow with the length n and the width d."""
COUNTS = ("train pairs", "test pairs", "source length", "target length")
"""Of a corpus: pairs of training and test, mean lengths of the training sides in subwords."""


@dataclass(frozen=True)
class ComputedRow:
    """A row: `figures` as printed, one for each column. Of orders, `decoder` is the layer, and `form` how its average is taken.

    `reading_of` names the row that this one reads otherwise; it then has no figures of its own.
    """

    key: str
    label: str
    figures: tuple[str, ...]
    decoder: str = ""
    form: str = ""
    reading_of: str | None = None


@dataclass(frozen=True)
class ComputedTable:
    """A table: its columns are `ORDERS` or `COUNTS`."""

    name: str
    title: str
    columns: tuple[str, ...]
    rows: tuple[ComputedRow, ...]


def load_computed(name: str, entry: Mapping[str, Any]) -> ComputedTable:
    """A table from its TOML. Raises ValueError, with the place, where it is none."""
    columns = tuple(entry.get("columns", ()))
    if set(entry) != {"title", "columns", "rows"} or columns not in (ORDERS, COUNTS):
        raise ValueError(f"computed.{name}: expected title, rows, and columns that are {ORDERS} or {COUNTS}")
    return ComputedTable(
        name, entry["title"], columns, tuple(_row(f"{name}/{k}", k, r, columns) for k, r in entry["rows"].items())
    )


def _row(where: str, key: str, entry: Mapping[str, Any], columns: Sequence[str]) -> ComputedRow:
    known = {"label", "figures", "reading_of"} | ({"decoder", "form"} if columns == ORDERS else set())
    if set(entry) - known or "label" not in entry or ("figures" in entry) == ("reading_of" in entry):
        raise ValueError(f"{where}: {sorted(set(entry) - known)} not known, or not one of figures and reading_of")
    figures = tuple(entry.get("figures", ()))
    if figures and len(figures) != len(columns):
        raise ValueError(f"{where}: {len(columns)} columns, {len(figures)} figures")
    if columns == ORDERS and "decoder" not in entry:
        raise ValueError(f"{where}: no decoder")
    return ComputedRow(
        key, entry["label"], figures, entry.get("decoder", ""), entry.get("form", ""), entry.get("reading_of")
    )
