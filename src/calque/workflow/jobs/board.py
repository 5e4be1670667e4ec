"""The table of all tasks of a sweep: at a terminal one that refreshes, elsewhere a line for each change."""

import shutil
import statistics
import sys
import time
from collections.abc import Callable
from types import TracebackType
from typing import TYPE_CHECKING

from calque.workflow.jobs.sweep import Progress, Sweep, TaskState
from calque.workflow.show import clock

if TYPE_CHECKING:
    from rich.live import Live
    from rich.table import Table

SUMMARY = 60.0
"""Seconds between two summaries where there is no terminal."""
_ORDER = (TaskState.FAILED, TaskState.RUNNING, TaskState.HELD, TaskState.QUEUED, TaskState.DONE)
"""Which are shown where a terminal has too few lines."""
_COLOURS = {TaskState.FAILED: "red", TaskState.RUNNING: "green", TaskState.HELD: "cyan", TaskState.DONE: "dim"}
SUBMITTED = "submitted"
HEAD = ("cell", "state", "done", "perplexity", "BLEU", "left", "where")


class Board:
    """Shows a sweep. Use it as a context around `Sweep.run`."""

    def __init__(self, sweep: Sweep, tell: Callable[[str], None]):
        self._sweep, self._tell = sweep, tell
        self._live: Live | None = None
        self._summary = time.monotonic() + SUMMARY
        sweep.changed, sweep.looked = self._changed, self._looked

    def __enter__(self) -> "Board":
        if sys.stderr.isatty():
            from rich.console import Console
            from rich.live import Live

            self._live = Live(self._table(), console=Console(stderr=True), auto_refresh=False, redirect_stdout=False)
            self._live.start()
        return self

    def __exit__(self, *_: type[BaseException] | BaseException | TracebackType | None) -> None:
        if self._live is not None:
            self._live.update(self._table(), refresh=True)
            self._live.stop()

    def line(self, text: str) -> None:
        """Prints a line above the table."""
        if self._live is not None:
            self._live.console.print(text, highlight=False, markup=False, soft_wrap=True)
        else:
            self._tell(text)

    def _changed(self, one: Progress) -> None:
        outcome = f": {one.outcome}" if one.outcome else ""
        where = f"[{self._count(TaskState.DONE)}/{len(self._sweep.progress)}]"
        state = "started" if state_of(one) == SUBMITTED and self._sweep.executor.capacity else state_of(one)
        self.line(f"{where} {one.task.job.title}: {state}{outcome}")

    def _looked(self) -> None:
        if self._live is not None:
            self._live.update(self._table(), refresh=True)
        elif time.monotonic() >= self._summary:
            self._summary = time.monotonic() + SUMMARY
            self._tell("; ".join([self.summary(), *(_brief(one) for one in self._sweep.some(TaskState.RUNNING))]))

    def summary(self) -> str:
        """How many tasks are in each state, and about how long it takes until all are finished."""
        counts = [(self._count(state), state) for state in TaskState]
        words = ", ".join(f"{count} {state.value}" for count, state in counts if count)
        left = time_left(self._sweep)
        return words if left is None else f"{words}; about {clock(left)} left"

    def rows(self) -> list[tuple[Progress, tuple[str, ...]]]:
        """The lines of the table."""
        return [(one, _row(one)) for one in self._sweep.progress.values()]

    def _count(self, state: TaskState) -> int:
        return len(self._sweep.some(state))

    def _table(self) -> "Table":
        from rich.markup import escape
        from rich.table import Table

        rows, room = self.rows(), max(3, shutil.get_terminal_size().lines - 6)
        if len(rows) > room:
            wanted = {id(one) for one, _ in sorted(rows, key=lambda row: _ORDER.index(row[0].state))[:room]}
            rows = [row for row in rows if id(row[0]) in wanted]
        table = Table(*HEAD, caption=self.summary(), box=None, pad_edge=False)
        for column in table.columns[2:6]:
            column.justify = "right"
        for one, row in rows:
            table.add_row(*map(escape, row), style=_COLOURS.get(one.state))
        return table


def state_of(one: Progress) -> str:
    """The state of a task, in words; SUBMITTED as long as its process has not begun."""
    last = one.observer.last
    if one.state is TaskState.RUNNING and one.holder is None and (last is None or not last.free):
        return SUBMITTED
    return one.state.value


def time_left(sweep: Sweep) -> float | None:
    """Seconds until all tasks are finished, from those that are or tell how far they are; None where none does."""
    running = sweep.some(TaskState.RUNNING, TaskState.HELD)
    whole = [one.ended - one.began for one in sweep.some(TaskState.DONE) if one.began]
    known = [left for one in running if (left := _number(one, "left")) is not None]
    for one in running:
        left, done = _number(one, "left"), _number(one, "done")
        whole += [left / (1 - done)] if left is not None and done is not None and done < 1 else []
    if not whole:
        return None
    mean = statistics.fmean(whole)
    each = known + [mean] * (len(running) - len(known)) + [mean] * len(sweep.some(TaskState.QUEUED))
    side_by_side = sweep.executor.capacity or max(1, len(running))
    return max([sum(each) / side_by_side, *known])


def _row(one: Progress) -> tuple[str, ...]:
    done, left, note = _number(one, "done"), _number(one, "left"), one.note
    working = one.state in (TaskState.RUNNING, TaskState.HELD) and one.holder is not None
    perplexity, bleu = _number(one, "perplexity"), _number(one, "bleu")
    update = note.get("update")
    return (
        one.task.job.title,
        state_of(one),
        ("" if done is None else f"{done:.0%}") if working else "",
        "" if perplexity is None else f"{perplexity:.2f}",
        "" if bleu is None else f"{bleu:.1f}",
        clock(left) if working and left is not None else "",
        one.outcome or (f"{one.holder.host}, update {update or 0}" if working and one.holder else ""),
    )


def _brief(one: Progress) -> str:
    _, state, done, perplexity, bleu, left, _ = _row(one)
    facts = [
        done,
        f"perplexity {perplexity}" * bool(perplexity),
        f"BLEU {bleu}" * bool(bleu),
        f"{left} left" * bool(left),
    ]
    return f"{one.task.job.title}: " + ", ".join([fact for fact in facts if fact] or [state])


def _number(one: Progress, name: str) -> float | None:
    value = one.note.get(name)
    return float(value) if isinstance(value, int | float) else None
