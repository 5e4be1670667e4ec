"""The report: one HTML file that needs no network, and beside it the pictures and tables of its figures."""

import base64
import html
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path

from calque import __version__
from calque.analyse.analysis import Analysis
from calque.analyse.pieces import PIECES, Piece
from calque.analyse.table import Cell, Drawn, NotDrawn, Table
from calque.diagnostics import error
from calque.run import writing
from calque.whole import write_whole

REPORT = "report.html"
SHOWN_ROWS = 60
"""Rows of a table that stand in the page; all of them are in its CSV."""
OPEN_ROWS = 8
"""Longer tables are folded."""


@dataclass(frozen=True)
class Section:
    """A piece: what was drawn, and what does not apply."""

    name: str
    title: str
    drawn: tuple[Drawn, ...]
    notes: tuple[str, ...]


def make_sections(analysis: Analysis, pieces: Mapping[str, Piece]) -> list[Section]:
    """The pieces, in their order. Raises CalqueError for what was asked for wrongly."""
    found = []
    for name, piece in pieces.items():
        try:
            made = piece.draw(analysis)
        except NotDrawn as why:
            made = [f"Not drawn: {why}."]
        drawn = tuple(one for one in made if isinstance(one, Drawn))
        found.append(Section(name, piece.title, drawn, tuple(one for one in made if isinstance(one, str))))
        analysis.tell(f"{piece.title}: {len(drawn)} drawn")
    return found


def write_report(analysis: Analysis, out: Path, pieces: Mapping[str, Piece] = PIECES, alone: bool = False) -> Path:
    """Writes the figures' files and then `report.html` into `out`, and returns the path of the report.

    `alone`: figures that were asked for by name; X830 where none of them can be drawn. Raises K301 for what cannot be written.
    """
    analysis.check()
    sections = make_sections(analysis, pieces)
    if alone and not any(section.drawn for section in sections):
        reason = "; ".join(note.removeprefix("Not drawn: ").rstrip(".") for s in sections for note in s.notes)
        raise error("X830", None, name=", ".join(s.name for s in sections), reason=reason)
    with writing(out):
        out.mkdir(parents=True, exist_ok=True)
        for drawn in (one for section in sections for one in section.drawn):
            for kind, body in (("svg", drawn.svg), ("png", drawn.png), ("csv", drawn.table.csv())):
                if body:
                    write_whole(out / f"{drawn.name}.{kind}", body)
        write_whole(out / REPORT, page(analysis, sections).encode())
    return out / REPORT


def page(analysis: Analysis, sections: Iterable[Section]) -> str:
    """The report as one file of HTML: pictures are in it, tables are linked beside it."""
    sections = list(sections)
    contents = "".join(
        f'<li><a href="#{s.name}">{_text(s.title)}</a>{"" if s.drawn else " <small>(not drawn)</small>"}</li>\n'
        for s in sections
    )
    body = "".join(_section(analysis, s) for s in sections)
    return _PAGE.format(
        style=_STYLE,
        about=_about(analysis),
        contents=contents,
        body=body,
        version=_text(__version__),
        conditions=_text("; ".join(f"{k} {v}" for k, v in analysis.machine.items() if v is not None)),
    )


def _about(a: Analysis) -> str:
    if not a.folders:
        return f"<p><code>{_text(a.command)}</code></p>"
    text = a.text
    cut = (
        f"the first {len(text.sources):,} of {len(text.lengths):,}"
        if len(text.sources) < len(text.lengths)
        else f"{len(text.lengths):,}"
    )
    runs = "".join(
        f"<li><details><summary><b>{_text(s.name)}</b> <small>{_text(s.checked.hash)}</small></summary>"
        f"<pre>{_text(s.checked.text)}</pre></details></li>\n"
        for s in a.subjects
    )
    return (
        f"<p><code>{_text(a.command)}</code></p>\n<p>Text: {_text(text.title)}, {cut} lines. Others are set "
        f"against <b>{_text(a.base.name)}</b>.</p>\n<ul class=runs>\n{runs}</ul>"
    )


