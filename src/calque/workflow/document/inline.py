"""Tags inside a sentence: taken out before it is translated, and put around the words that the words inside them have become."""

import html
import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace

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
_WORD = re.compile(r"[^ \t]+")
_LINE_ENDS = re.compile("[\n\r\v\f\x1c-\x1e\x85\u2028\u2029]")
_TAG = re.compile(r"<(/?)([A-Za-z][^\s/>]*)")
_OPENERS, _CLOSERS = r"[(\[{«„“\"'‘¿¡]+", r"[.,;:!?…)\]}»”\"'’。、，！？：；]+"
_OUTSIDE_BEFORE, _OUTSIDE_BEHIND = re.compile(rf"(?:^|\s){_OPENERS}$"), re.compile(rf"{_CLOSERS}(?=\s|$)")
_WORD_PARTS = re.compile(rf"({_OPENERS})?(.+?)({_CLOSERS})?")

Shares = Sequence[Sequence[float]]
"""For each word of a translation: how much of it comes from each word of the source; each row sums to 1."""


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
    inner: list["Mark"] = field(default_factory=list)

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


def marked_line(pieces: Sequence[tuple[str, bool]]) -> MarkedLine | None:
    """Pieces, text or else inline tags, as a line with marks; None where tags are no elements inside each other, or too many."""
    plain, marks = _tree(pieces)
    if marks is None:
        return None
    flat = _LINE_ENDS.sub(" ", plain)
    begin, end = len(flat) - len(flat.lstrip()), len(flat.rstrip())
    words = [(found.start(), found.end()) for found in _WORD.finditer(flat, begin, end)]
    for mark in (m for one in marks for m in one.within()):
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
    return MarkedLine(" ".join(flat[a:b] for a, b in words), tuple(marks), plain[:begin], plain[max(begin, end) :])


def _inside(plain: str, word: tuple[int, int], start: int, behind: int) -> tuple[int, int] | None:
    """The characters of a word that a mark stands around; None where only punctuation of it is outside."""
    if any(map(str.isalnum, plain[word[0] : start] + plain[behind : word[1]])):
        return max(0, start - word[0]), min(behind, word[1]) - word[0]
    return None


def _tree(pieces: Sequence[tuple[str, bool]]) -> tuple[str, list[Mark] | None]:
    """The text without tags, and the elements, whose `first` and `end` are offsets in it."""
    plain, top, count = "", Mark(""), 0
    opened: list[tuple[str, Mark]] = [("", top)]
    for piece, is_text in pieces:
        if is_text:
            plain += piece
            continue
        found = _TAG.match(piece)
        name = found[2].lower() if found else ""
        if found and found[1]:
            if len(opened) == 1 or opened[-1][0] != name:
                return plain, None
            mark = opened.pop()[1]
            mark.closing, mark.end = piece, len(plain)
            continue
        mark = Mark(piece, "", len(plain), len(plain))
        opened[-1][1].inner.append(mark)
        count += 1
        if opens(piece):
            opened.append((name, mark))
        if len(opened) > DEEPEST or count > MOST:
            return plain, None
    return plain, top.inner if len(opened) == 1 else None


