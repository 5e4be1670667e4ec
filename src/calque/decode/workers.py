"""Several processes that translate parts of one input, in order. Each opens the run itself; the weights are one file, which is
mapped into the memory of all.
"""

import itertools
import multiprocessing
import os
import signal
import traceback
from collections.abc import Callable, Generator, Iterable, Iterator, Sequence
from multiprocessing.connection import Connection, wait
from multiprocessing.context import SpawnProcess
from typing import NamedTuple, cast

from calque.decode.translate import InputLine, Translation, Translator, chunks, translate_lines
from calque.ground.allocation import keep_freed_memory
from calque.ground.diagnostics import CalqueError, Diagnostic, Place, error
from calque.ground.processes import end_with_parent, interrupts_blocked
from calque.native.build import library

CHUNK = 250
"""Lines that a worker translates at a time."""
AHEAD = 4
"""Chunks per worker that may be in progress or wait for an earlier one. This bounds memory."""


Explain = Callable[[BaseException], CalqueError | None]
"""Makes an error of an exception that is no bug of ours, such as that of a user's layer, none of any other."""


class WorkerTask(NamedTuple):
    """The work of all workers. `open` loads the run in the worker; it must be picklable, such as a `functools.partial`."""

    open: Callable[[], Translator]
    n_best: int = 1
    invariant: bool = False
    threads: int = 1
    explain: Explain | None = None


class _ChunkResult(NamedTuple):
    translations: list[list[Translation]]
    warnings: list[Diagnostic]
    fault: Exception | None = None
    trace: str = ""


_NumberedChunk = tuple[int, tuple[int, list[InputLine]]]
"""Its number; the number of its first line, and its lines."""


def translate_with_workers(
    work: WorkerTask,
    workers: int,
    asked: Iterable[InputLine],
    chunk: int = CHUNK,
    warn: Callable[[Diagnostic], None] | None = None,
    progress: Callable[[int], None] | None = None,
) -> Generator[list[Translation], None, None]:
    """As `translate_stream`, by `workers` processes. Lines are read at most AHEAD chunks per worker ahead.

    The first error of a worker ends all workers and is raised here. Raises K401 where a worker ends without a result.
    """
    library()  # compiled once, before all workers ask for the kernels
    crew: list[_Worker] = []
    try:
        for _ in range(workers):
            crew.append(_Worker(work))
        parts = enumerate(chunks(asked, chunk))
        if (first := next(parts, None)) is None:
            work.open()  # there is no work for a worker, but wrong settings are reported
            return
        for result in _in_order(crew, itertools.chain([first], parts)):
            if result.fault is not None:
                if result.trace:
                    result.fault.add_note(result.trace)
                raise result.fault
            if warn is not None:
                for warning in result.warnings:
                    warn(warning)
            if progress is not None:
                progress(len(result.translations))
            yield from result.translations
    finally:
        for worker in crew:
            worker.end()


def _in_order(crew: Sequence["_Worker"], parts: Iterator[_NumberedChunk]) -> Iterator[_ChunkResult]:
    """The results of all chunks in the order of the chunks, whichever worker finishes first."""
    given = passed = 0  # chunks handed out, and results passed on
    finished: dict[int, _ChunkResult] = {}
    more = True
    while more or passed < given:
        for worker in crew:
            if more and worker.busy is None and given - passed < AHEAD * len(crew):
                if (part := next(parts, None)) is None:
                    more = False
                else:
                    worker.give(*part)
                    given += 1
        finished.update(_wait_for(crew))
        while passed in finished:
            yield finished.pop(passed)
            passed += 1


def _wait_for(crew: Sequence["_Worker"]) -> Iterator[tuple[int, _ChunkResult]]:
    """Waits until a worker has finished its chunk; all results that are ready, with the numbers of their chunks."""
    busy = [worker for worker in crew if worker.busy is not None]
    ready = wait([worker.pipe for worker in busy]) if busy else []
    for worker in busy:
        if worker.pipe in ready:
            yield worker.take()


class _Worker:
    """A process, the pipe to it, and the number of its current chunk."""

    def __init__(self, work: WorkerTask):
        context = multiprocessing.get_context("spawn")
        self.pipe, theirs = context.Pipe()
        self.process: SpawnProcess = context.Process(target=_serve, args=(theirs, work), daemon=True)
        with interrupts_blocked():
            self.process.start()
        theirs.close()  # so that the pipe ends when the worker does
        self.busy: int | None = None

    def give(self, number: int, part: tuple[int, list[InputLine]]) -> None:
        """Sends a chunk. Raises K401 where the process has ended."""
        self.busy = number
        try:
            self.pipe.send(part)
        except OSError:
            raise self._gone() from None

    def take(self) -> tuple[int, _ChunkResult]:
        """The number of the current chunk and its result, once there is one. Raises K401 where the process has ended."""
        try:
            done: _ChunkResult = self.pipe.recv()
        except (EOFError, OSError):
            raise self._gone() from None
        number, self.busy = cast("int", self.busy), None
        return number, done

    def end(self) -> None:
        """Ends the process."""
        self.process.kill()  # it has nothing to finish
        self.process.join()
        self.pipe.close()

    def _gone(self) -> CalqueError:
        self.process.join()
        code = self.process.exitcode or 0
        how = f"signal {signal.Signals(-code).name}" if code < 0 else f"exit status {code}"
        return error("K401", Place("worker"), reason=how)


def portable(fault: BaseException, explain: Explain | None) -> tuple[Exception, str]:
    """What a worker sends of an exception: an error, or where it is a bug of ours its words and where it arose."""
    if isinstance(fault, CalqueError):
        return fault, ""
    if explain is not None and (known := explain(fault)) is not None:
        return known, ""
    return RuntimeError(f"{type(fault).__name__}: {fault}"), "".join(traceback.format_exception(fault))


def _serve(pipe: Connection, work: WorkerTask) -> None:
    """The main function of a worker: opens the run with the first chunk, translates, ends with the pipe."""
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
        except (Exception, SystemExit) as fault:  # a layer may raise anything
            done = _ChunkResult([], warnings, *portable(fault, work.explain))
        try:
            pipe.send(done)
        except OSError:
            os._exit(0)
