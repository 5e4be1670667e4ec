"""Tags inside a sentence, which are taken out before it is translated; `placing` puts them back."""

import html
import re
from collections.abc import Sequence
from dataclasses import dataclass, field
from enum import Enum, auto

EMPTY = frozenset({"bx", "ex", "img", "ph", "wbr", "x"})
INLINE = EMPTY | {
    *(
        "a",
        "abbr",
        "acronym",
        "b",
        "bdi",
        "bdo",
        "big",
        "cite",
        "data",
        "del",
        "dfn",
        "em",
        "font",
        "g",
        "i",
        "ins",
        "label",
    ),
    *("mark", "q", "s", "small", "span", "strike", "strong", "sub", "sup", "time", "tt", "u", "var"),
}
"""Elements that stand inside sentences, some of them without an end tag. `g`, `x`, `bx`, `ex` and `ph` are XLIFF's."""
DEEPEST, MOST = 30, 100
"""Elements inside each other, and elements in a sentence, that are placed; tags of more divide it."""
NEAR = 8
"""Characters beside an element in which its punctuation is looked for."""
WORD = re.compile(r"[^ \t]+")
_LINE_ENDS = re.compile("[\n\r\v\f\x1c-\x1e\x85\u2028\u2029]")
_ANY_TAG = re.compile(r"<[^<>]*>")
_TAG = re.compile(r"<(/?)([A-Za-z][^\s/>.]*)")
OPENERS, CLOSERS = "([{«„“\"'‘¿¡", ".,;:!?…)]}»”\"'’。、，！？：；"
_OUTSIDE_BEFORE = re.compile(rf"(?:^|\s)[{re.escape(OPENERS)}]+$")
_OUTSIDE_BEHIND = re.compile(rf"[{re.escape(CLOSERS)}]+(?=\s|$)")
_NOTE = re.compile(r"[\[(]?\s*(?:\d{1,3}|[*†‡§¶]{1,3})(?:\s*[,–-]\s*(?:\d{1,3}|[*†‡§¶]{1,3}))*\s*[\])]?")
"""What stands behind a word and is no part of its sentence: the numbers and signs of notes, and powers."""

Shares = Sequence[Sequence[float]]
"""For each word of a translation: how much of it comes from each word of the source; each row sums to 1."""


class Kind(Enum):
    """What a piece of a text with markup is."""

    TEXT = auto()
    """text to translate, with the escapes of HTML and XML"""
    LINES = auto()
    """the same, whose line ends stay"""
    INSIDE = auto()
    """a tag that may stand inside a sentence"""
    KEPT = auto()
    """words of a sentence that stay as they are, between two of these tags"""
    POINT = auto()
    """what stands between two words of a sentence and is none"""
    BETWEEN = auto()
    """what divides texts and stays as it is"""


Pieces = Sequence[tuple[str, Kind]]
"""Text without escapes, tags, and what is kept as it is written."""


@dataclass
class Mark:
    """An element inside a line, or a point where its words are none: its tags, its words [first, end), what is inside it."""

    opening: str
    closing: str = ""
    first: int = 0
    end: int = 0
    spaced: tuple[bool, bool] = (False, False)
    """whether white space stands before and behind it"""
    outside: tuple[bool, bool] = (False, False)
    """whether punctuation alone stands between it and the white space before and behind it"""
    part: tuple[int, int] | None = None
    """the characters of its word where it stands inside one, as in `m<sup>2</sup>`; None where it stands around whole words"""
    kept: str | None = None
    """what stays as it is written, in place of the words that it would become"""
    at: tuple[int, int] | None = None
    """the words of a translation that are those inside it, where it is known to have them"""
    inner: list["Mark"] = field(default_factory=list)

    def tags(self) -> list[str]:
        """Its tags and those inside it, without words."""
        return [self.opening, *(tag for one in self.inner for tag in one.tags()), self.closing]

    def within(self) -> list["Mark"]:
        """It, and all that is inside it."""
        return [self, *(mark for one in self.inner for mark in one.within())]


