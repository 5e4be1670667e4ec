"""Text that is translated, scored or compared, whatever is wrong with it: one bad byte does not cost the other lines.

The rule is the same wherever a sentence is only read and nothing is learned from it:

- each byte sequence that is not UTF-8 becomes U+FFFD, the replacement character                       (D120)
- so do NUL and, in Python, a lone surrogate                                                           (D121)
- of a line of a file, what follows the first `LONGEST` bytes is left out                              (D122)

Each such line is reported with its number. A byte order mark before the first line is dropped, and so is the line end.
"""

import codecs
import re
from collections import Counter
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path
from typing import BinaryIO

from calque.data.lines import EXAMPLES, MARK, chomp, raw_lines
from calque.ground.diagnostics import Diagnostic, Place, error

LONGEST = 2**20
"""Bytes of a line that are read. A hundred times the length of a sentence; a file without newlines would fill the memory."""
REPLACEMENT = "\ufffd"
_NO_TEXT = re.compile("[\0\ud800-\udfff]")


class Repairs:
    """Reads lines, and reports those it had to change: the first `EXAMPLES` of each code at once, at the `end` how many more."""

    def __init__(self, report: Callable[[Diagnostic], None]):
        self.report = report
        self.faults = 0
        """Lines that were changed."""
        self._counts: Counter[str] = Counter()
        self._severity: dict[str, str] = {}

    def note(self, found: Diagnostic) -> None:
        """Reports a diagnostic, or counts it where enough of its code have been reported."""
        self._counts[found.code] += 1
        self._severity[found.code] = found.severity
        if self._counts[found.code] <= EXAMPLES:
            self.report(found)

    def end(self) -> None:
        """Reports how many diagnostics were counted only (D110)."""
        for code, count in self._counts.items():
            if count > EXAMPLES:
                fields = {"more": count - EXAMPLES, "of": code}
                self.report(Diagnostic("D110", None, fields, severity=self._severity[code]))
        self._counts.clear()

    def lines(self, path: Path) -> Iterator[str]:
        """The lines of a file, plain or gzip. Raises D101 and D105, as `raw_lines`."""
        return self._texts(raw_lines(path, bounded), str(path))

    def stream(self, file: BinaryIO, name: str) -> Iterator[str]:
        """The lines of an open file as they come."""
        return self._texts(bounded(file), name)

    def pairs(self, source: Path, target: Path) -> tuple[list[str], list[str]]:
        """The lines of two files that belong together. Raises D101, D105, D102 (unequal numbers of lines), D106 (no line)."""
        sides = list(self.lines(source)), list(self.lines(target))
        counts = [len(lines) for lines in sides]
        if counts[0] != counts[1]:
            where = Place(str((source, target)[counts[0] > counts[1]]), min(counts) + 1)
            raise error("D102", where, source=str(source), n=counts[0], target=str(target), m=counts[1])
        if not counts[0]:
            raise error("D106", Place(str(source)))
        return sides

    def sentences(self, texts: Iterable[str], name: str) -> list[str]:
        """Sentences of a Python program, read as the lines of a file are."""
        return [
            self._clean(chomp(text.removeprefix(MARK) if number == 1 else text), Place(name, number))
            for number, text in enumerate(texts, 1)
        ]

    def _texts(self, raws: Iterable[bytes], name: str) -> Iterator[str]:
        for number, raw in enumerate(raws, 1):
            where = Place(name, number)
            if cut := len(raw) > LONGEST:
                self._fault("D122", where, most=LONGEST)
            try:
                # A line may have been cut inside a character, which is then left out.
                text = codecs.getincrementaldecoder("utf-8")().decode(raw, final=not cut)
            except UnicodeDecodeError as fault:
                self._fault("D120", where, byte=f"0x{raw[fault.start]:02x}", column=fault.start + 1)
                text = raw.decode("utf-8", "replace")
            yield self._clean(chomp(text.removeprefix(MARK) if number == 1 else text), where)

    def _clean(self, text: str, where: Place) -> str:
        if (bad := _NO_TEXT.search(text)) is None:
            return text
        self._fault("D121", where, character=f"U+{ord(bad[0]):04X}", column=bad.start() + 1)
        return _NO_TEXT.sub(REPLACEMENT, text)

    def _fault(self, code: str, where: Place, **fields: object) -> None:
        self.faults += 1
        self.note(Diagnostic(code, where, fields))


def bounded(file: BinaryIO) -> Iterator[bytes]:
    """The lines of a file; of one that is longer than `LONGEST` bytes one byte more, the rest skipped."""
    while raw := file.readline(LONGEST + 1):
        yield raw
        while len(raw) > LONGEST and not raw.endswith(b"\n"):
            raw = file.readline(LONGEST + 1)
