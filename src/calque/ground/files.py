"""Files and folders that are written completely or not at all."""

import contextlib
import fcntl
import os
import re
import shutil
import tempfile
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import BinaryIO

_RANDOM = r"[a-z0-9_]{8}"
"""What `tempfile` puts at the end of a name."""
_DAY = 86400.0


def write_whole(path: Path, body: bytes) -> None:
    """Writes a file completely or not at all, see `written_whole`."""
    with written_whole(path) as (file,):
        file.write(body)


@contextlib.contextmanager
def written_whole(*paths: Path) -> Iterator[list[BinaryIO]]:
    """Files that are written inside the block, and at its end take the places of `paths`; after an error none does.

    Each is written under a temporary name in its folder; then come fsync of file and folder, and a rename. A link is followed and
    kept. A pipe or a device cannot be replaced and is written directly. Temporary files of the same file from killed processes are
    deleted.
    """
    with contextlib.ExitStack() as stack:
        files: list[BinaryIO] = []
        made: list[tuple[BinaryIO, Path, Path]] = []
        for path in paths:
            if path.exists() and not (path.is_file() or path.is_dir()):
                files.append(stack.enter_context(path.open("wb")))
                continue
            path = Path(os.path.realpath(path))
            with contextlib.suppress(OSError):  # a folder that cannot be listed fails below, if at all
                sweep(path.parent, re.escape(path.name))
            file, temporary = stack.enter_context(_temporary(path))
            files.append(file)
            made.append((file, temporary, path))
        yield files
        for file, temporary, _ in made:
            _complete(file, temporary)
        for _, temporary, path in made:
            os.replace(temporary, path)
        for folder in {path.parent for _, _, path in made}:
            sync_folder(folder)


def unwritable(path: Path) -> str:
    """Why no file can be written here, as far as that is known before; empty where it can."""
    if path.is_dir():
        return "it is a folder"
    return "" if os.access(path.parent, os.W_OK) else "its folder is not there, or cannot be written to"


def portable(path: str) -> str:
    """A path without the folders of one machine: a relative one as it is, of any other the name of the file."""
    return Path(path).name if Path(path).is_absolute() or path.startswith("~") else path


@contextlib.contextmanager
def staged(path: Path, body: bytes) -> Iterator[Path]:
    """A file with these contents under a temporary name beside `path`, complete on disk; the caller renames it.

    It is locked until the end of the block, where it is deleted if it still exists: see `sweep`.
    """
    with _temporary(path) as (file, temporary):
        file.write(body)
        _complete(file, temporary)
        yield temporary


@contextlib.contextmanager
def _temporary(path: Path) -> Iterator[tuple[BinaryIO, Path]]:
    """An empty file beside `path`, locked until the end of the block, where it is deleted if it still exists."""
    handle, temporary = _locked_temporary(path)
    try:
        with open(handle, "wb") as file:
            yield file, temporary
    finally:
        temporary.unlink(missing_ok=True)


def _complete(file: BinaryIO, path: Path) -> None:
    file.flush()
    os.fsync(file.fileno())
    os.chmod(path, 0o644)  # mkstemp's 0600 is for secrets


def _locked_temporary(path: Path) -> tuple[int, Path]:
    while True:
        handle, name = tempfile.mkstemp(dir=path.parent, prefix=f".{path.name}.")
        with contextlib.suppress(OSError):  # a file system without locks
            fcntl.flock(handle, fcntl.LOCK_EX)
        if os.fstat(handle).st_nlink:
            return handle, Path(name)
        os.close(handle)  # a sweep deleted it before it was locked


def sweep(folder: Path, name: str = r".+") -> None:
    """Deletes temporary files of killed processes, for files whose names match the regular expression `name`.

    The system frees the locks of a process when it ends, so that a file with a free lock is in no use. On a file system without
    locks, only files older than a day are deleted.
    """
    pattern = re.compile(rf"\.({name})\.{_RANDOM}")
    with os.scandir(folder) as entries:
        paths = [Path(e.path) for e in entries if pattern.fullmatch(e.name) and e.is_file(follow_symlinks=False)]
    for path in paths:
        with contextlib.suppress(FileNotFoundError), open(path, "rb") as file:
            if _abandoned(file.fileno()):
                path.unlink()


