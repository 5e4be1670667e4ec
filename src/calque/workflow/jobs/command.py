"""A job: one command of Calque that may be called again and again, and its process wherever an executor starts it."""

import contextlib
import os
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Protocol

HELD = 75
"""The exit status of a job that another process is at work on."""
STARTER = "CALQUE_STARTER"
"""The variable with the number of the process that a job ends with."""
GRACE = 60.0
"""Seconds in which a job that is asked to end saves its state."""


@dataclass(frozen=True)
class Job:
    """A command of Calque, from its name on as files are called to the file that takes what it prints."""

    name: str
    title: str
    arguments: tuple[str, ...]
    log: Path


class Executor(Protocol):
    """Runs jobs somewhere. A job is a command whose folders say what is done; an executor only starts it."""

    capacity: int | None
    """Jobs that may be started at a time; None: it has a queue of its own."""
    leaves: bool
    """Whether jobs go on when the call ends."""

    def start(self, job: Job) -> None:
        """Starts a job, or puts it into the queue."""

    def ended(self) -> Mapping[str, int | None]:
        """The exit status of each job that has ended since the last call; negative, or None, where its process was lost."""

    def stop(self) -> None:
        """Asks all jobs to save their state and end, and waits until they have."""


@dataclass(frozen=True)
class JobCommand:
    """The process of a job: it can be sent to another machine that sees the same folders."""

    arguments: tuple[str, ...]
    log: Path
    folder: Path = field(default_factory=Path.cwd)
    threads: int = 0
    """0: as many as torch takes."""
    cores: tuple[int, ...] = ()
    """The cores that it may use; empty: all."""
    devices: str | None = None
    """The GPUs that it may use, as CUDA_VISIBLE_DEVICES; None: all."""

    def start(self) -> "subprocess.Popen[bytes]":
        """Starts it. It ends, with its state saved, soon after this process; signals of the terminal do not reach it."""
        variables = dict(os.environ) | {STARTER: str(os.getpid())}
        if self.threads:
            variables |= dict.fromkeys(("OMP_NUM_THREADS", "MKL_NUM_THREADS"), str(self.threads))
        if self.devices is not None:
            variables["CUDA_VISIBLE_DEVICES"] = self.devices
        (self.folder / self.log).parent.mkdir(parents=True, exist_ok=True)
        with open(self.folder / self.log, "ab") as log:
            process = subprocess.Popen(
                [sys.executable, "-m", "calque", *self.arguments],
                cwd=self.folder,
                env=variables,
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
                start_new_session=True,
            )
        if self.cores:
            with contextlib.suppress(OSError):  # it has ended, or these cores were taken away
                os.sched_setaffinity(process.pid, self.cores)
        return process


def finish(process: "subprocess.Popen[bytes]", grace: float = GRACE) -> int:
    """Asks a process to save its state and end, and waits for that; then it is ended. Returns its exit status."""
    process.terminate()
    try:
        return process.wait(grace)
    except subprocess.TimeoutExpired:
        process.kill()
        return process.wait()


def end_with_starter() -> None:
    """In the process of a job: when the process that started it is gone, it is asked to end, as by a person.

    A job of Slurm does not end with the call of `calque reproduce`, but with the process that Slurm has started.
    """
    # Schedulers tell the process that starts a job; it does what is needed.
    for number in (signal.SIGUSR1, signal.SIGUSR2):
        signal.signal(number, signal.SIG_IGN)
    starter = os.environ.pop(STARTER, "")
    if starter.isdigit():
        threading.Thread(target=_watch, args=(int(starter),), daemon=True).start()


def _watch(starter: int) -> None:
    while os.getppid() == starter:
        time.sleep(1.0)
    os.kill(os.getpid(), signal.SIGTERM)
