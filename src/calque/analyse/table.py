"""What a piece of the analysis gives: a table of figures, and the picture of it."""

import csv
import io
import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

Cell = str | int | float | None
"""None: there is no such figure."""


@dataclass(frozen=True)
class Table:
    """Rows of figures; units stand in the names of the columns."""

    columns: tuple[str, ...]
    rows: tuple[tuple[Cell, ...], ...]

    @classmethod
    def of(cls, columns: Sequence[str], rows: Iterable[Sequence[Cell]]) -> "Table":
        """A table from rows of any kind."""
        return cls(tuple(columns), tuple(tuple(row) for row in rows))

    def column(self, name: str) -> list[Cell]:
        """The figures of a column, from the top."""
        k = self.columns.index(name)
        return [row[k] for row in self.rows]

    def numbers(self, name: str) -> list[float]:
        """A column of figures as numbers; nan where there is none. Raises ValueError for a text."""
        return [math.nan if cell is None else float(cell) for cell in self.column(name)]

    def where(self, **wanted: Cell) -> "Table":
        """The rows whose columns have these values."""
        at = {self.columns.index(name): value for name, value in wanted.items()}
        return Table(self.columns, tuple(row for row in self.rows if all(row[k] == v for k, v in at.items())))

    def each(self, name: str) -> list[Cell]:
        """The values of a column, each once, in the order of the rows."""
        return list(dict.fromkeys(self.column(name)))

    def csv(self) -> bytes:
        """The table as comma-separated values, UTF-8; an empty field where there is no figure."""
        body = io.StringIO()
        writer = csv.writer(body, lineterminator="\n")
        writer.writerow(self.columns)
        writer.writerows([[_written(cell) for cell in row] for row in self.rows])
        return body.getvalue().encode()


def _written(cell: Cell) -> str:
    if cell is None:
        return ""
    return f"{cell:.6g}" if isinstance(cell, float) else str(cell)


@dataclass(frozen=True)
class Drawn:
    """A figure of the report: `name` is the stem of its files; `svg` and `png` are empty where the table is all."""

    name: str
    title: str
    caption: str
    table: Table
    svg: bytes = b""
    png: bytes = b""

    def files(self) -> dict[str, bytes]:
        """What stands beside the report, by ending."""
        pictures = {"svg": self.svg, "png": self.png} if self.svg else {}
        return {"csv": self.table.csv(), **pictures}


class NotDrawn(Exception):
    """Why a figure cannot be drawn from the data at hand: a clause for the report."""
