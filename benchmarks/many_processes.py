"""How much faster do several processes train one model, and what does the sum of their gradients cost?

    python benchmarks/many_processes.py --like train.en train.de [--processes 1 2] [--updates 15]

starts `torchrun` with each number of processes on this machine, one thread each, in turn, and prints one JSON object: target tokens
per second, the ratio to one process, and the share of the time that the leader spends in sums, waiting included.
Every update has four batches of 1,024 tokens; the model is `benchmarks/families/transformer.adl`.
"""

import argparse
import json
import os
import statistics
import subprocess
import sys
import time
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import torch

from calque.adl.check import check
from calque.data.compiled import prepare
from calque.experiment import DataSettings, Experiment, TrainSettings
from calque.ground.allocation import keep_freed_memory
from calque.ground.diagnostics import Text
from calque.layers.registry import builtin
from calque.ledger.entry import conditions, publish
from calque.model import Model, Shape
from calque.train.call import TrainingCall, TrainingTask
from calque.train.initialise import initialise
from calque.train.optimise import Updater
from calque.train.order import layout, updates
from calque.train.precision import processor
from calque.train.ranks import Ranks, from_environment
from calque.train.shared_update import shared_update

ROOT = Path(__file__).resolve().parents[1]
TEXT = ROOT / "benchmarks" / "families" / "transformer.adl"
VOCABULARY, BATCHES, BATCH_TOKENS, WARM_UP = 10_000, 4, 1024, 2


def experiment(like: list[Path], precision: str) -> Experiment:
    """What every process trains."""
    files = tuple(map(str, like))
    data = DataSettings(train=files, subwords="words", vocabulary_size=VOCABULARY)
    train = TrainSettings(
        precision=precision, threads=1, batch_tokens=BATCH_TOKENS, accumulate=BATCHES, device="cpu", schedule="constant"
    )
    return Experiment(data=data, train=train)


def work(folder: Path, made: Experiment, count: int) -> None:
    """One process: trains, and where it leads prints its figures."""
    keep_freed_memory()
    ranks = from_environment("cpu")
    seconds = timed_sums(ranks)
    prepared = prepare(made.data, folder, Path())
    checked = check(Text(TEXT.name, TEXT.read_text(encoding="utf-8")), builtin())
    with processor(1):
        torch.manual_seed(1)
        source, target = (codec.size for codec in prepared.codecs)
        model = Model(checked, Shape(source, target, "none" if source != target else "three-way"))
        initialise(model, "glorot", 0.0, 1)
        updater = Updater(model, made.train, made.train.precision)
        task = TrainingTask(made, folder, prepared, checked, call=TrainingCall(ranks=ranks))
        groups = updates(prepared.split("train"), 0, layout(made.train))
        tokens, began = 0, 0.0
        for number in range(WARM_UP + count):
            if number == WARM_UP:
                tokens, began = 0, time.perf_counter()
                seconds.clear()
            tokens += shared_update(task, model, updater, groups[number], number, 0.0005).target_tokens
        whole = time.perf_counter() - began
    if ranks.leads:
        print(json.dumps({"speed": tokens / whole, "waits": sum(seconds) / whole}), flush=True)
    ranks.close()


def timed_sums(ranks: Ranks) -> list[float]:
    """The seconds of every sum from now on."""
    seconds: list[float] = []
    plain = ranks.sum

    def timed(*tensors: torch.Tensor) -> None:
        before = time.perf_counter()
        plain(*tensors)
        seconds.append(time.perf_counter() - before)

    ranks.sum = timed  # type: ignore[method-assign]  # measured from outside
    return seconds


def start(processes: int, given: argparse.Namespace, folder: str) -> dict[str, Any]:
    """The figures of one call of torchrun."""
    run = [sys.executable, "-m", "torch.distributed.run", "--standalone", "--nproc-per-node", str(processes)]
    own = [__file__, "--worker", folder, "--precision", given.precision, "--updates", str(given.updates)]
    own += ["--like", *(str(file.resolve()) for file in given.like)]
    env = {**os.environ, "OMP_NUM_THREADS": "1", "PYTHONPATH": str(ROOT / "src")}
    done = subprocess.run([*run, *own], env=env, capture_output=True, text=True, check=True)
    return dict(json.loads(done.stdout.splitlines()[-1]))


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--like", type=Path, nargs=2, required=True, metavar=("SOURCE", "TARGET"))
    parser.add_argument("--processes", type=int, nargs="+", default=[1, 2])
    parser.add_argument("--precision", default="bfloat16", choices=["bfloat16", "float32"])
    parser.add_argument("--updates", type=int, default=15)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--record", metavar="ID", help="write the figures to the ledger")
    parser.add_argument("--worker", type=Path, help=argparse.SUPPRESS)
    given = parser.parse_args()
    if given.worker:
        work(given.worker, experiment(given.like, given.precision), given.updates)
        return
    with TemporaryDirectory() as folder:
        rounds = [[start(n, given, f"{folder}/data") for n in given.processes] for _ in range(given.rounds)]
    figures = {}
    for k, processes in enumerate(given.processes):
        name = f"{processes} process{'es' if processes > 1 else ''}"
        figures[f"{name}: target tokens/s"] = round(statistics.median(r[k]["speed"] for r in rounds), 1)
        figures[f"{name}: ratio"] = round(statistics.median(r[k]["speed"] / r[0]["speed"] for r in rounds), 3)
        figures[f"{name}: share of time in sums"] = round(statistics.median(r[k]["waits"] for r in rounds), 3)
    where = {**conditions(given.precision), "updates": given.updates, "rounds": given.rounds, "batches": BATCHES}
    where |= {"batch_tokens": BATCH_TOKENS, "threads": 1}
    if given.record:
        command = f"python benchmarks/many_processes.py --like train.en train.de --processes {' '.join(map(str, given.processes))}"
        command += f" --precision {given.precision} --updates {given.updates} --rounds {given.rounds}"
        publish(
            *(ROOT / "docs" / "results", given.record, "Training by several processes of one machine", "speed"),
            *(command, figures, where),
            notes="Words of Multi30k English-German; calls of torchrun take turns.",
        )
    print(json.dumps({"conditions": where, "figures": figures}, indent=1))


if __name__ == "__main__":
    main()
