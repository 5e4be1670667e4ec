"""Cells by Ray, on a cluster of two nodes that is started here, and by submitit, with its executor for one machine.

What is killed here are real processes in the middle of a training; the models must be those of an undisturbed one.
"""

import os
import signal
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner
from reproduced import words
from test_side_by_side import ENVIRONMENT, SMALL, SPEC, at_work, gone, resumed, start, wait, weights

from calque.cli import root
from calque.ground.diagnostics import CalqueError
from calque.ledger import entry as ledger
from calque.workflow.jobs.spec import read_executor

UPDATES, LONG = 300, 1200
"""Of a cell; so many that it still trains when Ray stops it late, on a machine whose cores are all at work."""
COMMON = ["--rows", "rnn", "--seeds", 2, "--updates", UPDATES, "--trials", 100, *SMALL]


def parent(pid: int) -> int:
    return int(Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[1])


def alone(folder: Path, corpora: Path, updates: int) -> Path:
    """The same cells, trained in one process."""
    given = [*words(SPEC, [*COMMON, "--updates", updates]), "--data", str(corpora), "--out", str(folder / "alone")]
    assert CliRunner().invoke(root, given).exit_code == 0
    return folder / "alone"


def same(folder: Path, corpora: Path, updates: int = UPDATES) -> None:
    """Both models are those of one process, and each cell is in the ledger once."""
    reference = alone(folder, corpora, updates)
    for seed in (1, 2):
        assert weights(folder / "out", seed) == weights(reference, seed)
    assert [entry.seed for entry in ledger.read(folder / "out" / "cells")] == [1, 2]


@pytest.fixture
def cluster(monkeypatch: pytest.MonkeyPatch) -> Iterator[Any]:
    """Two nodes with a core each."""
    pytest.importorskip("ray", reason="needs calque[ray]")
    monkeypatch.setenv("RAY_USAGE_STATS_ENABLED", "0")
    monkeypatch.setenv("PYTHONPATH", ENVIRONMENT["PYTHONPATH"])
    from ray.cluster_utils import Cluster

    made = _started(Cluster)
    try:
        yield made
    finally:
        made.shutdown()


def _started(cluster: Any) -> Any:
    """Ray gives its own processes half a minute to start, which is too short where others use all cores: then once more."""
    node = {"num_cpus": 1, "object_store_memory": 80_000_000}
    for attempt in range(3):
        made = None
        try:
            made = cluster(initialize_head=True, head_node_args={**node, "include_dashboard": False})
            made.other = made.add_node(**node)
        except Exception:
            if made is not None:
                made.shutdown()
            if attempt == 2:
                raise
        else:
            return made
    return None


@pytest.mark.slow
def test_a_ray_cluster_that_loses_a_process_and_a_node(cluster: Any, corpora: Path, tmp_path: Path) -> None:
    process = start(tmp_path, corpora, *COMMON, "--executor", f"ray:{cluster.address}")
    out = tmp_path / "out"
    first, second = at_work(out, UPDATES, 1), at_work(out, UPDATES, 2)
    raylet = cluster.other.all_processes["raylet"][0].process.pid
    there = {raylet == parent(parent(holder.pid)): holder.pid for holder in (first, second)}
    os.kill(there[False], signal.SIGKILL)
    # The other node goes with all its processes except that of the cell, which notices it.
    cluster.remove_node(cluster.other, allow_graceful=False)
    printed, err = process.communicate(timeout=300)
    assert process.returncode == 0, err
    assert "its process was lost" in err
    assert "RNN" in printed
    for seed in (1, 2):
        began = resumed(out, seed)
        assert began[0] == 0 < began[-1]
    same(tmp_path, corpora)


@pytest.mark.slow
def test_a_call_by_ray_that_is_stopped_saves_and_resumes(cluster: Any, corpora: Path, tmp_path: Path) -> None:
    given = [*COMMON, "--updates", LONG]
    process = start(tmp_path, corpora, *given, "--executor", f"ray:{cluster.address}")
    holders = [at_work(tmp_path / "out", LONG, seed) for seed in (1, 2)]
    process.send_signal(signal.SIGINT)
    _, err = process.communicate(timeout=90)
    assert process.returncode == 130, err
    assert "Traceback" not in err
    assert "stopped; 2 are not finished" in err
    wait(lambda: all(gone(holder.pid) for holder in holders), 30)
    process = start(tmp_path, corpora, *given, "--executor", f"ray:{cluster.address},retries=1")
    _, err = process.communicate(timeout=300)
    assert process.returncode == 0, err
    assert [len(resumed(tmp_path / "out", seed)) for seed in (1, 2)] == [2, 2]
    same(tmp_path, corpora, LONG)
    # More cores than any node has would be waited for for ever.
    refused = start(tmp_path, corpora, *given, "--seeds", 3, "--executor", f"ray:{cluster.address},cpus=64")
    _, err = refused.communicate(timeout=90)
    assert refused.returncode == 1
    assert "error[K410]: Ray cannot be used: no node of the cluster has 64 cores" in err


@pytest.mark.slow
def test_an_address_where_no_cluster_is(corpora: Path, tmp_path: Path) -> None:
    pytest.importorskip("ray", reason="needs calque[ray]")
    process = start(tmp_path, corpora, *COMMON, "--executor", "ray:127.0.0.1:1")
    _, err = process.communicate(timeout=90)
    assert process.returncode == 1
    assert "error[K410]: Ray cannot be used" in err
    assert "Traceback" not in err


# submitit


