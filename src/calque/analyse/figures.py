"""Every figure of the five papers, and what draws it: `figures.toml`."""

import functools
import tomllib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from importlib import resources

from calque.diagnostics import error, nearest


@dataclass(frozen=True)
class PaperFigure:
    """A figure of a paper: drawn by `piece`, or not, and then `why` says so."""

    name: str
    title: str
    piece: str | None = None
    why: str = ""
    note: str = ""
    buckets: int | None = None
    equal: str | None = None


@functools.cache
def paper_figures() -> Mapping[str, PaperFigure]:
    """All of them by name, `you2020/figure2`."""
    text = resources.files("calque.analyse").joinpath("figures.toml").read_text(encoding="utf-8")
    return {
        f"{paper}/{figure}": PaperFigure(f"{paper}/{figure}", **about)
        for paper, figures in tomllib.loads(text).items()
        for figure, about in figures.items()
    }


def chosen(asked: Sequence[str], pieces: Sequence[str]) -> tuple[list[str], PaperFigure | None]:
    """The pieces that names stand for, and the paper's figure where one alone was asked for.

    A name is a piece or a paper's figure. Raises X829 for another, X830 for a figure that nothing draws.
    """
    known = paper_figures()
    found = []
    for name in asked:
        if name not in known and name not in pieces:
            names = [*pieces, *(n for n, figure in known.items() if figure.piece)]
            raise error("X829", None, name=name, near=nearest(name, names), names=names)
        figure = known.get(name, PaperFigure(name, "", name))
        if figure.piece is None:
            raise error("X830", None, name=name, reason=figure.why)
        found.append(figure.piece)
    return found, known.get(asked[0]) if len(asked) == 1 else None


def markdown() -> str:
    """The table of `docs/analysis.md`."""
    rows = ["| figure | shows | drawn by |", "|---|---|---|"]
    for figure in paper_figures().values():
        drawn = f"`{figure.piece}`" if figure.piece else "not from runs"
        more = figure.note or figure.why
        rows.append(f"| `{figure.name}` | {figure.title} | {drawn}{': ' + more if more else ''} |")
    return "".join(f"{row}\n" for row in rows)
