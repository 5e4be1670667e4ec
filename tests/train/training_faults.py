"""Trainings that are killed or cannot write, in processes of their own: shared by the tests and `benchmarks/faults.py`."""

import errno
import json
import os
import random
import re
import resource
import shutil
import signal
import sys
import tempfile
import time
import traceback
import warnings
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import torch

import calque.run.tensors
from calque import cli
from calque.experiment import DataSettings, Experiment, ModelSettings, TrainSettings, write
from calque.ground.diagnostics import CalqueError
from calque.run.tensors import read_tensors
from calque.train.log import Progress, Validation
from calque.train.loop import StoppedTraining
from calque.workflow.steps import run_training

FAMILIES = {
    "transformer": "heads = 2\np = 0.1\nencoder = pos -> repeat(1, tenc) -> norm\ndecoder = pos -> repeat(1, tdec) -> norm\n",
    "rnn-feed": "p = 0.1\nencoder = dropout -> birnn\ndecoder = feed(dropout -> rnn -> concat(id, mlp_src_att) -> ff)\n",
    "cnn": "p = 0.1\nencoder = pos -> res_d(cnn(glu))\ndecoder = pos -> res_d(cnn(glu) -> res(dot_src_att(s=1, project=none)))\n",
    "average": "p = 0.1\nencoder = pos -> res_d(ssru)\ndecoder = pos -> post(gate(average -> ffl)) -> post(dot_src_att)\n",
    "window": "p = 0.1\nencoder = pos -> post(hc_self_att(0))\ndecoder = pos -> post(hc_self_att(-1, 0)) -> post(dot_src_att)\n",
    "local-feed": "p = 0.1\nencoder = reverse(dropout -> rnn @ e)\ndecoder = feed(dropout -> rnn(start=@e)\n"
    "  -> concat(dot_src_att(project=q, s=1, window=2, center=predict), id) -> linear(bias=no) -> act(tanh))\n",
}
"""An architecture of each family, without its width: a further one is a further line."""


def text(family: str) -> str:
    """The definition of a family, 16 wide."""
    return f"d = 16\n{FAMILIES[family]}"


def experiment(folder: Path, family: str = "transformer", pairs: int = 300, **settings: Any) -> Experiment:
    """Writes a corpus of reversed letters, and an experiment on it that saves at every second update."""
    folder.mkdir(parents=True, exist_ok=True)
    draw = random.Random(3)
    for split, count in (("train", pairs), ("valid", 20)):
        source = [[draw.choice("abcdefgh") for _ in range(draw.randint(1, 6))] for _ in range(count)]
        for side, lines in (("source", source), ("target", [words[::-1] for words in source])):
            (folder / f"{split}.{side}").write_text("".join(" ".join(words) + "\n" for words in lines))
    files = {split: (str(folder / f"{split}.source"), str(folder / f"{split}.target")) for split in ("train", "valid")}
    plain = TrainSettings(
        threads=1,
        device="cpu",
        precision="float32",
        batch_tokens=256,
        warmup_updates=10,
        lr=0.01,
        schedule="plateau",
        decay_patience=1,
        clip_norm=1.0,
        max_updates=40,
        validate_every_updates=2,
        log_every_updates=4,
        keep_checkpoints=2,
        average_count=2,
    )
    data = DataSettings(files["train"], files["valid"], subwords="words", vocabulary_size=0)
    return Experiment(data, ModelSettings(text=text(family)), replace(plain, **settings))


def child(work: Callable[[], None]) -> int:
    """A process that does the work and ends with the status it ended with."""
    with warnings.catch_warnings():  # later Pythons warn of threads, and torch has some; the child uses none
        warnings.simplefilter("ignore", DeprecationWarning)
        pid = os.fork()
    if pid:
        return pid
    status = 70
    try:
        work()
        status = 0
    except SystemExit as e:
        status = int(e.code or 0)
    except BaseException:
        traceback.print_exc()  # `os._exit` would end the process without a word
    finally:
        sys.stdout.flush()
        sys.stderr.flush()
        os._exit(status)


def wait(pid: int) -> int:
    """Its exit status, negative for a signal."""
    return os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1])


def same(one: Path, other: Path) -> bool:
    """Whether two pairs hold the same numbers, bit for bit."""
    (a, _), (b, _) = read_tensors(one), read_tensors(other)
    return a.keys() == b.keys() and all(torch.equal(t, b[name]) for name, t in a.items())


