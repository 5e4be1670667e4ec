"""Long work of the studio in processes of its own, which report line by line and can be stopped."""

import contextlib
import itertools
import json
import signal
import subprocess
import sys
import threading
from collections.abc import Callable, Mapping
from pathlib import Path

from calque.ground.diagnostics import Diagnostic, error
from calque.studio.faults import fault_json

MODULE = "calque.studio.work"
Tell = Callable[[str, Mapping[str, object]], None]
"""How the work in a process reports: the kind of an event, and its values."""
PATIENCE = 10.0
"""Seconds that a process has to end by itself when the studio ends."""


class Job:
    """Work in a process, and what it has reported. It can be started again, and then reports more."""

    def __init__(self, key: str, kind: str):
        self.key, self.kind = key, kind
        self.asked: Mapping[str, object] = {}
        """What it works on."""
        self.events: list[dict[str, object]] = []
        self._lock = threading.Lock()
        self._process: subprocess.Popen[str] | None = None
        self._follower: threading.Thread | None = None
        self._stopping = False

    def start(self, asked: Mapping[str, object]) -> None:
        """Starts the process. It ends when the studio ends, in whatever way: its standard input is then closed."""
        self.asked = asked
        process = subprocess.Popen(
            [sys.executable, "-m", MODULE, self.kind],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
            encoding="utf-8",
            start_new_session=True,  # Ctrl-C at the terminal is for the studio, which then ends its processes
        )
        self._process, self._stopping = process, False
        assert process.stdin is not None
        with contextlib.suppress(BrokenPipeError):
            process.stdin.write(json.dumps(asked) + "\n")
            process.stdin.flush()
        self._follower = threading.Thread(target=self._follow, args=(process,), daemon=True)
        self._follower.start()

    @property
    def running(self) -> bool:
        """Whether it has not ended yet, or its last event is not in the list."""
        return self._follower is not None and self._follower.is_alive()

    def report(self, after: int) -> dict[str, object]:
        """The events after the first `after`, and whether more can come."""
        running = self.running  # before the events: none is missed
        with self._lock:
            return {"job": self.key, "running": running, "events": self.events[max(0, after) :]}

    def stop(self) -> None:
        """Asks the process to stop, once: a training keeps its state, a proof ends at once."""
        with self._lock:
            process, stopping, self._stopping = self._process, self._stopping, True
        if not stopping and process is not None and process.poll() is None:
            process.send_signal(signal.SIGINT if self.kind == "play" else signal.SIGKILL)

    def end(self) -> None:
        """Ends the process, at the end of the studio."""
        process = self._process
        if process is None or process.stdin is None:
            return
        with contextlib.suppress(OSError):
            process.stdin.close()
        try:
            process.wait(PATIENCE)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()

    def _follow(self, process: "subprocess.Popen[str]") -> None:
        assert process.stdout is not None
        ended = False
        for line in process.stdout:
            with contextlib.suppress(ValueError):
                event = json.loads(line)
                if not isinstance(event, dict):  # a layer of the user may print to the same file
                    continue
                ended = ended or event.get("kind") in ("end", "fault", "stopped")
                with self._lock:
                    self.events.append(event)
        status = process.wait()
        process.stdout.close()
        if process.stdin is not None:
            with contextlib.suppress(OSError):  # of a process that has not read what was asked
                process.stdin.close()
        if ended:
            return
        last: dict[str, object] = {"kind": "stopped"}
        if status != -signal.SIGKILL:
            last = {"kind": "fault", "faults": [fault_json(Diagnostic("K443", None, {"status": status}))]}
        with self._lock:
            self.events.append(last)


class Jobs:
    """All work of a studio. Of each kind one is in progress at most: machines that people sit at have few cores."""

    def __init__(self, folder: Path, plugins: tuple[str, ...]):
        self.folder, self.plugins = folder, plugins
        self._jobs: dict[str, Job] = {}
        self._numbers = itertools.count(1)
        self._lock = threading.Lock()

    def start(self, kind: str, asked: Mapping[str, object]) -> Job:
        """Starts work. Raises K444 where a training is in progress; a proof or an analysis in progress gives way."""
        with self._lock:
            for other in self._jobs.values():
                if other.kind == kind and other.running:
                    if kind == "play":
                        raise error("K444")
                    other.stop()
            names = (f"{kind}-{number}" for number in self._numbers)
            key = next(name for name in names if not (self.folder / name).exists())  # `--folder` may hold older ones
            job = self._jobs[key] = Job(key, kind)
            job.start({**asked, "folder": str(self.folder / key), "plugins": self.plugins})
            return job

    def again(self, key: str, asked: Mapping[str, object]) -> Job:
        """Starts work that has ended again, in its folder. Raises K444 and what `find` raises."""
        job = self.find(key)
        with self._lock:
            if any(other.kind == job.kind and other.running for other in self._jobs.values()):
                raise error("K444")
            job.start({**asked, "folder": str(self.folder / key), "plugins": self.plugins})
            return job

    def find(self, key: str, kind: str | None = None) -> Job:
        """The work of this name, and of this kind where one is given. Raises K445."""
        job = self._jobs.get(key)
        if job is None or kind not in (None, job.kind):
            raise error("K445", None, name=key)
        return job

    def running(self) -> list[dict[str, object]]:
        """The work in progress, for a page that is loaded again; `seconds` is the time of a training."""
        with self._lock:
            found = [job for job in self._jobs.values() if job.running]
        return [{"job": job.key, "kind": job.kind, "seconds": job.asked.get("seconds")} for job in found]

    def end(self) -> None:
        """Ends all work."""
        for job in self._jobs.values():
            job.end()
