"""Markdown as pieces: a parser of CommonMark says what each part is, and the text stays as it is written.

A paragraph whose parts are not found again where the parser says that they are stays as it is.
"""

import html
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, Any

from calque.workflow.document.coded import Coded
from calque.workflow.document.inline import Kind, Shares
from calque.workflow.document.layout import Layout, Lines
from calque.workflow.document.markdown_inline import Pieces, Unfound, parser
from calque.workflow.document.markup import html_pieces

if TYPE_CHECKING:
    from markdown_it.token import Token

_FRONT = re.compile(
    r"---[ \t]*\r?\n(?=[^\n]*:).*?^(?:---|\.\.\.)[ \t]*(?:\r?\n|\Z)|\+\+\+[ \t]*\r?\n.*?^\+\+\+[ \t]*(?:\r?\n|\Z)",
    re.DOTALL | re.MULTILINE,
)
_LINE = re.compile(r"\r\n|\r|\n")
_HEAD = re.compile(r"(?:\[\^[^\]\s]+\]:|\[[ xX]\](?=[ \t])|:(?=[ \t])|\[![\w-]+\][+-]?(?=[ \t]))[ \t]*")
"""At the beginning of a line: the name of a note, the box of a task, the mark of a definition, the kind of a box."""
_APART = re.compile(
    r"!!!|\?\?\?|:::|===[ \t]|--8<--|\{:|\[!\w+\][+-]?$|\[\[?_?TOC_?\]?\]$|\\[a-z]+$|\{%.*%\}$|\{\{.*\}\}$",
    re.IGNORECASE,
)
"""Lines that are no text: of extensions of Markdown, and of programs that make pages."""
_FORMULA = {"$$": "$$", r"\[": r"\]"}
_BEGINS = re.compile(
    r"(?:\A|\n[> \t]*+)(?:\d{1,9}(?=[.)](?:\s|$))|(?=[-+*](?:\s|$)|#{1,6}(?:\s|$)|>|(?:-{2,}|=+|\*{3,}|_{3,})[ \t]*$))",
    re.MULTILINE,
)
"""What would begin a list, a heading or a quotation, or be a rule, in a line of a paragraph."""


@dataclass(frozen=True)
class _Paragraph:
    """A text without its lines. `guarded`: at its beginning nothing may be taken for a list; `cell`: it is one of a table."""

    text: Coded
    guarded: bool
    cell: bool

    def fill(self, lines: Sequence[str], shares: Mapping[int, Shares | None] | None) -> str:
        filled = self.text.fill(lines, shares).lstrip(" ")
        if self.cell:
            return filled.replace("|", r"\|")
        return _BEGINS.sub(r"\g<0>\\", filled) if self.guarded else filled


@dataclass(frozen=True)
class Markdown:
    """A text of Markdown without its lines."""

    parts: tuple[str | _Paragraph | Layout, ...]

    def fill(self, lines: Sequence[str], shares: Mapping[int, Shares | None] | None = None) -> str:
        """The text with these lines."""
        return "".join(part if isinstance(part, str) else part.fill(lines, shares) for part in self.parts)


def read_markdown(text: str, lines: Lines, inline: bool) -> Markdown:
    """A text of Markdown, whose lines are added to `lines`. `inline`: markup inside a sentence does not divide it."""
    front = _FRONT.match(text)
    head = front[0] if front else ""
    return Markdown((head, *_Reader(text[len(head) :], lines, inline).parts()))


class _Reader:
    """Reads a text block by block."""

    def __init__(self, text: str, lines: Lines, inline: bool):
        self._text, self._lines, self._inline = text, lines, inline
        ends = [(found.start(), found.end()) for found in _LINE.finditer(text)]
        self._starts = [0, *(end for _, end in ends)]
        self._ends = [*(start for start, _ in ends), len(text)]
        self._at = 0
        """Where the next part begins."""
        self._names: dict[str, Any] = {}
        """The targets of links, as the parser keeps them."""

    def parts(self) -> Iterator[str | _Paragraph | Layout]:
        before = ""
        for token in parser().parse(self._text, self._names):
            if token.type == "inline" and token.map:
                yield from self._paragraph(token, before)
            elif token.type == "html_block" and token.map and not token.level:
                start, end = self._starts[token.map[0]], self._ends[token.map[1] - 1]
                pieces = [*html_pieces(self._text[start:end], self._inline)]
                if any(kind in (Kind.TEXT, Kind.LINES) and any(map(str.isalpha, piece)) for piece, kind in pieces):
                    yield self._text[self._at : start]
                    yield self._lines.marked(pieces)
                    self._at = end
            before = token.type
        yield self._text[self._at :]

    def _paragraph(self, token: "Token", before: str) -> Iterator[str | _Paragraph]:
        """The texts of a paragraph: of several, one ends where a line has a mark of its own or is no text."""
        cell = before in ("th_open", "td_open")
        rows = token.content.split("\n")
        if (places := self._places(token, rows, cell)) is None:
            return
        for first, last, head in _texts(rows):
            content = "\n".join(rows[first : last + 1])[head:]
            start = places[first][0] + head - (len(rows[first]) - len(rows[first].lstrip(" \t")))
            breaks = [self._text[places[k][1] : places[k + 1][0]] for k in range(first, last)]
            try:
                some = Pieces(content, breaks, self._names, self._inline)
                pieces = list(some.all())
            except Unfound:
                continue
            yield self._text[self._at : start]
            written = partial(_written, some.escaped - {"|"} if cell else some.escaped)
            coded = Coded(self._lines.marked(pieces), some.codes, written)
            yield _Paragraph(coded, before == "paragraph_open", cell)
            self._at = places[last][1]

    def _places(self, token: "Token", rows: Sequence[str], cell: bool) -> list[tuple[int, int]] | None:
        """Where each line of a paragraph begins and ends; None where one is not found."""
        assert token.map
        places: list[tuple[int, int]] = []
        for k, line in enumerate(rows, token.map[0]):
            text = line.strip(" \t").replace("|", r"\|" if cell else "|")
            at = self._text.find(text, max(self._at, self._starts[k]), self._ends[k])
            if at < 0:
                return None
            places.append((at, at + len(text)))
        return places


def _texts(rows: Sequence[str]) -> Iterator[tuple[int, int, int]]:
    """The texts among the lines of a paragraph: the first and the last line, and how many characters are in front."""
    first, head = -1, 0
    apart = _apart(rows)
    for k, row in enumerate(rows):
        found = None if apart[k] else _HEAD.match(row.lstrip())
        if (apart[k] or found) and first >= 0:
            yield first, k - 1, head
        if apart[k]:
            first = -1
        elif found or first < 0:
            first, head = k, len(row) - len(row.lstrip()) + (found.end() if found else 0)
    if first >= 0:
        yield first, len(rows) - 1, head


def _apart(rows: Sequence[str]) -> list[bool]:
    """Which lines are no text."""
    apart: list[bool] = []
    closing = ""
    for line in map(str.strip, rows):
        opening = next((sign for sign in _FORMULA if not closing and line.startswith(sign)), "")
        apart.append(bool(closing or opening or _APART.match(line)))
        closing = closing or _FORMULA.get(opening, "")
        if closing and line.removeprefix(opening).endswith(closing):
            closing = ""
    return apart


def _written(escaped: frozenset[str], text: str) -> str:
    """Text, escaped as in HTML, as it stands in Markdown: what had a meaning there, but none in the source, is escaped."""
    return "".join(("&amp;" if c == "&" else f"\\{c}") if c in escaped else c for c in html.unescape(text))
