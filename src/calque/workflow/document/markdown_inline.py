"""The inside of a paragraph of Markdown as pieces: emphasis, links, code, and what extensions of Markdown know.

The parser says what is inside without saying where it stands, so that each part is found again behind the one before it.
"""

import html
import re
from bisect import bisect_left
from collections.abc import Iterator, Sequence
from functools import cache
from typing import TYPE_CHECKING, Any

from calque.workflow.document.coded import Code, Codes
from calque.workflow.document.inline import Kind, is_inline
from calque.workflow.document.messages import KEPT_ELEMENT, kept_pieces, paired, tag_code

if TYPE_CHECKING:
    from markdown_it import MarkdownIt
    from markdown_it.token import Token

_ATTRIBUTES = re.compile(r"\{:?[ \t]*(?:[.#]|[\w-]+=)[^{}\n]*\}")
_GLUED = re.compile(rf"{_ATTRIBUTES.pattern}|<!--.*?-->", re.DOTALL)
"""Attributes, or a comment, directly behind a link or code: they belong to it."""
_SIGNS = re.compile(r"[${<]|\[\^|\\\(")
_MASKED = re.compile(
    r"(?P<span>(?P<marks>`+)(?!`).{1,2000}?(?<!`)(?P=marks)(?!`))"
    rf"|(?P<point>\[\^[^\]\s]{{1,100}}\]|[ \t]?{_ATTRIBUTES.pattern}(?=[ \t]*$))"
    r"|(?P<formula>\$\$[^$]+\$\$|\$[^$\s](?:[^$\n]*[^$\s])?\$(?!\d)|\\\([^\n]{1,300}?\\\))"
    rf"|(?P<element>{KEPT_ELEMENT.pattern})|(?P<put>\{{\{{[^{{}}\n]{{0,300}}\}}\}}|\{{%[^\n]{{0,300}}?%\}})",
    re.DOTALL | re.MULTILINE,
)
"""What the parser does not know: references to notes, attributes, formulas, code in HTML, placeholders."""
_FIRST, _LAST = 0xE000, 0xF8FF
"""Characters of private use, of which one stands for each of these while the parser reads a text."""
_PRIVATE = re.compile(f"[{chr(_FIRST)}-{chr(_LAST)}]")
_KEPT = re.compile(rf"{_PRIVATE.pattern}|https?://[^\s<>\"']*[\w/]")
_DESTINATION = re.compile(
    r"\]\(\s*(?:<(?:[^<>\\\n]|\\.)*>|(?:[^\s()\\]|\\.|\((?:[^\s()\\]|\\.|\([^\s()]*\))*\))*)"
    r"(?:\s+(?:\"(?:[^\"\\]|\\.)*\"|'(?:[^'\\]|\\.)*'|\((?:[^()\\]|\\.)*\)))?\s*\)",
    re.DOTALL,
)
_REFERENCE = re.compile(r"\](?:\[(?:[^\[\]\\]|\\.)*\])?")
_BRACKET = re.compile(r"\\.|(`+).*?(?<!`)\1(?!`)|[\[\]]", re.DOTALL)
_BREAK = re.compile(r"([ ]{2,}|\\)\n[ \t]*")
_SOFT = re.compile(r"[ \t]*\n[ \t]*")
_MARKS, _OTHERS = frozenset("\\`*_[<~"), frozenset("]>&$#@!|")
"""Characters with a meaning: escaped unless the source has them as they are, and escaped if it escapes them."""


@cache
def parser() -> "MarkdownIt":
    """CommonMark with tables and deleted text."""
    from markdown_it import MarkdownIt

    made = MarkdownIt("commonmark").enable(["table", "strikethrough"])
    made.core.ruler.disable("text_join")  # what is escaped stays a part of its own
    return made


class Unfound(Exception):
    """A part is not where it should be."""


