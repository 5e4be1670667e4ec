"""Training by several processes: the same model for every number of them, and what happens when one is lost."""

import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import Any, TextIO

import pytest
import tiny
import torch

from calque.run.tensors import read_tensors

ENVIRONMENT = {**os.environ, "OMP_NUM_THREADS": "1", "PYTHONPATH": os.pathsep.join(p for p in sys.path if p)}
FLOAT64 = Path(__file__).with_name("float64_updates.py")


def python(*command: object, stdin: TextIO | None = None) -> "subprocess.Popen[str]":
    return subprocess.Popen(
        [sys.executable, *map(str, command)],
        stdin=stdin,
        stderr=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
        env=ENVIRONMENT,
    )


def torchrun(
    processes: int, *command: object, options: tuple[str, ...] = (), stdin: TextIO | None = None
) -> "subprocess.Popen[str]":
    launcher = ("-m", "torch.distributed.run", "--standalone", "--nproc-per-node", processes)
    return python(*launcher, *options, *command, stdin=stdin)


def train(processes: int, experiment: Path, run: Path, *more: str) -> str:
    """Trains; returns what is printed on stderr."""
    command = ("-m", "calque", "train", experiment, "--out", run, *more)
    process = torchrun(processes, *command) if processes > 1 else python(*command)
    _, err = process.communicate(timeout=180)
    assert process.returncode == 0, err
    return err


def weights(run: Path) -> dict[str, torch.Tensor]:
    return dict(read_tensors(run / "model")[0])


def close(one: Path, other: Path) -> bool:
    """Weights are equal up to the roundings of some updates."""
    a, b = weights(one), weights(other)
    return a.keys() == b.keys() and all(torch.allclose(a[name], b[name], atol=2e-4) for name in a)


def shared(folder: Path, **keys: Any) -> Path:
    """An experiment whose updates have four batches."""
    return tiny.experiment(folder, **{"accumulate": 4, "batch_tokens": 50, "optimiser": "sgd", "lr": 0.1, **keys})


def workers(process: "subprocess.Popen[str]") -> list[int]:
    """The processes that torchrun has started."""
    found = subprocess.run(["pgrep", "-P", str(process.pid)], capture_output=True, text=True, check=False)
    return [int(pid) for pid in found.stdout.split()]


def underway(run: Path, update: int) -> None:
    """Waits until the log has a validation after this update."""
    until = time.monotonic() + 90
    while time.monotonic() < until:
        log = run / "log.jsonl"
        lines = log.read_text().splitlines() if log.exists() else []
        if any(json.loads(line).get("update", 0) >= update for line in lines if '"valid"' in line):
            return
        time.sleep(0.05)
    raise AssertionError("no validation was logged")


@pytest.mark.medium
def test_two_processes_train_the_model_of_one_and_one_continues_it(tmp_path: Path) -> None:
    experiment = shared(tmp_path, validate_bleu_sentences=5)
    train(1, experiment, tmp_path / "one")
    train(2, experiment, tmp_path / "two", "--set", "train.max_updates=4")
    train(1, experiment, tmp_path / "two")
    assert close(tmp_path / "one", tmp_path / "two")


@pytest.mark.slow
def test_more_processes_than_batches_are_refused(tmp_path: Path) -> None:
    process = torchrun(2, "-m", "calque", "train", tiny.experiment(tmp_path), "--out", tmp_path / "run")
    _, err = process.communicate(timeout=120)
    assert process.returncode
    assert err.count("error[X442]") == 1
    assert "error[K403]" not in err
    assert not (tmp_path / "run").exists()


@pytest.mark.slow
@pytest.mark.parametrize("processes", [3, 4])
def test_any_number_of_processes_trains_the_same_model(tmp_path: Path, processes: int) -> None:
    experiment = shared(tmp_path)
    train(1, experiment, tmp_path / "one")
    train(processes, experiment, tmp_path / "several")
    assert close(tmp_path / "one", tmp_path / "several")


@pytest.mark.slow
def test_in_float64_all_numbers_of_processes_agree_to_ten_digits() -> None:
    sums = []
    for processes in (1, 2, 3, 4):
        out, err = torchrun(processes, FLOAT64).communicate(timeout=120)
        assert out, err
        sums.append(json.loads(out.splitlines()[-1]))

    assert all(abs(one - sums[0]) <= 1e-10 * abs(sums[0]) for one in sums)


@pytest.mark.slow
@pytest.mark.parametrize("victim", [0, 1, 2])
@pytest.mark.parametrize("number", [signal.SIGKILL, signal.SIGSTOP])
def test_a_lost_process_ends_all_and_the_run_continues(tmp_path: Path, victim: int, number: signal.Signals) -> None:
    experiment = shared(tmp_path, max_updates=3000)
    process = torchrun(3, "-m", "calque", "train", experiment, "--out", tmp_path / "run")
    underway(tmp_path / "run", 4)
    os.kill(workers(process)[victim], number)
    began = time.monotonic()
    _, err = process.communicate(timeout=90)
    assert time.monotonic() - began < 30
    assert process.returncode
    assert err.count("error[K40") == 1, err
    assert "calque: please report" not in err
    train(2, experiment, tmp_path / "run", "--set", "train.max_updates=1")
    assert (tmp_path / "run" / "model.safetensors").exists()