def written(line: MarkedLine, translation: str, shares: Shares | None) -> str:
    """A translation with the tags of its line. Without shares, words are taken to stand in proportion to the source."""
    words = _WORD.findall(translation)
    count = len(line.text.split(" ")) if line.text else 0
    if shares is None or len(shares) != len(words) or any(len(row) != count for row in shares):
        shares = [[float(k * count // max(1, len(words)) == s) for s in range(count)] for k in range(len(words))]
    spelled = _spelled(line, words)
    marks = _without(line.marks, {id(mark) for _, some in spelled.values() for mark in some})
    placed = _placed(marks, shares, 0, len(words), count)
    writer = _Writer(words, spelled, *_outside(placed, words))
    writer.inside(placed, 0, len(words))
    return "".join(writer.out)


Spelled = dict[int, tuple[int, list[Mark]]]
"""Words of a translation that are words of the source: how many characters more are in front, and the marks inside the word."""


def _spelled(line: MarkedLine, words: Sequence[str]) -> Spelled:
    """Words that have marks inside and stay as they are: `m<sup>2</sup>`. Where a word becomes another, its marks go around it."""
    inside: dict[int, list[Mark]] = {}
    left = list(reversed(line.marks))
    while left:
        mark = left.pop()
        if mark.part is None:
            left += reversed(mark.inner)
        else:
            inside.setdefault(mark.first, []).append(mark)
    found: Spelled = {}
    cores = [_WORD_PARTS.fullmatch(word) for word in words]
    for number, marks in inside.items():
        core = _WORD_PARTS.fullmatch(line.text.split(" ")[number])
        same = (k for k, one in enumerate(cores) if one and core and one[2] == core[2] and k not in found)
        if core and (k := next(same, None)) is not None:
            found[k] = len(words[k].partition(core[2])[0]) - core.start(2), marks
    return found


def _without(marks: Sequence[Mark], removed: set[int]) -> list[Mark]:
    """The other marks, whose `id` is not among these."""
    kept = (mark for mark in marks if id(mark) not in removed)
    return [replace(mark, inner=_without(mark.inner, removed)) for mark in kept]


@dataclass(frozen=True)
class _Placed:
    """A mark and its words of the translation."""

    mark: Mark
    first: int
    end: int
    inner: tuple["_Placed", ...]


def _placed(marks: Sequence[Mark], shares: Shares, low: int, high: int, count: int) -> tuple[_Placed, ...]:
    """Marks within the words [low, high) of a translation, beside each other, those that fit best first."""
    free = [(low, high)]
    found: dict[int, tuple[int, int]] = {}
    ranked = sorted(((_best(mark, shares, low, high, count), k) for k, mark in enumerate(marks)), reverse=True)
    for _, k in ranked:
        fits = [(*_best(marks[k], shares, a, b, count), a, b) for a, b in free]
        _, first, end, a, b = max(fits)
        found[k] = first, end
        at = free.index((a, b))
        free[at : at + 1] = [(a, first), (end, b)]
    order = sorted(range(len(marks)), key=lambda k: (*found[k], k))
    return tuple(_Placed(marks[k], *found[k], _placed(marks[k].inner, shares, *found[k], count)) for k in order)


def _best(mark: Mark, shares: Shares, low: int, high: int, count: int) -> tuple[float, int, int]:
    """How well a mark fits into [low, high), and where: the words most of which come from the words inside it."""
    if mark.first == mark.end:
        return _border(lambda row: sum(row[: mark.first]), shares, low, high, mark.first == count)
    if mark.end - mark.first == count:
        return float(high - low), low, high
    best, total, begin = (-1.0, low, low), 0.0, low
    for k in range(low, high):
        share = sum(shares[k][mark.first : mark.end]) - 0.5
        if total <= 0:
            total, begin = 0.0, k
        total += share
        best = max(best, (total, begin, k + 1), key=lambda one: one[0])
    return best


def _border(
    before: Callable[[Sequence[float]], float], shares: Shares, low: int, high: int, last: bool
) -> tuple[float, int, int]:
    """The place of a point: what is left of it comes from what was left of it."""
    best, total = (0.0, low, low), 0.0
    for k in range(low, high):
        total += before(shares[k]) - 0.5
        if total > best[0]:
            best = total, k + 1, k + 1
    return (best[0], high, high) if last else best


Outside = dict[int, tuple[int, _Placed]]
"""By word: how many of its characters stay outside an element."""


def _outside(marks: Sequence[_Placed], words: Sequence[str]) -> tuple[Outside, Outside]:
    """The punctuation at the beginning of words, and at the end, that stays outside the outermost element which has some outside in
    the source, too."""
    before: Outside = {}
    behind: Outside = {}
    left = list(reversed(marks))
    while left:
        one = left.pop()
        if one.first < one.end:
            for sizes, word, group, outside in (
                (before, one.first, 1, one.mark.outside[0]),
                (behind, one.end - 1, 3, one.mark.outside[1]),
            ):
                parts = _WORD_PARTS.fullmatch(words[word])
                if outside and parts and word not in sizes:
                    sizes[word] = len(parts[group] or ""), one
        left += reversed(one.inner)
    return before, behind


def _tags(mark: Mark) -> list[str]:
    return [mark.opening, *(tag for one in mark.inner for tag in _tags(one)), mark.closing]


class _Writer:
    """Writes words and tags; the space before a word stands outside the tags around it."""

    def __init__(self, words: Sequence[str], spelled: Spelled, before: Outside, behind: Outside):
        """`before`, `behind`: see `_outside`."""
        self.out: list[str] = []
        self._words, self._spelled, self._before, self._behind = words, spelled, before, behind
        self._spaced = 1
        """The first word whose space is not written yet."""
        self._begun: set[int] = set()
        """Words whose punctuation in front is written."""

    def inside(self, marks: Sequence[_Placed], low: int, high: int) -> None:
        """The words [low, high) with these marks."""
        for one in marks:
            self._write(low, one.first)
            point = one.first == one.end
            if not point or one.mark.spaced[0]:
                self._space(one.first)
            if self._before.get(one.first, (0, None))[1] is one:
                self._begin(one.first)
            self.out.append(one.mark.opening)
            if point:
                self.out += [tag for mark in one.mark.inner for tag in _tags(mark)]
            else:
                self.inside(one.inner, one.first, one.end)
            self.out.append(one.mark.closing)
            size, of = self._behind.get(one.end - 1, (0, None))
            if of is one and size:
                self._text(self._words[one.end - 1][-size:])
            if point and all(one.mark.spaced) and 0 < one.first < len(self._words):
                self.out.append(" ")
            low = one.end
        self._write(low, high)

    def _write(self, low: int, high: int) -> None:
        for k in range(low, high):
            self._space(k)
            self._begin(k)
            word = self._words[k]
            shift, marks = self._spelled.get(k, (0, []))
            self._part(word, self._size(self._before, k), len(word) - self._size(self._behind, k), marks, shift)

    def _part(self, word: str, low: int, high: int, marks: Sequence[Mark], shift: int) -> None:
        """The characters [low, high) of a word with the marks inside it."""
        for mark in marks:
            first, end = (min(max(low, at + shift), high) for at in mark.part or (high, high))
            self._text(word[low:first])
            self.out.append(mark.opening)
            self._part(word, first, max(first, end), mark.inner, shift)
            self.out.append(mark.closing)
            low = max(first, end)
        self._text(word[low:high])

    def _begin(self, word: int) -> None:
        """What stands in front of a word and outside the elements that begin at it."""
        if word not in self._begun:
            self._begun.add(word)
            self._text(self._words[word][: self._size(self._before, word)])

    def _size(self, outside: Outside, word: int) -> int:
        return outside[word][0] if word in outside else 0

    def _text(self, text: str) -> None:
        self.out.append(html.escape(text, quote=False))

    def _space(self, word: int) -> None:
        if self._spaced <= word < len(self._words):
            self.out.append(" ")
            self._spaced = word + 1
