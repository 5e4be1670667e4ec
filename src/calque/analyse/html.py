"""The report as a page: one HTML file that contains all pictures and needs no network."""

import base64
import html
import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from datetime import date
from importlib import resources
from pathlib import Path

from calque.analyse.analysis import Analysis
from calque.analyse.drawn import Cell, DrawnFigure, Table
from calque.analyse.pieces import ARCHITECTURES, OVERVIEW, TRANSLATIONS
from calque.analyse.sides import FIXED, MISSING, OTHER, differences
from calque.ground.diagnostics import printable
from calque.ground.version import VERSION

SHOWN_ROWS = 60
"""The page shows so many rows of a table; its CSV has all."""
OPEN_ROWS = 24
"""Tables with more rows are folded."""
WHOLE = 24
"""A cell of at most so many letters is not broken."""
LETTERS = 600
"""The page shows so many letters of a sentence; its CSV has all."""
NAMED = 4
"""The title names so many runs."""
BESIDE = 3
"""The translations of so many runs fit beside each other on paper."""
ENLARGED = 1.6
"""Pixels for each point of a picture, where the page is wide enough; the width of a diagram is in pixels."""
UNFINISHED = "<p class=note>This report is not finished: run the same command again to continue.</p>\n"
PAGE = """<!doctype html>
<html lang="en">
<head>
<meta charset="utf-8">
<meta name="viewport" content="width=device-width, initial-scale=1">
<title>{title}</title>
<style>{style}</style>
</head>
<body>
<main>
<h1>{title}</h1>
{state}{about}{overview}{runs}<nav><h2>Contents</h2>
<ol>
{contents}</ol></nav>
{body}</main>
<footer><p>{command}</p><p>Calque {version}. {conditions}.</p></footer>
</body>
</html>
"""
_WIDTH = re.compile(rb'<svg [^>]*?width="([\d.]+)(pt)?"')


@dataclass(frozen=True)
class Section:
    """A section: its figures, and notes on figures that cannot be drawn."""

    name: str
    title: str
    drawn: tuple[DrawnFigure, ...]
    notes: tuple[str, ...]


def page(analysis: Analysis, sections: Iterable[Section], missing: Sequence[str] = ()) -> str:
    """The report: headline numbers first, where it has them; tables are files beside it.

    `missing`: titles of sections that are not made yet.
    """
    sections = list(sections)
    title = title_of(analysis, [*(s.title for s in sections), *missing])
    first = [s for s in sections if s.name == OVERVIEW]
    rest = [s for s in sections if s.name != OVERVIEW]
    contents = "".join(
        f'<li><a href="#{_text(s.name)}">{_text(s.title)}</a>{"" if s.drawn else " <small>(not drawn)</small>"}</li>\n'
        for s in rest
    )
    contents += "".join(f"<li>{_text(one)} <small>(not made yet)</small></li>\n" for one in missing)
    return PAGE.format(
        style=resources.files("calque.analyse").joinpath("page.css").read_text(encoding="utf-8"),
        title=_text(title),
        about=_about(analysis),
        overview="".join(_section(analysis, s) for s in first),
        runs=_runs(analysis),
        contents=contents,
        body="".join(_section(analysis, s) for s in rest),
        state=UNFINISHED if missing else "",
        version=_text(VERSION),
        conditions=_text("; ".join(f"{k} {v}" for k, v in analysis.machine.items() if v is not None)),
        command=_command(analysis.command),
    )


def title_of(analysis: Analysis, titles: Sequence[str]) -> str:
    """The title of the page: its only section, where it has one, and its runs."""
    names = [s.name for s in analysis.subjects] if analysis.folders else []
    if len(names) > NAMED:
        names = [*names[: NAMED - 1], f"{len(names) - NAMED + 1} more"]
    runs = " and ".join(filter(None, [", ".join(names[:-1]), *names[-1:]]))
    if len(titles) == 1:
        return f"{titles[0]} ({runs})" if runs else titles[0]
    return f"Analysis of {runs}" if runs else "; ".join(titles)


