"""Text files, plain or gzip, UTF-8, one sentence per line; and the faults of a source and its target.

A line ends only at "\\n": U+0085, U+2028 and similar characters are part of a sentence. One "\\r" before the "\\n" is dropped.
"""

import gzip
import shlex
import zlib
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from itertools import zip_longest
from pathlib import Path
from typing import BinaryIO, cast

from calque.ground.diagnostics import CalqueError, Diagnostic, Place, error

EXAMPLES = 5
"""How many diagnostics of one code are listed; the rest are counted."""
LONG = 10_000
"""Characters from which a line is over-long: more than a sentence has, as in a file without newlines."""
RATIO = 10
"""The largest ratio of the lengths of a pair, in characters ..."""
RATIO_FROM = 100
"""... where the longer side has this many characters: short sentences may differ more."""
MARK = "\ufeff"
"""The byte order mark, which some programs write before text in UTF-8."""
_GZIP = b"\x1f\x8b"


class Lines:
    """The sentences of a file, which is read again at each iteration and never held in memory.

    A byte order mark before the first is dropped.
    Raises D101 (unreadable), D103 (no UTF-8), D105 (damaged gzip) where iteration meets them.
    """

    def __init__(self, path: Path):
        self.path = path

    def __iter__(self) -> Iterator[str]:
        offset = 0
        for number, raw in enumerate(raw_lines(self.path), 1):
            try:
                text = raw.decode()
            except UnicodeDecodeError as fault:
                raise CalqueError(_undecodable(self.path, number, offset, raw, fault)) from None
            offset += len(raw)
            yield chomp(text.removeprefix(MARK) if number == 1 else text)


def raw_lines(path: Path, cut: Callable[[BinaryIO], Iterable[bytes]] = iter) -> Iterator[bytes]:
    """The lines of a file as bytes with their newlines; gzip is recognised by its first two bytes, not by the name.

    `cut` splits the open file into lines. Raises D101 and D105.
    """
    number = 0
    try:
        with open(path, "rb") as file:
            # A gzip reader is an iterator of lines like the file it unpacks.
            packed = file.peek(2)[:2] == _GZIP
            lines = cast(BinaryIO, gzip.GzipFile(fileobj=file)) if packed else file
            for number, raw in enumerate(cut(lines), 1):  # noqa: B007 - read by the handlers below
                yield raw
    except (EOFError, gzip.BadGzipFile, zlib.error) as fault:
        raise error("D105", Place(str(path), number + 1), reason=_lower(str(fault))) from None
    except OSError as fault:
        raise unreadable(path, fault) from None


def unreadable(path: Path, fault: OSError) -> CalqueError:
    """The error D101; for a missing file of a public corpus, with the command that fetches it."""
    fields: dict[str, object] = {"reason": _lower(fault.strerror or str(fault))}
    if isinstance(fault, FileNotFoundError):
        from calque.data.public import providing  # slow to load, and few calls need it

        if (provided := providing(path)) is not None:
            fields |= {"corpus": provided[0], "root": shlex.quote(str(provided[1]))}
    return CalqueError(Diagnostic("D101", Place(str(path)), fields))


@dataclass(frozen=True)
class CorpusReport:
    """The result of `check_corpus` for a usable corpus."""

    pairs: int
    warnings: tuple[Diagnostic, ...]
    counts: Mapping[str, int]
    """How often each code occurred, including warnings that are not listed."""


