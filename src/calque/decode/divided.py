"""Lines of several sentences, translated sentence by sentence."""

import re
from collections import deque
from collections.abc import Callable, Iterable, Iterator
from dataclasses import replace
from typing import NamedTuple

from calque.ground.diagnostics import Diagnostic, Place

_ENDS = re.compile(r"(?<![.!?…])[.!?…]+[\"'”’»)\]]*(\s+)|(?<![。！？])[。！？]+[”’」』）]*(\s*)")
_OPENING = re.compile(r"[\"'“‘«(\[¿¡]*")


def sentences_in(line: str) -> Iterator[tuple[str, str]]:
    """The sentences of a line, each with the white space behind it. A point behind a single letter ends none."""
    began = 0
    for found in _ENDS.finditer(line):
        at = found.start()
        initial = line[at] == "." and line[at - 1 : at].isalpha() and not line[max(0, at - 2) : at - 1].isalnum()
        opening = _OPENING.match(line, found.end())
        follows = line[opening.end() : opening.end() + 1] if opening else ""
        if follows and not initial and not follows.islower():
            end = found.end() - len(found[1] or found[2] or "")
            yield line[began:end], line[end : found.end()]
            began = found.end()
    yield line[began:], ""


class _Held(NamedTuple):
    """A line that was read and whose translation is not complete."""

    first: int
    """The number of its first sentence in the whole text."""
    line: int
    """The number of the line."""
    behind: list[str]
    """The white space after each of its sentences."""


class DividedLines:
    """The sentences of lines, read one after the other, and their translations put together to lines again."""

    def __init__(self, lines: Iterable[str]):
        self._lines = lines
        self._held: deque[_Held] = deque()

    def __iter__(self) -> Iterator[str]:
        first = 1
        for number, line in enumerate(self._lines, 1):
            parts = list(sentences_in(line))
            self._held.append(_Held(first, number, [space for _, space in parts]))
            first += len(parts)
            yield from (sentence for sentence, _ in parts)

    def together(self, translations: Iterable[str]) -> Iterator[str]:
        """The translation of each line, from those of its sentences in their order; white space between them stays."""
        read = iter(translations)
        for text in read:
            behind = self._held[0].behind
            parts = [text + behind[0], *(next(read) + space for space in behind[1:])]
            self._held.popleft()
            yield "".join(parts)

    def warnings_of_lines(self, warn: Callable[[Diagnostic], None]) -> Callable[[Diagnostic], None]:
        """Passes warnings on that name a sentence by its number, with the number of its line."""

        def numbered(found: Diagnostic) -> None:
            at = found.where
            if isinstance(at, Place) and at.line is not None:
                number = max((held.line for held in self._held.copy() if held.first <= at.line), default=at.line)
                found = replace(found, where=replace(at, line=number))
            warn(found)

        return numbered