def _abandoned(handle: int) -> bool:
    try:
        fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    except OSError:
        return time.time() - os.fstat(handle).st_mtime > _DAY
    return True


def sync_folder(folder: Path) -> None:
    """Writes the names in a folder to disk, so that they survive a power failure."""
    handle = os.open(folder, os.O_RDONLY)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)


@contextlib.contextmanager
def made(folder: Path) -> Iterator[None]:
    """Makes a folder and its parents; after an error, new folders that are empty are removed again."""
    missing = [path for path in (folder, *folder.parents) if not path.exists()]
    folder.mkdir(parents=True, exist_ok=True)
    try:
        yield
    except BaseException:
        with contextlib.suppress(OSError):  # ends at the first that is not empty
            for path in filter(Path.exists, missing):
                path.rmdir()
        raise


@contextlib.contextmanager
def whole(folder: Path) -> Iterator[None]:
    """Makes an empty folder that is filled inside the block; after an error nothing of it is left."""
    with made(folder):
        try:
            yield
        except BaseException:
            with contextlib.suppress(OSError):
                for part in folder.iterdir():
                    shutil.rmtree(part) if part.is_dir() else part.unlink()
            raise


@contextlib.contextmanager
def alone(folder: Path, tell: Callable[[str], None]) -> Iterator[None]:
    """Holds a lock on the parent of `folder`, so that only one of several processes works there at a time.

    Temporary folders of a killed process are deleted first.
    """
    with made(folder.parent):
        handle = os.open(folder.parent, os.O_RDONLY)
        try:
            _lock(handle, tell)
            _clear_beside(folder)
            yield
        finally:
            os.close(handle)


@contextlib.contextmanager
def only(path: Path, tell: Callable[[str], None] | None = None) -> Iterator[bool]:
    """Holds a lock on a file, which is created where it is missing; gives whether the lock was free.

    With `tell` it waits until the lock is free, and reports that it waits. On a file system without locks, every lock is free.
    """
    handle = os.open(path, os.O_RDWR | os.O_CREAT, 0o644)
    try:
        yield _lock(handle, tell)
    finally:
        os.close(handle)


def _lock(handle: int, tell: Callable[[str], None] | None) -> bool:
    """Whether an open file could be locked; with `tell` it waits for the lock."""
    try:
        fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        if tell is None:
            return False
        tell("waiting for another process that writes here")
        fcntl.flock(handle, fcntl.LOCK_EX)
    except OSError:  # a file system without locks
        pass
    return True


@contextlib.contextmanager
def replacing(folder: Path) -> Iterator[Path]:
    """An empty folder that replaces `folder` at the end of the block, and is deleted after an error. Use inside `alone`.

    Between two renames `folder` is missing for a moment; after a process was killed there, the next `alone` restores it.
    """
    temporary, old = _beside(folder, "new"), _beside(folder, "old")
    temporary.mkdir()
    try:
        yield temporary
        for path in temporary.rglob("*"):
            if path.is_dir():
                sync_folder(path)
                continue
            with open(path, "rb") as file:
                os.fsync(file.fileno())
        sync_folder(temporary)
        if folder.exists():
            os.rename(folder, old)
        os.rename(temporary, folder)
        sync_folder(folder.parent)
    except BaseException:
        _restore(folder)
        shutil.rmtree(temporary, ignore_errors=True)
        raise
    shutil.rmtree(old, ignore_errors=True)


def clear_beside(folder: Path) -> None:
    """Deletes temporary folders of a process that was killed in `replacing`, unless another process works there."""
    if any(_beside(folder, part).exists() for part in ("new", "old")):
        handle = os.open(folder.parent, os.O_RDONLY)
        try:
            if _lock(handle, None):
                _clear_beside(folder)
        finally:
            os.close(handle)


def _clear_beside(folder: Path) -> None:
    _restore(folder)
    for part in ("new", "old"):
        shutil.rmtree(_beside(folder, part), ignore_errors=True)


def _restore(folder: Path) -> None:
    old = _beside(folder, "old")
    if old.exists() and not folder.exists():
        os.rename(old, folder)


def _beside(folder: Path, part: str) -> Path:
    return folder.with_name(f".{folder.name}.{part}")
