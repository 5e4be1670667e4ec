"""Every figure of the five papers, and what draws it: `figures.toml`."""

import copy
import dataclasses
import functools
import tomllib
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from importlib import resources
from typing import TYPE_CHECKING, Any

from calque.ground.diagnostics import error, nearest
from calque.papers import read_paper

if TYPE_CHECKING:
    from calque.analyse.analysis import Analysis
    from calque.analyse.pieces import Found, Piece
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
    def tables(self) -> "dict[str, tuple[Row, ...]]":
        """The rows whose trained models it shows, by table."""
        from calque import zoo

        found: dict[str, tuple[Row, ...]] = {}
        known = set(zoo.names())  # rows that are another one's model, decoded otherwise, have no name there
        for name in self.rows if self.piece != DIAGRAM else ():
            table, _, key = name.partition("/")
            rows = read_paper.paper(self.paper).table(table).rows
            trained = tuple(row for row in rows if row.name in known and key in ("", row.key))
            found[table] = (*found.get(table, ()), *trained)
        return found


@functools.cache
def paper_figures() -> Mapping[str, PaperFigure]:
    """All of them by name, `you2020/figure2`."""
    text = resources.files("calque.papers").joinpath("figures.toml").read_text(encoding="utf-8")
    found = {}
    for paper, figures in tomllib.loads(text).items():
        for figure, about in figures.items():
            keys: dict[str, Any] = {k: tuple(v) if isinstance(v, list) else v for k, v in about.items()}
            found[f"{paper}/{figure}"] = PaperFigure(f"{paper}/{figure}", **keys)
    return found


def chosen(asked: Sequence[str], given: Collection[str] = ()) -> "dict[str, Piece]":
    """What is drawn for these names, each a piece or a paper's figure; `given` are settings that no paper's replaces.

    Raises X829 for another name.
    """
    from calque.analyse.pieces import PIECES

    known, found = paper_figures(), {}
    for name in asked:
        figure = known.get(name)
        if figure is None and name not in PIECES:
            names = [*PIECES, *known]
            raise error("X829", None, name=name, near=nearest(name, names), names=names)
        found[name] = PIECES[name] if figure is None else piece_of(figure, given)
    return found


def piece_of(figure: PaperFigure, given: Collection[str] = ()) -> "Piece":
    """A paper's figure as a section: with its own buckets, and what the paper prints beside."""
    from calque.analyse.pieces import PIECES, Piece
    from calque.zoo.row_texts import place

    own = {name: getattr(figure, name) for name in ("buckets", "equal") if name not in given and getattr(figure, name)}

    def draw(analysis: "Analysis") -> "Found":
        from calque.papers import paper_figures as papers

        here = copy.copy(analysis)
        here.settings = dataclasses.replace(analysis.settings, **own)
        if figure.piece == DIAGRAM:
            made: Found = list(papers.architectures(figure.rows))
        elif figure.piece == MASK:
            made = list(papers.average_mask())
        elif figure.piece == QUERY:
            made = _query(here)
        else:
            made = PIECES[figure.piece].draw(here)
        tables = figure.tables if analysis.folders or analysis.settings.ledger else {}
        made += [papers.printed(figure.paper, rows, t) for t, rows in tables.items() if any(r.figures for r in rows)]
        return [*made, *(one for one in (figure.printed, figure.note) if one)]

    cite = read_paper.paper(figure.paper).cite
    return Piece(f"{cite}, {place(figure.name.partition('/')[2])}: {figure.title}", draw)


def _query(a: "Analysis") -> "Found":
    """The learned heads of each run's first encoder self-attention, in its line, and hard-coded ones; these alone without."""
    from calque.analyse.pieces import line_of
    from calque.analyse.runs import ENCODER, stem
    from calque.papers import paper_figures as papers

    if not a.folders:
        return [papers.query_weights(papers.WORDS, papers.QUERY, None, "", "query")]
    found: Found = []
    for s in a.subjects:
        path = next((p for p in s.attentions if s.kind(p) == ENCODER), None)
        if path is None:
            found.append(f"{s.name} has no self-attention in its encoder whose weights depend on the text")
            continue
        number = line_of(a)
        tokens = s.run.loaded.source.tokens(s.source_ids(a.text.sources[number]))
        query = len(tokens) // 2
        learned = s.weights(number)[path][: len(papers.OFFSETS), query]
        layer = f"{s.layers[path]} of {s.name}, line {number + 1}"
        found.append(papers.query_weights(tokens, query, learned, layer, stem("query", s.name)))
    if not any(not isinstance(one, str) for one in found):
        found.append(papers.query_weights(papers.WORDS, papers.QUERY, None, "", "query"))
    return found


def markdown() -> str:
    """The table of `docs/analysis.md`."""
    rows = ["| figure | shows | drawn by |", "|---|---|---|"]
    for figure in paper_figures().values():
        of = ", ".join(f"`{name}`" for name in figure.rows)
        more = "; ".join(one for one in (of, figure.note) if one)
        rows.append(f"| `{figure.name}` | {figure.title} | `{figure.piece}`{': ' + more if more else ''} |")
    return "".join(f"{row}\n" for row in rows)
