"""Notices that another process of a training is frozen, stuck or gone, and ends this one.

Every process writes its beat into the store that `torchrun` keeps: what it has done, and while it waits for the others, or is at
work that shows no progress, how often it has looked. A beat that does not change for too long is that of a process that hangs.
"""

import contextlib
import math
import os
import signal
import socket
import sys
import threading
import time
from collections.abc import Iterator
from typing import Protocol, cast

from torch import distributed

from calque.ground.diagnostics import error, render_all

EVERY = 1.0
"""Seconds between two beats."""
VARIABLE, LIMIT = "CALQUE_HANG_SECONDS", 20.0
"""Seconds without progress after which a process counts as hanging; the variable sets others."""
START = 60.0
"""Seconds that a process may be later than another one at its first beat: where one reads the same program from a slow disk."""
LONGEST, FIRST = 5.0, 3
"""A process may take so many times the longest time that it has needed between two signs of progress, and is not judged by
progress before it has shown so many."""


def limit() -> float:
    """The limit in seconds. Raises X443 where the variable holds no number of seconds."""
    text = os.environ.get(VARIABLE, str(LIMIT))
    try:
        seconds = float(text)
    except ValueError:
        seconds = math.nan
    if not 1 <= seconds < math.inf:
        raise error("X443", None, name=VARIABLE, found=text)
    return seconds


class Store(Protocol):
    """What is used of torch's store."""

    def set(self, key: str, value: str) -> None: ...
    def get(self, key: str) -> bytes: ...
    def check(self, keys: list[str]) -> bool: ...


def connect(hosts: bool) -> Store:
    """The store that all processes share, apart for each attempt; `hosts`: this process keeps it where `torchrun` does not."""
    place = os.environ["MASTER_ADDR"], int(os.environ["MASTER_PORT"])
    kept = os.environ.get("TORCHELASTIC_USE_AGENT_STORE") == "True"
    store = distributed.TCPStore(*place, is_master=hosts and not kept, wait_for_workers=False)  # type: ignore[attr-defined]  # torch's own
    attempt = os.environ.get("TORCHELASTIC_RESTART_COUNT", "0")
    return cast("Store", distributed.PrefixStore(f"calque/{attempt}", store))  # type: ignore[attr-defined]  # torch's own


class Heartbeat:
    """The beats of this process, and its view of the others."""

    def __init__(self, rank: int, total: int, seconds: float):
        self.rank, self.total, self.limit = rank, total, seconds
        self._done = self._shown = self._looks = 0
        self._uncounted = True
        self._last, self._longest = time.monotonic(), 0.0
        self._changed: dict[int, tuple[str, float]] = {}
        self._stop = threading.Event()
        self._store = connect(hosts=False)  # of its own: the group's is busy while an operation waits
        self._store.set(f"place/{rank}", f"{socket.gethostname()} {os.getpid()}")
        self.beat()  # at once: what has not begun to beat may take longer, and a process may be lost in its first second
        threading.Thread(target=self._run, daemon=True).start()

    def progress(self) -> None:
        """Notes that this process is at work."""
        self._note()
        self._shown += 1

    def _note(self) -> None:
        """Ends a piece of work: how long it took says how long the next one may take."""
        now = time.monotonic()
        if not self._uncounted:
            self._longest = max(self._longest, now - self._last)
        self._last, self._done = now, self._done + 1

    @contextlib.contextmanager
    def uncounted(self) -> Iterator[None]:
        """While this process waits for the others, or is at work that shows no progress: only its looks are seen."""
        self._note()
        before, self._uncounted = self._uncounted, True
        try:
            yield
        finally:
            self._note()
            self._uncounted = before

    def count(self) -> None:
        """From now on progress is expected."""
        self._uncounted = False

    def stop(self) -> None:
        """No more beats: the training is at its end."""
        self._stop.set()
        with contextlib.suppress(Exception):
            self._store.set(f"beat/{self.rank}", "end")

    def lost(self) -> int | None:
        """The process whose beats have ended, as far as some seconds show."""
        until = time.monotonic() + 6 * EVERY
        while time.monotonic() < until:
            late = [(when, rank) for rank, (_, when) in self._changed.items() if rank != self.rank]
            if late and time.monotonic() - min(late)[0] > 3 * EVERY:
                return min(late)[1]
            time.sleep(EVERY / 4)
        return None

    def beat(self) -> None:
        """Writes the beat of this process: what it has done, its looks where only they count, and the seconds it may take."""
        self._looks += 1
        unjudged = self._uncounted or self._shown < FIRST
        allowed = self.limit if unjudged else max(self.limit, LONGEST * self._longest)
        self._store.set(f"beat/{self.rank}", f"{self._done}:{self._looks if unjudged else 0}:{allowed}")

    def hanging(self) -> list[int]:
        """The other processes that hang."""
        return [rank for rank in range(self.total) if rank != self.rank and self._hangs(rank)]

    def _run(self) -> None:
        while not self._stop.wait(EVERY):
            try:
                self.beat()
                hanging = self.hanging()
            except Exception:  # the store is gone: so is whoever kept it
                return
            if hanging:
                self._end(hanging)

    def _end(self, hanging: list[int]) -> None:
        """Ends this process, and those that hang where they run on the same machine; one process says so."""
        host, _ = self._place(self.rank)
        places = [self._place(rank) for rank in hanging]
        if self.rank == min(set(range(self.total)) - set(hanging)):
            seconds = math.floor(
                min(self._allowed(self._beat_of(hanging[0])), time.monotonic() - self._changed[hanging[0]][1])
            )
            print(render_all(error("K404", None, rank=hanging[0], seconds=seconds).diagnostics), file=sys.stderr)
            sys.stderr.flush()
        for other, number in places:
            if other == host:
                with contextlib.suppress(OSError):
                    os.kill(int(number), signal.SIGKILL)
        os._exit(1)  # before the connection that breaks now is reported as well

    def _place(self, rank: int) -> tuple[str, str]:
        key = f"place/{rank}"
        host, _, number = str(self._store.get(key).decode()).rpartition(" ") if self._store.check([key]) else ("",) * 3
        return host, number

    def _hangs(self, rank: int) -> bool:
        beat, now = self._beat_of(rank), time.monotonic()
        before, since = self._changed.get(rank, ("", now))
        if beat != before or rank not in self._changed:
            self._changed[rank] = beat, now
            return False
        return now - since > self._allowed(beat)

    def _beat_of(self, rank: int) -> str:
        """Its last beat; empty before the first."""
        key = f"beat/{rank}"
        return self._store.get(key).decode() if self._store.check([key]) else ""

    def _allowed(self, beat: str) -> float:
        """The seconds after which another one is due."""
        if beat == "end":  # none
            return math.inf
        return float(beat.rpartition(":")[2]) if beat else max(self.limit, START)
