"""Several processes that translate parts of one input, in order. Each opens the run by itself; their weights are one file,
mapped into the memory of all.
"""

import contextlib
import multiprocessing
import os
import signal
import threading
import traceback
from collections.abc import Callable, Generator, Iterable, Iterator
from multiprocessing import resource_tracker
from multiprocessing.connection import Connection, wait
from multiprocessing.context import SpawnProcess
from typing import NamedTuple, cast

from calque.decode.translate import Asked, Translation, Translator, chunks, translate_lines
from calque.ground.allocation import keep_freed_memory
from calque.ground.diagnostics import CalqueError, Diagnostic, Place, error

CHUNK = 250
"""Lines that a worker translates at a time."""
AHEAD = 4
"""Chunks for each worker that may be under way or wait for an earlier one: what bounds memory."""


class WorkerTask(NamedTuple):
    """What workers do. `open` loads the run, in the worker; it is pickled, as a `functools.partial` of a function is."""

    open: Callable[[], Translator]
    n_best: int = 1
    invariant: bool = False
    threads: int = 1


class _ChunkResult(NamedTuple):
    found: list[list[Translation]]
    warnings: list[Diagnostic]
    fault: Exception | None = None
    trace: str = ""


def translate_with_workers(
    work: WorkerTask,
    workers: int,
    asked: Iterable[Asked],
    chunk: int = CHUNK,
    warn: Callable[[Diagnostic], None] | None = None,
    progress: Callable[[int], None] | None = None,
) -> Generator[list[Translation], None, None]:
    """As `translate_stream`, by `workers` processes; lines are read no further ahead than AHEAD chunks for each.

    The first fault of a worker ends them all: it is raised here, and K401 where a worker ended without a word.
    """
    crew: list[_Worker] = []
    try:
        for _ in range(workers):
            crew.append(_Worker(work))
        parts = enumerate(chunks(asked, chunk))
        given = told = 0  # chunks handed out, and passed on
        finished: dict[int, _ChunkResult] = {}
        more = True
        while more or told < given:
            for worker in crew:
                if more and worker.busy is None and given - told < AHEAD * workers:
                    if (part := next(parts, None)) is None:
                        more = False
                    else:
                        worker.give(*part)
                        given += 1
            at_work = [worker for worker in crew if worker.busy is not None]
            ready = wait([worker.pipe for worker in at_work]) if at_work else []
            for worker in at_work:
                if worker.pipe in ready:
                    finished.update([worker.take()])
            while told in finished:
                done = finished.pop(told)
                told += 1
                if done.fault is not None:
                    if done.trace:
                        done.fault.add_note(done.trace)
                    raise done.fault
                if warn is not None:
                    for one in done.warnings:
                        warn(one)
                if progress is not None:
                    progress(len(done.found))
                yield from done.found
    finally:
        for worker in crew:
            worker.end()


class _Worker:
    """A process, the pipe to it, and the number of the chunk that it is at."""

    def __init__(self, work: WorkerTask):
        context = multiprocessing.get_context("spawn")
        self.pipe, theirs = context.Pipe()
        self.process: SpawnProcess = context.Process(target=_serve, args=(theirs, work), daemon=True)
        with interrupts_blocked():
            self.process.start()
        theirs.close()  # so that the pipe ends when the worker does
        self.busy: int | None = None

    def give(self, number: int, part: tuple[int, list[Asked]]) -> None:
        self.busy = number
        try:
            self.pipe.send(part)
        except OSError:
            raise self._gone() from None

    def take(self) -> tuple[int, _ChunkResult]:
        try:
            done: _ChunkResult = self.pipe.recv()
        except (EOFError, OSError):
            raise self._gone() from None
        number, self.busy = cast("int", self.busy), None
        return number, done

    def end(self) -> None:
        self.process.kill()  # it holds nothing that is worth a farewell
        self.process.join()
        self.pipe.close()

    def _gone(self) -> CalqueError:
        self.process.join()
        code = self.process.exitcode or 0
        how = f"signal {signal.Signals(-code).name}" if code < 0 else f"exit status {code}"
        return error("K401", Place("worker"), reason=how)


@contextlib.contextmanager
def interrupts_blocked() -> Iterator[None]:
    """Processes started here do not receive SIGINT: the parent does, and ends them. One that the parent receives meanwhile waits.

    A process inherits what is blocked, so there is no moment at which it would print a traceback.
    """
    resource_tracker.ensure_running()  # which would unblock the signal, were it started below
    before = signal.pthread_sigmask(signal.SIG_BLOCK, [signal.SIGINT])
    try:
        yield
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, before)


def end_with_parent() -> None:
    """Ends this worker process as soon as its parent has ended, however that happened, even in the middle of its work."""
    parent = multiprocessing.parent_process()
    if parent is not None:
        threading.Thread(target=_end_after, args=(parent.sentinel,), daemon=True).start()


def _end_after(sentinel: int) -> None:
    wait([sentinel])
    os._exit(0)


def _serve(pipe: Connection, work: WorkerTask) -> None:
    """The life of a worker: opens the run with the first chunk, translates, ends when the pipe does."""
    end_with_parent()
    import torch

    keep_freed_memory()
    torch.set_num_threads(work.threads)
    loaded: Translator | None = None
    while True:
        try:
            first, asked = pipe.recv()
        except (EOFError, OSError):
            os._exit(0)
        warnings: list[Diagnostic] = []
        try:
            loaded = loaded or work.open()
            done = _ChunkResult(
                translate_lines(loaded, asked, work.n_best, work.invariant, first, warnings.append), warnings
            )
        except CalqueError as fault:
            done = _ChunkResult([], warnings, fault)
        except Exception as fault:
            done = _ChunkResult([], [], RuntimeError(f"{type(fault).__name__}: {fault}"), traceback.format_exc())
        try:
            pipe.send(done)
        except OSError:
            os._exit(0)