@dataclass(frozen=True)
class MarkedLine:
    """A line and its marks, with the white space around it."""

    text: str
    marks: tuple[Mark, ...]
    before: str
    behind: str
    lead: str = ""
    """markup in front of the white space before it"""
    tail: str = ""
    """and behind that behind it"""

    @property
    def needs_shares(self) -> bool:
        """Whether a mark stands neither around the whole nor at an end."""
        count = len(self.text.split(" "))
        each = [mark for one in self.marks for mark in one.within()]
        return any((m.first, m.end) not in ((0, count), (0, 0), (count, count)) for m in each)


def is_inline(markup: str) -> bool:
    """Whether this is a tag that may stand inside a sentence."""
    found = _TAG.match(markup)
    return found is not None and found[2].lower() in INLINE


def opens(markup: str) -> int:
    """By how much a tag changes the number of open elements."""
    found = _TAG.match(markup)
    if found is None or found[2].lower() in EMPTY or markup.endswith("/>"):
        return 0
    return -1 if found[1] else 1


def tidied(pieces: Pieces) -> list[tuple[str, Kind]]:
    """Pieces, in which elements begin and end with words, not with white space, and notes are points."""
    out: list[tuple[str, Kind]] = []
    for piece, kind in pieces:
        step = _step(piece, kind)[0]
        space = 0
        if step < 0 and out and out[-1][1] is Kind.TEXT:
            text = out.pop()[0]
            space = len(text) - len(text.rstrip())
            out += [(text[: len(text) - space], Kind.TEXT), (piece, kind), (text[len(text) - space :], Kind.TEXT)]
            continue
        if kind is Kind.TEXT and (space := len(piece) - len(piece.lstrip())):
            at = len(out)
            while at and out[at - 1][1] is Kind.INSIDE and opens(out[at - 1][0]) > 0:
                at -= 1
            out.insert(at, (piece[:space], Kind.TEXT))
        out.append((piece[space:], kind))
    return _with_notes([(piece, kind) for piece, kind in out if piece])


def _with_notes(pieces: list[tuple[str, Kind]]) -> list[tuple[str, Kind]]:
    """Pieces, in which an element that has nothing but a number or a sign, and stands behind a word, is a point."""
    ends: dict[int, int] = {}
    opened: list[int] = []
    for k, (piece, kind) in enumerate(pieces):
        step = _step(piece, kind)[0]
        if step > 0:
            opened.append(k)
        elif step < 0 and opened:
            ends[opened.pop()] = k
    out: list[tuple[str, Kind]] = []
    before, k = "", 0
    while k < len(pieces):
        end = ends.get(k, k)
        if end > k and _is_note(pieces, k, end, before):
            some = (html.escape(p, quote=False) if kind is Kind.TEXT else p for p, kind in pieces[k : end + 1])
            out.append(("".join(some), Kind.POINT))
            k = end + 1
            continue
        before = (before + plain_of(*pieces[k]))[-1:]
        out.append(pieces[k])
        k += 1
    return out


def _is_note(pieces: Pieces, first: int, end: int, before: str) -> bool:
    text = "".join(plain_of(*piece) for piece in pieces[first:end])
    if not _NOTE.fullmatch(text.strip()) or any(kind is Kind.KEPT for _, kind in pieces[first:end]):
        return False
    behind = next((plain for piece in pieces[end:] if (plain := plain_of(*piece))), "")
    power = before.isdigit() and pieces[first][0].lower().startswith("<sup")
    return (before.isalpha() or power or before in tuple(CLOSERS)) and not behind[:1].isalnum()


