"""Subtitles: SubRip (`.srt`) and WebVTT (`.vtt`). Sentences go on from one subtitle to the next, and so do their translations."""

import html
import itertools
import math
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

from calque.workflow.document.encoded import Damaged
from calque.workflow.document.inline import Kind, Shares
from calque.workflow.document.layout import Layout, Lines
from calque.workflow.document.markup import html_pieces

WIDTH = 42
"""Characters of a line, where no line of the file has more."""
MOST = 4
"""Subtitles that one sentence goes through, at most."""
PAUSE = 2.0
"""Seconds between two subtitles behind which a new sentence begins."""
_TIME = r"(?:(\d+):)?(\d{1,2}):(\d{1,2})(?:[.,:][ \t]?(\d{1,4}))?"
_SHOWN = re.compile(rf"[ \t\ufeff]*{_TIME}[ \t]*-{{1,2}}>[ \t]*{_TIME}")
_NAME = re.compile(r"(?!WEBVTT|NOTE\b)\S")
_ROW = re.compile(r"[^\n]*\n|[^\n]+")
_WRAPPED = re.compile(r"(<([A-Za-z]+)[^<>]*>)([^<>]*)(</\2>)")
_VTT_TAGS = re.compile(r"</?(?:c|lang|ruby|rt|b|i|u)\b", re.IGNORECASE)
_ENDED = re.compile(r"[.!?…:;。！？♪)\]]+[\"'”’»]*\s*\Z")
_BEGINS = re.compile(r"\s*(?:[-–—♪(\[]|\{\\)")
_SPEAKS = re.compile(r"^[ \t]*[-–—][ \t]?(?=\S)")
_STYLE = re.compile(r"(\{\\[^{}\n]*\})")
_MOMENT = re.compile(r"<\d[\d:.]*>")
_TAG = re.compile(r"<[^<>]*>")
_POINT = re.compile(r"<x \d+>")


@dataclass(frozen=True)
class _Cue:
    """A subtitle.

    head          all that the file has between the text of the subtitle before and this text
    begins, ends  when it is shown, in seconds
    """

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

    points  all that the file has between two texts, such as numbers and times, in order: text k, point k, text k + 1
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
    """A file of subtitles, whose lines are added to `lines`. `escaped`: it is WebVTT, where `&amp;` stands for `&`.

    Raises Damaged where a text has no times.
    """
    cues, reader = [*_cues(text, escaped)], _Reader(escaped, "\r\n" if "\r\n" in text else "\n")
    if len(cues) == 1 and text.strip() and not (escaped and text.startswith("WEBVTT")):
        raise Damaged("none of its lines says when a subtitle is shown")
    layout = lines.marked(reader.pieces(cues))
    widest = max((one.widest for one in reader.texts), default=0)
    return Subtitles(layout, tuple(reader.points), tuple(reader.texts), escaped, reader.line_end, max(WIDTH, widest))


def _cues(text: str, escaped: bool) -> Iterator[_Cue]:
    """The subtitles of a file; what is behind the text of one is at the head of the next, or of an empty one at the end."""
    rows = _ROW.findall(text)
    times = [_SHOWN.match(row) for row in rows]
    starts = [(_start(rows, k, escaped), k) for k, found in enumerate(times) if found]
    head = "".join(rows[: starts[0][0]] if starts else rows)
    for (start, at), (following, _) in itertools.pairwise([*starts, (len(rows), 0)]):
        found = times[at]
        end = at + 1
        while end < following and not (escaped and not rows[end].strip("\r\n")):
            end += 1
        while not rows[end - 1].strip() and end > at + 1:
            end -= 1
        first = next((k for k in range(at + 1, end) if rows[k].strip()), at + 1)
        shown = "".join(rows[first:end])
        body = shown.rstrip("\r\n")
        if found is not None:
            times_of = _seconds(*found.groups()[:4]), _seconds(*found.groups()[4:])
            yield _Cue(head + "".join(rows[start:first]), body, *times_of)
        head = shown[len(body) :] + "".join(rows[end:following])
    yield _Cue(head, "")


def _start(rows: Sequence[str], k: int, escaped: bool) -> int:
    """The row of the number or the name of a subtitle whose time is in row k; k where it has none."""
    at = next((j for j in range(k - 1, -1, -1) if rows[j].strip()), None)
    if at is None:
        return k
    before, alone, next_to = rows[at].strip(" \t\r\n\ufeff"), not at or not rows[at - 1].strip(), at == k - 1
    if before.isdigit():
        return at if alone or next_to else k
    return at if escaped and alone and next_to and _NAME.match(before) and not _SHOWN.match(before) else k


def _seconds(hours: str | None, minutes: str, seconds: str, rest: str | None) -> float:
    return 3600 * int(hours or 0) + 60 * int(minutes) + int(seconds) + float(f"0.{rest or 0}")


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
        behind = ""
        for cue, following in zip(cues, [*cues[1:], None], strict=True):
            wrapped = _WRAPPED.fullmatch(cue.text)  # such as italics around a whole subtitle
            before, text, after = (wrapped[1], wrapped[3], wrapped[4]) if wrapped else ("", cue.text, "")
            yield from self._point(behind + cue.head + before, run > 0)
            yield from self._spoken([*map(str.strip, text.splitlines())])
            run = run + 1 if following and run + 1 < MOST and cue.goes_on(following) else 0
            behind = after
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
        blank = ""
        for row in rows:
            if not row:  # in WebVTT it is white space, which would end the subtitle if it were left out
                blank += "" if self._escaped else self.line_end
                continue
            speaks = _SPEAKS.match(row)
            if speaks or (blank and self._rows):
                yield from self._text(together)
                end = self.line_end if self._rows or blank else ""
                yield from self._point(blank + end + (speaks[0] if speaks else ""), False)
                together, row = [], row[speaks.end() :] if speaks else row
            blank = ""
            together.append(row)
            self._rows.append(row)
        yield from self._text(together)

    def _text(self, rows: Sequence[str]) -> Iterator[tuple[str, Kind]]:
        for k, part in enumerate(_STYLE.split(_MOMENT.sub("", " ".join(rows)))):
            if k % 2:
                yield part, Kind.BETWEEN
                continue
            for piece, kind in html_pieces(part, True):
                if _POINT.fullmatch(piece):  # what looks like a point of ours is text
                    piece, kind = html.escape(piece, quote=False), Kind.TEXT
                elif kind is Kind.TEXT and not self._escaped:
                    piece = html.escape(piece, quote=False)
                yield piece, Kind.INSIDE if kind is Kind.BETWEEN and _VTT_TAGS.match(piece) else kind


def _spread(texts: Sequence[str], lengths: Sequence[int]) -> Sequence[str]:
    """The parts of a sentence; anew, in proportion to the lengths of the source, where one of them would be empty."""
    if len(texts) == 1 or all(_TAG.sub("", text).strip() for text in texts) or any("<" in text for text in texts):
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
