"""Every figure of the five papers: what it shows, and by which piece it is drawn, as `figures.toml` says."""

import functools
import tomllib
from collections.abc import Mapping
from dataclasses import dataclass
from importlib import resources

from calque import zoo
from calque.papers import read_paper
from calque.papers.paper import Row

DIAGRAM, MASK, QUERY, SWEEPS = "diagram", "average-mask", "query", "sweeps"
OWN = (DIAGRAM, MASK, QUERY)
"""Drawn for papers alone; all other pieces are sections of the report."""


@dataclass(frozen=True)
class PaperFigure:
    """A figure of a paper, and the piece that draws it.

    note      what differs
    rows      TABLE/ROW or TABLE, the rows whose runs it shows; of a diagram, names of the zoo
    printed   what the paper prints with it
    buckets   the paper's own, and what they share
    """

    name: str
    title: str
    piece: str
    note: str = ""
    rows: tuple[str, ...] = ()
    printed: str = ""
    buckets: int | None = None
    equal: str | None = None

    @property
    def paper(self) -> str:
        """Its paper."""
        return self.name.partition("/")[0]

    @property
    def needs_runs(self) -> bool:
        """Whether nothing can be drawn without trained models."""
        return self.piece not in (*OWN, SWEEPS)

    @property
    def tables(self) -> dict[str, tuple[Row, ...]]:
        """The rows whose trained models it shows, by table."""
        shown: dict[str, tuple[Row, ...]] = {}
        known = set(zoo.names())  # rows that are another one's model, decoded otherwise, have no name there
        for name in self.rows if self.piece != DIAGRAM else ():
            table, _, key = name.partition("/")
            rows = read_paper.paper(self.paper).table(table).rows
            trained = tuple(row for row in rows if row.name in known and key in ("", row.key))
            shown[table] = (*shown.get(table, ()), *trained)
        return shown


@functools.cache
def paper_figures() -> Mapping[str, PaperFigure]:
    """All of them by name, `you2020/figure2`."""
    text = resources.files("calque.papers").joinpath("figures.toml").read_text(encoding="utf-8")
    figures: dict[str, PaperFigure] = {}
    for paper, some in tomllib.loads(text).items():
        for name, entry in some.items():
            entry["rows"] = tuple(entry.get("rows", ()))
            figures[f"{paper}/{name}"] = PaperFigure(f"{paper}/{name}", **entry)
    return figures


def markdown() -> str:
    """The table of `docs/analysis.md`."""
    rows = ["| figure | shows | drawn by |", "|---|---|---|"]
    for figure in paper_figures().values():
        of = ", ".join(f"`{name}`" for name in figure.rows)
        more = "; ".join(one for one in (of, figure.note) if one)
        rows.append(f"| `{figure.name}` | {figure.title} | `{figure.piece}`{': ' + more if more else ''} |")
    return "".join(f"{row}\n" for row in rows)