def _section(a: Analysis, section: Section) -> str:
    notes = "".join(f"<p class=note>{_text(_sentence(note))}</p>\n" for note in section.notes)
    figures = "".join(_figure(drawn, f"{a.command} --figure {section.name}") for drawn in section.drawn)
    return f'<section id="{section.name}">\n<h2>{_text(section.title)}</h2>\n{figures}{notes}</section>\n'


def _sentence(text: str) -> str:
    return text if text.endswith(".") else f"{text}."


def _figure(drawn: Drawn, command: str) -> str:
    picture, kinds = "", [kind for kind in ("csv", "svg", "png") if kind == "csv" or getattr(drawn, kind)]
    if drawn.svg:
        source = f"data:image/svg+xml;base64,{base64.b64encode(drawn.svg).decode()}"
        picture = f'<img alt="{_text(drawn.title)}" src="{source}">\n'
    files = " · ".join(f'<a href="{drawn.name}.{kind}">{kind.upper()}</a>' for kind in kinds)
    return (
        f'<figure id="figure-{_text(drawn.name)}">\n{picture}'
        f"<figcaption><b>{_text(drawn.title)}.</b> {_text(drawn.caption)}<br>{files}<br>"
        f"<code>{_text(command)}</code></figcaption>\n"
        f"{_table(drawn.table)}</figure>\n"
    )


def _table(table: Table) -> str:
    head = "".join(f"<th>{_text(name)}</th>" for name in table.columns)
    rows = "".join("<tr>" + "".join(_cell(cell) for cell in row) + "</tr>\n" for row in table.rows[:SHOWN_ROWS])
    opened = " open" if len(table.rows) <= OPEN_ROWS else ""
    more = f"<p>{len(table.rows) - SHOWN_ROWS:,} more rows in the CSV.</p>" if len(table.rows) > SHOWN_ROWS else ""
    shown = f"<div class=scroll><table><tr>{head}</tr>\n{rows}</table></div>{more}"
    return f"<details{opened}><summary>Table</summary>{shown}</details>\n"


def _cell(cell: Cell) -> str:
    if isinstance(cell, str):
        return f"<td>{_text(cell)}</td>"
    if cell is None:
        return "<td></td>"
    shown = f"{cell:,}" if isinstance(cell, int) else f"{cell:.2f}" if abs(cell) >= 10 else f"{cell:.3g}"
    return f"<td class=n>{shown}</td>"


def _text(text: str) -> str:
    return html.escape(text)


_STYLE = """
:root { color-scheme: light; }
body { font: 16px/1.5 system-ui, sans-serif; color: #222; background: #fff; max-width: 46rem; margin: 0 auto; padding: 1rem; }
h1 { font-size: 1.5rem; } h2 { font-size: 1.2rem; margin-top: 2.5rem; border-top: 1px solid #ddd; padding-top: 1rem; }
figure { margin: 1.5rem 0; } figure img { width: 34rem; max-width: 100%; height: auto; }
figcaption { font-size: 0.9rem; color: #444; } code, pre { font-size: 0.8rem; overflow-wrap: anywhere; white-space: pre-wrap; }
.note { color: #744; } .scroll { overflow-x: auto; } details { margin: 0.4rem 0; } .runs { padding-left: 1.2rem; }
table { border-collapse: collapse; font-size: 0.8rem; }
th, td { padding: 0.15rem 0.5rem; border-bottom: 1px solid #eee; text-align: left; }
th { vertical-align: bottom; } td.n { text-align: right; font-variant-numeric: tabular-nums; } a { color: #0059a5; }
footer { margin-top: 3rem; font-size: 0.8rem; color: #666; }
@media print { body { max-width: none; font-size: 10pt; } figure { break-inside: avoid; } details:not([open]) { display: none; } }
"""

_PAGE = """<!doctype html>
<html lang="en">
<head>
<meta charset="utf-8">
<meta name="viewport" content="width=device-width, initial-scale=1">
<title>Calque: analysis</title>
<style>{style}</style>
</head>
<body>
<h1>Analysis</h1>
{about}
<nav><h2>Contents</h2>
<ol>
{contents}</ol></nav>
{body}<footer>Calque {version}. {conditions}.</footer>
</body>
</html>
"""