@dataclass
class Witness:
    """Watches a run folder: what was complete stays complete until something newer takes its place."""

    folder: Path
    perplexities: dict[int, float]
    """By update, of the uninterrupted run."""
    keep: int
    newest: int = 0
    state: int = 0
    half: int = 0
    """How often files were found that a killed process had not finished."""
    faults: list[str] = field(default_factory=list)

    def look(self) -> None:
        """Checks every pair that is there."""
        folder = self.folder / "checkpoints"
        found: dict[str, list[int]] = {"": [], "state-": []}
        names = {p.name for p in folder.iterdir()} if folder.is_dir() else set()
        for name in names:
            if m := re.fullmatch(r"(state-)?(\d+)\.json", name):
                found[m[1] or ""].append(int(m[2]))
                read_tensors(folder / name.removesuffix(".json"))
        pairs = {f"{prefix}{n}.{end}" for prefix, ns in found.items() for n in ns for end in ("json", "safetensors")}
        hidden = any(p.name.startswith(".") for p in self.folder.glob(".*"))
        self.half += bool(names - pairs) or hidden
        if max(found[""], default=0) < self.newest or max(found["state-"], default=0) < self.state:
            self.faults.append(f"{sorted(names)}: older than {self.newest}, {self.state}")
        self.newest, self.state = max(found[""], default=0), max(found["state-"], default=0)
        if missing := self._kept(self.newest) - set(found[""]):
            self.faults.append(f"{sorted(names)}: without {missing}")

    def _kept(self, newest: int) -> set[int]:
        """The newest checkpoint and the best ones, drawn anew after each."""
        held: list[int] = []
        for update in sorted(u for u in self.perplexities if u <= newest):
            ranked = sorted([*held, update], key=lambda u: (self.perplexities[u], -u))
            held = sorted({update, *ranked[: self.keep]})
        return set(held)


def witness(whole: Path, folder: Path, keep: int) -> Witness:
    """A witness of `folder`, for which `whole` is the uninterrupted run."""
    lines = [json.loads(line) for line in (whole / "log.jsonl").read_text().splitlines()]
    return Witness(folder, {v["update"]: v["perplexity"] for v in lines if v["kind"] == "valid"}, keep)


def killed(made: Experiment, folder: Path, kills: int, seed: int, longest: float = 0.3) -> dict[str, int]:
    """Kills trainings at random moments and looks after each; a run that ends is compared, and another begins."""
    draw, done, equal, runs, half, faults = random.Random(seed), 0, 0, 0, 0, 0
    whole = folder / "whole"
    assert wait(child(lambda: _quiet_run(made, whole))) == 0
    while done < kills:
        run = folder / f"run-{runs}"
        seen = witness(whole, run, made.train.keep_checkpoints)
        while True:
            hear, tell = os.pipe()
            pid = child(lambda run=run, tell=tell: _run_until_killed(made, run, tell))  # type: ignore[misc]
            os.close(tell)
            if done < kills:
                if done % 5:  # after its first update; every fifth while it still gets ready
                    os.read(hear, 1)
                time.sleep(draw.uniform(0.0, longest))
                os.kill(pid, signal.SIGKILL)
            os.close(hear)
            status = wait(pid)
            seen.look()
            if status == 0:
                break
            assert status == -signal.SIGKILL, status
            done += 1
        names = ["model", f"checkpoints/state-{made.train.max_updates}"]
        equal += all(same(whole / name, run / name) for name in names)
        runs, half, faults = runs + 1, half + seen.half, faults + len(seen.faults)
        for fault in seen.faults:
            print(fault, file=sys.stderr)
    return {
        "kills": done,
        "half-written files found": half,
        "checkpoints lost or half": faults,
        "runs": runs,
        "equal": equal,
    }


def _run_until_killed(made: Experiment, folder: Path, tell: int) -> None:
    """Says with a byte that the first update is done."""
    told: list[int] = []

    def watch(event: Progress | Validation) -> None:
        if not told:
            told.append(os.write(tell, b"."))

    signal.signal(signal.SIGPIPE, signal.SIG_IGN)
    run_training(made, folder, watch)


def _quiet_run(made: Experiment, folder: Path) -> None:
    run_training(made, folder)


