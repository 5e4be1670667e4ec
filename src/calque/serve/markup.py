"""Texts as lines to translate, and what lies between the lines: line ends, white space, the tags of HTML."""

import html
import itertools
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

from calque.decode.divided import between, sentences_in
from calque.serve.inline import MarkedLine, Shares, is_inline, marked_line, opens, written

_LINE_ENDS = re.compile("(\r\n|[\n\r\v\f\x1c-\x1e\x85\u2028\u2029])")
# Nothing is matched in two ways, so that it takes linear time.
_TAG = re.compile(r"</?[A-Za-z][^\s/>\"'<]*+(?:\"[^\"]*\"|'[^']*'|[^'\"<>])*+>")
_CUT_TAG = re.compile(r"</?[A-Za-z][^\s/>\"'<]*+(?:\s+[^\s=>\"'<]++=(?:\"[^\"]*+\"?|'[^']*+'?|[^\s>\"'<]*+))*+\s*+\Z")
"""A tag that is cut off at the end of a text."""
_SET_APART = re.compile(r"<!\[CDATA\[|<!--|<[!?]")
_NAME = re.compile(r"</?([A-Za-z][^\s/>\"'<]*)")
_RAW = {name: re.compile(rf"</{name}(?=[\s/>])", re.IGNORECASE) for name in ("script", "style")}
"""Elements in which there are no tags but the one that ends them."""
_KEPT = frozenset({"script", "style", "code", "kbd", "samp", "template"})
"""Elements whose contents are no text to translate."""
_EMPTY = frozenset(
    ["area", "base", "br", "col", "embed", "hr", "img", "input", "link", "meta", "source", "track", "wbr"]
)
_NOT_TRANSLATED = re.compile(
    r"\stranslate\s*=\s*[\"']?no\b|\sclass\s*=\s*(?:\"[^\"]*\bnotranslate\b|'[^']*\bnotranslate\b|notranslate\b)",
    re.IGNORECASE,
)


@dataclass(frozen=True)
class NumberedLine:
    """A line with tags inside, and its number in the request."""

    number: int
    line: MarkedLine


@dataclass(frozen=True)
class Gap:
    """The white space behind a line that is followed by another sentence of its text."""

    space: str
    number: int
    line: str


Part = str | int | NumberedLine | Gap
"""Verbatim text, the number of a line in the request, a line with tags inside, or what is between two sentences."""


@dataclass(frozen=True)
class Layout:
    """A text without its lines."""

    parts: tuple[Part, ...]
    escaped: bool = False
    """whether lines are written as HTML"""

    def fill(self, lines: Sequence[str], shares: Mapping[int, Shares | None] | None = None) -> str:
        """The text with these lines. `shares`, by line: where its words come from, for lines with tags inside."""
        return "".join(self._written(part, lines, shares or {}) for part in self.parts)

    def _written(self, part: Part, lines: Sequence[str], shares: Mapping[int, Shares | None]) -> str:
        if isinstance(part, str):
            return part
        if isinstance(part, Gap):
            return between(part.line, part.space, lines[part.number])
        if isinstance(part, NumberedLine):
            return written(part.line, lines[part.number], shares.get(part.number))
        return html.escape(lines[part], quote=False) if self.escaped else lines[part]


