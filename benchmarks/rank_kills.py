"""Does a training by several processes survive that they are killed?

Starts a training of three processes again and again, and each time kills or freezes one of them at a random moment once they
train. At the end one process finishes the run, and the model is compared with that of a training by one process that nothing has
interrupted.

    python benchmarks/rank_kills.py [--kills 20] [--updates 6000]

prints one JSON object: how often a process was lost, how long the others took to end, how many errors each loss reported, and how
far the two models are apart.
"""

import argparse
import json
import math
import os
import random
import signal
import subprocess
import sys
import time
from pathlib import Path
from tempfile import TemporaryDirectory

import torch

from calque.ledger.entry import conditions, publish
from calque.run.tensors import read_tensors

ROOT = Path(__file__).resolve().parents[1]
PROCESSES = 3
EXPERIMENT = """
[data]
train = ["train.source", "train.target"]
valid = ["valid.source", "valid.target"]
subwords = "words"
vocabulary_size = 0

[model]
text = \"\"\"
d = 32
heads = 2
p = 0.1
encoder = pos -> repeat(2, tenc) -> norm
decoder = pos -> repeat(2, tdec) -> norm
\"\"\"

[train]
precision = "float32"
device = "cpu"
threads = 1
optimiser = "sgd"
lr = 0.02
clip_norm = 1.0
schedule = "constant"
warmup_updates = 0
batch_tokens = 100
accumulate = 3
max_updates = {updates}
validate_every_updates = 15
average_count = 1
"""


def write(folder: Path, updates: int) -> Path:
    """The text and the experiment, of so many updates."""
    draw = random.Random(1)
    for split, pairs in (("train", 400), ("valid", 20)):
        lines = [[draw.choice("abcdefghij") for _ in range(draw.randint(2, 9))] for _ in range(pairs)]
        for side, step in (("source", 1), ("target", -1)):
            (folder / f"{split}.{side}").write_text("".join(" ".join(words[::step]) + "\n" for words in lines))
    (folder / "kills.toml").write_text(EXPERIMENT.format(updates=updates))
    return folder / "kills.toml"


def start(processes: int, experiment: Path, run: Path) -> "subprocess.Popen[str]":
    """A call of torchrun."""
    torchrun = [sys.executable, "-m", "torch.distributed.run", "--standalone", "--nproc-per-node", str(processes)]
    return subprocess.Popen(
        [*torchrun, "-m", "calque", "train", str(experiment), "--out", str(run)],
        stderr=subprocess.PIPE,
        stdout=subprocess.DEVNULL,
        text=True,
        env={**os.environ, "OMP_NUM_THREADS": "1", "PYTHONPATH": str(ROOT / "src")},
    )


def children(process: "subprocess.Popen[str]") -> list[int]:
    """The processes that torchrun has started."""
    listed = subprocess.run(["pgrep", "-P", str(process.pid)], capture_output=True, text=True, check=False)
    return [int(number) for number in listed.stdout.split()]


def written(run: Path) -> int:
    """Bytes of the run's log."""
    log = run / "log.jsonl"
    return log.stat().st_size if log.exists() else 0


def lose_one(experiment: Path, run: Path, draw: random.Random) -> tuple[float, int] | None:
    """Seconds until all had ended, and errors reported; None where the training ended before."""
    before = written(run)
    process = start(PROCESSES, experiment, run)
    until = math.inf
    while time.monotonic() < until:
        if process.poll() is not None:
            return None
        if until == math.inf and written(run) > before:  # it trains
            until = time.monotonic() + draw.uniform(0.0, 8.0)
        time.sleep(0.05)
    os.kill(draw.choice(children(process)), draw.choice([signal.SIGKILL, signal.SIGKILL, signal.SIGSTOP]))
    began = time.monotonic()
    _, err = process.communicate(timeout=300)
    return time.monotonic() - began, err.count("error[")


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--kills", type=int, default=20)
    parser.add_argument(
        "--updates", type=int, default=6000, help="of the whole training; more of them leave room for more kills"
    )
    parser.add_argument("--record", metavar="ID", help="write the figures to the ledger")
    given = parser.parse_args()
    with TemporaryDirectory() as name:
        folder = Path(name)
        experiment, draw = write(folder, given.updates), random.Random(2)
        lost = [one for _ in range(given.kills) if (one := lose_one(experiment, folder / "killed", draw)) is not None]
        for run in ("killed", "plain"):
            process = start(1, experiment, folder / run)
            _, err = process.communicate(timeout=1800)
            if process.returncode:
                sys.exit(err)
        killed, plain = (read_tensors(folder / run / "model")[0] for run in ("killed", "plain"))
        apart = max(float((killed[key] - plain[key]).abs().max()) for key in plain)
        largest = max(float(value.abs().max()) for value in plain.values())
    figures: dict[str, float] = {
        "processes lost": len(lost),
        "longest time until all had ended, s": round(max((seconds for seconds, _ in lost), default=0.0), 1),
        "losses with exactly one error": sum(errors == 1 for _, errors in lost),
        "largest difference of a weight": apart,
        "largest weight": largest,
    }
    where = {**conditions("float32"), "threads": 1, "processes": PROCESSES}
    if given.record:
        command = f"python benchmarks/rank_kills.py --kills {given.kills} --updates {given.updates}"
        title = "Processes killed and frozen in a training by three"
        notes = "A third of the losses are frozen processes, noticed after 20 seconds. One process ends the run."
        publish(ROOT / "docs" / "results", given.record, title, "robustness", command, figures, where, notes=notes)
    print(json.dumps({"torch": torch.__version__, "figures": figures}, indent=1))


if __name__ == "__main__":
    main()
