"""The processes of a training: what `torchrun` started, and how they act as one.

Rank 0 leads: it alone reads and writes the run folder, and decides what comes next. It sends every step of its work to the others,
which `calque.train.follower` carries out there. All sums go over all processes, so that each has the same gradient and the same
weights.
"""

import datetime
import os
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, contextmanager, nullcontext
from functools import partial
from typing import Any, TypeVar

import torch
from torch import Tensor, distributed

from calque.ground.diagnostics import CalqueError, error
from calque.train.heartbeat import Heartbeat, connect, limit

T = TypeVar("T")
PATIENCE = datetime.timedelta(minutes=30)
"""How long an operation waits for the other processes; what hangs is noticed by `Heartbeat` before."""


class Ranks:
    """One process of a training, number `rank` of `count`; alone where nothing else is said."""

    def __init__(self, rank: int = 0, count: int = 1, heartbeat: Heartbeat | None = None):
        self.rank, self.count = rank, count
        self._heartbeat = heartbeat

    @property
    def leads(self) -> bool:
        """Whether this process reads and writes the run folder."""
        return self.rank == 0

    @property
    def alone(self) -> bool:
        """Whether there is no other process."""
        return self.count == 1

    def own(self, items: Sequence[T]) -> list[T]:
        """Of items that the processes share, every `count`-th, from number `rank`."""
        return list(items[self.rank :: self.count])

    def progress(self) -> None:
        """Shows the others that this process is at work; to be called at least every few seconds."""
        if self._heartbeat is not None:
            self._heartbeat.progress()

    def begin(self) -> None:
        """From now on this process shows its progress."""
        if self._heartbeat is not None:
            self._heartbeat.count()

    def busy(self) -> AbstractContextManager[None]:
        """For work that shows no progress, such as writing files."""
        return nullcontext() if self._heartbeat is None else self._heartbeat.uncounted()

    def send(self, *step: Any) -> None:
        """The leader's next step, for the others to `receive`."""
        if not self.alone:
            self._wait(lambda: distributed.broadcast_object_list([step], 0))

    def receive(self) -> tuple[Any, ...]:
        """The leader's next step."""
        box: list[Any] = [None]
        self._wait(lambda: distributed.broadcast_object_list(box, 0))
        return tuple(box[0])

    def sum(self, *tensors: Tensor) -> None:
        """Replaces each tensor by its sum over all processes."""
        if not self.alone:
            for tensor in tensors:
                self._wait(partial(distributed.all_reduce, tensor))

    def share(self, tensors: Mapping[str, Tensor]) -> None:
        """Replaces each tensor by the leader's."""
        if not self.alone:
            for name in sorted(tensors):
                self._wait(partial(distributed.broadcast, tensors[name].data, 0))

    def join(self, part: Sequence[T]) -> list[T]:
        """The items of all processes in their order, where each has its `own` part."""
        if self.alone:
            return list(part)
        parts: list[Any] = [None] * self.count
        self._wait(lambda: distributed.all_gather_object(parts, list(part)))
        total = sum(map(len, parts))
        return [parts[n % self.count][n // self.count] for n in range(total)]

    def _wait(self, operation: Callable[[], object]) -> None:
        """An operation with the other processes. Raises K403 where one of them has ended."""
        if self._heartbeat is None:
            operation()
            return
        with self._heartbeat.uncounted():
            try:
                operation()
            except (RuntimeError, distributed.DistError) as fault:
                if "out of memory" in str(fault):
                    raise
                raise error("K403", None, rank="?" if (lost := self._heartbeat.lost()) is None else lost) from None

    @contextmanager
    def leading(self) -> Iterator[None]:
        """The leader's work; where it fails, the others, who wait for its next step, end too, and say nothing."""
        try:
            yield
        except CalqueError as fault:
            if all(diagnostic.code != "K403" for diagnostic in fault.diagnostics):
                self.send("end")
            raise
        self.close()

    def close(self) -> None:
        """Leaves the group."""
        if self._heartbeat is not None:
            self._heartbeat.stop()
            if distributed.is_initialized():
                distributed.destroy_process_group()


ALONE = Ranks()


def from_environment(device: str) -> Ranks:
    """The process that `torchrun` started, joined with the others; `ALONE` for any other.

    With nccl where training is on an accelerator (one of each process), else with gloo. Raises K403 where the others do not come,
    X443.
    """
    if not {"RANK", "WORLD_SIZE", "MASTER_ADDR", "MASTER_PORT"} <= os.environ.keys():
        return ALONE
    count = int(os.environ["WORLD_SIZE"])
    if count == 1:
        return ALONE
    seconds = limit()
    on_cuda = device != "cpu" and torch.cuda.is_available()
    if on_cuda:
        torch.cuda.set_device(int(os.environ.get("LOCAL_RANK", "0")))
    rank = int(os.environ["RANK"])
    try:
        backend = "cpu:gloo,cuda:nccl" if on_cuda else "gloo"
        store = connect(hosts=rank == 0)
        # Before the others are waited for: one of them may be frozen already.
        heartbeat = Heartbeat(rank, count, seconds)
        distributed.init_process_group(
            backend,
            timeout=PATIENCE,
            store=store,  # type: ignore[arg-type]  # one of torch, by what it can do
            rank=rank,
            world_size=count,
        )
    except (RuntimeError, distributed.DistError):
        raise error("K403", None, rank="?") from None
    return Ranks(rank, count, heartbeat)


def silent(ranks: Ranks, fault: CalqueError) -> bool:
    """Whether this process leaves the message to another one: of those that lost a process, the first reports it."""
    if any(diagnostic.code != "K403" for diagnostic in fault.diagnostics):
        return False
    lost = fault.diagnostics[0].fields["rank"]
    return ranks.rank != (1 if lost == 0 else 0)
