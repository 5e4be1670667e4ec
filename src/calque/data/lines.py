"""Text files, plain or compressed, UTF-8, one sentence per line; and the faults of a source and its target.

A line ends only at "\\n": U+0085, U+2028 and similar characters are part of a sentence. One "\\r" before the "\\n" is dropped.
"""

import io
import stat
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import zip_longest
from pathlib import Path
from typing import BinaryIO

from calque.data.packed import DAMAGE, HEAD, no_text, unpacked
from calque.ground.diagnostics import CalqueError, Diagnostic, Place, error, reason_of

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


class Lines:
    """The sentences of a file, which is read again at each iteration and never held in memory.

    A byte order mark before the first is dropped.
    Raises D101 (unreadable), D103 (no UTF-8), D105 (damaged file), D107 (no text at all) where iteration meets them.
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


def paired(source: Path, target: Path, sources: list[str], targets: list[str]) -> tuple[list[str], list[str]]:
    """The lines of two files that belong together. Raises D102 (unequal numbers of lines), D106 (no line)."""
    n, m = len(sources), len(targets)
    if n != m:
        where = Place(str(target if n > m else source), min(n, m) + 1)
        raise error("D102", where, source=str(source), n=n, target=str(target), m=m)
    if not n:
        raise error("D106", Place(str(source)))
    return sources, targets


class RawLines:
    """The lines of a file as bytes with their newlines, once; a compressed file is unpacked as it is read.

    `cut` splits the open file into lines. Raises D101, D105 and D107 where iteration meets them.
    """

    def __init__(self, path: Path, cut: Callable[[BinaryIO], Iterable[bytes]] = iter):
        self.path, self._cut = path, cut
        self._file: BinaryIO | None = None
        self._size = 0

    @property
    def read(self) -> int:
        """How many bytes of the file have been read, as it lies on the disk."""
        return self._size if self._file is None or self._file.closed else self._file.tell()

    def __iter__(self) -> Iterator[bytes]:
        try:
            with open(self.path, "rb") as file:
                self._file = file
                yield from open_lines(file, str(self.path), self._cut)
                self._size, self._file = file.tell() if file.seekable() else 0, None
        except OSError as fault:
            raise unreadable(self.path, fault) from None


def open_lines(
    file: io.BufferedReader, name: str, cut: Callable[[BinaryIO], Iterable[bytes]] = iter
) -> Iterator[bytes]:
    """The lines of an open file, as `RawLines`. Raises OSError, D105 and D107."""
    number, kind = 0, ""
    try:
        if not file.peek(1):
            return  # at a terminal, looking again would wait for another end
        kind, text = unpacked(file)
        if found := no_text(text.peek(HEAD)):
            encoding = found if found.startswith("UTF") else None
            raise error("D107", Place(name), found=found, encoding=encoding)
        for number, raw in enumerate(cut(text), 1):  # noqa: B007 - read by the handlers below
            yield raw
    except DAMAGE as fault:
        raise _damaged(name, kind, number, fault) from None
    except OSError as fault:
        if fault.errno is None and kind:
            raise _damaged(name, kind, number, fault) from None
        raise


def _damaged(name: str, kind: str, number: int, fault: Exception) -> CalqueError:
    return error("D105", Place(name, number + 1), kind=kind, reason=_lower(str(fault)))


def raw_lines(path: Path, cut: Callable[[BinaryIO], Iterable[bytes]] = iter) -> Iterator[bytes]:
    """The lines of a file, as `RawLines`."""
    return iter(RawLines(path, cut))


def check_rereadable(path: Path) -> None:
    """Raises D101 for what is not found, D108 for a pipe, a socket or a device: what is learned from is read more than once."""
    try:
        mode = path.stat().st_mode
    except OSError as fault:
        raise unreadable(path, fault) from None
    for kind, holds in {"a pipe": stat.S_ISFIFO, "a socket": stat.S_ISSOCK, "a device": stat.S_ISCHR}.items():
        if holds(mode):
            raise error("D108", Place(str(path)), found=kind)


def unreadable(path: Path, fault: OSError) -> CalqueError:
    """The error D101; for a missing file of a public corpus, with the command that fetches it."""
    fields: dict[str, object] = {"reason": reason_of(fault)}
    if isinstance(fault, FileNotFoundError):
        from calque.data.public import providing  # slow to load, and few calls need it

        if (provided := providing(path)) is not None:
            fields |= {"corpus": provided[0], "root": str(provided[1])}
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

    Errors: unreadable (D101), unequal line counts (D102), invalid UTF-8 (D103), NUL (D104), damaged file (D105), no
    line (D106), no text at all (D107), a pipe or a device (D108). Warnings: CRLF (D111), blank (D112),
    over-long (D113), lengths far apart (D114). `EXAMPLES` of each code are listed, D110 says how many more there are. Raises
    all errors, the warnings with them, as one CalqueError.
    """
    findings = Findings()
    sides = CheckedSide(source, findings), CheckedSide(target, findings)
    offsets = [0, 0]
    for number, pair in enumerate(zip_longest(*(side.read() for side in sides)), 1):
        check_pair(sides, pair, number, offsets)
        for k, raw in enumerate(pair):
            offsets[k] += len(raw or b"")
    check_counts(sides, findings)
    return CorpusReport(sides[0].lines, findings.warnings(), dict(findings.counts))


