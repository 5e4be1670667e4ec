"""Subtitles: SubRip (`.srt`) and WebVTT (`.vtt`). Sentences go on from one subtitle to the next, and so do their translations."""

import html
import itertools
import math
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

from calque.workflow.document.inline import Kind, Shares
from calque.workflow.document.layout import Layout, Lines
from calque.workflow.document.markup import html_pieces

WIDTH = 42
"""Characters of a line, where no line of the file has more."""
MOST = 4
"""Subtitles that one sentence goes through, at most."""
PAUSE = 2.0
"""Seconds between two subtitles behind which a new sentence begins."""
_TIME = r"(?:(\d+):)?(\d{1,2}):(\d{2})[.,](\d{1,3})"
_CUE = re.compile(rf"(?:[^\r\n]+\r?\n)??[ \t]*{_TIME}[ \t]+-->[ \t]+{_TIME}[^\r\n]*(?:\r?\n|\Z)")
_BLANK = re.compile(r"((?:\r?\n[ \t]*)*\r?\n[ \t]*(?:\r?\n|\Z)|\r?\n\Z)")
_ENDED = re.compile(r"[.!?…:;。！？♪)\]]+[\"'”’»]*\s*\Z")
_BEGINS = re.compile(r"\s*(?:[-–—♪(\[]|\{\\)")
_SPEAKS = re.compile(r"^[ \t]*[-–—][ \t]?(?=\S)")
_STYLE = re.compile(r"(\{\\[^{}\n]*\})")
_MOMENT = re.compile(r"<\d[\d:.]*>")
_TAG = re.compile(r"<[^<>]*>")
_POINT = re.compile(r"<x \d+>")


@dataclass(frozen=True)
class _Cue:
    """A subtitle: what stands before its text, its text, and from when to when it is shown, in seconds."""

    head: str
    text: str
    begins: float = math.inf
    ends: float = -math.inf

    def goes_on(self, following: "_Cue") -> bool:
        """Whether its last sentence goes on in the next subtitle."""
        first, second = (_TAG.sub("", cue.text) for cue in (self, following))
        near = 0 <= following.begins - self.ends <= PAUSE
        speaks = any(_SPEAKS.match(line) for text in (first, second) for line in text.splitlines())
        whole = bool(first.strip() and second.strip())
        return whole and near and not speaks and not _ENDED.search(first) and not _BEGINS.match(second)


@dataclass(frozen=True)
class _Text:
    """A text between two points of the file: its length, how many rows it had, and the longest of them."""

    length: int
    rows: int
    widest: int
    goes_on: bool
    """whether the next one belongs to the same sentence"""


@dataclass(frozen=True)
class Subtitles:
    """A file of subtitles without its lines.

    points  what stands behind each text, in order; a translated sentence may be divided in another order, this one stays
    width   the longest row of the file
    """

    layout: Layout
    points: tuple[str, ...]
    texts: tuple[_Text, ...]
    escaped: bool
    line_end: str
    width: int

    def fill(self, lines: Sequence[str], shares: Mapping[int, Shares | None] | None = None) -> str:
        """The subtitles with these lines."""
        found = [text.strip() for text in _POINT.split(self.layout.fill(lines, shares))]
        first = 0
        for k, one in enumerate(self.texts, 1):
            if not one.goes_on:
                found[first:k] = _spread(found[first:k], [part.length for part in self.texts[first:k]])
                first = k
        out: list[str] = []
        for shown, was, point in zip(found, self.texts, (*self.points, ""), strict=True):
            rows = _rows(shown if self.escaped else html.unescape(shown), was, self.width)
            out += [self.line_end.join(rows), point]
        return "".join(out)


def read_subtitles(text: str, lines: Lines, escaped: bool) -> Subtitles:
    """A file of subtitles, whose lines are added to `lines`. `escaped`: it is WebVTT, where `&amp;` stands for `&`."""
    cues, reader = [*_cues(text)], _Reader(escaped, "\r\n" if "\r\n" in text else "\n")
    layout = lines.marked(reader.pieces(cues))
    widest = max((one.widest for one in reader.texts), default=0)
    return Subtitles(layout, tuple(reader.points), tuple(reader.texts), escaped, reader.line_end, max(WIDTH, widest))


