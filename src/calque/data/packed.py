"""Text files as bytes: plain, gzip, bzip2, xz or zstandard, unpacked as they are read. The first bytes decide, not the name."""

import bz2
import gzip
import importlib
import io
import lzma
import zlib
from collections.abc import Callable
from typing import Any, BinaryIO, cast

from calque.ground.diagnostics import error

BUFFER = 1 << 18
"""Unpacked bytes from which lines are cut."""
DAMAGE = (EOFError, gzip.BadGzipFile, zlib.error, lzma.LZMAError)
"""What the libraries raise for damaged files; bzip2 raises an OSError without a number."""


class _Zstandard(io.RawIOBase):
    """The text of an open zstandard file, of one frame or several. Raises EOFError where the file was cut short."""

    def __init__(self, file: BinaryIO):
        try:
            self._library: Any = importlib.import_module("zstandard")
        except ImportError:
            raise error("X301", package="zstandard", extra="zst") from None
        self._file, self._frame, self._rest, self._text = file, None, b"", b""

    def readable(self) -> bool:
        return True

    def readinto(self, into: Any) -> int:
        while not self._text and self._unpack():
            pass
        count = min(len(into), len(self._text))
        into[:count], self._text = self._text[:count], self._text[count:]
        return count

    def _unpack(self) -> bool:
        """Unpacks more of the file; False at its end."""
        packed = self._rest or self._file.read(BUFFER // 4)
        self._rest = b""
        if not packed:
            if self._frame is not None:
                raise EOFError("compressed file ended before the end of its last frame")
            return False
        if self._frame is None:
            self._frame = self._library.ZstdDecompressor().decompressobj()
        frame = cast(Any, self._frame)
        try:
            self._text = frame.decompress(packed)
        except self._library.ZstdError as fault:
            raise EOFError(str(fault)) from None
        if frame.eof:
            self._rest, self._frame = frame.unused_data, None
        return True


_KINDS: dict[bytes, tuple[str, Callable[[BinaryIO], Any]]] = {
    b"\x1f\x8b": ("gzip", lambda file: gzip.GzipFile(fileobj=file)),
    b"BZh": ("bzip2", bz2.BZ2File),
    b"\xfd7zXZ\0": ("xz", lzma.LZMAFile),
    b"\x28\xb5\x2f\xfd": ("zstandard", _Zstandard),
}


STEP = 8192
"""Bytes that are unpacked at a time: at most so many may be lost before a damage."""
HEAD = 4096
"""Bytes of a text from which `no_text` judges, at most."""
_OTHERS = {
    b"\xff\xfe\0\0": "UTF-32",
    b"\0\0\xfe\xff": "UTF-32",
    b"\xff\xfe": "UTF-16",
    b"\xfe\xff": "UTF-16",
    b"PK\3\4": "a zip archive",
    b"%PDF-": "a PDF document",
    b"7z\xbc\xaf\x27\x1c": "a 7-Zip archive",
}
_NO_CONTROLS = bytes(c for c in range(256) if c >= 32 or c in b"\t\n\v\f\r\x1b")
_FEW = 4
"""Control characters that text may have wherever they are; beyond, it may have one in twenty."""


def unpacked(file: io.BufferedReader) -> tuple[str, io.BufferedReader]:
    """The kind of an open file, empty for a plain one, and its text. Raises X301 where the library for it is missing."""
    kind = kind_of(file.peek(8))
    for name, unpack in _KINDS.values():
        if name == kind:
            return kind, io.BufferedReader(_UpToDamage(unpack(cast(BinaryIO, file))), BUFFER)
    return "", file


class _UpToDamage(io.RawIOBase):
    """What a packed file holds, a little at a time, so that the lines before a damage are read before its error is raised."""

    def __init__(self, content: BinaryIO):
        self._read: Callable[[int], bytes] = getattr(content, "read1", content.read)

    def readable(self) -> bool:
        return True

    def readinto(self, buffer: Any) -> int:
        some = self._read(min(len(buffer), STEP))
        buffer[: len(some)] = some
        return len(some)


def kind_of(head: bytes) -> str:
    """The kind of a file that begins like this, empty for a plain one."""
    return next((kind for start, (kind, _) in _KINDS.items() if head.startswith(start)), "")


def no_text(head: bytes) -> str:
    """What a text is that begins like this, where it is not text in UTF-8; empty where it may be, with faults in single lines."""
    head = head[:HEAD]
    if named := next((name for start, name in _OTHERS.items() if head.startswith(start)), ""):
        return named
    controls = len(head.translate(None, _NO_CONTROLS))
    if controls < _FEW or controls * 20 < len(head):
        return ""
    # Without a mark of its order, UTF-16 of most languages has a NUL in every other byte.
    first, second = head[::2].count(0), head[1::2].count(0)
    if min(first, second) or (first + second) * 3 <= len(head):
        return "binary data"
    return "UTF-16BE" if first else "UTF-16LE"
