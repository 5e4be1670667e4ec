"""A table of figures as text, Markdown and CSV."""

import csv
import io
from collections.abc import Sequence
from dataclasses import dataclass

Cell = str | int | float | None
"""None: there is no such figure."""


@dataclass(frozen=True)
class Table:
    """Rows below a head. `name` is what its file is called; the first `left` columns are words."""

    name: str
    title: str
    head: tuple[str, ...]
    rows: tuple[tuple[Cell, ...], ...]
    left: int = 1

    def text(self) -> str:
        """Aligned columns."""
        cells = [self.head, *(tuple(map(_shown, row)) for row in self.rows)]
        widths = [max(len(row[k]) for row in cells) for k in range(len(self.head))]
        return "\n".join(
            "  ".join(
                c.ljust(w) if k < self.left else c.rjust(w) for k, (c, w) in enumerate(zip(row, widths, strict=True))
            ).rstrip()
            for row in cells
        )

    def markdown(self) -> str:
        """A Markdown table."""
        rule = ["---" if k < self.left else "---:" for k in range(len(self.head))]
        rows = [self.head, rule, *(tuple(map(_shown, row)) for row in self.rows)]
        return "\n".join("| " + " | ".join(escaped(c) for c in row) + " |" for row in rows)

    def csv(self) -> str:
        """Comma-separated values; an empty field where there is no figure."""
        body = io.StringIO()
        writer = csv.writer(body, lineterminator="\n")
        writer.writerow(self.head)
        writer.writerows(
            [[f"{c:.6g}" if isinstance(c, float) else "" if c is None else c for c in row] for row in self.rows]
        )
        return body.getvalue()

    def records(self) -> list[dict[str, Cell]]:
        """Each row by the names of the columns."""
        return [dict(zip(self.head, row, strict=True)) for row in self.rows]


def escaped(text: str) -> str:
    """A text that Markdown leaves as it is, in one line."""
    return "".join("\\" + c if c in "\\`*_{}[]<>#|~$" else c for c in " ".join(text.split()))


def aligned(pairs: Sequence[tuple[str, str]]) -> list[str]:
    """Names and what they stand for, one below the other."""
    wide = max((len(name) for name, _ in pairs), default=0)
    return [f"{name.ljust(wide)}  {text}".rstrip() for name, text in pairs]


def _shown(cell: Cell) -> str:
    if cell is None:
        return ""
    return f"{cell:,.2f}" if isinstance(cell, float) else f"{cell:,}" if isinstance(cell, int) else cell
