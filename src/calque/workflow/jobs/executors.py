"""The executor that a spec names, and a sweep by it from beginning to end."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from importlib.util import find_spec
from pathlib import Path

from calque.ground.diagnostics import CalqueError, error
from calque.workflow.jobs.board import Board
from calque.workflow.jobs.command import Executor
from calque.workflow.jobs.local import LocalExecutor, devices
from calque.workflow.jobs.spec import LOCAL, RAY, SLURM, ExecutorSpec
from calque.workflow.jobs.sweep import Sweep, Task, TaskState, failures

PACKAGES = {SLURM: "submitit", RAY: "ray"}
"""The package of each executor that needs one; the extra that brings it has the name of the executor."""


@dataclass(frozen=True)
class SweepEnd:
    """How a sweep ended: by a signal, with failed tasks, or with neither."""

    signal: int | None = None
    failed: CalqueError | None = None


def check_executor(spec: ExecutorSpec) -> None:
    """Raises X301 where the package of an executor is not installed, K408 where this machine has too few GPUs.

    Whether a cluster answers is seen when there is something for it to do.
    """
    if spec.name == LOCAL:
        devices(spec)
    elif find_spec(PACKAGES[spec.name]) is None:
        raise error("X301", None, package=PACKAGES[spec.name], extra=spec.name)


def executor_of(spec: ExecutorSpec, folder: Path, threads: int, tell: Callable[[str], None]) -> Executor:
    """The executor; `folder` is for its files, `threads` are those of a job where the spec does not say.

    Raises X301, K408 and K410.
    """
    check_executor(spec)
    if spec.name == LOCAL:
        return LocalExecutor(spec, threads, tell)
    if spec.name == RAY:
        from calque.workflow.jobs.ray_tasks import RayExecutor

        return RayExecutor(spec)
    from calque.workflow.jobs.slurm import SlurmExecutor

    return SlurmExecutor(spec, folder, tell)


def run_tasks(
    tasks: Sequence[Task], spec: ExecutorSpec, folder: Path, threads: int, tell: Callable[[str], None]
) -> SweepEnd:
    """Runs what is not finished of some tasks, and shows them in a table. Raises X301, K408 and K410."""
    if all(task.outcome() is not None for task in tasks):
        return SweepEnd()
    executor = executor_of(spec, folder, threads, tell)
    sweep = Sweep(tasks, executor)
    with Board(sweep, tell):
        signal = sweep.run()
    if signal is None:
        return SweepEnd(failed=failures(sweep))
    left = len(tasks) - len(sweep.some(TaskState.DONE))
    running = sweep.some(TaskState.RUNNING)
    if executor.leaves and running:
        tell(
            f"stopped watching; {len(running)} of {left} unfinished jobs stay with {spec.name}, the same call watches them again"
        )
    else:
        tell(f"stopped; {left} are not finished; the same call resumes them")
    return SweepEnd(signal=signal)
