"""Several processes that decode side by side, each with a share of the batches, as on a server of many cores."""

import multiprocessing
import time
from collections.abc import Callable, Sequence
from multiprocessing.connection import Connection, wait
from types import TracebackType
from typing import Any, Self

from calque.decode.workers import end_with_parent, interrupts_blocked
from calque.ground.diagnostics import Place, error

Open = Callable[[], Callable[..., int]]
"""Called once in each process, after pickling. It returns the function that decodes a share and returns its number of words."""


class Crew:
    """`workers` processes of `threads` threads, each with its own model, which it opens at the start."""

    def __init__(self, workers: int, threads: int, open_: Open):
        """Returns when all are ready. Raises K401 where one ends."""
        context = multiprocessing.get_context("spawn")
        self._crew = []
        for _ in range(workers):
            mine, theirs = context.Pipe()
            process = context.Process(target=_serve, args=(theirs, threads, open_), daemon=True)
            with interrupts_blocked():
                process.start()
            theirs.close()
            self._crew.append((process, mine))
        for _, pipe in self._crew:
            self._answer(pipe)

    def run(self, shares: Sequence[Any]) -> tuple[float, int]:
        """Seconds until all shares are decoded, and the number of words written. A free worker takes the next share."""
        began = time.perf_counter()
        left, words = list(reversed(shares)), 0
        idle = [pipe for _, pipe in self._crew]
        at_work: set[Connection] = set()
        while left or at_work:
            while left and idle:
                pipe = idle.pop()
                pipe.send(left.pop())
                at_work.add(pipe)
            for ready in wait(list(at_work)):
                done = next(pipe for pipe in at_work if pipe is ready)
                words += self._answer(done)
                at_work.remove(done)
                idle.append(done)
        return time.perf_counter() - began, words

    def _answer(self, pipe: Connection) -> int:
        try:
            count: int = pipe.recv()
        except (EOFError, OSError):
            raise error("K401", Place("worker"), reason="it ended without an answer") from None
        return count

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: type[BaseException] | BaseException | TracebackType | None) -> None:
        for process, pipe in self._crew:
            process.kill()
            process.join()
            pipe.close()


def _serve(pipe: Connection, threads: int, open_: Open) -> None:
    end_with_parent()
    import torch

    from calque.ground.allocation import keep_freed_memory

    keep_freed_memory()
    torch.set_num_threads(threads)
    work = open_()
    pipe.send(0)
    while True:
        try:
            share = pipe.recv()
        except EOFError:
            return
        pipe.send(work(*share))
