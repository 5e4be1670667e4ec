"""Lines of several sentences, translated sentence by sentence."""

import re
from collections import deque
from collections.abc import Callable, Iterable, Iterator
from dataclasses import replace
from typing import NamedTuple

from calque.ground.diagnostics import Diagnostic, Place

_MARKS = ".!?…؟۔।॥։።፧။។៕"
"""Marks at the end of a sentence: Latin, Arabic, Urdu, of the scripts of India, Armenian, Ethiopic, Burmese, Khmer."""
_ENDS = re.compile(rf"(?<![{_MARKS}])[{_MARKS}]+[\"'”’»)\]]*(\s+)|(?<![。！？｡])[。！？｡]+[”’」』）]*(\s*)")
_END = re.compile(rf"[{_MARKS}。！？｡]+[\"'”’»)\]」』）]*\Z")
_LAST = re.compile(r"[^\W_]*\Z")
_SHORT = re.compile(r"[0-9]{1,2}|[A-Z][bcdfghjklmnpqrstvwxz]{1,3}")
"""Words behind which a point ends no sentence: numbers such as the German `3. Mai`, and titles such as `Dr.` and `Mrs.`, which are
short and have no vowel."""
_LONGEST = 4
"""Letters of such a word, at most."""
_WIDE = re.compile(
    "[\u3000-\u312f\u31a0-\u9fff\uf900-\ufaff\uff00-\uff9f\uffe0-\uffee\U0001b000-\U0001b16f\U00020000-\U0003ffff]"
)
"""Chinese and Japanese characters, with their punctuation marks and full-width forms."""
_OPENING = re.compile(r"[\"'“‘«(\[¿¡]*")


def sentences_in(line: str) -> Iterator[tuple[str, str]]:
    """The sentences of a line, each with the white space behind it. A point behind a single letter or a `_SHORT` word ends none."""
    began = 0
    for found in _ENDS.finditer(line):
        at = found.start()
        initial = line[at] == "." and _is_short(line[max(0, at - _LONGEST - 1) : at])
        opening = _OPENING.match(line, found.end())
        follows = line[opening.end() : opening.end() + 1] if opening else ""
        if follows and not initial and not follows.islower():
            end = found.end() - len(found[1] or found[2] or "")
            yield line[began:end], line[end : found.end()]
            began = found.end()
    yield line[began:], ""


def without_end(text: str) -> str:
    """A text without the marks at its end that end a sentence, and what closes behind them."""
    return _END.sub("", text).rstrip()


def _is_short(before: str) -> bool:
    """Whether the word at the end of a text may stand in front of a point within a sentence."""
    found = _LAST.search(before)
    word = found[0] if found else ""
    return (len(word) == 1 and word.isalpha()) or _SHORT.fullmatch(word) is not None


def between(sentence: str, space: str, translation: str) -> str:
    """What follows the translation of a sentence: the white space behind the sentence itself, if both are of scripts alike.

    Chinese and Japanese have none there: one space comes behind a translation into another script, and a single one goes.
    """
    wide, becomes_wide = _is_wide(sentence), _is_wide(translation)
    if wide and not becomes_wide and translation:
        return space or " "
    return "" if becomes_wide and not wide and space == " " else space


def _is_wide(text: str) -> bool:
    """Whether the last letter, digit or Chinese or Japanese punctuation mark of a sentence is Chinese or Japanese."""
    for character in reversed(text):
        if _WIDE.match(character):
            return True
        if character.isalnum():
            return False
    return False


class _Held(NamedTuple):
    """A line that was read and whose translation is not complete."""

    first: int
    """The number of its first sentence in the whole text."""
    line: int
    """The number of the line."""
    parts: list[tuple[str, str]]
    """Its sentences, each with the white space behind it."""


class DividedLines:
    """The sentences of lines, read one after the other, and their translations put together to lines again."""

    def __init__(self, lines: Iterable[str]):
        self._lines = lines
        self._held: deque[_Held] = deque()

    def __iter__(self) -> Iterator[str]:
        first = 1
        for number, line in enumerate(self._lines, 1):
            parts = list(sentences_in(line))
            self._held.append(_Held(first, number, parts))
            first += len(parts)
            yield from (sentence for sentence, _ in parts)

    def together(self, translations: Iterable[str]) -> Iterator[str]:
        """The translation of each line, from those of its sentences in their order, with white space `between` them."""
        read = iter(translations)
        for text in read:
            parts = self._held[0].parts
            texts = [text, *(next(read) for _ in parts[1:])]
            self._held.popleft()
            spaces = [between(*part, one) for part, one in zip(parts[:-1], texts, strict=False)]
            yield "".join(one + space for one, space in zip(texts, [*spaces, parts[-1][1]], strict=True))

    def warnings_of_lines(self, warn: Callable[[Diagnostic], None]) -> Callable[[Diagnostic], None]:
        """Passes warnings on that name a sentence by its number, with the number of its line."""

        def numbered(found: Diagnostic) -> None:
            at = found.where
            if isinstance(at, Place) and at.line is not None:
                number = max((held.line for held in self._held.copy() if held.first <= at.line), default=at.line)
                found = replace(found, where=replace(at, line=number))
            warn(found)

        return numbered