def _about(a: Analysis) -> str:
    """Date, text, corpus and base."""
    facts = {"Date": _text(date.today().isoformat())}
    if a.folders:
        text, own = a.text, a.base.run.experiment.data.test
        title = text.title + (
            f" ({' and '.join(Path(one).name for one in own)})" if own and not a.settings.text else ""
        )
        cut = f"the first {len(text.sources):,} of " if len(text.sources) < len(text.lengths) else ""
        corpora: dict[str, list[str]] = {}
        for s in a.subjects:
            corpora.setdefault(s.corpus, []).append(s.name)
        facts["Translated"] = _text(f"{title}, {cut}{len(text.lengths):,} lines")
        facts["Training corpus"] = "<br>".join(
            _text(corpus if len(corpora) == 1 else f"{', '.join(names)}: {corpus}") for corpus, names in corpora.items()
        )
        if len(a.subjects) > 1:
            facts["Base"] = f"{_text(a.base.name)}; the other runs are compared with it"
    return f"<dl>{''.join(f'<dt>{name}</dt><dd>{fact}</dd>' for name, fact in facts.items())}</dl>\n"


def _runs(a: Analysis) -> str:
    """The runs and their definitions."""
    if not a.folders:
        return ""
    runs = "".join(
        f"<li><b>{_text(s.name)}</b> <small>{_text(s.checked.hash)}</small>"
        f"<details><summary>Definition</summary><pre>{_text(s.checked.text)}</pre></details></li>\n"
        for s in a.subjects
    )
    return f"<ul class=runs>\n{runs}</ul>\n"


def _section(a: Analysis, section: Section) -> str:
    notes = "".join(f"<p class=note>{_text(_sentence(note))}</p>\n" for note in section.notes)
    # One command draws all figures of a section: the first caption shows it.
    commands = [f"{a.command} --figure {section.name}", *[""] * len(section.drawn)]
    # A reading that several figures share is printed once.
    every = [one.reading for one in section.drawn]
    readings = ["" if reading in every[:k] else reading for k, reading in enumerate(every)]
    shown = [_figure(section, *one) for one in zip(section.drawn, readings, commands, strict=False)]
    kind = "architectures" if section.name == ARCHITECTURES else "several" if len(shown) > 1 else "single"
    name = _text(section.name)
    figures = f"<div class={kind}>\n{''.join(shown)}</div>\n"
    return f'<section id="{name}">\n<h2>{_text(section.title)}</h2>\n{figures}{notes}</section>\n'


def _sentence(text: str) -> str:
    return text if text.endswith(".") else f"{text}."


def _figure(section: Section, drawn: DrawnFigure, reading: str, command: str) -> str:
    files = " · ".join(f'<a href="{_text(drawn.name)}.{kind}">{kind.upper()}</a>' for kind in drawn.files())
    title = "" if drawn.title == section.title else f"<b>{_text(_sentence(drawn.title))}</b> "
    reading = f"<p class=reading><b>How to read it:</b> {_caption(reading)}</p>" if reading else ""
    if section.name == TRANSLATIONS:
        table = _translations(drawn.table)
    else:
        table = _table(drawn.table, plain=section.name == OVERVIEW)
    caption = (
        f"<figcaption><p>{title}{_caption(drawn.caption)}</p>{reading}"
        f"<p class=files>{files}{f'<br>{_command(command)}' if command else ''}</p></figcaption>\n"
    )
    parts = f"{_picture(drawn)}{caption}{table}" if drawn.svg else f"{table}{caption}"
    kind = "pictured" if drawn.svg else "tabled"
    return f'<figure class={kind} id="figure-{_text(drawn.name)}">\n{parts}</figure>\n'


def _picture(drawn: DrawnFigure) -> str:
    """The picture as HTML. For readers who cannot see it, the table below has its figures."""
    picture = base64.b64encode(drawn.svg).decode()
    alternative = f"Picture: {drawn.title}. Its figures are in the table below."
    size = ""
    if width := _WIDTH.search(drawn.svg[:2000]):
        size = f' width="{round((ENLARGED if width[2] else 1) * float(width[1]))}"'
    return f'<img alt="{_text(alternative)}"{size} src="data:image/svg+xml;base64,{picture}">\n'


