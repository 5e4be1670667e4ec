"""The report: one HTML file that needs no network, and beside it the pictures and tables of its figures."""

import base64
import html
import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from calque import __version__
from calque.analyse import kept
from calque.analyse.analysis import Analysis
from calque.analyse.pieces import PIECES, Piece
from calque.analyse.subject import stem
from calque.analyse.table import Cell, Drawn, NotDrawn, Table
from calque.diagnostics import error
from calque.run import writing
from calque.whole import staged, sweep, write_whole

REPORT = "report.html"
SHOWN_ROWS = 60
"""Rows of a table that stand in the page; all of them are in its CSV."""
ENLARGED = 1.6
"""Pixels of a point of a picture, where the page is wide enough."""
_WIDTH = re.compile(rb'<svg [^>]*?width="([\d.]+)pt"')
OPEN_ROWS = 8
"""Longer tables are folded."""


@dataclass(frozen=True)
class Section:
    """A piece: what was drawn, and what does not apply."""

    name: str
    title: str
    drawn: tuple[Drawn, ...]
    notes: tuple[str, ...]


def make_section(analysis: Analysis, name: str, piece: Piece) -> Section:
    """A piece, as it was kept or made now. Raises CalqueError for what was asked for wrongly."""
    there = False
    try:
        part, there = analysis.kept.part(
            stem("section", name), [name, analysis.fingerprint], lambda: kept.plain(piece.draw(analysis))
        )
        made = kept.drawn(part)
    except NotDrawn as why:
        made = [f"Not drawn: {why}."]
    drawn = tuple(one for one in made if isinstance(one, Drawn))
    analysis.tell(f"{piece.title}: {len(drawn)} drawn{' before' * there}")
    return Section(name, piece.title, drawn, tuple(one for one in made if isinstance(one, str)))


def write_report(analysis: Analysis, out: Path, pieces: Mapping[str, Piece] = PIECES, alone: bool = False) -> Path:
    """Writes each section's files, and after each of them `report.html`, into `out`; returns the path of the report.

    `alone`: figures that were asked for by name; X830 where none of them can be drawn. Raises K301 for what cannot be written.
    """
    analysis.check()
    with writing(out):  # told before hours of work, not after
        new = not out.exists()
        out.mkdir(parents=True, exist_ok=True)
        with staged(out / REPORT, b""):
            pass
        if new:  # nothing may come to be drawn
            out.rmdir()
        for folder in (out, analysis.kept.folder):  # of an analysis that was killed
            if folder is not None and folder.is_dir():
                sweep(folder)
    sections: list[Section] = []
    missing = [piece.title for piece in pieces.values()]
    for name, piece in pieces.items():
        sections.append(make_section(analysis, name, piece))
        missing = missing[1:]
        if alone and not any(section.drawn for section in sections):
            continue
        with writing(out):
            out.mkdir(parents=True, exist_ok=True)
            for drawn in sections[-1].drawn:
                for kind, body in drawn.files().items():
                    write_whole(out / f"{drawn.name}.{kind}", body)
            write_whole(out / REPORT, page(analysis, sections, missing).encode())
    if alone and not any(section.drawn for section in sections):
        reason = "; ".join(note.removeprefix("Not drawn: ").rstrip(".") for s in sections for note in s.notes)
        raise error("X830", None, name=", ".join(s.name for s in sections), reason=reason)
    return out / REPORT


def page(analysis: Analysis, sections: Iterable[Section], missing: Sequence[str] = ()) -> str:
    """The report as one file of HTML: pictures are in it, tables are linked beside it. `missing`: titles of what is to come."""
    sections = list(sections)
    contents = "".join(
        f'<li><a href="#{s.name}">{_text(s.title)}</a>{"" if s.drawn else " <small>(not drawn)</small>"}</li>\n'
        for s in sections
    )
    contents += "".join(f"<li>{_text(title)} <small>(not made yet)</small></li>\n" for title in missing)
    body = "".join(_section(analysis, s) for s in sections)
    return _PAGE.format(
        style=_STYLE,
        about=_about(analysis),
        contents=contents,
        body=body,
        state=_UNFINISHED if missing else "",
        version=_text(__version__),
        conditions=_text("; ".join(f"{k} {v}" for k, v in analysis.machine.items() if v is not None)),
    )


def _about(a: Analysis) -> str:
    if not a.folders:
        return f"<p>{_command(a.command)}</p>"
    text = a.text
    cut = (
        f"the first {len(text.sources):,} of {len(text.lengths):,}"
        if len(text.sources) < len(text.lengths)
        else f"{len(text.lengths):,}"
    )
    runs = "".join(
        f"<li><b>{_text(s.name)}</b> <small>{_text(s.checked.hash)}</small>"
        f"<details><summary>Definition</summary><pre>{_text(s.checked.text)}</pre></details></li>\n"
        for s in a.subjects
    )
    return (
        f"<p>{_command(a.command)}</p>\n<p>Text: {_text(text.title)}, {cut} lines. Others are set "
        f"against <b>{_text(a.base.name)}</b>.</p>\n<ul class=runs>\n{runs}</ul>"
    )