def check_corpus(source: Path, target: Path) -> CorpusReport:
    """Reads both sides once and reports every fault with its file and line.

    Errors: unreadable (D101), unequal line counts (D102), invalid UTF-8 (D103), NUL (D104), damaged gzip (D105), no
    line (D106). Warnings: CRLF (D111), blank (D112), over-long (D113), lengths far apart (D114). `EXAMPLES` of each
    code are listed, D110 says how many more there are. Raises all errors, the warnings with them, as one CalqueError.
    """
    findings = _Findings()
    sides = _Side(source, findings), _Side(target, findings)
    for number, (left, right) in enumerate(zip_longest(*(side.read() for side in sides)), 1):
        lengths = sides[0].look(left, number), sides[1].look(right, number)
        if max(lengths) >= RATIO_FROM and max(lengths) > RATIO * min(lengths) > 0:
            at = Place(str(source), number)
            findings.add("D114", at, "warning", source=lengths[0], target=lengths[1], other=str(target))
    counts = [side.lines for side in sides]
    if counts[0] != counts[1] and not any(side.broken for side in sides):
        shorter = sides[counts[0] > counts[1]].path
        where = Place(str(shorter), min(counts) + 1)
        findings.add("D102", where, source=str(source), n=counts[0], target=str(target), m=counts[1])
    listed = findings.listed()
    if any(d.severity == "error" for d in listed):
        raise CalqueError(listed)
    return CorpusReport(counts[0], tuple(listed), dict(findings.counts))


class _Findings:
    """Diagnostics; only the first `EXAMPLES` of each code are kept."""

    def __init__(self) -> None:
        self.counts: Counter[str] = Counter()
        self.kept: dict[str, list[Diagnostic]] = {}

    def add(self, code: str, where: Place, severity: str = "error", /, **fields: object) -> None:
        self.append(Diagnostic(code, where, fields, severity=severity))

    def append(self, diagnostic: Diagnostic) -> None:
        self.counts[diagnostic.code] += 1
        if self.counts[diagnostic.code] <= EXAMPLES:
            self.kept.setdefault(diagnostic.code, []).append(diagnostic)

    def listed(self) -> list[Diagnostic]:
        """Errors first, then by code; where examples were left out, D110 follows them."""
        listed = []
        for code, kept in sorted(self.kept.items()):
            listed += kept
            if (more := self.counts[code] - len(kept)) > 0:
                listed.append(Diagnostic("D110", None, {"more": more, "of": code}, severity=kept[0].severity))
        return sorted(listed, key=lambda d: d.severity)


class _Side:
    """One file while it is checked."""

    def __init__(self, path: Path, findings: _Findings):
        self.path, self.findings = path, findings
        self.lines = self.offset = 0
        self.broken = False

    def read(self) -> Iterator[bytes]:
        """The raw lines, up to where the file can be read."""
        try:
            yield from raw_lines(self.path)
        except CalqueError as fault:
            self.broken = True
            for diagnostic in fault.diagnostics:
                self.findings.append(diagnostic)
        if not self.lines and not self.broken:
            self.findings.add("D106", Place(str(self.path)))

    def look(self, raw: bytes | None, number: int) -> int:
        """Checks one line, None after the end of the file; returns its length in characters, 0 where it cannot be compared."""
        if raw is None:
            return 0
        self.lines = number
        offset, self.offset = self.offset, self.offset + len(raw)
        try:
            text = raw.decode()
        except UnicodeDecodeError as fault:
            self.findings.append(_undecodable(self.path, number, offset, raw, fault))
            return 0
        if b"\0" in raw:
            self.findings.add("D104", Place(str(self.path), number), offset=offset + raw.index(b"\0"))
        if raw.endswith(b"\r\n"):
            self.findings.add("D111", Place(str(self.path), number), "warning")
        if text.isspace():
            self.findings.add("D112", Place(str(self.path), number), "warning")
            return 0
        length = len(chomp(text))
        if length > LONG:
            self.findings.add("D113", Place(str(self.path), number), "warning", most=LONG, found=length)
        return length


def chomp(text: str) -> str:
    """A line without its end."""
    return text.removesuffix("\n").removesuffix("\r")


def _undecodable(path: Path, number: int, offset: int, raw: bytes, fault: UnicodeDecodeError) -> Diagnostic:
    fields = {"byte": f"0x{raw[fault.start]:02x}", "column": fault.start + 1, "offset": offset + fault.start}
    return Diagnostic("D103", Place(str(path), number), fields)


def _lower(reason: str) -> str:
    return reason[:1].lower() + reason[1:]
