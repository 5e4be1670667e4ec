"""Checksums of files; those of large ones are remembered, so that a corpus of any size opens at once."""

import contextlib
import hashlib
import json
import os
from pathlib import Path

from calque.ground.files import write_whole

LARGE = 1 << 24
"""Bytes from which on a checksum is remembered; smaller files are read each time."""
FILE = ".sums.json"


def checksum(path: Path) -> str:
    """The sha256 of a file's bytes."""
    with open(path, "rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


class Sums:
    """Checksums, remembered in the folder of a prepared corpus where there is one.

    A remembered checksum holds as long as size, time of the last change (of contents and of the entry itself, in nanoseconds) and
    number of the file are the same, as in git's index.
    """

    def __init__(self, folder: Path | None = None):
        self.folder = folder
        self._known: dict[str, list[object]] = {}
        self._changed = False
        if folder is not None:
            with contextlib.suppress(OSError, ValueError):
                held = json.loads((folder / FILE).read_bytes())
                self._known = held if isinstance(held, dict) else {}

    def of(self, path: Path) -> str:
        """The sha256 of a file's bytes. Raises OSError."""
        state = os.stat(path)
        if state.st_size < LARGE or self.folder is None:
            return checksum(path)
        name, stamp = self._name(path), [state.st_size, state.st_mtime_ns, state.st_ctime_ns, state.st_ino]
        match self._known.get(name):
            case [*before, str(known)] if before == stamp:
                return known
        found = checksum(path)
        self._known[name], self._changed = [*stamp, found], True
        return found

    def _name(self, path: Path) -> str:
        return path.name if path.parent == self.folder else os.path.abspath(path)

    def remember(self) -> None:
        """Writes what was computed into the folder, if it can be written."""
        if self._changed and self.folder is not None and self.folder.is_dir():
            with contextlib.suppress(OSError):
                write_whole(self.folder / FILE, json.dumps(self._known).encode())
            self._changed = False
