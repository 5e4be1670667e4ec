"""Unfinished work on a corpus, beside its folder: a call that was stopped or killed is continued by the next."""

import contextlib
import json
import os
import shutil
from pathlib import Path
from typing import Any, BinaryIO

from calque.ground.files import write_whole

_FILE = "progress.json"


class PartFolder:
    """A folder of files that only grow, and what is known to be complete of them.

    Work is secured by `commit`: the sizes of the open files with `state`, whatever describes them. After a kill, each file is cut
    back to the size that was secured last. What belongs to another `digest` is deleted. `large`: the ends of stages are secured.
    """

    def __init__(self, path: Path, digest: str, large: bool):
        self.path, self.digest, self.large = path, digest, large
        self.state: dict[str, Any] = {}
        self._sizes: dict[str, int] = {}
        self._open: dict[str, BinaryIO] = {}
        held: dict[str, Any] = {}
        with contextlib.suppress(OSError, ValueError):
            held = json.loads((path / _FILE).read_bytes())
        if held.get("digest") == digest:
            self.state, self._sizes = held["state"], held["sizes"]
        else:
            shutil.rmtree(path, ignore_errors=True)
        self.made = path / "made"
        """The files of the corpus itself."""
        self.made.mkdir(parents=True, exist_ok=True)

    @property
    def secured(self) -> bool:
        """Whether there is work that another call can continue."""
        return bool(self.state)

    def append(self, name: str) -> BinaryIO:
        """A file, open where the secured part of it ends; it is closed by `close`."""
        path = self.path / name
        file = open(path, "r+b" if path.exists() else "w+b")  # noqa: SIM115 - closed by `close`
        file.truncate(self._sizes.get(name, 0))
        file.seek(0, os.SEEK_END)
        self._open[name] = file
        return file

    def commit(self, **state: Any) -> None:
        """Secures the open files and these entries of `state`."""
        for name, file in self._open.items():
            file.flush()
            os.fsync(file.fileno())
            self._sizes[name] = file.tell()
        self.state |= state
        written = {"digest": self.digest, "state": self.state, "sizes": self._sizes}
        write_whole(self.path / _FILE, json.dumps(written).encode())

    def stage(self, **state: Any) -> None:
        """The end of a stage, which is secured where the work is large, or a part of it has been secured."""
        if self.large or self.secured:
            self.commit(**state)

    def close(self) -> None:
        """Closes the open files, also where one of them cannot be written; raises OSError then."""
        with contextlib.ExitStack() as each:
            for file in self._open.values():
                each.callback(file.close)
            self._open = {}

    def remove(self) -> None:
        """Deletes the folder."""
        self.close()
        shutil.rmtree(self.path, ignore_errors=True)
