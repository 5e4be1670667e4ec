"""Runs tasks by an executor until all have ended. What is done is read from their folders, never from an executor."""

import enum
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from calque.ground.diagnostics import CalqueError, error
from calque.ground.lease import Holder, Observer
from calque.train.standing import Signals
from calque.workflow.jobs.command import HELD, Executor, Job

LOSSES = 3
"""A task whose process is lost so often in a row, without a new saved state, has failed."""
TICK = 0.3
"""Seconds between two looks at the executor."""
LOOK = 2.0
"""Seconds between two looks at the folders."""
VISIBLE = 60.0
"""Seconds until a file that another machine has written is seen here, at most: shared file systems take their time."""
AGAIN = 20.0
"""Seconds until a task is tried again whose process found that another one works on it."""


class TaskState(enum.Enum):
    """Where a task stands; HELD: another call runs it."""

    QUEUED = "queued"
    RUNNING = "running"
    HELD = "elsewhere"
    DONE = "finished"
    FAILED = "failed"


@dataclass(frozen=True)
class Task:
    """A job, the lease that its process holds, and what its folder says."""

    job: Job
    lease: Path
    outcome: Callable[[], str | None]
    """What came of it, in words; None as long as it is not finished."""


@dataclass
class Progress:
    """What is known of a task."""

    task: Task
    observer: Observer
    state: TaskState = TaskState.QUEUED
    outcome: str = ""
    """Of a finished task, what came of it; of a failed one, why."""
    began: float = 0.0
    """When it was started, in seconds of this machine's clock since an arbitrary moment."""
    ended: float = 0.0
    later: float = 0.0
    """It is not tried again before."""
    silent: float | None = None
    """Its command has ended as a finished one does, and until then its result may come into sight."""
    losses: int = 0
    saved: object = None
    """The saved state, when its process was lost last."""
    holder: Holder | None = None

    @property
    def note(self) -> Mapping[str, object]:
        """What its process last said of its work."""
        return self.observer.last.note if self.observer.last is not None else {}


@dataclass
class Sweep:
    """Tasks that are run by an executor. `changed` is called when a task changes its state, `looked` every few seconds."""

    tasks: Sequence[Task]
    executor: Executor
    changed: Callable[[Progress], None] = lambda one: None
    looked: Callable[[], None] = lambda: None
    progress: dict[str, Progress] = field(default_factory=dict)

    def __post_init__(self) -> None:
        self.progress = {task.job.name: Progress(task, Observer(task.lease)) for task in self.tasks}

    def run(self) -> int | None:
        """Runs all tasks that are not finished; returns the number of the signal that stopped it."""
        look = 0.0
        with Signals() as signals:
            while True:
                self._collect()
                if signals.received is not None:
                    self.executor.stop()
                    return signals.received
                if time.monotonic() >= look:
                    self._look()
                    look = time.monotonic() + LOOK
                self._start()
                if not self.some(TaskState.QUEUED, TaskState.RUNNING, TaskState.HELD):
                    self.looked()
                    self.executor.stop()
                    return None
                time.sleep(TICK)

    def some(self, *states: TaskState) -> list[Progress]:
        """The tasks in these states, in their order."""
        return [one for one in self.progress.values() if one.state in states]

    def _collect(self) -> None:
        """What has ended since the last time."""
        for name, status in self.executor.ended().items():
            one = self.progress[name]
            one.holder = one.observer.holder()
            if one.state is not TaskState.RUNNING or self._finished(one):
                continue
            if status == HELD:
                one.later = time.monotonic() + AGAIN
                self._move(one, TaskState.HELD)
            elif status is None or status < 0 or status >= 128:
                self._lose(one)
            elif status == 0:
                one.silent = time.monotonic() + VISIBLE
            else:
                self._fail(one, f"its command ended with status {status}")

    def _lose(self, one: Progress) -> None:
        """Its process was killed, or its machine is gone: another one takes it up, unless that comes to nothing again and again."""
        saved = one.note.get("saved")
        one.losses = 1 if saved not in (None, one.saved) else one.losses + 1
        one.saved = one.saved if saved is None else saved
        if one.losses >= LOSSES:
            self._fail(one, f"its process was lost {one.losses} times without a new saved state")
        else:
            self._move(one, TaskState.QUEUED, "its process was lost")

    def _look(self) -> None:
        """The folders of what is not finished."""
        for one in self.some(TaskState.RUNNING, TaskState.HELD, TaskState.QUEUED):
            # With a number of workers, one is free only when its process has ended.
            ended = one.state is not TaskState.RUNNING or self.executor.capacity is None or one.silent is not None
            if ended and self._finished(one):
                continue
            one.holder = one.observer.holder()
            if one.silent is not None and time.monotonic() > one.silent:
                self._fail(one, "its command ended without a result")
            elif one.state is TaskState.HELD and one.holder is None and time.monotonic() >= one.later:
                self._move(one, TaskState.QUEUED)
            elif one.state is TaskState.QUEUED and one.holder is not None:
                self._move(one, TaskState.HELD)
        self.looked()

    def _start(self) -> None:
        """Starts what there is room for."""
        room, waiting = self.executor.capacity, self.some(TaskState.QUEUED)
        if room is not None:
            waiting = waiting[: max(0, room - len(self.some(TaskState.RUNNING)))]
        for one in waiting:
            try:
                self.executor.start(one.task.job)
            except (CalqueError, OSError):
                self.executor.stop()
                raise
            one.began = one.began or time.monotonic()
            self._move(one, TaskState.RUNNING)

    def _finished(self, one: Progress) -> bool:
        """Whether its folder says that it is done."""
        if (outcome := one.task.outcome()) is None:
            return False
        self._move(one, TaskState.DONE, outcome)
        return True

    def _fail(self, one: Progress, reason: str) -> None:
        self._move(one, TaskState.FAILED, reason)

    def _move(self, one: Progress, state: TaskState, outcome: str = "") -> None:
        one.state, one.outcome = state, outcome
        if state in (TaskState.DONE, TaskState.FAILED):
            one.ended = time.monotonic()
        self.changed(one)


def failures(sweep: Sweep) -> CalqueError | None:
    """K409, with the tasks that failed and where they tell why; None where none failed."""
    if not (failed := sweep.some(TaskState.FAILED)):
        return None
    names = [f"{one.task.job.title}: {one.outcome}: {one.task.job.log}" for one in failed]
    return error("K409", None, count=len(failed), total=len(sweep.progress), names=names)
