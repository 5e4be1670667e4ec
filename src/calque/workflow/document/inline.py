"""Tags inside a sentence, which are taken out before it is translated; `placing` puts them back."""

import html
import itertools
import re
from bisect import bisect_left, bisect_right
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
_SPACELESS = re.compile(r"\S+")
_LINE_ENDS = re.compile("[\n\r\v\f\x1c-\x1e\x85\u2028\u2029]")
_ANY_TAG = re.compile(r"<[^<>]*>")
_TAG = re.compile(r"<(/?)([A-Za-z][^\s/>.]*)")
OPENERS, CLOSERS = "([{«„“\"'‘¿¡", ".,;:!?…)]}»”\"'’。、，！？：；"
_OUTSIDE_BEFORE = re.compile(rf"(?:^|\s)[{re.escape(OPENERS)}]+$")
_OUTSIDE_BEHIND = re.compile(rf"[{re.escape(CLOSERS)}]+(?=\s|$)")
NOTE = re.compile(r"[\[(]?\s*(?:\d{1,3}|[*†‡§¶]{1,3})(?:\s*[,–-]\s*(?:\d{1,3}|[*†‡§¶]{1,3}))*\s*[\])]?")
"""What stands behind a word and is no part of its sentence: the numbers and signs of notes, and powers."""
_NOTE_TAG = re.compile(r"<(?:sup|a)\b|<[^<>]*noteref", re.IGNORECASE)
_ENDS = ".!?…)]»”’"
"""Marks behind which notes stand."""

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
    """markup between two words of a sentence, which has no words itself"""
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
    ends: tuple[int, int] = (0, 0)
    """how many characters of punctuation are inside it at its beginning and its end"""
    part: tuple[int, int] | None = None
    """the characters of its word where it stands inside one, as in `H<sub>2</sub>O`; None where it stands around whole words"""
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
    """Pieces, in which elements begin and end with words, not with white space, and notes are points. No text is beside another."""
    tidy: list[tuple[str, Kind]] = []
    for piece, kind in _with_notes(_without_space(pieces)):
        if tidy and kind is tidy[-1][1] is Kind.TEXT:
            tidy[-1] = tidy[-1][0] + piece, kind
        else:
            tidy.append((piece, kind))
    return tidy


def _without_space(pieces: Pieces) -> list[tuple[str, Kind]]:
    """Pieces, in which the white space at both ends of an element stands outside it."""
    out: list[tuple[str, Kind]] = []
    for piece, kind in pieces:
        step = _step(piece, kind)[0]
        if step < 0 and out and out[-1][1] is Kind.TEXT:
            text = out.pop()[0]
            words = text.rstrip()
            out += [(words, Kind.TEXT), (piece, kind), (text[len(words) :], Kind.TEXT)]
            continue
        space = len(piece) - len(piece.lstrip()) if kind is Kind.TEXT else 0
        at = len(out)
        while space and at and _step(*out[at - 1])[0] > 0:
            at -= 1
        out.insert(at, (piece[:space], Kind.TEXT))
        out.append((piece[space:], kind))
    return [(piece, kind) for piece, kind in out if piece]


def has_glued(pieces: Pieces) -> bool:
    """Whether what is kept is a part of a word, so that it cannot take the place of one: `<code>String</code>s`."""
    plain = "".join(itertools.starmap(plain_of, pieces))
    words = [(found.start(), found.end()) for found in _SPACELESS.finditer(plain)]
    end = 0
    for piece, kind in pieces:
        start, end = end, end + len(plain_of(piece, kind))
        if kind is not Kind.KEPT or start == end:
            continue
        begin = words[bisect_right(words, start, key=lambda word: word[0]) - 1][0]
        behind = words[bisect_left(words, end, key=lambda word: word[1])][1]
        if plain[min(begin, start) : start].strip(OPENERS) or plain[end : max(end, behind)].strip(CLOSERS):
            return True
    return False


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
    text = "".join(plain_of(*piece) for piece in pieces[first:end]).strip()
    tags = [piece for piece, kind in pieces[first:end] if kind is not Kind.TEXT]
    if (
        not NOTE.fullmatch(text)
        or not any(map(_NOTE_TAG.match, tags))
        or any(k is Kind.KEPT for _, k in pieces[first:end])
    ):
        return False
    behind = ""
    for k in range(end, min(end + NEAR, len(pieces))):
        behind += plain_of(*pieces[k])
    ended = behind.lstrip(CLOSERS)[:1]
    power = before.isdigit() and tags[0].lower().startswith("<sup")
    return (before.isalpha() or power or before in tuple(_ENDS)) and (not ended or ended in " \t\r\n")


