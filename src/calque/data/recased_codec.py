"""Lines all in capitals, and titles, read in the letters that the vocabulary knows."""

import functools
import re
from collections.abc import Sequence
from itertools import pairwise

from calque.data.codecs import Codec
from calque.data.rewriting_codec import RewritingCodec
from calque.data.vocabulary import SPECIALS, UNK

LONG = 4
"""Letters from which on every word of a title begins with a capital; shorter ones, such as "of", need not."""
CAPITALS = 3
"""Capitalised words behind the first one that a title has, at least."""
MOST = 0.85
"""The share of capitals among the letters of a line in capitals that has some small ones, and `MANY` letters at least."""
MANY = 12
_WHITE = re.compile(r"(\s+)")
_ENDS = re.compile(r"[.!?][\"'”»)\]]*$")


class RecasedCodec(RewritingCodec):
    """A codec that reads a line in small letters where its letter case is a habit of the line, and not of its words.

    Small vocabularies hardly have words in capitals, so that these are cut into letters, which a model has not learned to
    translate. Such lines are:

    - those in capitals (`in_capitals`), if that needs fewer pieces than the line as it is;
    - titles: without a single full stop at the end; all words of `LONG` letters begin with a capital, two thirds of all words, and
      at least `CAPITALS` behind the first; and the vocabulary prefers more than half of these in small letters, so that German
      nouns and lists of names are none.

    A word keeps its first capital, or all of them, where this needs fewer pieces, as names often do; between forms of as many
    pieces, where these are longer than one letter, the sum of the ids decides, which are lower for what is more frequent. The
    first word of a sentence begins with a capital. Words of a title with other capitals, and symbols, stay as they are.
    """

    def __init__(self, codec: Codec):
        super().__init__(codec)
        # Words repeat in text; the limit bounds the memory of a long-running process.
        self._form = functools.lru_cache(maxsize=1 << 16)(self._form_of)
        self._prefers_small = functools.lru_cache(maxsize=1 << 16)(self._prefers_small_of)
        kept = "|".join(map(re.escape, (SPECIALS[UNK], *self.symbols)))
        self._kept = re.compile(f"({kept})")

    def line(self, line: str) -> str:
        if not in_capitals(self._without_symbols(line)):
            return self._in_small(line, title=True) if self._is_title(line) else line
        small = self._in_small(line)
        return small if self._cost(*small.split()) < self._cost(*line.split()) else line

    def lowers(self, line: str) -> bool:
        return in_capitals(self._without_symbols(line)) and self.line(line) != line

    def in_letters_of(self, line: str, text: str) -> str:
        """A translation of the line: in capitals where the line is, and was read in small letters."""
        if not self.lowers(line):
            return text
        return "".join(part if k % 2 else part.upper() for k, part in enumerate(self._kept.split(text)))

    def _without_symbols(self, line: str) -> str:
        return " ".join(word for word in line.split() if word not in self.symbols) if self.symbols else line

    def _is_title(self, line: str) -> bool:
        if line.rstrip().endswith(".") and not line.rstrip().endswith(".."):
            return False
        words = [
            word for word in self._without_symbols(line).split() if _letters(word) and word.lower() != word.upper()
        ]
        if not all(_letters(word)[0].isupper() or len(_letters(word)) < LONG for word in words):
            return False
        behind = [word for word in words[1:] if _letters(word)[0].isupper()]
        enough = len(behind) >= CAPITALS and 3 * (len(behind) + 1) >= 2 * len(words)
        return enough and 2 * sum(map(self._prefers_small, behind)) > len(behind)

    def _in_small(self, line: str, title: bool = False) -> str:
        """The line with every word in the form that the vocabulary prefers; `title`: but for those with several capitals."""
        parts, first = _WHITE.split(line), True
        for k in range(0, len(parts), 2):  # every other part is white space
            word = parts[k]
            if word in self.symbols or not any(map(str.isalnum, word)):  # such as punctuation between spaces
                first = first or _ENDS.search(word) is not None
                continue
            if not (word.lower() == word.upper() or (title and _has_inner_capital(word))):
                form = self._form(word)
                parts[k] = self._begin(form) if first else form
            first = _ENDS.search(word) is not None
        return "".join(parts)

    def _begin(self, form: str) -> str:
        """A word at the beginning of a sentence, if the vocabulary has capitals."""
        capital = _capital(form)
        return capital if self._cost(capital)[0] <= self._cost(form)[0] else form

    def _form_of(self, word: str) -> str:
        small, capital = word.lower(), _capital(word.lower())
        form = small if self._prefers(small, capital) else capital
        return word if self._cost(word) < self._cost(form) else form

    def _prefers_small_of(self, word: str) -> bool:
        """Whether a word that is not known better as it is may be in small letters: names of several pieces may not."""
        small = word.lower()
        own, other = self._ids(small), self._ids(word)
        return self._cost(small) < self._cost(word) or (len(own) == len(other) == 1 and own[0] < other[0])

    def _prefers(self, small: str, capital: str) -> bool:
        """Whether a word is read in small letters rather than with a capital first one."""
        if self._cost(small) != self._cost(capital):
            return self._cost(small) < self._cost(capital)
        ids, letters = self._ids(small), len(_letters(small))
        one_word, in_letters = len(ids) == 1 < letters, 1 < letters <= len(ids)
        return one_word or in_letters or sum(ids) <= sum(self._ids(capital))

    def _cost(self, *words: str) -> tuple[int, int]:
        """Unknown pieces, and all of them."""
        ids = [i for some in self.codec.encode(words) for i in some]
        return ids.count(UNK), len(ids)

    def _ids(self, word: str) -> Sequence[int]:
        return self.codec.encode([word])[0]


def in_capitals(line: str) -> bool:
    """Whether the letters of a line are capitals, of many all but a few, such as units. German ß, which has none, counts as one. A
    line of a script without capitals is not, though some may stand in it.
    """
    line = line.replace("ß", "")
    if not line.isupper() and sum(map(str.isupper, line)) < MANY * MOST:
        return False
    letters = [c for c in line if c.isalpha()]
    capitals = sum(map(str.isupper, letters))
    uncased = any(c.lower() == c.upper() and not c.islower() for c in letters)
    return not uncased and (capitals == len(letters) > 0 or capitals >= MOST * max(MANY, len(letters)))


def _letters(word: str) -> str:
    return "".join(filter(str.isalpha, word))


def _has_inner_capital(word: str) -> bool:
    return any(one.isalpha() and other.isupper() for one, other in pairwise(word))


def _capital(word: str) -> str:
    """The word with its first letter as a capital, if there is one such character; German ß has none."""
    for k, c in enumerate(word):
        if c.isalpha():
            return word[:k] + (c.upper() if len(c.upper()) == 1 else c) + word[k + 1 :]
    return word