def _table(table: Table, plain: bool = False) -> str:
    """A table, folded where it is long; `plain`: never folded."""
    head = "".join(f"<th>{_text(name)}</th>" for name in table.columns)
    rows = "".join("<tr>" + "".join(_cell(cell) for cell in row) + "</tr>\n" for row in table.rows[:SHOWN_ROWS])
    more = f"<p>{len(table.rows) - SHOWN_ROWS:,} more rows in the CSV.</p>" if len(table.rows) > SHOWN_ROWS else ""
    shown = _scrolled("Table", f"<table><thead><tr>{head}</tr></thead>\n<tbody>{rows}</tbody></table>") + more
    if plain:
        return f"{shown}\n"
    opened = " open" if len(table.rows) <= OPEN_ROWS else ""
    return f"<details{opened}><summary>Table</summary>{shown}</details>\n"


def _scrolled(name: str, body: str) -> str:
    """What may be wider than the page, to be scrolled by keys too."""
    return f'<div class=scroll tabindex=0 role=region aria-label="{name}">{body}</div>'


def _translations(table: Table) -> str:
    """A row for each sentence: source, reference and the translation of each run, differences marked."""
    names = [str(name) for name in table.columns[len(FIXED) :]]
    head = "".join(f"<th>{_text(name)}</th>" for name in ("line", "source", "reference", *names))
    rows = []
    for line, score, source, reference, *translations in table.rows:
        place = f"{line}<br> <small>chrF {float(score or 0):.0f}</small>"
        cells = [
            f'<td class=n data-name="line">{place}</td>',
            _sentence_cell("source", _cut(source)),
            _sentence_cell("reference", _cut(reference)),
        ]
        marked = [_marked(str(reference), str(translation)) for translation in translations]
        cells += map(_sentence_cell, names, marked)
        rows.append(f"<tr>{''.join(cells)}</tr>\n")
    kind = "sides many" if len(names) > BESIDE else "sides"
    shown = f'<table class="{kind}"><thead><tr>{head}</tr></thead>\n<tbody>{"".join(rows)}</tbody></table>'
    return f"{_scrolled('Translations', shown)}\n"


def _sentence_cell(name: str, body: str) -> str:
    return f'<td dir=auto data-name="{_text(name)}">{body}</td>'


def _cut(text: Cell) -> str:
    return _text(printable(str(text), LETTERS))


def _marked(reference: str, hypothesis: str) -> str:
    """A translation; words that the reference lacks are marked, and a caret shows where words of it are missing."""
    parts = []
    for words, kind in differences(printable(reference, LETTERS), printable(hypothesis, LETTERS)):
        if kind == MISSING:
            parts.append(f'<span class=gap title="missing: {_text(words)}">‸</span>')
        else:
            parts.append(f"<mark>{_text(words)}</mark>" if kind == OTHER else _text(words))
    return " ".join(parts) or "<small>(empty)</small>"


def _cell(cell: Cell) -> str:
    if isinstance(cell, str):
        return f"<td{' class=w' * (len(cell) <= WHOLE)}>{_text(cell)}</td>"
    if cell is None:
        return "<td></td>"
    shown = (
        f"{cell:,}"
        if isinstance(cell, int)
        else f"{cell:,.0f}"
        if abs(cell) >= 1000
        else f"{cell:.2f}"
        if abs(cell) >= 10
        else f"{cell:.3g}"
    )
    return f"<td class=n>{shown}</td>"


def _text(text: str) -> str:
    return html.escape(text)


def _caption(text: str) -> str:
    """A caption, with `code` as HTML."""
    parts = _text(text).split("`")
    return "".join(f"<code>{part}</code>" if k % 2 else part for k, part in enumerate(parts))


def _command(command: str) -> str:
    """A command that is broken between words; a single word only where it is too wide."""
    return "<code>" + " ".join(f"<span>{_text(word)}</span>" for word in command.split(" ")) + "</code>"
