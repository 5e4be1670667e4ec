"""The three standard streams of a command: each exists, is UTF-8, and fails in one known way."""

import errno
import io
import os
import select
import sys
from collections.abc import Callable
from typing import TYPE_CHECKING

from calque.ground.diagnostics import Place, error, reason_of

if TYPE_CHECKING:
    from _typeshed import ReadableBuffer


class ReaderGone(Exception):
    """The program that read stdout has closed its end of the pipe."""


class _Stdout(io.FileIO):
    """Descriptor 1. Raises K301 or `ReaderGone` once where it cannot write; later writes do nothing."""

    failed = False

    def write(self, data: "ReadableBuffer", /) -> int:
        if self.failed:
            return memoryview(data).nbytes
        try:
            return _written(super().write, self, data)
        except BrokenPipeError:
            self.failed = True
            raise ReaderGone from None
        except OSError as e:
            self.failed = True
            reason = "it is closed" if e.errno == errno.EBADF else reason_of(e)
            raise error("K301", Place("stdout"), reason=reason) from None


class _Stderr(io.FileIO):
    """Descriptor 2. A message that cannot be written is lost; the command continues."""

    def write(self, data: "ReadableBuffer", /) -> int:
        try:
            return _written(super().write, self, data)
        except OSError:
            return memoryview(data).nbytes


def _written(write: "Callable[[ReadableBuffer], int | None]", file: io.FileIO, data: "ReadableBuffer") -> int:
    """Writes data and returns the number of bytes; waits where another program has made the stream non-blocking."""
    while (count := write(data)) is None:
        select.select([], [file], [])
    return count


def open_streams() -> None:
    """Makes `sys.stdout` and `sys.stderr` streams of the classes above, and opens descriptors 0 to 2 where they are closed.

    Otherwise the next file that is opened would get the closed descriptor, and messages would be written into that file. Streams
    that other code has put into `sys` stay.
    """
    for number in range(3):
        try:
            os.fstat(number)
        except OSError:
            # In the wrong direction: reading stdin and writing stdout fail, as on a closed descriptor.
            os.open(os.devnull, os.O_RDONLY if number == 1 else os.O_WRONLY)
    if sys.stdout is sys.__stdout__:
        sys.stdout = _text(_Stdout(1, "w", closefd=False), "surrogateescape")  # names of files need not be UTF-8
    elif isinstance(sys.stdout, io.TextIOWrapper):
        sys.stdout.reconfigure(encoding="utf-8")  # text is UTF-8 in every locale, as it is read
    if sys.stderr is sys.__stderr__:
        sys.stderr = _text(_Stderr(2, "w", closefd=False), "backslashreplace")


def _text(raw: io.FileIO, errors: str) -> io.TextIOWrapper:
    lines = raw.isatty() or raw.fileno() == 2
    return io.TextIOWrapper(io.BufferedWriter(raw), encoding="utf-8", errors=errors, line_buffering=lines)