@pytest.mark.slow
def test_restarts_resume_by_themselves(tmp_path: Path) -> None:
    experiment = shared(tmp_path, max_updates=300, validate_every_updates=20)
    command = ("-m", "calque", "train", experiment, "--out", tmp_path / "run")
    process = torchrun(2, *command, options=("--max-restarts", "2"))
    underway(tmp_path / "run", 20)
    os.kill(workers(process)[1], signal.SIGKILL)
    _, err = process.communicate(timeout=120)
    assert process.returncode == 0, err
    assert (tmp_path / "run" / "model.safetensors").exists()


@pytest.mark.slow
def test_a_signal_to_torchrun_ends_after_the_update_and_leaves_a_run_that_continues(tmp_path: Path) -> None:
    experiment = shared(tmp_path, max_updates=5000)
    process = torchrun(2, "-m", "calque", "train", experiment, "--out", tmp_path / "run")
    underway(tmp_path / "run", 4)
    process.send_signal(signal.SIGTERM)
    _, err = process.communicate(timeout=60)
    assert "stopped after update" in err
    assert "error[" not in err
    stopped = max(int(f.stem.split("-")[1]) for f in (tmp_path / "run" / "checkpoints").glob("state-*.json"))
    assert stopped >= 4


@pytest.mark.slow
def test_two_nodes_train_the_model_of_one_process(tmp_path: Path) -> None:
    experiment = shared(tmp_path)
    train(1, experiment, tmp_path / "one")
    base = [sys.executable, "-m", "torch.distributed.run", "--nnodes", "2", "--nproc-per-node", "1"]
    meeting = ["--rdzv-backend", "c10d", "--rdzv-endpoint", "127.0.0.1:29411", "--rdzv-id", "two-nodes"]
    command = ["-m", "calque", "train", str(experiment), "--out", str(tmp_path / "two")]
    nodes = [subprocess.Popen([*base, *meeting, *command], env=ENVIRONMENT, stderr=subprocess.DEVNULL) for _ in (0, 1)]
    assert [node.wait(timeout=120) for node in nodes] == [0, 0]
    assert close(tmp_path / "one", tmp_path / "two")


@pytest.mark.slow
@pytest.mark.parametrize("key", ["subword_sampling", "prefix_pairs"])
def test_pairs_are_cut_anew_in_the_same_way_by_any_number_of_processes(tmp_path: Path, key: str) -> None:
    pieces = {"data__subwords": "bpe", "data__vocabulary_size": 21}
    usual, made = (shared(tmp_path / f"{p}", **pieces, **{key: p}) for p in (0.0, 0.4))
    train(1, usual, tmp_path / "usual")
    train(1, made, tmp_path / "one")
    train(2, made, tmp_path / "two")
    assert close(tmp_path / "one", tmp_path / "two")
    assert not close(tmp_path / "one", tmp_path / "usual")


@pytest.mark.slow
@pytest.mark.parametrize("kind", ["mixture", "stream"])
@pytest.mark.parametrize("sampling", [0.0, 0.4])
def test_several_texts_and_a_stream_are_shared_too(tmp_path: Path, kind: str, sampling: float) -> None:
    """Two processes, then one that continues, train the model of one."""
    if kind == "mixture":
        files = [tiny.text(tmp_path, name, pairs, seed) for name, pairs, seed in (("web", 60, 5), ("talks", 25, 6))]
        tables = [
            "{{ source = '{}', target = '{}', weight = {} }}".format(*(tmp_path / name for name in names), weight)
            for names, weight in zip(files, (1, 2), strict=True)
        ]
        more, text = ["--set", f"data.train=[{', '.join(tables)}]"], ""
    else:
        pairs = zip(
            *((tmp_path / name).read_text().splitlines() for name in tiny.text(tmp_path, "web", 300, 5)), strict=True
        )
        more, text = (
            ["--set", "data.stream=-", "--set", "data.stream_window=70"],
            "".join(f"{a}\t{b}\n" for a, b in pairs),
        )
    pieces: dict[str, Any] = {"data__subwords": "bpe", "data__vocabulary_size": 21, "subword_sampling": sampling}
    experiment = shared(tmp_path, max_updates=14, **(pieces if sampling else {}))
    for run, processes, limit in (("one", 1, 14), ("two", 2, 5), ("two", 1, 14)):
        command = ["-m", "calque", "train", experiment, "--out", tmp_path / run, *more]
        command += ["--set", f"train.max_updates={limit}"]
        (tmp_path / "stream").write_text(text)
        with open(tmp_path / "stream", encoding="utf-8") as stdin:
            process = torchrun(processes, *command, stdin=stdin)
            _, err = process.communicate(timeout=180)
        assert process.returncode == 0, err
    assert close(tmp_path / "one", tmp_path / "two")