class Lines:
    """The lines of all texts of a request, in order.

    by_sentence  a line is cut where a sentence ends
    inline       a tag inside a sentence does not divide it
    """

    def __init__(self, by_sentence: bool = False, inline: bool = False):
        self.lines: list[str] = []
        self.aligned: set[int] = set()
        """Lines whose tags are placed by where the words of the translation come from."""
        self._by_sentence, self._inline = by_sentence, inline

    def plain(self, text: str) -> Layout:
        """A text; its line ends and the white space at both ends of a line stay as they are."""
        parts: list[Part] = []
        for line, end in _pairs(_LINE_ENDS.split(text)):
            parts += self._line(line)
            parts.append(end)
        return Layout(tuple(parts))

    def html(self, text: str) -> Layout:
        """A text with tags, which stay as they are, as do comments and the contents of elements that are not translated."""
        parts: list[Part] = []
        together: list[tuple[str, bool]] = []
        as_written = 0  # elements whose line ends are kept
        for piece, is_text in _pieces(text):
            if is_text and as_written:
                parts += self._by_line(html.unescape(piece))
                continue
            if is_text or (self._inline and is_inline(piece) and not as_written):
                together.append((html.unescape(piece) if is_text else piece, is_text))
                continue
            parts += self._together(together)
            parts.append(piece)
            together = []
            as_written = max(0, as_written + _opens_pre(piece))
        parts += self._together(together)
        return Layout(tuple(parts), escaped=True)

    def _by_line(self, text: str) -> Iterator[Part]:
        """The parts of text whose line ends stay."""
        for line, end in _pairs(_LINE_ENDS.split(text)):
            yield from self._divided([(line, True)])
            yield end

    def _together(self, pieces: Sequence[tuple[str, bool]]) -> Iterator[Part]:
        """The parts of text and inline tags between two tags that divide."""
        sentences = list(self._cut(pieces)) if self._by_sentence else [pieces]
        for k, some in enumerate(sentences, 1):
            more = any(is_text and piece.strip() for later in sentences[k:] for piece, is_text in later)
            line = marked_line(some) if any(not is_text for _, is_text in some) else None
            if line is None or not line.text or (self._by_sentence and len(list(sentences_in(line.text))) > 1):
                yield from self._divided(some, more)
                continue
            yield from self._placed(line, more)

    def _placed(self, line: MarkedLine, more: bool) -> Iterator[Part]:
        """The parts of a line with tags inside; `more`: sentences follow."""
        yield html.escape(line.before, quote=False)
        if line.needs_shares:
            self.aligned.add(len(self.lines))
        number = len(self.lines)
        yield NumberedLine(number, line)
        self.lines.append(line.text)
        is_gap = more and not line.behind.strip()
        yield Gap(line.behind, number, line.text) if is_gap else html.escape(line.behind, quote=False)

    def _cut(self, pieces: Sequence[tuple[str, bool]]) -> Iterator[list[tuple[str, bool]]]:
        """Pieces sentence by sentence, where a sentence ends outside all tags."""
        plain = "".join(piece for piece, is_text in pieces if is_text)
        ends = itertools.accumulate(len(sentence) + len(space) for sentence, space in sentences_in(plain))
        left = list(ends)[::-1]
        some: list[tuple[str, bool]] = []
        depth = at = 0
        for piece, is_text in pieces:
            depth += 0 if is_text else opens(piece)
            while is_text and left and left[-1] <= at + len(piece):
                cut = left.pop() - at
                if not depth:
                    yield [*some, (piece[:cut], True)]
                    some, piece, at = [], piece[cut:], at + cut
            some.append((piece, is_text))
            at += len(piece) if is_text else 0
        yield some

    def _divided(self, pieces: Sequence[tuple[str, bool]], more: bool = False) -> Iterator[Part]:
        """Text between tags as lines of its own; `more`: sentences follow."""
        for k, (piece, is_text) in enumerate(pieces, 1):
            each = self._line(piece, more and k == len(pieces)) if is_text else ()
            yield from (html.escape(p, quote=False) if isinstance(p, str) else p for p in each)
            if not is_text:
                yield piece

    def _line(self, line: str, more: bool = False) -> Iterator[Part]:
        """White space and the numbers of lines; `more`: sentences follow."""
        sentences = list(sentences_in(line)) if self._by_sentence else [(line, "")]
        for left, (sentence, space) in enumerate(sentences, 1 - len(sentences)):
            core = sentence.strip()
            if not core:
                yield sentence + space
                continue
            before = sentence[: len(sentence) - len(sentence.lstrip())]
            yield before
            yield len(self.lines)
            behind = sentence[len(before) + len(core) :] + space
            yield Gap(behind, len(self.lines), core) if left < 0 or more else behind
            self.lines.append(" ".join(_LINE_ENDS.sub(" ", core).split()) if _LINE_ENDS.search(core) else core)


def _pairs(split: Sequence[str | None]) -> Iterator[tuple[str, str]]:
    """What `re.split` with groups returns, as pairs of a text and what follows it."""
    texts: list[str] = []
    for part in split:
        texts.append(part or "")
    for k in range(0, len(texts), 2):
        yield texts[k], texts[k + 1] if k + 1 < len(texts) else ""


def _pieces(text: str) -> Iterator[tuple[str, bool]]:
    """The parts of an HTML text in order, and whether each is text to translate. Together they are the text."""
    at = began = 0
    held = _Kept()
    absent: set[str] = set()
    while (at := _next_markup(text, at, held.open)) >= 0:
        end = _end_of_markup(text, at, absent)
        if end is None:
            at += 1  # a `<` that begins nothing is text
            continue
        if began < at:
            yield text[began:at], not held.open
        yield text[at:end], False
        held.see(text[at:end])
        at = began = end
    if began < len(text):
        yield text[began:], not held.open


def _opens_pre(markup: str) -> int:
    """1 for `<pre>`, -1 for `</pre>`, else 0."""
    found = _NAME.match(markup)
    if found is None or found[1].lower() != "pre" or markup.endswith("/>"):
        return 0
    return -1 if markup.startswith("</") else 1


def _next_markup(text: str, at: int, element: str | None) -> int:
    """Where a tag may begin, in an element; -1 where none does any more."""
    if element not in _RAW:
        return text.find("<", at)
    end = _RAW[element].search(text, at)
    return end.start() if end else -1


def _end_of_markup(text: str, at: int, absent: set[str]) -> int | None:
    """Where the tag, comment or declaration at `at` ends; None where there is none. `absent`: ends that do not come any more."""
    apart = _SET_APART.match(text, at)
    if apart is None:
        tag = _TAG.match(text, at) or _CUT_TAG.match(text, at)
        return tag and tag.end()
    closing = {"<!--": "-->", "<![CDATA[": "]]>"}.get(apart[0], ">")
    end = -1 if closing in absent else text.find(closing, apart.end())
    if end < 0:
        absent.add(closing)
        return len(text) if apart[0] == "<!--" else None  # a comment without an end is one to the end of the text
    return end + len(closing)


class _Kept:
    """Whether the text at hand is in an element that is not translated."""

    def __init__(self) -> None:
        self.open: str | None = None
        self._depth = 0

    def see(self, markup: str) -> None:
        """Reads the next tag."""
        found = _NAME.match(markup)
        if found is None:
            return
        name, closes = found[1].lower(), markup.startswith("</")
        if self.open is None:
            apart = name in _KEPT or _NOT_TRANSLATED.search(markup)
            if apart and not closes and name not in _EMPTY and not markup.endswith("/>"):
                self.open, self._depth = name, 1
        elif name == self.open and not markup.endswith("/>"):
            self._depth += -1 if closes else 1
            if not self._depth:
                self.open = None
