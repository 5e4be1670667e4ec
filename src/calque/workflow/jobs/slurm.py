"""Jobs of Slurm, submitted by submitit: https://github.com/facebookincubator/submitit.

A job that Slurm preempts or whose time is over gets a signal, saves its state and is put into the queue again. Jobs go on when the
call ends; a later one finds those that are waiting, by their numbers, and those that run, by their leases.
"""

import contextlib
import os
import signal
import subprocess
import time
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

from calque.ground.diagnostics import error
from calque.ground.files import write_whole
from calque.workflow.jobs.command import GRACE, Job, JobCommand
from calque.workflow.jobs.spec import SLURM, ExecutorSpec

TIME = 4 * 60
"""Minutes of a job, where the spec names no time. A job that needs more is put into the queue again."""
REQUEUED = 1000
"""How often, at most."""
ASKED = 60
"""Seconds between two questions to Slurm about all jobs."""
_NAMED = ("partition", "account", "qos", "constraint")
_WAITING = ("PENDING", "RUNNING", "REQUEUED", "COMPLETING", "PREEMPTED", "SUSPENDED", "CONFIGURING", "RESIZING")


class SlurmExecutor:
    """Submits each job to Slurm, which has a queue of its own."""

    leaves = True
    capacity: int | None = None

    def __init__(self, spec: ExecutorSpec, folder: Path, tell: Callable[[str], None]):
        """`folder`: where submitit, which is installed, keeps its files. Raises K410 where Slurm's commands are not there."""
        import submitit

        self._folder, self._tell, self._threads = folder, tell, spec.number("cpus", 1)
        self._own = spec.options.get("cluster", SLURM) == SLURM
        self._jobs: dict[str, Any] = {}
        self._submitit = submitit
        try:
            self._executor = submitit.AutoExecutor(
                folder=folder.absolute() / "%j",
                cluster=SLURM if self._own else "local",
                slurm_max_num_timeout=REQUEUED,
                local_max_num_timeout=REQUEUED,
            )
        except RuntimeError as fault:
            raise error("K410", None, what="Slurm", reason=str(fault)) from None
        self._executor.update_parameters(**_parameters(spec))
        submitit.SlurmJob.watcher._delay_s = ASKED

    def start(self, job: Job) -> None:
        """Submits a job, unless an earlier call did so and it still waits or runs. Raises K410 where Slurm refuses it."""
        record = self._folder / f"{job.name}.job"
        if (known := self._submitted(record)) is not None:
            self._tell(f"{job.title}: job {known.job_id} of an earlier call")
            self._jobs[job.name] = known
            return
        command = JobCommand(job.arguments, job.log, threads=self._threads)
        self._executor.update_parameters(name=job.name[:64])
        try:
            submitted = self._executor.submit(SlurmTask(command))
        except (RuntimeError, subprocess.CalledProcessError, OSError) as fault:
            reason = " ".join(str(getattr(fault, "stderr", "") or fault).split())
            raise error("K410", None, what="Slurm", reason=reason) from None
        write_whole(record, f"{submitted.job_id}\n".encode())
        self._jobs[job.name] = submitted

    def ended(self) -> Mapping[str, int | None]:
        """The exit status of each job that has ended since the last call; None for one that Slurm has ended."""
        statuses: dict[str, int | None] = {}
        for name, job in self._jobs.items():
            if job.done():
                statuses[name] = None
                with contextlib.suppress(Exception):  # whatever kept it from giving a status, it is lost
                    statuses[name] = job.result()
        for name in statuses:
            del self._jobs[name]
        return statuses

    def stop(self) -> None:
        """Leaves the jobs to Slurm."""

    def _submitted(self, record: Path) -> Any:
        """The job of an earlier call that Slurm still has; None where there is none."""
        if not self._own or not record.is_file():
            return None
        number = record.read_text(encoding="utf-8").strip()
        job: Any = self._submitit.SlurmJob(folder=self._folder.absolute() / "%j", job_id=number)
        state = job.watcher.get_state(number, mode="force")
        return job if str(state).startswith(_WAITING) else None


class SlurmTask:
    """What a job of Slurm does: submitit keeps it in a file, and calls it again when the job was put into the queue again."""

    def __init__(self, command: JobCommand):
        self.command = command
        self._process: subprocess.Popen[bytes] | None = None

    def __call__(self) -> int:
        """Runs the command; returns its exit status."""
        self._process = self.command.start()
        while not _ended(self._process.pid):  # a signal comes between two looks, and calls `checkpoint`
            time.sleep(0.2)
        status = self._process.wait()
        if status in (143, -15):  # by Slurm, which is about to end or to requeue this job
            time.sleep(GRACE)
        return status

    def checkpoint(self) -> Any:
        """Called when the job is preempted or its time is over: the state is saved, and the job submitted again."""
        import submitit

        if self._process is not None:
            _save(self._process.pid)
        return submitit.helpers.DelayedSubmission(SlurmTask(self.command))


def _ended(pid: int) -> bool:
    """Whether a child of this process has ended; its exit status is left for who waits for it."""
    try:
        return os.waitid(os.P_PID, pid, os.WEXITED | os.WNOHANG | os.WNOWAIT) is not None
    except ChildProcessError:
        return True


def _save(pid: int) -> None:
    """Asks a child to save its state and end, and waits for that.

    The handler of a signal calls it while the child is waited for, so it takes no lock of `subprocess`.
    """
    with contextlib.suppress(ProcessLookupError):
        os.kill(pid, signal.SIGTERM)
    until = time.monotonic() + GRACE
    while not _ended(pid) and time.monotonic() < until:
        time.sleep(0.05)


def _parameters(spec: ExecutorSpec) -> dict[str, object]:
    """The options as submitit calls them."""
    options = spec.options
    named = {f"slurm_{name}": options[name] for name in _NAMED if name in options}
    given = {"timeout_min": options.get("time", TIME), "cpus_per_task": spec.number("cpus", 1)}
    if "mem" in options:
        given["mem_gb"] = options["mem"]
    if gpus := spec.number("gpus", 0):
        given["gpus_per_node"] = gpus
    return {**named, **given, "slurm_signal_delay_s": 120, "slurm_additional_parameters": {"requeue": True}}