def marked_line(pieces: Pieces) -> MarkedLine | None:
    """Pieces as a line with marks; None where tags are no elements inside each other, or too many."""
    plain, marks = _tree(pieces)
    if marks is None:
        return None
    flat = _LINE_ENDS.sub(" ", plain)
    begin, end = len(flat) - len(flat.lstrip()), len(flat.rstrip())
    lead = _taken(marks, 0) if begin else ""
    tail = _taken(marks, len(flat)) if end < len(flat) else ""
    words = [(found.start(), found.end()) for found in WORD.finditer(flat, begin, end)]
    for mark in (m for one in marks for m in one.within()):
        _count_words(mark, plain, words)
    return MarkedLine(
        " ".join(flat[a:b] for a, b in words), tuple(marks), plain[:begin], plain[max(begin, end) :], lead, tail
    )


def _count_words(mark: Mark, plain: str, words: Sequence[tuple[int, int]]) -> None:
    """Turns the offsets of a mark into the numbers of its words."""
    start, behind = mark.first, mark.end
    mark.spaced = not plain[:start][-1:].strip(), not plain[behind:][:1].strip()
    near = plain[max(0, start - NEAR) : start], plain[behind : behind + NEAR]
    mark.outside = bool(_OUTSIDE_BEFORE.search(near[0])), bool(_OUTSIDE_BEHIND.match(near[1]))
    mark.first = next((k for k, word in enumerate(words) if word[1] > start), len(words))
    mark.end = sum(word[0] < behind for word in words)
    if start == behind or mark.first >= mark.end:  # a point inside a word goes behind it
        mark.first = mark.end = sum(word[0] < start for word in words)
    elif mark.end == mark.first + 1:
        mark.part = _inside(plain, words[mark.first], start, behind)


def _taken(marks: list[Mark], at: int) -> str:
    """The tags of marks without words at one end of a text, which are taken out: an image, and white space beside it."""
    taken = [mark for mark in marks if mark.first == mark.end == at]
    marks[:] = [mark for mark in marks if mark not in taken]
    return "".join(tag for mark in taken for tag in mark.tags())


def plain_of(piece: str, kind: Kind) -> str:
    """The characters that a piece has in the text without markup."""
    if kind is Kind.KEPT:
        return html.unescape(_ANY_TAG.sub("", piece))
    return piece if kind is Kind.TEXT else ""


def _inside(plain: str, word: tuple[int, int], start: int, behind: int) -> tuple[int, int] | None:
    """The characters of a word that a mark stands around; None where only punctuation of it is outside."""
    if any(map(str.isalnum, plain[word[0] : start] + plain[behind : word[1]])):
        return max(0, start - word[0]), min(behind, word[1]) - word[0]
    return None


def _tree(pieces: Pieces) -> tuple[str, list[Mark] | None]:
    """The text without tags, and the elements, whose `first` and `end` are offsets; None where tags are no elements, or many."""
    plain, top, count = "", Mark(""), 0
    opened: list[tuple[str, Mark]] = [("", top)]
    for piece, kind in pieces:
        step, name = _step(piece, kind)
        if kind in (Kind.TEXT, Kind.KEPT):
            plain += plain_of(piece, kind)
            opened[-1][1].kept = piece if kind is Kind.KEPT else None
        elif step < 0:
            if len(opened) == 1 or opened[-1][0] != name:
                return plain, None
            mark = opened.pop()[1]
            mark.closing, mark.end = piece, len(plain)
        else:
            mark = Mark(piece, "", len(plain), len(plain))
            opened[-1][1].inner.append(mark)
            opened += [(name, mark)] if step else []
            count += 1
        if len(opened) > DEEPEST or count > MOST:
            return plain, None
    return plain, top.inner if len(opened) == 1 else None


def _step(piece: str, kind: Kind) -> tuple[int, str]:
    """By how much a piece changes the number of open elements, and its name."""
    found = _TAG.match(piece) if kind is Kind.INSIDE else None
    return (opens(piece), found[2].lower()) if found else (0, "")
