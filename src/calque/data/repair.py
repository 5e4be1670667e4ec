"""Faulty text that is translated, scored or compared: one wrong byte does not stop the other lines.

The rules are the same wherever sentences are only read and nothing is learned from them:

- each byte sequence that is not UTF-8 becomes U+FFFD, the replacement character                       (D120)
- so do NUL and, in Python, a lone surrogate                                                           (D121)
- of a line of a file, what follows the first `LONGEST` bytes is left out                              (D122)

Each such line is reported with its number. A byte order mark before the first line is dropped, and so is the line end.
What is no text in any line, such as UTF-16 or a document, is refused with one error (D107).
"""

import codecs
import io
import re
import sys
from collections import Counter
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path
from typing import BinaryIO, cast

from calque.data.lines import EXAMPLES, MARK, chomp, open_lines, paired, raw_lines
from calque.ground.diagnostics import Diagnostic, Place, error

LONGEST = 2**20
"""The largest number of bytes that are read of a line, since a file without newlines would fill the memory."""
REPLACEMENT = "\ufffd"
_NO_TEXT = re.compile("[\0\ud800-\udfff]")


class Repairs:
    """Reads lines and reports changed ones: the first `EXAMPLES` of each code at once, the number of others at the `end`."""

    def __init__(self, report: Callable[[Diagnostic], None]):
        self.report = report
        self.faults = 0
        """The number of changed lines."""
        self._standard_input_taken = False
        self._counts: Counter[str] = Counter()
        self._severity: dict[str, str] = {}

    def note(self, diagnostic: Diagnostic) -> None:
        """Reports a diagnostic, or only counts it where `EXAMPLES` of its code have been reported."""
        self._counts[diagnostic.code] += 1
        self._severity[diagnostic.code] = diagnostic.severity
        if self._counts[diagnostic.code] <= EXAMPLES:
            self.report(diagnostic)

    def end(self) -> None:
        """Reports the number of diagnostics that were only counted (D110)."""
        for code, count in self._counts.items():
            if count > EXAMPLES:
                fields = {"more": count - EXAMPLES, "of": code}
                self.report(Diagnostic("D110", None, fields, severity=self._severity[code]))
        self._counts.clear()

    def lines(self, path: Path) -> Iterator[str]:
        """The lines of a file, plain or compressed; of standard input for `-`.

        Raises at once what `standard_input` raises; D101, D105 and D107, as `raw_lines`, where iteration meets them.
        """
        if str(path) != "-":
            return self._texts(raw_lines(path, bounded), str(path))
        return self.standard_input()

    def standard_input(self) -> Iterator[str]:
        """The lines of standard input, as they come. Raises D101 where it is closed, X117 where it is another text already."""
        if sys.stdin is None:
            raise error("D101", Place("stdin"), reason="standard input is closed")
        if self._standard_input_taken:
            raise error("X117")
        self._standard_input_taken = True
        return self.stream(sys.stdin.buffer, "stdin")

    def stream(self, file: BinaryIO, name: str) -> Iterator[str]:
        """The lines of an open file, plain or compressed, as they come. Raises OSError, D105 and D107."""
        buffered = file if isinstance(file, io.BufferedReader) else io.BufferedReader(cast(io.RawIOBase, file))
        return self._texts(open_lines(buffered, name, bounded), name)

    def pairs(self, source: Path, target: Path) -> tuple[list[str], list[str]]:
        """The lines of two files that belong together.

        Raises what `lines` raises, D102 (unequal numbers of lines), D106 (no line).
        """
        both = self.lines(source), self.lines(target)  # before either is read
        return paired(source, target, list(both[0]), list(both[1]))

    def sentences(self, texts: Iterable[str], name: str) -> list[str]:
        """Sentences from a Python program, read like the lines of a file."""
        return [
            self._clean(chomp(text.removeprefix(MARK) if number == 1 else text), Place(name, number), written=True)
            for number, text in enumerate(texts, 1)
        ]

    def _texts(self, raws: Iterable[bytes], name: str) -> Iterator[str]:
        for number, raw in enumerate(raws, 1):
            where = Place(name, number)
            if cut := len(raw) > LONGEST and not raw.endswith(b"\n"):
                self._fault("D122", where, most=LONGEST)
            try:
                # A line may have been cut inside a character, which is then left out.
                text = codecs.getincrementaldecoder("utf-8")().decode(raw, final=not cut)
            except UnicodeDecodeError as fault:
                self._fault("D120", where, byte=f"0x{raw[fault.start]:02x}", column=fault.start + 1)
                text = raw.decode("utf-8", "replace")
            yield self._clean(chomp(text.removeprefix(MARK) if number == 1 else text), where)

    def _clean(self, text: str, where: Place, written: bool = False) -> str:
        """A line without what is no text; `written`: by a Python program, which the help then speaks to."""
        if (bad := _NO_TEXT.search(text)) is None:
            return text
        more = {"escape": bad[0].encode("unicode_escape").decode()} if written else {}
        self._fault("D121", where, character=f"U+{ord(bad[0]):04X}", column=bad.start() + 1, **more)
        return _NO_TEXT.sub(REPLACEMENT, text)

    def _fault(self, code: str, where: Place, **fields: object) -> None:
        self.faults += 1
        self.note(Diagnostic(code, where, fields))


def bounded(file: BinaryIO) -> Iterator[bytes]:
    """The lines of a file; of a line of more than `LONGEST` bytes, one byte more than that."""
    while raw := file.readline(LONGEST + 1):
        yield raw
        while len(raw) > LONGEST and not raw.endswith(b"\n"):
            raw = file.readline(LONGEST + 1)
