"""Sentences of a file in which markup is a number: `<g 3>` and `</g 3>` around words, `<x 4>` between two."""

import html
import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

from calque.workflow.document.inline import Shares
from calque.workflow.document.layout import Layout

_CODE = re.compile(r"<(/?)([gx]) (\d+)>")
_NO_WORDS = re.compile(r"<g (\d+)></g (\d+)>")


@dataclass(frozen=True)
class Code:
    """What stands in the file for a number: `before` and `behind` the words of `<g>`, `before` alone for `<x>`.

    Each run of text directly inside `<g>` stands between `start` and `end`, as text of a paragraph of Word does.
    """

    before: "str | Coded" = ""
    behind: str = ""
    start: str = ""
    end: str = ""
    verbatim: bool = False
    """whether its words stand in the file as they are"""
    instead: bool = False
    """whether `before` is written in place of its words"""
    empty: bool = True
    """whether it is also written where it has no words"""


class Codes:
    """The codes of a file, in the order of their numbers."""

    def __init__(self) -> None:
        self.all: list[Code] = []

    def around(self, code: Code) -> tuple[str, str]:
        """The two tags of a new code."""
        self.all.append(code)
        return f"<g {len(self.all) - 1}>", f"</g {len(self.all) - 1}>"

    def point(self, before: "str | Coded") -> str:
        """The tag of a new code without words."""
        self.all.append(Code(before))
        return f"<x {len(self.all) - 1}>"

    def opening(self, markup: str, empty: bool = True) -> str:
        """The first tag of a code whose other markup is not known yet."""
        return self.around(Code(markup, empty=empty))[0]

    def closing(self, markup: str) -> str:
        """The last tag of the code that is open."""
        return self.around(Code(behind=markup))[1]


@dataclass(frozen=True)
class Coded:
    """A text without its lines, with codes in place of markup."""

    layout: Layout
    codes: Codes
    text: Callable[[str], str] = str
    """how text, escaped as in HTML, is written"""

    def fill(self, lines: Sequence[str], shares: Mapping[int, Shares | None] | None = None) -> str:
        """The text with these lines and its own markup."""
        writer = _Writer(self, lines, shares)
        return writer.written(self.layout.fill(lines, shares))


class _Writer:
    """Writes what the codes of a filled text stand for."""

    def __init__(self, coded: Coded, lines: Sequence[str], shares: Mapping[int, Shares | None] | None):
        self._codes, self._as_text, self._lines, self._shares = coded.codes.all, coded.text, lines, shares
        self._out: list[str] = []
        self._open: list[Code] = []
        self._started: Code | None = None
        """The code whose `start` is written, and not yet its `end`."""

    def written(self, text: str) -> str:
        at, seen = 0, ""
        while text != seen:  # until no such code is left: some stand around nothing but others
            seen, text = text, _NO_WORDS.sub(self._without_words, text)
        for found in _CODE.finditer(text):
            self._text(text[at : found.start()])
            at = found.end()
            code = self._codes[int(found[3])]
            self._end()
            if found[1]:
                del self._open[-1:]
                self._out.append(code.behind)
                continue
            before = code.before
            self._out.append(before if isinstance(before, str) else before.fill(self._lines, self._shares))
            if found[2] == "g":
                self._open.append(code)
        self._text(text[at:])
        return "".join(self._out)

    def _without_words(self, found: re.Match[str]) -> str:
        opening, closing = (self._codes[int(number)] for number in found.groups())
        return found[0] if opening.empty or closing.behind != opening.before else ""

    def _text(self, text: str) -> None:
        if text and self._open and self._started is None:
            self._started = self._open[-1]
            self._out.append(self._started.start)
        code = self._open[-1] if self._open else Code()
        if not code.instead:
            self._out.append(html.unescape(text) if code.verbatim else self._as_text(text))

    def _end(self) -> None:
        if self._started is not None:
            self._out.append(self._started.end)
            self._started = None