def _cues(text: str) -> Iterator[_Cue]:
    """The subtitles of a file; the blank lines behind one are at the head of the next, or of an empty one at the end."""
    head = ""
    blocks = [*_BLANK.split(text), ""]
    for block, blank in zip(blocks[::2], blocks[1::2], strict=True):
        found = _CUE.match(block)
        if found is None:
            head += block + blank
            continue
        yield _Cue(head + found[0], block[found.end() :], _seconds(*found.groups()[:4]), _seconds(*found.groups()[4:]))
        head = blank
    yield _Cue(head, "")


def _seconds(hours: str | None, minutes: str, seconds: str, rest: str) -> float:
    return 3600 * int(hours or 0) + 60 * int(minutes) + int(seconds) + float(f"0.{rest}")


class _Reader:
    """Reads subtitles as pieces, and keeps what is between the texts."""

    def __init__(self, escaped: bool, line_end: str):
        self.line_end = line_end
        self.points: list[str] = []
        self.texts: list[_Text] = []
        self._escaped = escaped
        self._rows: list[str] = []
        """The rows of the text that is being read."""

    def pieces(self, cues: Sequence[_Cue]) -> Iterator[tuple[str, Kind]]:
        """The pieces of all subtitles."""
        run = 0  # subtitles that the sentence at hand came through
        for cue, following in zip(cues, [*cues[1:], None], strict=True):
            yield from self._point(cue.head, run > 0)
            yield from self._spoken([*map(str.strip, cue.text.splitlines())])
            run = run + 1 if following and run + 1 < MOST and cue.goes_on(following) else 0
        self._close(False)

    def _close(self, goes_on: bool) -> None:
        widths = [len(_TAG.sub("", row)) for row in self._rows]
        self.texts.append(_Text(sum(widths), len(widths), max(widths, default=0), goes_on))
        self._rows = []

    def _point(self, markup: str, inside: bool) -> Iterator[tuple[str, Kind]]:
        self._close(inside)
        self.points.append(markup)
        yield f"<x {len(self.points) - 1}>", Kind.INSIDE if inside else Kind.BETWEEN
        if inside:
            yield " ", Kind.TEXT

    def _spoken(self, rows: Sequence[str]) -> Iterator[tuple[str, Kind]]:
        """The rows of a subtitle as one text, or where several speak as one for each."""
        together: list[str] = []
        for row in rows:
            if speaks := _SPEAKS.match(row):
                yield from self._text(together)
                yield from self._point((self.line_end if self._rows else "") + speaks[0], False)
                together, row = [], row[speaks.end() :]
            together.append(row)
            self._rows.append(row)
        yield from self._text(together)

    def _text(self, rows: Sequence[str]) -> Iterator[tuple[str, Kind]]:
        for k, part in enumerate(_STYLE.split(_MOMENT.sub("", " ".join(rows)))):
            if k % 2:
                yield part, Kind.BETWEEN
                continue
            for piece, kind in html_pieces(part, True):
                yield piece if kind is not Kind.TEXT or self._escaped else html.escape(piece, quote=False), kind


def _spread(texts: Sequence[str], lengths: Sequence[int]) -> Sequence[str]:
    """The parts of a sentence; anew, in proportion to the lengths of the source, where one of them would be empty."""
    if all(texts) or len(texts) == 1 or any("<" in text for text in texts):
        return texts
    whole = " ".join(filter(None, texts))
    units, space = (whole.split(" "), " ") if " " in whole else ([*whole], "")
    if len(units) < len(texts):
        return texts
    ends = [0]
    for k, length in enumerate(itertools.accumulate(lengths), 1):
        end = round(len(units) * length / sum(lengths))
        ends.append(min(max(end, ends[-1] + 1), len(units) - len(texts) + k))
    return [space.join(units[a:b]) for a, b in itertools.pairwise(ends)]


def _rows(text: str, was: _Text, width: int) -> list[str]:
    """A text in rows of about the same length: one, if it is no longer than the longest row was, else as many as there were."""
    length, words = len(_TAG.sub("", text)), text.split(" ")
    if length <= was.widest:
        return [text]
    count = min(max(was.rows, -(-length // width)), len(words))
    for most in range(-(-length // max(1, count)), length + 1):
        rows = [words[0]]
        for word in words[1:]:
            if len(_TAG.sub("", rows[-1] + " " + word)) <= most:
                rows[-1] += " " + word
            else:
                rows.append(word)
        if len(rows) <= count:
            return rows
    return [text]
