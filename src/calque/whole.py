"""Files and folders that are written whole or not at all."""

import contextlib
import fcntl
import os
import re
import shutil
import tempfile
from collections.abc import Callable, Iterator
from pathlib import Path


def write_whole(path: Path, body: bytes) -> None:
    """Writes a file whole or not at all: a temporary name in its folder, fsync of file and folder, rename.

    A link is followed and stays one. A pipe or a device cannot be renamed over: it is written to as it is.
    """
    if path.exists() and not (path.is_file() or path.is_dir()):
        path.write_bytes(body)
        return
    path = Path(os.path.realpath(path))
    temporary = stage(path, body)
    try:
        os.replace(temporary, path)
    except BaseException:
        temporary.unlink(missing_ok=True)
        raise
    sync_folder(path.parent)


def stage(path: Path, body: bytes) -> Path:
    """Writes a file under a temporary name beside `path`, and makes it last; whoever renames it has written it whole."""
    handle, name = tempfile.mkstemp(dir=path.parent, prefix=f".{path.name}.")
    temporary = Path(name)
    try:
        with open(handle, "wb") as file:
            file.write(body)
            file.flush()
            os.fsync(file.fileno())
        os.chmod(temporary, 0o644)  # mkstemp's 0600 is for secrets
    except BaseException:
        temporary.unlink(missing_ok=True)
        raise
    return temporary


def sweep(folder: Path, name: str) -> None:
    """Deletes the temporary files that killed processes left of files whose names match `name`, a regular expression."""
    for path in folder.iterdir():
        if re.fullmatch(rf"\.({name})\..+", path.name) and path.is_file():
            path.unlink()


def sync_folder(folder: Path) -> None:
    """Makes the names in a folder survive a power cut."""
    handle = os.open(folder, os.O_RDONLY)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)


@contextlib.contextmanager
def made(folder: Path) -> Iterator[None]:
    """Makes a folder and its parents; those that were missing are removed again where an error leaves them empty."""
    missing = [path for path in (folder, *folder.parents) if not path.exists()]
    folder.mkdir(parents=True, exist_ok=True)
    try:
        yield
    except BaseException:
        with contextlib.suppress(OSError):  # the first that is not empty ends it
            for path in missing:
                path.rmdir()
        raise


@contextlib.contextmanager
def alone(folder: Path, tell: Callable[[str], None]) -> Iterator[None]:
    """Holds a lock on the parent of `folder`: processes of one training may all come here, the first does the work."""
    with made(folder.parent):
        handle = os.open(folder.parent, os.O_RDONLY)
        try:
            _lock(handle, tell)
            _restore(folder)
            yield
        finally:
            os.close(handle)


@contextlib.contextmanager
def only(path: Path, tell: Callable[[str], None] | None = None) -> Iterator[bool]:
    """Holds a lock on a file, made where it is missing, and says whether it was free; where locks are unknown it was.

    With `tell` it is waited for, and that is told.
    """
    handle = os.open(path, os.O_RDWR | os.O_CREAT, 0o644)
    try:
        yield _lock(handle, tell)
    finally:
        os.close(handle)


def _lock(handle: int, tell: Callable[[str], None] | None) -> bool:
    """Whether an open file could be locked; with `tell` it is waited for."""
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
    """An empty folder that takes the place of `folder` when all went well, and disappears when not. Use inside `alone`.

    Between two renames `folder` is missing for a moment; who is killed there finds it put back by the next `alone`.
    """
    temporary, old = _beside(folder, "new"), _beside(folder, "old")
    for stale in (temporary, old):  # of a process that was killed
        if stale.exists():
            shutil.rmtree(stale)
    temporary.mkdir()
    try:
        yield temporary
        for path in temporary.iterdir():
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


def _restore(folder: Path) -> None:
    old = _beside(folder, "old")
    if old.exists() and not folder.exists():
        os.rename(old, folder)


def _beside(folder: Path, part: str) -> Path:
    return folder.with_name(f".{folder.name}.{part}")
