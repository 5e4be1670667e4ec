"""Tables of figures for all reports, as text, Markdown, CSV and records."""

import csv
import io
import math
from collections.abc import Callable, Collection, Iterable, Sequence
from dataclasses import dataclass, replace

Cell = str | int | float | None
"""None: a missing figure."""


@dataclass(frozen=True)
class Table:
    """Rows of figures; the names of the columns contain the units.

    The first `left` columns are words. `name` is the name of its file, and `title` its heading; both may be empty.
    """

    columns: tuple[str, ...]
    rows: tuple[tuple[Cell, ...], ...]
    name: str = ""
    title: str = ""
    left: int = 1

    @classmethod
    def of(cls, columns: Sequence[str], rows: Iterable[Sequence[Cell]], left: int = 1) -> "Table":
        """A table from rows of any kind."""
        return cls(tuple(columns), tuple(tuple(row) for row in rows), left=left)

    def column(self, name: str) -> list[Cell]:
        """The figures of a column."""
        k = self.columns.index(name)
        return [row[k] for row in self.rows]

    def numbers(self, name: str) -> list[float]:
        """A column of figures as numbers; nan for a missing one. Raises ValueError for a text."""
        return [math.nan if cell is None else float(cell) for cell in self.column(name)]

    def where(self, **wanted: Cell) -> "Table":
        """The rows whose columns have these values."""
        at = {self.columns.index(name): value for name, value in wanted.items()}
        return replace(self, rows=tuple(row for row in self.rows if all(row[k] == v for k, v in at.items())))

    def each(self, name: str) -> list[Cell]:
        """The values of a column, each once, in the order of the rows."""
        return list(dict.fromkeys(self.column(name)))

    def text(self, decimals: int = 2) -> str:
        """Aligned columns."""
        shown = [[_shown(cell, decimals) for cell in row] for row in self.rows]
        return "\n".join(aligned(self.columns, shown, range(self.left)))

    def markdown(self) -> str:
        """A Markdown table."""
        shown = [[_shown(cell, 2) for cell in row] for row in self.rows]
        return "\n".join(pipes(self.columns, shown, range(self.left), escaped))

    def csv(self) -> str:
        """Comma-separated values; an empty field where there is no figure."""
        body = io.StringIO()
        writer = csv.writer(body, lineterminator="\n")
        writer.writerow(self.columns)
        writer.writerows([[_written(cell) for cell in row] for row in self.rows])
        return body.getvalue()

    def records(self) -> list[dict[str, Cell]]:
        """Each row by the names of the columns."""
        return [dict(zip(self.columns, row, strict=True)) for row in self.rows]


def aligned(head: Sequence[str], rows: Sequence[Sequence[str]], left: Collection[int] = (0,)) -> list[str]:
    """The lines of a table for a terminal; the columns in `left` are left-aligned."""
    widths = [max(len(row[k]) for row in (head, *rows)) for k in range(len(head))]
    return [
        "  ".join(
            c.ljust(w) if k in left else c.rjust(w) for k, (c, w) in enumerate(zip(row, widths, strict=True))
        ).rstrip()
        for row in (head, *rows)
    ]


def barred(text: str) -> str:
    """Markdown as the text of a cell: on one line, with its bars escaped."""
    return " ".join(text.split()).replace("|", "\\|")


def escaped(text: str) -> str:
    """A text on one line, with all marks of Markdown escaped."""
    return "".join("\\" + c if c in "\\`*_{}[]<>#|~$" else c for c in " ".join(text.split()))


def pipes(
    head: Sequence[str],
    rows: Sequence[Sequence[str]],
    left: Collection[int] = (0,),
    cell: Callable[[str], str] = barred,
) -> list[str]:
    """The lines of a Markdown table; the columns in `left` are left-aligned."""
    rule = ["---" if k in left else "---:" for k in range(len(head))]
    return ["| " + " | ".join(row) + " |" for row in (map(cell, head), rule, *(map(cell, row) for row in rows))]


def pairs(named: Sequence[tuple[str, str]]) -> list[str]:
    """Names and their texts, one pair on each line."""
    wide = max((len(name) for name, _ in named), default=0)
    return [f"{name.ljust(wide)}  {text}".rstrip() for name, text in named]


def _shown(cell: Cell, decimals: int) -> str:
    if cell is None:
        return ""
    return f"{cell:,.{decimals}f}" if isinstance(cell, float) else f"{cell:,}" if isinstance(cell, int) else cell


def _written(cell: Cell) -> str:
    if cell is None:
        return ""
    return f"{cell:.6g}" if isinstance(cell, float) else str(cell)
