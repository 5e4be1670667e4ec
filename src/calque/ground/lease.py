"""Leases: locks that say who holds them, and that pass to another process when their holder is dead, on whatever machine it ran.

The locks of `calque.ground.files` are the system's. Not every file system that several machines share has them, and on some a lock
of one machine is not seen by another. A lease needs only that a file can be created by one process alone.

The lease of NAME is a row of files NAME.lease-0001, -0002, and so on. The newest one counts. Its holder rewrites it every few
seconds; who finds that the holder has ended creates the next one, which only one process can do. No file is ever deleted: a number
that could come twice could have two holders, and a listing of a folder may miss both a file that is deleted and its successor. So a
holder that comes back from a suspension sees that it has lost.
"""

import contextlib
import dataclasses
import json
import os
import re
import socket
import threading
import time
import uuid
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path

EVERY = 3.0
"""Seconds between two beats of a holder."""
PATIENCE = 60.0
"""A holder on another machine that has not written for so many seconds is dead. The clock is that of who looks."""
_NUMBER = re.compile(r"\.lease-(\d{4,})")


@dataclass(frozen=True)
class Holder:
    """Who holds a lease, as its file says; `note` is what it is doing."""

    token: str
    host: str = ""
    pid: int = 0
    place: str = ""
    """The machine since its last start, and the space of process numbers; empty where the system names neither."""
    born: str = ""
    """When the process began, in the system's own count."""
    beat: int = 0
    free: bool = False
    note: Mapping[str, object] = field(default_factory=dict)

    @property
    def ended(self) -> bool | None:
        """Whether its process has ended; None where that cannot be known, because it ran elsewhere."""
        if self.free:
            return True
        if not self.place or self.place != _place():
            return None
        return _born(self.pid) != self.born


class Observer:
    """Looks at a lease again and again, without taking part."""

    def __init__(self, path: Path, patience: float = PATIENCE):
        self.path, self.patience = path, patience
        self.last: Holder | None = None
        """The holder as it was last seen, dead ones included."""
        self._changed = 0.0

    def holder(self) -> Holder | None:
        """Who holds the lease; None where it is free or its holder is dead."""
        return self.look()[1]

    def look(self) -> tuple[int, Holder | None]:
        """The number of the newest file, 0 where there is none, and who holds the lease."""
        number, seen = _newest(self.path)
        if seen is None:
            return number, None
        now = time.monotonic()
        if self.last is None or (seen.token, seen.beat) != (self.last.token, self.last.beat):
            self._changed = now
        self.last, ended = seen, seen.ended
        if ended is None:
            ended = now - self._changed > self.patience
        return number, None if ended else seen


class Lease:
    """A lease that this process holds: a thread keeps it. Where another process has taken it, `lost` is called."""

    def __init__(self, path: Path, number: int, holder: Holder, lost: Callable[[], None]):
        self._file, self._path, self._number, self._lost = _file(path, number), path, number, lost
        self._holder, self._end, self._changing = holder, threading.Event(), threading.Lock()
        self._thread = threading.Thread(target=self._keep, daemon=True)
        self._thread.start()

    def note(self, **values: object) -> None:
        """Tells, from the next beat on, what this process is doing."""
        with self._changing:
            self._holder = dataclasses.replace(self._holder, note={**self._holder.note, **values})

    def release(self) -> None:
        """Gives the lease back, with its last note."""
        self._end.set()
        self._thread.join()
        if not self._taken:
            self._write(free=True)

    @property
    def _taken(self) -> bool:
        return max(_numbers(self._path), default=0) > self._number

    def _keep(self) -> None:
        while not self._end.wait(EVERY):
            if self._taken:
                self._lost()
                return
            self._write()

    def _write(self, free: bool = False) -> None:
        """A beat. One that cannot be written is left out: if that lasts, another process takes the lease."""
        with self._changing:
            self._holder = dataclasses.replace(self._holder, beat=self._holder.beat + 1, free=free)
            written = json.dumps(dataclasses.asdict(self._holder))
        temporary = self._file.with_name(f".{self._file.name}.{self._holder.token}")
        with contextlib.suppress(OSError):
            temporary.write_text(written, encoding="utf-8")
            os.replace(temporary, self._file)


@contextlib.contextmanager
def leased(
    path: Path, lost: Callable[[], None], tell: Callable[[str], None] | None = None, patience: float = PATIENCE
) -> Iterator[Lease | None]:
    """Holds the lease of `path`, or gives None where another process holds it and works.

    It waits only where the holder ran on another machine, as long as it takes to see whether that process still writes; `tell` is
    told so. `lost` is called, in another thread, where another process has taken the lease, as after a suspension of this one.
    """
    lease = _take(path, lost, tell or (lambda line: None), patience)
    try:
        yield lease
    finally:
        if lease is not None:
            lease.release()


def _take(path: Path, lost: Callable[[], None], tell: Callable[[str], None], patience: float) -> Lease | None:
    observer, first = Observer(path, patience), None
    while True:
        number, holder = observer.look()
        if holder is not None:
            if first is None and holder.ended is None:
                tell(
                    f"held by process {holder.pid} on {holder.host or 'another machine'}: waiting whether it still works"
                )
            first = first or holder
            if holder.ended is False or (first.token, first.beat) != (holder.token, holder.beat):
                return None
            time.sleep(min(EVERY, patience) / 4)
            continue
        mine = Holder(uuid.uuid4().hex, socket.gethostname(), os.getpid(), _place(), _born(os.getpid()))
        try:
            handle = os.open(_file(path, number + 1), os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o644)
        except FileExistsError:
            continue
        with open(handle, "w", encoding="utf-8") as file:
            json.dump(dataclasses.asdict(mine), file)
        return Lease(path, number + 1, mine, lost)


def _newest(path: Path) -> tuple[int, Holder | None]:
    """The number of the newest file, and its holder. One whose file cannot be read may be about to write it."""
    number = max(_numbers(path), default=0)
    if not number:
        return 0, None
    try:
        return number, Holder(**json.loads(_file(path, number).read_bytes()))
    except (OSError, ValueError, TypeError):
        return number, Holder(f"unreadable {number}")


def _file(path: Path, number: int) -> Path:
    return path.with_name(f"{path.name}.lease-{number:04}")


def _numbers(path: Path) -> list[int]:
    """The numbers of the files of a lease."""
    try:
        with os.scandir(path.parent) as entries:
            names = [entry.name for entry in entries if entry.name.startswith(path.name)]
    except OSError:
        return []
    found = (_NUMBER.fullmatch(name[len(path.name) :]) for name in names)
    return [int(one[1]) for one in found if one]


def _place() -> str:
    """What must be equal for two processes to know of each other by number; empty where the system does not say."""
    try:
        boot = Path("/proc/sys/kernel/random/boot_id").read_text(encoding="ascii").strip()
        return f"{socket.gethostname()} {boot} {os.readlink('/proc/self/ns/pid')}"
    except OSError:
        return ""


def _born(pid: int) -> str:
    """When a process began; empty where it has ended, or has ended and is waited for."""
    try:
        fields = Path(f"/proc/{pid}/stat").read_text(encoding="utf-8", errors="replace").rpartition(")")[2].split()
    except OSError:
        return ""
    return "" if fields[0] in "ZX" else fields[19]
