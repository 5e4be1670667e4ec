"""`--executor local:N`: the cells and trials of one call by one, whatever is killed, and nothing twice."""

import json
import os
import random
import shlex
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner, Result
from reproduced import words

from calque.cli import root
from calque.ground.diagnostics import CalqueError
from calque.ground.lease import Holder, Observer
from calque.ledger import entry as ledger
from calque.papers import side_by_side
from calque.papers.trials import Journal
from calque.workflow.jobs.command import HELD, STARTER
from calque.workflow.jobs.executors import SweepEnd
from calque.workflow.jobs.sweep import Task

SPEC = ("domhan2018", "table3")
SMALL = ["--d", 16, "--set", "n=1", "--set", "heads=2", "--set", "train.batch_tokens=64", "--set", "train.threads=1"]
GRID = ["--lr", 0.001, "--lr", 0.02, "--warmup-share", 0.1, "--dropout", 0.1, "--dropout", 0]
ENVIRONMENT = {**os.environ, "OMP_NUM_THREADS": "1", "PYTHONPATH": os.pathsep.join(p for p in sys.path if p)}
UPDATES = 60
"""Of a cell that is killed in the middle: enough to save several states before."""
Call = Callable[..., Result]


@pytest.fixture
def call(corpora: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Call:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("PYTHONPATH", ENVIRONMENT["PYTHONPATH"])

    def run(*arguments: object, verb: str = "train", out: str = "out") -> Result:
        return CliRunner().invoke(root, [*words(SPEC, arguments, verb), "--data", str(corpora), "--out", out])

    return run


def start(folder: Path, corpora: Path, *arguments: object, err: Path | None = None) -> "subprocess.Popen[str]":
    """A call as a process of its own; `err` takes all that it prints, instead of pipes."""
    given = [*words(SPEC, arguments), "--data", str(corpora), "--out", "out"]
    with open(err or os.devnull, "w", encoding="utf-8") as file:
        return _start(given, folder, *([file] * 2 if err else [subprocess.PIPE] * 2))


def _start(given: list[str], folder: Path, stdout: Any, stderr: Any) -> "subprocess.Popen[str]":
    return subprocess.Popen(
        [sys.executable, "-m", "calque", *given],
        cwd=folder,
        env=ENVIRONMENT,
        stdout=stdout,
        stderr=stderr,
        text=True,
        start_new_session=True,
    )


def name(updates: int, seed: int = 1, row: str = "rnn") -> str:
    return f"domhan2018-table3-{row}-multi30k-budget-{updates}-updates-seed-{seed}"


def wait(reached: Callable[[], object], seconds: float = 90) -> None:
    until = time.monotonic() + seconds
    while not reached():
        assert time.monotonic() < until
        time.sleep(0.05)


def at_work(out: Path, updates: int, seed: int = 1) -> Holder:
    """The process of a cell, once a state of its training is saved and work goes on."""
    checkpoints = out / "runs" / "rnn" / str(seed) / "checkpoints"
    wait(lambda: len(list(checkpoints.glob("state-*.json"))) > 0 and list(checkpoints.glob("[0-9]*.json")))
    holder = Observer(out / "locks" / name(updates, seed)).holder()
    assert holder is not None
    return holder


def weights(out: Path, seed: int = 1) -> bytes:
    return (out / "runs" / "rnn" / str(seed) / "model.safetensors").read_bytes()


def resumed(out: Path, seed: int = 1) -> list[int]:
    """After which updates the calls of a training began; the log is checked to hold each update once, in order."""
    lines = [json.loads(line) for line in (out / "runs" / "rnn" / str(seed) / "log.jsonl").read_text().splitlines()]
    valid = [line["update"] for line in lines if line["kind"] == "valid"]
    assert valid == sorted(set(valid))
    return [line["update"] for line in lines if line["kind"] == "start"]


def gone(pid: int) -> bool:
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] in "ZX"
    except OSError:
        return True


def code(found: Result) -> str:
    assert isinstance(found.exception, CalqueError), found.output
    return found.exception.diagnostics[0].code


@pytest.mark.slow
def test_a_cell_as_a_job_is_the_cell_of_one_process(call: Call, tmp_path: Path) -> None:
    common = ["--rows", "rnn", "--seeds", 1, "--updates", 3, "--trials", 100, *SMALL]
    assert call(*common, out="alone").exit_code == 0
    found = call(*common, "--executor", "local:1")
    assert found.exit_code == 0, found.output
    assert "[1/1] rnn, seed 1: finished: BLEU 0.00" in found.stderr.split("\n")
    assert weights(tmp_path / "out") == weights(tmp_path / "alone")
    (alone,), (one,) = ledger.read(tmp_path / "alone" / "cells"), ledger.read(tmp_path / "out" / "cells")
    timed = ("training seconds", "target tokens/s")
    assert {k: v for k, v in one.figures.items() if k not in timed} == {
        k: v for k, v in alone.figures.items() if k not in timed
    }
    assert {**one.conditions, "cores": 0} == {**alone.conditions, "cores": 0}  # a job has cores of its own
    assert (one.command, one.validations, one.data_hash) == (alone.command, alone.validations, alone.data_hash)
    log = (tmp_path / "out" / "logs" / f"{name(3)}.txt").read_text()
    assert "rnn, seed 1: done" in log
    # A second call starts nothing.
    before = log, weights(tmp_path / "out")
    assert call(*common, "--executor", "local:2").stdout == found.stdout
    assert ((tmp_path / "out" / "logs" / f"{name(3)}.txt").read_text(), weights(tmp_path / "out")) == before