FAILURES: list[tuple[str, int, int]] = [
    *(("replace", code, nth) for code in (errno.ENOSPC, errno.EIO) for nth in (1, 4, 6, 9)),
    *(("fsync", code, nth) for code in (errno.ENOSPC, errno.EIO) for nth in (2, 9, 14)),
    *(("mkstemp", errno.ENOSPC, nth) for nth in (1, 4, 7)),
    *(("save_file", errno.ENOSPC, nth) for nth in (1, 2, 3)),
    *(("limit", errno.EFBIG, size) for size in (100, 3000, 9000, 30000)),
]
"""What fails: a function at its n-th call, or every write beyond so many bytes of a file (a short write, then EFBIG)."""


def fail(kind: str, code: int, at: int) -> None:
    """Makes the n-th call of a function fail from now on in this process, and those after it."""
    if kind == "limit":
        resource.setrlimit(resource.RLIMIT_FSIZE, (at, at))
        return
    owner: Any = {"replace": os, "fsync": os, "mkstemp": tempfile, "save_file": calque.run.tensors}[kind]
    plain, left = getattr(owner, kind), [at]

    def failing(*arguments: Any, **named: Any) -> Any:
        left[0] -= 1
        if left[0] <= 0:
            raise OSError(code, os.strerror(code))
        return plain(*arguments, **named)

    setattr(owner, kind, failing)


def failed(made: Experiment, folder: Path, failures: list[tuple[str, int, int]]) -> dict[str, int]:
    """Lets trainings fail at writing, one for each failure, and goes on with each as if room had been made."""
    clear = faults = equal = 0
    whole = folder / "whole"
    assert wait(child(lambda: _quiet_run(made, whole))) == 0
    half = replace(made, train=replace(made.train, max_updates=made.train.max_updates // 2))
    write(made, folder / "e.toml")
    for number, failure in enumerate(failures):
        run = folder / f"failed-{number}"
        assert wait(child(lambda run=run: _quiet_run(half, run))) == 0  # type: ignore[misc]
        seen = witness(whole, run, made.train.keep_checkpoints)
        seen.look()
        told, tell = os.pipe()  # a limit on files does not count here

        def command(run: Path = run, tell: int = tell, failure: tuple[str, int, int] = failure) -> None:
            os.dup2(tell, 2)
            os.dup2(os.open(os.devnull, os.O_WRONLY), 1)
            sys.stderr = os.fdopen(2, "w", closefd=False)
            sys.argv = ["calque", "train", str(folder / "e.toml"), "--out", str(run)]
            fail(*failure)
            cli.main()

        status = wait(child(command))
        os.close(tell)
        with open(told, errors="replace") as file:
            lines = file.read()
        good = status == 1 and lines.count("error[") == 1 and "error[K301]" in lines and "Traceback" not in lines
        clear += good
        if not good:
            print(failure, status, lines, file=sys.stderr)
        seen.look()
        try:
            read_tensors(run / "model")  # that of the first half
        except CalqueError as fault:
            seen.faults.append(f"model: {fault}")
        assert wait(child(lambda run=run: _quiet_run(made, run))) == 0  # type: ignore[misc]
        seen.look()
        equal += same(whole / "model", run / "model")
        faults += len(seen.faults)
        for fault in seen.faults:
            print(failure, fault, file=sys.stderr)
    return {
        "write failures": len(failures),
        "one clear error": clear,
        "checkpoints lost or half": faults,
        "equal": equal,
    }


def resumed(made: Experiment, folder: Path) -> dict[str, int]:
    """Stops a training after each of its updates in turn, goes on, and compares with the uninterrupted one."""
    run_training(made, folder / "whole")
    last, equal = made.train.max_updates, 0
    for update in range(1, last):
        run = folder / f"run-{update}"
        stopped = run_training(made, run, Interrupt(update))
        assert stopped == StoppedTraining(update, signal.SIGTERM), stopped
        run_training(made, run)
        names = ["model", f"checkpoints/state-{last}", f"checkpoints/{last}"]
        alike = standing(run, last) == standing(folder / "whole", last)
        equal += alike and all(same(folder / "whole" / name, run / name) for name in names)
        shutil.rmtree(run)
    return {"resumed after an update": last - 1, "equal": equal}


class Interrupt:
    """A watcher that stops training once so many updates are done."""

    def __init__(self, update: int):
        self.update = update

    def __call__(self, event: Progress | Validation) -> None:
        if event.update >= self.update:
            os.kill(os.getpid(), signal.SIGTERM)


def standing(run: Path, update: int) -> dict[str, Any]:
    """The counters and the memory of a state, but for its time."""
    found = dict(read_tensors(run / "checkpoints" / f"state-{update}")[1]["standing"])
    del found["seconds"], found["validated_seconds"]
    return found
