"""Jobs as tasks of a Ray cluster. Ray chooses a node that has the cores and GPUs free, and repeats tasks whose node is lost."""

import logging
import os
import socket
import time
from collections.abc import Mapping
from typing import Any

from calque.ground.diagnostics import error
from calque.workflow.jobs.command import GRACE, Job, JobCommand, finish
from calque.workflow.jobs.spec import ExecutorSpec

REACHED = 20.0
"""Seconds in which a cluster must answer."""
RETRIES = 3
"""How often Ray itself repeats a task that lost its node."""


class RayExecutor:
    """Gives each job to Ray, which has a queue of its own."""

    leaves = False
    capacity: int | None = None

    def __init__(self, spec: ExecutorSpec):
        """Joins the cluster at the address; without one that of this machine, and where there is none, Ray starts one here.

        Ray is installed. Raises K410 where no cluster answers.
        """
        os.environ.setdefault("RAY_USAGE_STATS_ENABLED", "0")  # nothing is reported to anybody
        import ray

        _refuse_silent(spec.target)
        try:
            ray.init(address=spec.target or None, log_to_driver=False, logging_level=logging.ERROR)
        except Exception as fault:  # Ray raises exceptions of many kinds, and of none
            raise error("K410", None, what="Ray", reason=str(fault).split("\n")[0]) from None
        self._ray: Any = ray
        self._threads, gpus = spec.number("cpus", 1), spec.number("gpus", 0)
        retries = spec.number("retries", RETRIES)
        self._refuse_impossible(spec, gpus)
        self._task = ray.remote(num_cpus=self._threads, num_gpus=gpus, max_retries=retries)(run_job)
        self._jobs: dict[str, Any] = {}

    def _refuse_impossible(self, spec: ExecutorSpec, gpus: int) -> None:
        """Raises K410 where no node has so many cores or GPUs: Ray would wait for ever."""
        nodes = [node["Resources"] for node in self._ray.nodes() if node["Alive"]]
        if any(node.get("CPU", 0) >= self._threads and node.get("GPU", 0) >= gpus for node in nodes):
            return
        self._ray.shutdown()
        asked = f"{self._threads} cores" + f" and {gpus} GPUs" * bool(gpus)
        raise error("K410", None, what="Ray", reason=f"no node of the cluster has {asked}")

    def start(self, job: Job) -> None:
        """Gives a job to Ray."""
        self._jobs[job.name] = self._task.remote(JobCommand(job.arguments, job.log, threads=self._threads))

    def ended(self) -> Mapping[str, int | None]:
        """The exit status of each job that has ended since the last call; None for one that Ray has given up."""
        if not self._jobs:
            return {}
        done, _ = self._ray.wait(list(self._jobs.values()), num_returns=len(self._jobs), timeout=0)
        names = [name for name, task in self._jobs.items() if task in done]
        return {name: self._status(self._jobs.pop(name)) for name in names}

    def stop(self) -> None:
        """Asks all jobs to save their state, waits for them, and leaves the cluster."""
        tasks = list(self._jobs.values())
        for task in tasks:
            self._ray.cancel(task, force=False)
        if tasks:
            self._ray.wait(tasks, num_returns=len(tasks), timeout=GRACE)
        self._jobs.clear()
        self._ray.shutdown()

    def _status(self, task: Any) -> int | None:
        try:
            return int(self._ray.get(task))
        except self._ray.exceptions.RayError:
            return None


def _refuse_silent(address: str) -> None:
    """Raises K410 where nothing answers at HOST:PORT: Ray itself tries for minutes."""
    host, colon, port = address.removeprefix("ray://").rpartition(":")
    if not (colon and port.isdigit()):
        return
    try:
        socket.create_connection((host, int(port)), timeout=REACHED).close()
    except (OSError, OverflowError) as fault:
        reason = f"nothing answers at {address} ({getattr(fault, 'strerror', None) or fault})"
        raise error("K410", None, what="Ray", reason=reason) from None


def run_job(command: JobCommand) -> int:
    """What a task of Ray does: it runs the command, and saves its state where the task is cancelled."""
    process = command.start()
    try:
        while (status := process.poll()) is None:
            time.sleep(0.2)  # a cancellation comes between two of these
    except BaseException:
        finish(process)
        raise
    return status