@pytest.mark.medium
def test_the_command_of_a_cell(call: Call, corpora: Path, tmp_path: Path) -> None:
    common = ["--rows", "rnn", "--seeds", 1, "--updates", 2, "--trials", 100, *SMALL]

    def cell(*more: str) -> Result:
        return CliRunner().invoke(root, ["reproduce", "cell", "out", *more, "--data", str(corpora)])

    assert code(cell("rnn", "--seed", "1")) == "X706"
    assert call(*common).exit_code == 0
    found = cell("rnn", "--seed", "2")
    assert found.exit_code == 0, found.output
    # It stays in the run folder until a call takes it up; a second one trains nothing.
    assert [e.seed for e in ledger.read(tmp_path / "out" / "cells")] == [1]
    before = weights(tmp_path / "out", 2)
    again = cell("rnn", "--seed", "2")
    assert (again.exit_code, "finished before" in again.stderr) == (0, True)
    common[3] = 2
    assert call(*common).exit_code == 0
    assert [e.seed for e in ledger.read(tmp_path / "out" / "cells")] == [1, 2]
    assert weights(tmp_path / "out", 2) == before
    assert resumed(tmp_path / "out", 2) == [0]
    # One that fails says why; one that another process works on is left to it.
    held = Observer(tmp_path / "out" / "locks" / name(2, 3))
    assert held.holder() is None
    with side_by_side.sole_work(held.path, lambda line: None) as lease:
        assert lease is not None
        assert cell("rnn", "--seed", "3").exit_code == HELD
    for verb, more in (("cell", []), ("trial", ["--rung", "1", "--eta", "2", "--lr", "0.1", "--warmup-share", "0.1"])):
        given = ["reproduce", verb, "out", "rnm", *more, *(["--seed", "1"] if verb == "cell" else [])]
        assert code(CliRunner().invoke(root, given)) == "X702"


