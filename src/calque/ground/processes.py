"""Worker processes: how they start and end, and a function that several of them apply to a sequence of items."""

import contextlib
import multiprocessing
import os
import signal
import threading
from collections import deque
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import Future, ProcessPoolExecutor
from concurrent.futures.process import BrokenProcessPool
from multiprocessing import resource_tracker
from multiprocessing.connection import wait
from typing import TypeVar

from calque.ground.diagnostics import Place, error

A = TypeVar("A")
B = TypeVar("B")
AHEAD = 2
"""Items per worker that are in progress or wait for an earlier one. This bounds memory."""


def usable_cores() -> int:
    """The processor cores that this process may use."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


@contextlib.contextmanager
def interrupts_blocked() -> Iterator[None]:
    """Processes that start inside this `with` do not receive SIGINT; their parent receives it afterwards and ends them.

    A process inherits blocked signals, so Ctrl-C never makes it print a traceback.
    """
    resource_tracker.ensure_running()  # if it started below, it would unblock the signal
    before = signal.pthread_sigmask(signal.SIG_BLOCK, [signal.SIGINT])
    try:
        yield
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, before)


def end_with_parent() -> None:
    """Ends this worker process as soon as its parent has ended, for whatever reason."""
    parent = multiprocessing.parent_process()
    if parent is not None:
        threading.Thread(target=_end_after, args=(parent.sentinel,), daemon=True).start()


def _end_after(sentinel: int) -> None:
    wait([sentinel])
    os._exit(0)


def in_order(function: Callable[[A], B], items: Iterable[A], workers: int) -> Iterator[B]:
    """`function` of each item, in the order of the items, computed by so many processes; by this one where there is no other.

    The function must be picklable, such as a `functools.partial`. Items are taken only `AHEAD` per worker ahead. Raises K401 where
    a worker ends without a result.
    """
    if workers < 2:
        yield from map(function, items)
        return
    spawn = multiprocessing.get_context("spawn")
    crew = ProcessPoolExecutor(workers, spawn, initializer=end_with_parent)
    waiting: deque[Future[B]] = deque()
    try:
        for item in items:
            with interrupts_blocked():  # the first calls start the processes
                waiting.append(crew.submit(function, item))
            if len(waiting) >= AHEAD * workers:
                yield waiting.popleft().result()
        while waiting:
            yield waiting.popleft().result()
    except BrokenProcessPool:
        raise error("K401", Place("worker"), reason="it was killed") from None
    finally:
        crew.shutdown(wait=True, cancel_futures=True)
