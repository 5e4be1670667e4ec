"""Puts the tags of a sentence around the words of its translation that the words inside them have become."""

import html
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace

from calque.workflow.document.inline import WORD, Kind, Mark, MarkedLine, Shares, core_of, plain_of


def written(line: MarkedLine, translation: str, shares: Shares | None) -> str:
    """A translation with the tags of its line. Without shares, words are taken to stand in proportion to the source."""
    words = WORD.findall(translation)
    count = len(line.text.split(" ")) if line.text else 0
    if shares is None or len(shares) != len(words) or any(len(row) != count for row in shares):
        shares = [[float(k * count // max(1, len(words)) == s) for s in range(count)] for k in range(len(words))]
    spelled = _spelled(line, words)
    inside_words = {id(mark) for _, some in spelled.values() for mark in some}
    placed = _placed(_known(line.marks, inside_words, words, shares), shares, 0, len(words), count)
    writer = _Writer(words, spelled, *_outside(placed, words))
    writer.inside(placed, 0, len(words))
    return "".join(writer.out)


TAKEN = 0.3
"""By how much words that are left may fit worse than those that another mark has taken, where they do not fit at all."""

Spelled = dict[int, tuple[int, list[Mark]]]
"""Words of a translation that are words of the source: how many characters more are in front, and the marks inside the word."""


def _spelled(line: MarkedLine, words: Sequence[str]) -> Spelled:
    """Words that have marks inside and stay as they are: `H<sub>2</sub>O`. Where a word becomes another, its marks go around it."""
    inside: dict[int, list[Mark]] = {}
    left = list(reversed(line.marks))
    while left:
        mark = left.pop()
        if mark.part is None:
            left += reversed(mark.inner)
        else:
            inside.setdefault(mark.first, []).append(mark)
    found: Spelled = {}
    cores = [core_of(word) for word in words]
    for number, marks in inside.items():
        before, core = core_of(line.text.split(" ")[number])
        same = (k for k, one in enumerate(cores) if one[1] == core and k not in found)
        if (k := next(same, None)) is not None:
            found[k] = cores[k][0] - before, marks
    return found


def _known(
    marks: Sequence[Mark], removed: set[int], words: Sequence[str], shares: Shares, taken: set[int] | None = None
) -> list[Mark]:
    """The marks whose `id` is not among `removed`; what is kept is at the words that are the same, each at others of them.

    `taken`: words that are some mark's.
    """
    taken = set() if taken is None else taken
    left = (mark for mark in marks if id(mark) not in removed)
    return [
        replace(mark, at=_same(mark, words, shares, taken), inner=_known(mark.inner, removed, words, shares, taken))
        for mark in left
    ]


def _same(mark: Mark, words: Sequence[str], shares: Shares, taken: set[int]) -> tuple[int, int] | None:
    """The words of a translation that are those that a mark keeps, but for punctuation at both ends; of several those that
    attend most to it."""
    kept = WORD.findall(plain_of(mark.kept, Kind.KEPT)) if mark.kept else []
    n, core = len(kept), _core(kept)
    if not n:
        return None
    found = [k for k in range(len(words) - n + 1) if k not in taken and _core(words[k : k + n]) == core]
    if not found:
        return None
    first = max(found, key=lambda k: sum(sum(row[mark.first : mark.end]) for row in shares[k : k + n]))
    taken |= {*range(first, first + n)}
    return first, first + n


def _core(words: Sequence[str]) -> str:
    return core_of(" ".join(words))[1] if words else ""


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
    for fit, k in ranked:
        first, end, (a, b) = _fitting(marks[k], shares, free, count, fit[0])
        found[k] = first, end
        at = free.index((a, b))
        free[at : at + 1] = [(a, first), (end, b)]
    order = sorted(range(len(marks)), key=lambda k: (*found[k], k))
    return tuple(_Placed(marks[k], *found[k], _placed(marks[k].inner, shares, *found[k], count)) for k in order)


def _fitting(
    mark: Mark, shares: Shares, free: Sequence[tuple[int, int]], count: int, hoped: float
) -> tuple[int, int, tuple[int, int]]:
    """The words of a mark within those that are left, and the stretch of these; none where its own are taken.

    `hoped`: how well it fits where nothing is taken.
    """
    if mark.first == mark.end and mark.first in (0, count):
        where = free[0 if mark.first == 0 else -1]
        at = where[0 if mark.first == 0 else 1]
        return at, at, where
    if mark.first == mark.end:
        low, high = free[0][0], free[-1][1]
        at = _best(mark, shares, low, high, count)[1]
        where = min(free, key=lambda one: max(one[0] - at, at - one[1], 0))
        at = min(max(at, where[0]), where[1])
        return at, at, where
    score, first, end, where = max(
        ((*_best(mark, shares, *each, count), each) for each in free), key=lambda fit: fit[0]
    )
    if mark.first < mark.end and mark.at is None and score < min(0.0, hoped - TAKEN):
        _, first, end = _border(lambda row: sum(row[: mark.first]), shares, *where, False)
    return first, end, where


def _best(mark: Mark, shares: Shares, low: int, high: int, count: int) -> tuple[float, int, int]:
    """How well a mark fits into [low, high), and where: the words most of which come from the words inside it."""
    if mark.first == mark.end:
        return _border(lambda row: sum(row[: mark.first]), shares, low, high, mark.first == count)
    if mark.end - mark.first == count:
        return float(high - low), low, high
    if mark.at is not None and low <= mark.at[0] and mark.at[1] <= high:
        return float(high - low), *mark.at
    best, total, begin = (-1.0, low, low), 0.0, low
    for k in range(low, high):
        share = sum(shares[k][mark.first : mark.end]) - 0.5
        if total <= 0:
            total, begin = 0.0, k
        total += share
        best = max(best, (total, begin, k + 1), key=lambda one: one[0])
    # It would take the place of a word that comes from another, or of all words.
    if mark.kept is not None and (best[0] <= 0 or best[2] - best[1] == len(shares)):
        fit, first, end = _border(lambda row: sum(row[: mark.first]), shares, low, high, mark.end == count)
        return fit - len(shares) - 1, first, end  # worse than any words'
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
        if one.first < one.end and one.mark.outside[0] and one.first not in before:
            before[one.first] = _size_before(one.mark, words[one.first]), one
        if one.end and one.mark.outside[1] and one.end - 1 not in behind:
            behind[one.end - 1] = _size_behind(one.mark, words[one.end - 1]), one
        left += reversed(one.inner)
    return before, behind


def _size_before(mark: Mark, word: str) -> int:
    """How many characters of punctuation stand in front of an element that begins with this word."""
    kept = WORD.findall(plain_of(mark.kept, Kind.KEPT)) if mark.kept else []
    if kept and kept[0] in word:
        return word.index(kept[0])
    return max(0, core_of(word)[0] - mark.ends[0])


def _size_behind(mark: Mark, word: str) -> int:
    """And behind one that ends with it."""
    kept = WORD.findall(plain_of(mark.kept, Kind.KEPT)) if mark.kept else []
    if kept and kept[-1] in word:
        return len(word) - word.rindex(kept[-1]) - len(kept[-1])
    size, core = core_of(word)
    return max(0, len(word) - size - len(core) - mark.ends[1])


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
            self._mark(one)
            low = one.end
        self._write(low, high)

    def _mark(self, one: _Placed) -> None:
        self._space_before(one)
        if self._before.get(one.first, (0, None))[1] is one:
            self._begin(one.first)
        lead, trail = self._beside(one)
        self._text(lead)
        self.out.append(one.mark.opening)
        self._contents(one)
        self.out.append(one.mark.closing)
        self._text(trail)
        size, of = self._behind.get(one.end - 1, (0, None))
        if of is one and size:
            self._text(self._words[one.end - 1][-size:])
        spaced = one.first == one.end and all(one.mark.spaced) and one.first < len(self._words)
        if spaced and (one.first or one.mark.kept is not None):
            self.out.append(" ")

    def _space_before(self, one: _Placed) -> None:
        if one.first < one.end or one.mark.spaced[0]:
            self._space(one.first)
        if one.mark.kept and one.mark.spaced[0] and 0 < one.first == len(self._words):
            self.out.append(" ")

    def _beside(self, one: _Placed) -> tuple[str, str]:
        """The punctuation beside what is kept that stands inside all elements around it."""
        if one.mark.kept is None or one.mark.at != (one.first, one.end):
            return "", ""
        first, last = self._words[one.first], self._words[one.end - 1]
        begin, end = _size_before(one.mark, first), len(last) - _size_behind(one.mark, last)
        outside = self._size(self._before, one.first), len(last) - self._size(self._behind, one.end - 1)
        return first[outside[0] : begin], last[end : outside[1]]

    def _contents(self, one: _Placed) -> None:
        if one.mark.kept is not None:
            self.out.append(one.mark.kept)
        elif one.first == one.end:
            self.out += [tag for mark in one.mark.inner for tag in mark.tags()]
        else:
            self.inside(one.inner, one.first, one.end)

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