@pytest.mark.medium
def test_what_the_option_refuses(call: Call, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    common = ["--rows", "rnn", "--seeds", 1, "--updates", 3, *SMALL]
    assert code(call(*common, "--executor", "slrum")) == "X444"
    assert code(call(*common, "--executor", "local:2,cpus=1")) == "X445"
    for written in ("local:0", "local:x", "foo", ""):
        found = call(*common, "--executor", written)
        assert isinstance(found.exception, CalqueError)
        assert found.exception.exit_code == 2
    for there in (False, True):
        assert code(call(*common, "--executor", "local:2,gpus=64")) == "K408"
        for package, written in (("ray", "ray"), ("submitit", "slurm")):
            with monkeypatch.context() as patched:
                patched.setitem(sys.modules, package, None)
                found = call(*common, "--executor", written)
            assert code(found) == "X301"
            assert f"calque[{written}]" in str(found.exception)
        assert (tmp_path / "out").exists() == there
        assert call(*common, "--trials", 100).exit_code == 0  # after which no cell is left


@pytest.mark.slow
def test_survivors_do_not_depend_on_which_trial_ends_first(
    call: Call, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The trials of a rung are run by their commands in random orders, as processes may end in any."""
    small = ["rnn", "--updates", 1, "--eta", 2, "--rungs", 2, *GRID, *SMALL]
    alone = call(*small, verb="tune", out="alone")
    assert alone.exit_code == 0, alone.output
    monkeypatch.setenv(STARTER, "")
    run: list[str] = []

    def shuffled(tasks: Sequence[Task], *_: object) -> SweepEnd:
        some = [task for task in tasks if task.outcome() is None]
        random.Random(len(run)).shuffle(some)
        for task in some:
            run.append(shlex.join(task.job.arguments))
            assert CliRunner().invoke(root, list(task.job.arguments)).exit_code == 0
            assert task.outcome() is not None
        return SweepEnd()

    monkeypatch.setattr(side_by_side, "run_tasks", shuffled)
    found = call(*small, "--executor", "local:4", verb="tune")
    assert found.exit_code == 0, found.output
    assert found.stdout.replace("out/", "alone/") == alone.stdout
    first, second = (Journal(tmp_path / folder / "tune.jsonl").records() for folder in ("alone", "out"))
    assert [{**one, "seconds": 0} for one in first] == [{**one, "seconds": 0} for one in second]
    assert len(run) == len(set(run)) == len(first) == 6
    # What jobs have left and no call has taken up yet is not trained again, without an executor either.
    lines = (tmp_path / "out" / "tune.jsonl").read_text().splitlines()
    folder = tmp_path / "out" / "runs" / "rnn" / "lr-0.001-warm-up-0.1-dropout-0.1" / "1-updates"
    (folder / "trial.json").write_text(lines[0] + "\n")
    (tmp_path / "out" / "tune.jsonl").write_text("\n".join(lines[1:]) + "\n")
    monkeypatch.setattr("calque.papers.halving.train_run", None)
    assert call(*small, verb="tune").stdout == found.stdout


@pytest.mark.slow
def test_tuning_by_two_workers_is_that_by_none(call: Call, tmp_path: Path) -> None:
    small = ["rnn", "--updates", 2, "--eta", 2, "--rungs", 2, *GRID, *SMALL]
    alone = call(*small, verb="tune", out="alone")
    for workers in (1, 3):
        found = call(*small, "--executor", f"local:{workers}", verb="tune", out=f"by{workers}")
        assert found.exit_code == 0, found.output
        assert found.stdout.replace(f"by{workers}/", "alone/") == alone.stdout
        first, second = (Journal(tmp_path / folder / "tune.jsonl").records() for folder in ("alone", f"by{workers}"))
        assert list(map(_learned, first)) == list(map(_learned, second))


def _learned(trial: dict[str, Any]) -> dict[str, Any]:
    """A trial without what may differ: its seconds, and how many cores its process was given."""
    return {**trial, "seconds": 0, "conditions": {**trial["conditions"], "cores": 0}}


@pytest.mark.slow
def test_a_killed_process_is_replaced_and_a_failing_row_stops_no_other(
    call: Call, corpora: Path, tmp_path: Path
) -> None:
    common = ["--rows", "rnn", "--seeds", 2, "--updates", UPDATES, "--trials", 100, *SMALL]
    process = start(tmp_path, corpora, *common, "--executor", "local:2")
    killed = at_work(tmp_path / "out", UPDATES)
    os.kill(killed.pid, signal.SIGKILL)
    out, err = process.communicate(timeout=300)
    assert process.returncode == 0, err
    assert "rnn, seed 1: queued: its process was lost" in err
    assert "RNN" in out
    assert call(*common, out="alone").exit_code == 0
    for seed in (1, 2):
        assert weights(tmp_path / "out", seed) == weights(tmp_path / "alone", seed)
    first, second = resumed(tmp_path / "out")
    assert first == 0 < second
    assert resumed(tmp_path / "out", 2) == [0]
    # A seed whose run folder cannot be written fails, and is named with its log; the report has the others.
    (tmp_path / "out" / "runs" / "rnn" / "3").write_text("in the way")
    common[3] = 3
    process = start(tmp_path, corpora, *common, "--executor", "local:1")
    out, err = process.communicate(timeout=300)
    assert process.returncode == 1
    assert "error[K409]: 1 of 3 cells failed: `rnn, seed 3: its command ended with status 1: out/logs/" in err
    assert "Traceback" not in err
    assert "RNN" in out
    assert "in the way" not in (tmp_path / "out" / "logs" / f"{name(UPDATES, 3)}.txt").read_text()


@pytest.mark.slow
@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM, signal.SIGKILL])
def test_a_call_that_is_stopped_leaves_everything_to_be_resumed(
    call: Call, corpora: Path, tmp_path: Path, number: signal.Signals
) -> None:
    common = ["--rows", "rnn", "--seeds", 2, "--updates", UPDATES, "--trials", 100, *SMALL]
    process = start(tmp_path, corpora, *common, "--executor", "local:1")
    working = at_work(tmp_path / "out", UPDATES)
    process.send_signal(number)
    out, err = process.communicate(timeout=60)
    assert process.returncode == (-9 if number == signal.SIGKILL else 128 + number)
    assert out == ""
    assert "Traceback" not in err
    # The process of the cell has saved its state and ended, even where nobody could tell it.
    wait(lambda: gone(working.pid), 30)
    assert not (tmp_path / "out" / "runs" / "rnn" / "1" / "model.safetensors").exists()
    if number != signal.SIGKILL:
        assert "stopped; 2 are not finished; the same call resumes them" in err
    found = call(*common, "--executor", "local:2")
    assert found.exit_code == 0, found.output
    assert len(resumed(tmp_path / "out")) == 2
    assert call(*common, out="alone").exit_code == 0
    for seed in (1, 2):
        assert weights(tmp_path / "out", seed) == weights(tmp_path / "alone", seed)
    assert [e.seed for e in ledger.read(tmp_path / "out" / "cells")] == [1, 2]


@pytest.mark.slow
def test_two_calls_at_once_share_the_work(corpora: Path, tmp_path: Path) -> None:
    common = ["--rows", "rnn", "--seeds", 2, "--updates", 30, "--trials", 100, *SMALL, "--executor", "local:1"]
    one, other = (start(tmp_path, corpora, *common) for _ in range(2))
    printed = [process.communicate(timeout=300) for process in (one, other)]
    assert (one.returncode, other.returncode) == (0, 0), printed
    assert printed[0][0] == printed[1][0]
    for seed in (1, 2):
        assert resumed(tmp_path / "out", seed) == [0]
