"""Texts as lines to translate, and what lies between the lines: line ends, white space, tags."""

import html
import itertools
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass

from calque.decode.divided import between, sentences_in
from calque.workflow.document.inline import (
    Kind,
    MarkedLine,
    Pieces,
    Shares,
    has_glued,
    marked_line,
    opens,
    plain_of,
    tidied,
)
from calque.workflow.document.placing import written

_CONTROL = re.compile("[\x00-\x08\x0b\x0c\x0e-\x1f\ufffe\uffff]")
"""Characters that no XML may have; a model can write them where its training text had them."""
_LINE_ENDS = re.compile("(\r\n|[\n\r\v\f\x1c-\x1e\x85\u2028\u2029])")


TOGETHER = 3
"""Sentences that are translated as one line where a tag begins in one and ends in another, at most."""


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
        line = _CONTROL.sub("", lines[part if isinstance(part, int) else part.number])
        if isinstance(part, Gap):
            return between(part.line, part.space, line)
        if isinstance(part, NumberedLine):
            return written(part.line, line, shares.get(part.number))
        return html.escape(line, quote=False) if self.escaped else line


class Lines:
    """The lines of all texts of a request, in order.

    by_sentence  a line is cut where a sentence ends
    letters      a line without letters stays as it is
    """

    def __init__(self, by_sentence: bool = False, letters: bool = False):
        self.lines: list[str] = []
        self.aligned: set[int] = set()
        """Lines whose tags are placed by where the words of the translation come from."""
        self._by_sentence, self._letters = by_sentence, letters

    def plain(self, text: str) -> Layout:
        """A text; its line ends and the white space at both ends of a line stay as they are."""
        parts: list[Part] = []
        for line, end in _pairs(_LINE_ENDS.split(text)):
            parts += self._line(line)
            parts.append(end)
        return Layout(tuple(parts))

    def marked(self, pieces: Iterable[tuple[str, Kind]]) -> Layout:
        """A text with markup, which stays as it is, in pieces."""
        parts: list[Part] = []
        together: list[tuple[str, Kind]] = []
        for piece, kind in pieces:
            if kind not in (Kind.BETWEEN, Kind.LINES):
                together.append((html.unescape(piece) if kind is Kind.TEXT else piece, kind))
                continue
            parts += self._together(together)
            parts += self._by_line(html.unescape(piece)) if kind is Kind.LINES else [piece]
            together = []
        parts += self._together(together)
        return Layout(tuple(parts), escaped=True)

    def _by_line(self, text: str) -> Iterator[Part]:
        """The parts of text whose line ends stay."""
        for line, end in _pairs(_LINE_ENDS.split(text)):
            yield from self._divided([(line, Kind.TEXT)])
            yield end

    def _together(self, pieces: Pieces) -> Iterator[Part]:
        """The parts of text and inline tags between two tags that divide."""
        pieces = tidied(pieces)
        sentences = list(self._cut(pieces)) if self._by_sentence else [pieces]
        for k, some in enumerate(sentences, 1):
            more = any(plain_of(piece, kind).strip() for later in sentences[k:] for piece, kind in later)
            line = marked_line(some) if any(kind is not Kind.TEXT for _, kind in some) else None
            words = "".join(piece for piece, kind in some if kind is Kind.TEXT).strip()
            if line is None or not self._is_text(words) or self._divides(some, line.text):
                yield from self._divided(some, more)
                continue
            yield from self._placed(line, more)

    def _divides(self, pieces: Pieces, text: str) -> bool:
        """Whether text is translated piece by piece: several sentences of which none goes through a tag, and parts of words."""
        if has_glued(pieces):
            return True
        if not self._by_sentence:
            return False
        count = len(list(sentences_in(text)))
        texts = [piece.strip() for piece, kind in pieces if kind is not Kind.INSIDE]
        return count > 1 and (count > TOGETHER or count == sum(len(list(sentences_in(one))) for one in texts if one))

    def _placed(self, line: MarkedLine, more: bool) -> Iterator[Part]:
        """The parts of a line with tags inside; `more`: sentences follow."""
        yield line.lead + html.escape(line.before, quote=False)
        if line.needs_shares:
            self.aligned.add(len(self.lines))
        number = len(self.lines)
        yield NumberedLine(number, line)
        self.lines.append(line.text)
        is_gap = more and not line.behind.strip()
        yield Gap(line.behind, number, line.text) if is_gap else html.escape(line.behind, quote=False)
        yield line.tail

    def _cut(self, pieces: Pieces) -> Iterator[list[tuple[str, Kind]]]:
        """Pieces sentence by sentence, where a sentence ends outside all tags."""
        plain = "".join(plain_of(*piece) for piece in pieces)
        ends = itertools.accumulate(len(sentence) + len(space) for sentence, space in sentences_in(plain))
        left = list(ends)[::-1]
        some: list[tuple[str, Kind]] = []
        depth = at = 0
        for piece, kind in pieces:
            depth += opens(piece) if kind is Kind.INSIDE else 0
            while kind is Kind.TEXT and left and left[-1] <= at + len(piece):
                cut = left.pop() - at
                if not depth:
                    yield [*some, (piece[:cut], kind)]
                    some, piece, at = [], piece[cut:], at + cut
            some.append((piece, kind))
            at += len(plain_of(piece, kind))
        yield some

    def _divided(self, pieces: Pieces, more: bool = False) -> Iterator[Part]:
        """Text between tags as lines of its own; `more`: sentences follow."""
        for k, (piece, kind) in enumerate(pieces, 1):
            is_text = kind is Kind.TEXT
            each = self._line(piece, more and k == len(pieces)) if is_text else ()
            yield from (html.escape(p, quote=False) if isinstance(p, str) else p for p in each)
            if not is_text:
                yield piece

    def _is_text(self, core: str) -> bool:
        return any(map(str.isalpha, core)) if self._letters else bool(core)

    def _line(self, line: str, more: bool = False) -> Iterator[Part]:
        """White space and the numbers of lines; `more`: sentences follow."""
        sentences = list(sentences_in(line)) if self._by_sentence else [(line, "")]
        for left, (sentence, space) in enumerate(sentences, 1 - len(sentences)):
            core = sentence.strip()
            if not self._is_text(core):
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
