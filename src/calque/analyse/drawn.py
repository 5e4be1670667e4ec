"""Figures of the analysis: a table, and its picture."""

from dataclasses import dataclass

from calque.ground.table import Cell as Cell
from calque.ground.table import Table as Table


@dataclass(frozen=True)
class DrawnFigure:
    """A figure of the report.

    `name` is the stem of its files; `svg` and `png` are empty where there is no picture. `caption` says what is shown, and
    `reading` in one sentence how to read it.
    """

    name: str
    title: str
    caption: str
    table: Table
    svg: bytes = b""
    png: bytes = b""
    reading: str = ""

    def files(self) -> dict[str, bytes]:
        """The files beside the report, by ending."""
        pictures = {"svg": self.svg, "png": self.png}
        return {"csv": self.table.csv().encode(), **{kind: body for kind, body in pictures.items() if body}}


class NotDrawn(Exception):
    """A figure cannot be drawn from this data; the message is a clause for the report."""
