"""The demo on machines of several speeds: runs `calque demo` under each condition, and records all of them as one entry.

    python benchmarks/demo_speeds.py FOLDER [CONDITION ...] [--record]

Each condition has a run folder below FOLDER; one that is measured there already is not run again, so the conditions can be
measured one by one. --record writes the entry `demo` of the ledger from those that are there; it needs the ones that do not
slow the demo down. Linux only: it sets the processor cores of the demo, and slow machines are made by stopping the demo for a
share of every tenth of a second.
"""

import argparse
import json
import os
import re
import signal
import subprocess
import sys
import time
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from calque.ground.files import write_whole
from calque.ledger.entry import conditions, publish
from calque.run.model_file import load_model

LEDGER = Path(__file__).parent.parent / "docs" / "results"
PERIOD = 0.1
"""Seconds from one stop of a slowed demo to the next."""


@dataclass(frozen=True)
class Condition:
    """A machine to imitate: its cores, how many other processes keep them busy, the share of time in which it works."""

    cores: int
    busy: int = 0
    share: float = 1.0


CONDITIONS = {
    "two cores": Condition(2),
    "one core": Condition(1),
    "two cores beside a busy process": Condition(2, busy=1),
    "slow": Condition(1, share=0.6),
    "very slow": Condition(1, share=0.35),
}


def run(condition: Condition, folder: Path) -> dict[str, float]:
    """Runs the demo into a folder; its figures."""
    cores = sorted(os.sched_getaffinity(0))[: condition.cores]
    if len(cores) < condition.cores:
        raise SystemExit(f"expected {condition.cores} processor cores, found {len(cores)}")
    environment = {k: v for k, v in os.environ.items() if k != "OMP_NUM_THREADS"}
    busy = [_started([sys.executable, "-c", "while True: pass"], cores, environment) for _ in range(condition.busy)]
    began = time.perf_counter()
    try:
        demo = _started([sys.executable, "-m", "calque.cli", "demo", str(folder)], cores, environment, subprocess.PIPE)
        try:
            _slow_down(demo, condition.share)
            said = demo.communicate()[0]
        finally:
            demo.kill()
    finally:
        for other in busy:
            other.kill()
            other.wait()
    if demo.returncode:
        raise SystemExit(f"the demo ended with status {demo.returncode}")
    return figures(folder, said, time.perf_counter() - began)


def _started(
    command: list[str], cores: list[int], environment: dict[str, str], out: int | None = None
) -> "subprocess.Popen[str]":
    pinned = ["taskset", "-c", ",".join(map(str, cores))]
    return subprocess.Popen([*pinned, *command], env=environment, stdout=out, text=True)


def _slow_down(process: "subprocess.Popen[str]", share: float) -> None:
    """Lets a process work for a share of the time until it ends."""
    while share < 1 and process.poll() is None:
        time.sleep(PERIOD * share)
        process.send_signal(signal.SIGSTOP)
        time.sleep(PERIOD * (1 - share))
        process.send_signal(signal.SIGCONT)


def figures(folder: Path, said: str, wall_seconds: float) -> dict[str, float]:
    """What a demo that ended printed and left behind."""
    trained = load_model(folder).meta["figures"]
    log = [json.loads(line) for line in (folder / "log.jsonl").read_text(encoding="utf-8").split("\n") if line]
    speeds = sorted(line["target_tokens_per_second"] for line in log if line["kind"] == "train")
    correct = re.search(r"^([\d,]+) of [\d,]+ test sentences correct", said, re.MULTILINE)
    score = re.search(r"^BLEU ([\d.]+)", said, re.MULTILINE)
    if correct is None or score is None:
        raise SystemExit("the demo printed no score")
    return {
        "BLEU": float(score[1]),
        "correct of 1,000": int(correct[1].replace(",", "")),
        "updates": trained["update"],
        "wall seconds": round(wall_seconds, 1),
        "training seconds": round(trained["seconds"], 1),
        "target tokens/s, median": speeds[len(speeds) // 2],
        "validation perplexity": round(trained["perplexity"], 3),
    }


def record(found: dict[str, dict[str, float]], folder: Path, note: str) -> None:
    """All conditions that were measured, as one entry of the ledger."""
    loaded = load_model(folder)
    train = loaded.experiment.train
    where: dict[str, Any] = {**conditions(train.precision), "batch tokens": train.batch_tokens}
    where |= {"beam": loaded.experiment.decode.beam, "ceiling, seconds of training": train.max_seconds}
    publish(
        LEDGER,
        "demo",
        "The demo at several speeds: embedded corpus, 1,000 unseen sentences",
        "quality",
        "python benchmarks/demo_speeds.py FOLDER --record",
        {f"{name}, {figure}": value for name, values in found.items() for figure, value in values.items()},
        where,
        architecture_hash=loaded.meta["architecture_hash"],
        data_hash=loaded.meta["data"],
        seed=train.seed,
        notes="; ".join([*(f"{name}: {_told(CONDITIONS[name])}" for name in found), *([note] if note else [])]),
    )


def _told(c: Condition) -> str:
    parts = [f"{c.cores} core{'s' * (c.cores > 1)}"]
    parts += [f"{c.busy} other process that never waits"] * bool(c.busy)
    parts += [f"stopped for {1 - c.share:.0%} of the time"] * (c.share < 1)
    return ", ".join(parts)


def main() -> None:
    """Measure what is asked for and missing; print; record."""
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("folder", type=Path)
    parser.add_argument("conditions", nargs="*", metavar="CONDITION", help=", ".join(CONDITIONS))
    parser.add_argument("--record", action="store_true")
    parser.add_argument("--note", default="", help="for the ledger: what else the machine did")
    given = parser.parse_intermixed_args()
    if unknown := set(given.conditions) - CONDITIONS.keys():
        parser.error(f"expected conditions among {', '.join(CONDITIONS)}, found {', '.join(sorted(unknown))}")
    found = {}
    for name, condition in CONDITIONS.items():
        folder = given.folder / name.replace(" ", "-")
        measured = folder.with_suffix(".json")
        if not measured.exists() and (name in given.conditions or not given.conditions):
            folder.parent.mkdir(parents=True, exist_ok=True)
            write_whole(measured, json.dumps(run(condition, folder)).encode())
        if measured.exists():
            found[name] = json.loads(measured.read_text())
            print(json.dumps({name: found[name]}), flush=True)
    if given.record:
        if missing := [name for name, c in CONDITIONS.items() if c.share == 1 and name not in found]:
            parser.error(f"not measured yet: {', '.join(missing)}")
        record(found, given.folder / "two-cores", given.note)


if __name__ == "__main__":
    main()
