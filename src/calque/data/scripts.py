"""The script of a text: which alphabet most of its letters belong to."""

import functools
import re
import unicodedata
from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

_FAMILIES = {"HIRAGANA": "CJK", "KATAKANA": "CJK", "BOPOMOFO": "CJK"}
"""Scripts that are written together with others."""
SCRIPTS = (
    *(
        "LATIN",
        "CYRILLIC",
        "GREEK",
        "CJK",
        "HANGUL",
        "ARABIC",
        "HEBREW",
        "DEVANAGARI",
        "BENGALI",
        "GURMUKHI",
        "GUJARATI",
    ),
    *("ORIYA", "TAMIL", "TELUGU", "KANNADA", "MALAYALAM", "SINHALA", "THAI", "LAO", "TIBETAN", "MYANMAR", "GEORGIAN"),
    *("ARMENIAN", "ETHIOPIC", "KHMER", "MONGOLIAN", "CHEROKEE", "CANADIAN", "THAANA", "SYRIAC", "NKO", "TIFINAGH"),
)
"""By the first word of the Unicode names of their letters; letters of no script named here do not count."""
OTHER, SPACE, FIRST = 0, 1, 2
"""Classes of characters: what is no letter, white space, and the first script."""
_UNSPACED = ("CJK", "THAI", "LAO", "TIBETAN", "MYANMAR", "KHMER")
"""Scripts that are written without spaces between words."""
_LONGEST_WORD = 5
"""Where letters of these scripts stand together in groups with more of them on average, the groups are no words."""
_RUN = re.compile(r"\S+")
COMMON = 0.2
"""A script of so many lines belongs to a side, beside the most frequent one."""


_TABLE = np.zeros(0x110000, np.uint8)
"""The class of each code point, of those pages of 256 that have occurred."""
_PAGES: set[int] = set()


def _fill(page: int) -> None:
    _TABLE[256 * page : 256 * page + 256] = [_class(chr(code)) for code in range(256 * page, 256 * page + 256)]
    _PAGES.add(page)


def _class(character: str) -> int:
    if character.isspace():
        return SPACE
    if not character.isalpha():
        return OTHER
    name = unicodedata.name(character, "").partition(" ")[0]
    name = _FAMILIES.get(name, name)
    return FIRST + SCRIPTS.index(name) if name in SCRIPTS else OTHER


def classes(characters: NDArray[np.integer]) -> NDArray[np.uint8]:
    """The class of each code point."""
    for page in np.flatnonzero(np.bincount(characters >> 8)):
        if page not in _PAGES:
            _fill(int(page))
    found: NDArray[np.uint8] = _TABLE[characters]
    return found


def has_letter(text: str) -> bool:
    """Whether a text has a letter of some script: equal sides without one, such as numbers, are no copies."""
    return bool((classes(np.frombuffer(text.encode("utf-32-le"), np.uint32)) >= FIRST).any())


@functools.cache
def without_spaces(character: str) -> bool:
    """Whether a character belongs to a script that is written without spaces between words."""
    kind = _class(character)
    return kind >= FIRST and SCRIPTS[kind - FIRST] in _UNSPACED


def words_in(text: str) -> list[tuple[int, int]]:
    """Where each word of a text begins and ends: words stand between spaces; in scripts without spaces, characters are words."""
    found = []
    for run in _RUN.finditer(text):
        begin, alone = run.start(), False
        for at in range(run.start(), run.end()):
            character = without_spaces(text[at])
            if at > begin and (alone or character) and text[at].isalnum():
                found.append((begin, at))
                begin = at
            alone = character
        found.append((begin, run.end()))
    return found


def split_words(text: str) -> list[str]:
    """The words of a text, see `words_in`."""
    return [text[begin:end] for begin, end in words_in(text)]


def unspaced(lines: Sequence[str]) -> bool:
    """Whether a text is written without spaces between words: most letters are of such a script, and stand in long groups."""
    kinds = classes(np.frombuffer("\n".join(lines).encode("utf-32-le", "surrogatepass"), np.uint32))
    own = np.isin(kinds, [FIRST + SCRIPTS.index(name) for name in _UNSPACED])
    groups = len(np.unique(np.cumsum(kinds == SPACE)[own]))
    return bool(own.sum() > 0.5 * (kinds >= FIRST).sum() and own.sum() > _LONGEST_WORD * groups)


def dominant(kinds: NDArray[np.uint8], lines: NDArray[np.int64], count: int) -> NDArray[np.uint8]:
    """For each of `count` lines the script of most of its letters, from 1; 0 where it has none.

    `kinds` are the classes of the characters, `lines` the number of the line of each.
    """
    letters = kinds >= FIRST
    used = np.flatnonzero(np.bincount(kinds[letters], minlength=256))
    if not len(used):
        return np.zeros(count, np.uint8)
    rank = np.zeros(256, np.int64)
    rank[used] = np.arange(len(used))
    cells = lines[letters] * len(used) + rank[kinds[letters]]
    table = np.bincount(cells, minlength=count * len(used)).reshape(count, len(used))
    found: NDArray[np.uint8] = np.where(table.any(1), used[table.argmax(1)] - FIRST + 1, 0).astype(np.uint8)
    return found


def own_scripts(counts: NDArray[np.int64]) -> NDArray[np.bool_]:
    """Which scripts belong to a side, given how many of its lines have each (as `dominant` numbers them).

    Lines without letters are always right.
    """
    own = counts >= COMMON * counts[1:].sum()
    own[0] = True
    if counts[1:].any():
        own[1 + int(counts[1:].argmax())] = True
    own[counts == 0] = True
    return np.asarray(own)


def name_of(script: int) -> str:
    """A script as `dominant` numbers it, in words."""
    return SCRIPTS[script - 1].capitalize() if script else "no letters"
