"""Several processes that decode side by side, each with a share of the batches, as on a server of many cores."""

import contextlib
import multiprocessing
import time
from collections.abc import Callable, Sequence
from multiprocessing.connection import Connection, wait
from types import TracebackType
from typing import Self

from calque.bench.inputs import Sentences
from calque.decode.workers import Explain, portable
from calque.ground.diagnostics import Place, error
from calque.ground.processes import end_with_parent, interrupts_blocked

Share = tuple[Sentences, int, int]
"""Sentences that are decoded together, the beam, and the length of translations."""
Open = Callable[[], Callable[[Sentences, int, int], int]]
"""Called once in each process, after pickling. It returns the function that decodes a share and returns its number of words."""


class Crew:
    """`workers` processes of `threads` threads, each with its own model, which it opens at the start."""

    def __init__(self, workers: int, threads: int, open_: Open, explain: Explain | None = None):
        """Starts the processes and returns when all are ready. Raises the fault of one, and K401 where one ends without any."""
        context = multiprocessing.get_context("spawn")
        self._crew = []
        for _ in range(workers):
            mine, theirs = context.Pipe()
            process = context.Process(target=_serve, args=(theirs, threads, open_, explain), daemon=True)
            with interrupts_blocked():
                process.start()
            theirs.close()
            self._crew.append((process, mine))
        for _, pipe in self._crew:
            self._answer(pipe)

    def run(self, shares: Sequence[Share]) -> tuple[float, int]:
        """Seconds until all shares are decoded, and the number of words written. A free worker takes the next share."""
        began = time.perf_counter()
        waiting, words = list(reversed(shares)), 0
        idle = [pipe for _, pipe in self._crew]
        at_work: set[Connection] = set()
        while waiting or at_work:
            while waiting and idle:
                pipe = idle.pop()
                with contextlib.suppress(OSError):  # one that has ended is found by its answer
                    pipe.send(waiting.pop())
                at_work.add(pipe)
            ready = wait(list(at_work))
            for pipe in [pipe for pipe in at_work if pipe in ready]:
                words += self._answer(pipe)
                at_work.remove(pipe)
                idle.append(pipe)
        return time.perf_counter() - began, words

    def _answer(self, pipe: Connection) -> int:
        try:
            answer: int | tuple[Exception, str] = pipe.recv()
        except (EOFError, OSError):
            raise error("K401", Place("worker"), reason="it ended without an answer") from None
        if isinstance(answer, int):
            return answer
        fault, trace = answer
        if trace:
            fault.add_note(trace)
        raise fault

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: type[BaseException] | BaseException | TracebackType | None) -> None:
        for process, pipe in self._crew:
            process.kill()
            process.join()
            pipe.close()


def _serve(pipe: Connection, threads: int, open_: Open, explain: Explain | None) -> None:
    end_with_parent()
    import torch

    from calque.ground.allocation import keep_freed_memory

    keep_freed_memory()
    torch.set_num_threads(threads)
    try:
        work = open_()
        pipe.send(0)
        while (share := _next(pipe)) is not None:
            pipe.send(work(*share))
    except (Exception, SystemExit) as fault:  # a layer may raise anything
        pipe.send(portable(fault, explain))


def _next(pipe: Connection) -> Share | None:
    try:
        share: Share = pipe.recv()
    except EOFError:
        return None
    return share
