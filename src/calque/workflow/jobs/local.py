"""Jobs side by side on this machine, each with cores of its own."""

import os
import subprocess
from collections.abc import Callable
from pathlib import Path

from calque.ground.diagnostics import error
from calque.workflow.jobs.command import GRACE, Job, JobCommand, finish
from calque.workflow.jobs.spec import ExecutorSpec


class LocalExecutor:
    """As many jobs as there are workers. The physical cores of the machine are divided among them."""

    leaves = False

    def __init__(self, spec: ExecutorSpec, threads: int, tell: Callable[[str], None]):
        """`threads`: those of a job, where the spec does not say; 0: its share of the cores. Raises K408."""
        self.capacity: int | None = spec.workers
        asked = spec.number("threads", threads)
        self._cores = shares(cores_in_order(), spec.workers, asked)
        self._threads = asked or max(1, len(physical(self._cores[0])))
        self._devices = devices(spec)
        self._running: dict[str, tuple[int, subprocess.Popen[bytes]]] = {}
        total, here = spec.workers * self._threads, len(physical(cores_in_order()))
        if total > here:
            tell(f"{spec.workers} cells with {self._threads} threads each share {here} cores and slow each other down")

    def start(self, job: Job) -> None:
        """Starts a job on the cores of a worker that is free."""
        taken = {slot for slot, _ in self._running.values()}
        slot = next(k for k in range(len(self._cores)) if k not in taken)
        command = JobCommand(
            job.arguments,
            job.log,
            threads=self._threads,
            cores=self._cores[slot],
            devices=None if self._devices is None else self._devices[slot],
        )
        self._running[job.name] = slot, command.start()

    def ended(self) -> dict[str, int | None]:
        """The exit status of each job that has ended since the last call."""
        statuses = {name: process.poll() for name, (_, process) in self._running.items()}
        done = {name: status for name, status in statuses.items() if status is not None}
        for name in done:
            del self._running[name]
        return dict(done)

    def stop(self, grace: float = GRACE) -> None:
        """Asks all jobs to save their state, and waits for them."""
        for _, process in self._running.values():
            process.terminate()
        for _, process in self._running.values():
            finish(process, grace)
        self._running.clear()


def cores_in_order() -> list[int]:
    """The cores that this process may use, those of one physical core together, sorted."""
    if not hasattr(os, "sched_getaffinity"):
        return list(range(os.cpu_count() or 1))
    return sorted(os.sched_getaffinity(0), key=lambda core: (*_topology(core), core))


def physical(cores: tuple[int, ...] | list[int]) -> set[tuple[int, int]]:
    """The physical cores that cores belong to: torch works with one thread on each."""
    return {_topology(core) for core in cores}


def shares(cores: list[int], workers: int, threads: int) -> list[tuple[int, ...]]:
    """The cores of each worker: physical ones whole, `threads` of them or, where that is 0, as many as there are for each.

    Where there are too few, every worker has all of them, and the system shares.
    """
    groups: dict[tuple[int, int], list[int]] = {}
    for core in cores:
        groups.setdefault(_topology(core), []).append(core)
    whole = list(groups.values())
    each = threads or len(whole) // workers
    if not each or each * workers > len(whole):
        return [tuple(cores)] * workers
    return [tuple(core for group in whole[k * each : (k + 1) * each] for core in group) for k in range(workers)]


def _topology(core: int) -> tuple[int, int]:
    """Package and physical core; without that knowledge every core counts as one."""
    folder = Path(f"/sys/devices/system/cpu/cpu{core}/topology")
    try:
        package, number = (int((folder / name).read_text()) for name in ("physical_package_id", "core_id"))
    except (OSError, ValueError):
        return -1, core
    return package, number


def devices(spec: ExecutorSpec) -> list[str] | None:
    """The GPUs of each worker; None where the spec asks for none. Raises K408 where there are too few."""
    each = spec.number("gpus", 0)
    if not each:
        return None
    import torch

    visible = os.environ.get("CUDA_VISIBLE_DEVICES")
    names = visible.split(",") if visible else [str(k) for k in range(torch.cuda.device_count())]
    if each * spec.workers > len(names):
        raise error("K408", spec.span("gpus"), needed=each * spec.workers, found=len(names))
    return [",".join(names[k * each : (k + 1) * each]) for k in range(spec.workers)]