def _section(a: Analysis, section: Section) -> str:
    notes = "".join(f"<p class=note>{_text(_sentence(note))}</p>\n" for note in section.notes)
    # One call makes all figures of a section: the first caption has it.
    commands = [f"{a.command} --figure {section.name}", *[""] * len(section.drawn)]
    figures = "".join(_figure(*both) for both in zip(section.drawn, commands, strict=False))
    return f'<section id="{section.name}">\n<h2>{_text(section.title)}</h2>\n{figures}{notes}</section>\n'


def _sentence(text: str) -> str:
    return text if text.endswith(".") else f"{text}."


def _figure(drawn: Drawn, command: str) -> str:
    files = " · ".join(f'<a href="{_text(drawn.name)}.{kind}">{kind.upper()}</a>' for kind in drawn.files())
    return (
        f'<figure id="figure-{_text(drawn.name)}">\n{_picture(drawn)}'
        f"<figcaption><b>{_text(drawn.title)}.</b> {_caption(drawn.caption)}<br>{files}"
        f"{f'<br>{_command(command)}' if command else ''}</figcaption>\n</figure>\n{_table(drawn.table)}"
    )


def _picture(drawn: Drawn) -> str:
    """What a reader of the page without pictures is told stands in the table below."""
    if not drawn.svg:
        return ""
    picture = base64.b64encode(drawn.svg).decode()
    alternative = f"Picture: {drawn.title}. Its figures stand in the table below."
    width = round(ENLARGED * float(found[1])) if (found := _WIDTH.search(drawn.svg[:2000])) else ""
    return f'<img alt="{_text(alternative)}" width="{width}" src="data:image/svg+xml;base64,{picture}">\n'


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


def _caption(text: str) -> str:
    """A caption, `code` in it as such."""
    parts = _text(text).split("`")
    return "".join(f"<code>{part}</code>" if k % 2 else part for k, part in enumerate(parts))


def _command(command: str) -> str:
    """A command whose words are broken only where one alone is too wide."""
    return "<code>" + " ".join(f"<span>{_text(word)}</span>" for word in command.split(" ")) + "</code>"


_STYLE = """
:root { color-scheme: light; }
body { font: 16px/1.5 system-ui, sans-serif; color: #222; background: #fff; max-width: 46rem; margin: 0 auto; padding: 1rem; }
h1 { font-size: 1.5rem; } h2 { font-size: 1.2rem; margin-top: 2.5rem; border-top: 1px solid #ddd; padding-top: 1rem; }
h2, figcaption { break-after: avoid; } figure { margin: 1.5rem 0 0.5rem; } figure img { max-width: 100%; height: auto; }
figcaption { font-size: 0.9rem; color: #444; overflow-wrap: anywhere; } code { font-size: 0.8rem; color: #333; }
code span { display: inline-block; max-width: 100%; overflow-wrap: anywhere; } pre { font-size: 0.8rem; white-space: pre-wrap; }
pre { overflow-wrap: anywhere; } nav ol { padding-left: 1.6rem; } small { color: #555; }
.note { color: #744; } .scroll { overflow-x: auto; } details { margin: 0.4rem 0; } .runs { padding-left: 1.2rem; }
.runs details { margin: 0; font-size: 0.85rem; } table { border-collapse: collapse; font-size: 0.8rem; }
th, td { padding: 0.15rem 0.5rem; border-bottom: 1px solid #eee; text-align: left; vertical-align: top; }
th { vertical-align: bottom; } td.n { text-align: right; font-variant-numeric: tabular-nums; } a { color: #0059a5; }
footer { margin-top: 3rem; font-size: 0.8rem; color: #555; }
@media (min-width: 44rem) { nav ol, .runs { columns: 2; column-gap: 3rem; } nav li, .runs li { break-inside: avoid; } }
@media print {
  body { max-width: none; font-size: 10pt; padding: 0; } h2 { margin-top: 1.2rem; }
  figure { margin: 0.6rem 0 0; break-inside: avoid; } figure img { max-height: 13cm; max-width: 100%; width: auto; }
  details:not([open]) { display: none; } details summary { display: none; } .scroll { overflow: visible; }
  table { font-size: 6.5pt; } tr { break-inside: avoid; } th, td { padding: 0.1rem 0.25rem; }
}
"""

_UNFINISHED = "<p class=note>This report is not finished: the same call goes on where it stopped.</p>\n"

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
{state}{about}
<nav><h2>Contents</h2>
<ol>
{contents}</ol></nav>
{body}<footer>Calque {version}. {conditions}.</footer>
</body>
</html>
"""
