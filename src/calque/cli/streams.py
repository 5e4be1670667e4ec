"""The three standard streams of a command: each is there, is UTF-8, and fails in one known way."""

import errno
import io
import os
import select
import sys
from collections.abc import Callable
from typing import Any

from calque.ground.diagnostics import Place, error


class ReaderGone(Exception):
    """The program that read stdout has closed its end of the pipe."""


class _Stdout(io.FileIO):
    """Descriptor 1. What cannot be written is K301, or `ReaderGone`; after that, nothing more is written and nothing fails."""

    failed = False

    def write(self, data: Any, /) -> int:
        if self.failed:
            return len(data)
        try:
            return _written(super().write, self, data)
        except BrokenPipeError:
            self.failed = True
            raise ReaderGone from None
        except OSError as e:
            self.failed = True
            reason = "it is closed" if e.errno == errno.EBADF else (e.strerror or str(e)).lower()
            raise error("K301", Place("stdout"), reason=reason) from None


class _Stderr(io.FileIO):
    """Descriptor 2. A message that cannot be written is lost; the command continues."""

    def write(self, data: Any, /) -> int:
        try:
            return _written(super().write, self, data)
        except OSError:
            return len(data)


def _written(write: Callable[[Any], int | None], file: io.FileIO, data: Any) -> int:
    """Writes data and returns how much was written; waits where another program has made the stream a non-blocking one."""
    while (count := write(data)) is None:
        select.select([], [file], [])
    return count


def open_streams() -> None:
    """Makes `sys.stdout` and `sys.stderr` streams of the classes above, and sees that descriptors 0 to 2 are taken.

    A descriptor that the caller has closed would be given to the next file that is opened, and messages would be written into
    that file. Streams that somebody else has put into `sys` stay.
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