class Pieces:
    """The pieces of a text, whose lines stand in the file with `breaks` between them."""

    def __init__(self, content: str, breaks: Sequence[str], names: dict[str, Any], inline: bool):
        self.codes = Codes()
        self._masked: list[re.Match[str]] = []
        self._source, self._at = content, 0
        if _SIGNS.search(content) and not _PRIVATE.search(content):
            self._source = _MASKED.sub(self._mask, content)
        (token,) = parser().parseInline(self._source, names)
        self._tokens = token.children or []
        tags = ((id(one), one.content) for one in self._tokens if one.type == "html_inline")
        self._paired = paired(tags)
        self._breaks, self._ends = breaks, [k for k, c in enumerate(self._source) if c == "\n"]
        self._literal: set[str] = set()
        self._special: set[str] = set()
        self._links: list[int] = []
        """Where the texts of the links that are open begin."""
        self._glued = ""
        """What is directly behind a link or code and belongs to it; for the parser it is the beginning of the next part."""
        self._inside, self._point = (Kind.INSIDE, Kind.POINT) if inline else (Kind.BETWEEN, Kind.BETWEEN)

    @property
    def escaped(self) -> frozenset[str]:
        """What is escaped in a translation: marks that do not stand in the text unescaped, and what is escaped in it."""
        return (_MARKS - self._literal) | (self._special & (_MARKS | _OTHERS))

    def all(self) -> Iterator[tuple[str, Kind]]:
        """Raises Unfound."""
        text = ""
        skipped = 0
        for token in self._tokens:
            plain = token.type == "text" or (token.type == "text_special" and token.markup == token.content)
            if plain and not skipped:
                text += self._take(token.content.removeprefix(self._glued))
                self._glued = ""
                continue
            yield from self._of_text(text)
            text = ""
            if token.info == "auto":
                skipped += 1 if token.type == "link_open" else -1
                if not skipped:
                    end = self._source.find(">", self._at) + 1
                    yield from self._kept(self._take(self._source[self._at : end]), 1)
            elif not skipped:
                yield from self._of(token)
        yield from self._of_text(text)
        if self._source[self._at :].strip():
            raise Unfound

    def _mask(self, found: re.Match[str]) -> str:
        if found["span"] or len(self._masked) > _LAST - _FIRST:
            return found[0]
        self._masked.append(found)
        return chr(_FIRST + len(self._masked) - 1)

    def _raw(self, text: str) -> str:
        """Markup as it is written."""
        return _PRIVATE.sub(self._unmasked, text) if self._masked else text

    def _unmasked(self, found: re.Match[str]) -> str:
        return self._masked[ord(found[0]) - _FIRST][0]

    def _take(self, text: str) -> str:
        """This text, which comes next in the source. Raises Unfound."""
        if not self._source.startswith(text, self._at):
            raise Unfound
        self._at += len(text)
        return text

    def _match(self, *patterns: re.Pattern[str]) -> str:
        """What one of these patterns has next in the source. Raises Unfound."""
        for pattern in patterns:
            if found := pattern.match(self._source, self._at):
                return self._take(found[0])
        raise Unfound

    def _of_text(self, text: str) -> Iterator[tuple[str, Kind]]:
        at = 0
        for found in _KEPT.finditer(text):
            yield self._plain(text[at : found.start()])
            at = found.end()
            if not self._masked or not _PRIVATE.match(found[0]):
                yield from self._kept(found[0], 0)
                continue
            masked = self._masked[ord(found[0]) - _FIRST]
            if masked["point"]:
                yield self.codes.point(masked[0]), self._point
            elif masked["element"] and self._inside is Kind.INSIDE:
                yield from kept_pieces(masked[0], True, self.codes)
            else:
                yield from self._kept(masked[0], 0 if not masked["formula"] else 2 - (masked[0][1] not in "$("))
        yield self._plain(text[at:])

    def _plain(self, text: str) -> tuple[str, Kind]:
        self._literal |= set(text)
        return html.escape(text, quote=False), Kind.TEXT

    def _kept(self, text: str, marks: int, glued: str = "") -> Iterator[tuple[str, Kind]]:
        """What is not translated, between so many characters of markup on each side, and the white space beside them."""
        words = text[marks : len(text) - marks].strip()
        if self._inside is not Kind.INSIDE or not words:
            yield self.codes.point(self._raw(text) + glued), Kind.BETWEEN
            return
        before, _, behind = text.partition(words)
        opening, closing = self.codes.around(Code(before, behind + glued, verbatim=True))
        yield opening, Kind.INSIDE
        yield html.escape(_SOFT.sub(" ", self._raw(words)), quote=False), Kind.KEPT
        yield closing, Kind.INSIDE

    def _of(self, token: "Token") -> Iterator[tuple[str, Kind]]:
        """What is no text, by the parser's name for it."""
        kind = token.type
        if kind == "html_inline" and token.content == self._glued:
            self._glued = ""
        elif kind == "link_open":
            yield self.codes.opening(self._take("[")), self._inside
            self._links.append(self._at)
        elif kind == "link_close":
            yield self._link_end()
        elif kind.endswith("_open"):
            yield self.codes.opening(self._take(token.markup), empty=False), self._inside
        elif kind.endswith("_close"):
            yield self.codes.closing(self._take(token.markup)), self._inside
        elif (of := {"softbreak": self._soft, "hardbreak": self._hard, "image": self._image}.get(kind)) is not None:
            yield of()
        else:
            yield from self._other(token)

    def _other(self, token: "Token") -> Iterator[tuple[str, Kind]]:
        if token.type == "text_special":
            self._take(token.markup)
            self._special.add(token.content)
            yield html.escape(token.content, quote=False), Kind.TEXT
        elif token.type == "code_inline":
            code = self._code(token.markup)
            yield from self._kept(code, len(token.markup), self._glue())
        elif token.type == "html_inline":
            yield self._tag(token)
        else:
            raise Unfound

    def _glue(self) -> str:
        """Attributes or a comment directly behind a link or code."""
        if found := _GLUED.match(self._source, self._at):
            self._glued = self._take(found[0])
        return self._glued

    def _link_end(self) -> tuple[str, Kind]:
        label = self._source[self._links.pop() : self._at]
        tail = self._match(_DESTINATION, _REFERENCE)
        if tail in ("]", "][]"):  # its text is the name of its target
            tail = f"][{label}]"
        return self.codes.closing(self._raw(tail) + self._glue()), self._inside

    def _soft(self) -> tuple[str, Kind]:
        self._match(_SOFT)
        return " ", Kind.TEXT

    def _hard(self) -> tuple[str, Kind]:
        end = self._match(_BREAK).partition("\n")[0]
        between = self._breaks[bisect_left(self._ends, self._at) - 1]
        return self.codes.point(end + between.lstrip(" \\")), Kind.BETWEEN

    def _code(self, marks: str) -> str:
        found = re.compile(rf"{marks}(?!`).*?(?<!`){marks}(?!`)", re.DOTALL)
        return self._match(found)

    def _image(self) -> tuple[str, Kind]:
        start, depth = self._at, 0
        self._take("!")
        for found in _BRACKET.finditer(self._source, self._at):
            depth += {"[": 1, "]": -1}.get(found[0], 0)
            if not depth:
                self._at = found.start()
                self._match(_DESTINATION, _REFERENCE)
                return self.codes.point(self._raw(self._source[start : self._at])), self._point
        raise Unfound

    def _tag(self, token: "Token") -> tuple[str, Kind]:
        tag = self._raw(self._take(token.content))
        if id(token) in self._paired:
            return tag_code(tag, self.codes), self._inside
        return self.codes.point(tag), self._point if tag.startswith("<!--") or is_inline(tag) else Kind.BETWEEN