def tasks_of(controller_of: int) -> list[int]:
    """The processes that submitit's controllers, children of a call, have started."""
    found = []
    for file in Path("/proc").glob("[0-9]*/cmdline"):
        try:
            if b"submitit.core._submit" in file.read_bytes():
                found += [int(file.parent.name)] * (parent(parent(int(file.parent.name))) == controller_of)
        except OSError:
            continue
    return found


@pytest.mark.slow
def test_a_preempted_job_is_queued_again_and_resumes(corpora: Path, tmp_path: Path) -> None:
    pytest.importorskip("submitit", reason="needs calque[slurm]")
    process = start(tmp_path, corpora, *COMMON, "--executor", "slurm:cluster=local,time=30")
    out = tmp_path / "out"
    working = at_work(out, UPDATES, 1)
    starter = parent(working.pid)
    assert starter in tasks_of(process.pid)
    os.kill(starter, signal.SIGUSR2)  # as Slurm says that a job is preempted, or that its time is over
    wait(lambda: gone(working.pid))
    printed, err = process.communicate(timeout=300)
    assert process.returncode == 0, err
    assert "RNN" in printed
    # It was queued again by submitit, not lost and submitted anew.
    assert "its process was lost" not in err
    assert len(resumed(out, 1)) == 2
    same(tmp_path, corpora)


@pytest.mark.slow
def test_jobs_of_a_scheduler_go_on_without_the_call_and_the_next_one_finds_them(corpora: Path, tmp_path: Path) -> None:
    pytest.importorskip("submitit", reason="needs calque[slurm]")
    told = tmp_path / "told.txt"  # the jobs keep a pipe open
    process = start(tmp_path, corpora, *COMMON, "--executor", "slurm:cluster=local,time=30", err=told)
    working = [at_work(tmp_path / "out", UPDATES, seed) for seed in (1, 2)]
    process.send_signal(signal.SIGTERM)
    assert process.wait(60) == 143
    assert "2 of 2 unfinished jobs stay with slurm" in told.read_text()
    assert not any(gone(holder.pid) for holder in working)
    process = start(tmp_path, corpora, *COMMON, "--executor", "local:2")
    _, err = process.communicate(timeout=300)
    assert process.returncode == 0, err
    assert "rnn, seed 1: elsewhere" in err
    assert [resumed(tmp_path / "out", seed) for seed in (1, 2)] == [[0], [0]]
    same(tmp_path, corpora)


SBATCH = """#!{python}
import json, sys, pathlib
folder = pathlib.Path(__file__).parent
(folder / "submitted").open("a").write(pathlib.Path(sys.argv[-1]).read_text() + "\\n")
print("Submitted batch job 1234")
"""
SACCT = """#!{python}
import pathlib
print("JobID|State|NodeList")
print("1234|" + (pathlib.Path(__file__).parent / "state").read_text() + "|node1")
"""


@pytest.fixture
def slurm(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Commands with the names of Slurm's: what they are given is kept, and the state of the job is what the test says."""
    pytest.importorskip("submitit", reason="needs calque[slurm]")
    folder = tmp_path / "bin"
    folder.mkdir()
    for command, text in (("sbatch", SBATCH), ("sacct", SACCT), ("srun", SACCT)):
        (folder / command).write_text(text.format(python=sys.executable))
        (folder / command).chmod(0o755)
    (folder / "state").write_text("PENDING")
    monkeypatch.setenv("PATH", f"{folder}{os.pathsep}{os.environ['PATH']}")
    return folder


def test_what_slurm_is_given(slurm: Path, tmp_path: Path) -> None:
    from calque.workflow.jobs.command import Job
    from calque.workflow.jobs.slurm import SlurmExecutor

    told: list[str] = []
    spec = read_executor("slurm:partition=gpu,account=mt,gpus=1,cpus=4,mem=16G,time=8:00:00")
    job = Job("cell", "a cell", ("reproduce", "cell", "out", "rnn"), tmp_path / "log.txt")
    SlurmExecutor(spec, tmp_path / "jobs", told.append).start(job)
    written = (slurm / "submitted").read_text()
    for line in (
        *("--partition=gpu", "--account=mt", "--gpus-per-node=1", "--cpus-per-task=4", "--mem=16GB", "--time=480"),
        *("--job-name=cell", "--signal=USR2@120", "--requeue"),
    ):
        assert f"#SBATCH {line}" in written
    # A later call finds a job that waits, and submits none; where it is gone, the job is submitted again.
    executor = SlurmExecutor(spec, tmp_path / "jobs", told.append)
    executor.start(job)
    assert told == ["a cell: job 1234 of an earlier call"]
    assert executor.ended() == {}
    assert (slurm / "submitted").read_text() == written
    (slurm / "state").write_text("NODE_FAIL")
    SlurmExecutor(spec, tmp_path / "jobs", told.append).start(job)
    assert (slurm / "submitted").read_text().count("#SBATCH --partition=gpu") == 2


def test_where_slurm_is_not(monkeypatch: pytest.MonkeyPatch, slurm: Path, tmp_path: Path) -> None:
    from calque.workflow.jobs.command import Job
    from calque.workflow.jobs.slurm import SlurmExecutor

    (slurm / "sbatch").write_text("#!/bin/sh\necho 'sbatch: error: invalid partition specified: gpu' >&2\nexit 1\n")
    executor = SlurmExecutor(read_executor("slurm:partition=gpu"), tmp_path / "jobs", print)
    with pytest.raises(CalqueError, match="invalid partition"):
        executor.start(Job("cell", "a cell", (), tmp_path / "log.txt"))
    monkeypatch.setenv("PATH", str(tmp_path))
    with pytest.raises(CalqueError, match="K410"):
        SlurmExecutor(read_executor("slurm"), tmp_path / "jobs", print)