def marked_line(pieces: Pieces) -> MarkedLine | None:
    """Pieces as a line with marks; None where tags are no elements inside each other, or too many."""
    plain, marks = _tree(pieces)
    if marks is None:
        return None
    flat = _LINE_ENDS.sub(" ", plain)
    begin, end = len(flat) - len(flat.lstrip()), len(flat.rstrip())
    lead, before = _lead(marks, plain, begin)
    tail, after = _tail(marks, plain, max(begin, end))
    words = [(found.start(), found.end()) for found in WORD.finditer(flat, begin, end)]
    for mark in (m for one in marks for m in one.within()):
        _count_words(mark, plain, words)
    return MarkedLine(" ".join(flat[a:b] for a, b in words), tuple(marks), before, after, lead, tail)


def _count_words(mark: Mark, plain: str, words: Sequence[tuple[int, int]]) -> None:
    """Turns the offsets of a mark into the numbers of its words."""
    start, behind = mark.first, mark.end
    mark.spaced = not plain[:start][-1:].strip(), not plain[behind:][:1].strip()
    near = plain[max(0, start - NEAR) : start], plain[behind : behind + NEAR]
    text = plain[start:behind]
    if inside := text.split():
        size, core = core_of(inside[-1])
        mark.ends = core_of(inside[0])[0], len(inside[-1]) - size - len(core)
    mark.outside = bool(_OUTSIDE_BEFORE.search(near[0])), bool(_OUTSIDE_BEHIND.match(near[1]))
    mark.first = next((k for k, word in enumerate(words) if word[1] > start), len(words))
    mark.end = sum(word[0] < behind for word in words)
    if start == behind or mark.first >= mark.end:  # a point inside a word goes behind it
        mark.first = mark.end = sum(word[0] < start for word in words)
    elif mark.end == mark.first + 1:
        mark.part = _inside(plain, words[mark.first], start, behind)


def _lead(marks: list[Mark], plain: str, begin: int) -> tuple[str, str]:
    """What is in front of a text up to its first markup without words, such as an image, and the white space behind that."""
    out, at = "", 0
    while marks and marks[0].first == marks[0].end < begin:
        mark = marks.pop(0)
        out += plain[at : mark.end] + "".join(mark.tags())
        at = mark.end
    return out, plain[at:begin]


def _tail(marks: list[Mark], plain: str, end: int) -> tuple[str, str]:
    """What is behind a text from its last markup without words on, and the white space in front of that."""
    out, at = "", len(plain)
    while marks and marks[-1].first == marks[-1].end > end:
        mark = marks.pop()
        out = "".join(mark.tags()) + plain[mark.end : at] + out
        at = mark.end
    return out, plain[end:at]


def plain_of(piece: str, kind: Kind) -> str:
    """The characters that a piece has in the text without markup."""
    if kind is Kind.KEPT:
        return html.unescape(_ANY_TAG.sub("", piece))
    return piece if kind is Kind.TEXT else ""


def core_of(text: str) -> tuple[int, str]:
    """A text without punctuation at both ends, of which at least one character is left, and how much of it was in front."""
    before = min(len(text) - len(text.lstrip(OPENERS)), len(text) - 1)
    inner = text[before:]
    return before, inner[: max(1, len(inner.rstrip(CLOSERS)))]


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