def check_pair(
    sides: "Sequence[CheckedSide]", pair: Sequence[bytes | None], number: int, offsets: Sequence[int]
) -> None:
    """Checks line `number` of both sides, None after the end of a file. `offsets`: where the lines begin in their texts."""
    lengths = [side.look(raw, number, offset) for side, raw, offset in zip(sides, pair, offsets, strict=True)]
    if max(lengths) >= RATIO_FROM and max(lengths) > RATIO * min(lengths) > 0:
        at, other = Place(str(sides[0].path), number), str(sides[1].path)
        sides[0].findings.add("D114", at, "warning", source=lengths[0], target=lengths[1], other=other)


def check_counts(sides: "Sequence[CheckedSide]", findings: "Findings") -> None:
    """D102 where two sides that were read to their ends have not as many lines."""
    counts = [side.lines for side in sides]
    if counts[0] != counts[1] and not any(side.broken for side in sides):
        where = Place(str(sides[counts[0] > counts[1]].path), min(counts) + 1)
        findings.add("D102", where, source=str(sides[0].path), n=counts[0], target=str(sides[1].path), m=counts[1])


class Findings:
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

    def merge(self, kept: Iterable[Diagnostic], counts: Mapping[str, int]) -> None:
        """Adds what was found in another part of the text, after this one."""
        for diagnostic in kept:
            listed = self.kept.setdefault(diagnostic.code, [])
            if len(listed) < EXAMPLES:
                listed.append(diagnostic)
        self.counts.update(counts)

    def warnings(self) -> tuple[Diagnostic, ...]:
        """The warnings. Raises all errors, the warnings with them, where there is one."""
        listed = self.listed()
        if any(d.severity == "error" for d in listed):
            raise CalqueError(listed)
        return tuple(listed)

    def listed(self) -> list[Diagnostic]:
        """Errors first, then by code; where examples were left out, D110 follows them."""
        listed = []
        for code, kept in sorted(self.kept.items()):
            listed += kept
            if (more := self.counts[code] - len(kept)) > 0:
                listed.append(Diagnostic("D110", None, {"more": more, "of": code}, severity=kept[0].severity))
        return sorted(listed, key=lambda d: d.severity)


class CheckedSide:
    """One file while it is checked."""

    def __init__(self, path: Path, findings: Findings):
        self.path, self.findings = path, findings
        self.raw = RawLines(path)
        self.lines = 0
        self.broken = False

    def read(self) -> Iterator[bytes]:
        """The raw lines, up to where the file can be read."""
        try:
            check_rereadable(self.path)
            for self.lines, line in enumerate(self.raw, 1):  # noqa: B020 - the count is what remains
                yield line
        except CalqueError as fault:
            self.broken = True
            for diagnostic in fault.diagnostics:
                self.findings.append(diagnostic)
        if not self.lines and not self.broken:
            self.findings.add("D106", Place(str(self.path)))

    def look(self, raw: bytes | None, number: int, offset: int) -> int:
        """Checks one line, None after the end of the file; returns its length in characters, 0 where it cannot be compared."""
        if raw is None:
            return 0
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
