"""Does a sweep on a Ray cluster survive the loss of processes and of nodes?

Starts a cluster of two nodes with a core each on this machine, and on it a call of `calque reproduce train` for small cells. At
random moments the process of a cell is killed, or a node with all that runs on it is lost and a new one joins. At the end the
models are compared, byte by byte, with those of a call without an executor that nothing has interrupted.

    python benchmarks/ray_losses.py CORPORA [--losses 6] [--cells 4] [--updates 1200]

prints one JSON object. CORPORA is a data root with Multi30k; Ray comes with `calque[ray]`.
"""

import argparse
import json
import os
import random
import signal
import subprocess
import sys
import time
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from calque.ground.lease import Holder, Observer
from calque.ledger import entry as ledger

ROOT = Path(__file__).resolve().parents[1]
TABLE, ROW = ("domhan2018", "table3"), "rnn"
SMALL = ("d=32", "n=1", "heads=2", "train.batch_tokens=256", "train.threads=1", "train.validate_every_updates=50")
NODE: dict[str, Any] = {"num_cpus": 1, "object_store_memory": 80_000_000}


def call(folder: Path, corpora: Path, cells: int, updates: int, *more: str) -> "subprocess.Popen[str]":
    """A call that trains so many cells."""
    settings = [word for one in SMALL for word in ("--set", one)]
    given = [
        *TABLE,
        "--rows",
        ROW,
        "--seeds",
        str(cells),
        "--updates",
        str(updates),
        "--trials",
        "100",
        *settings,
        *more,
    ]
    return subprocess.Popen(
        [sys.executable, "-m", "calque", "reproduce", "train", *given, "--data", str(corpora), "--out", str(folder)],
        stdout=subprocess.DEVNULL,
        stderr=subprocess.PIPE,
        text=True,
        env=os.environ,
    )


def holders(folder: Path) -> list[Holder]:
    """The processes that train a cell now."""
    names = {file.name.partition(".lease-")[0] for file in (folder / "locks").glob("*-seed-*.lease-*")}
    found = [Observer(folder / "locks" / name).holder() for name in sorted(names)]
    return [one for one in found if one is not None and not one.ended and one.pid != os.getpid()]


def lose(cluster: Any, folder: Path, process: "subprocess.Popen[str]", draw: random.Random, node: bool) -> bool:
    """Waits for a random moment and takes a process, or a node, away; False where the call ended before."""
    until = time.monotonic() + draw.uniform(10.0, 25.0)
    while time.monotonic() < until or not holders(folder):
        if process.poll() is not None:
            return False
        time.sleep(0.1)
    if node:
        cluster.remove_node(cluster.list_all_nodes()[-1], allow_graceful=False)
        cluster.add_node(**NODE)
    else:
        os.kill(draw.choice(holders(folder)).pid, signal.SIGKILL)
    return True


def calls_of(folder: Path, seed: int) -> int:
    """How many processes a cell's training took."""
    lines = (folder / "runs" / ROW / str(seed) / "log.jsonl").read_text(encoding="utf-8").splitlines()
    return sum(json.loads(line)["kind"] == "start" for line in lines)


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("corpora", type=Path, help="a data root with Multi30k")
    parser.add_argument("--losses", type=int, default=6, help="processes and nodes in turn")
    parser.add_argument("--cells", type=int, default=4)
    parser.add_argument("--updates", type=int, default=1200)
    parser.add_argument("--record", metavar="ID", help="write the figures to the ledger")
    given = parser.parse_args()
    os.environ.update(OMP_NUM_THREADS="1", PYTHONPATH=str(ROOT / "src"), RAY_USAGE_STATS_ENABLED="0")
    from ray.cluster_utils import Cluster

    draw, lost = random.Random(1), {"process": 0, "node": 0}
    with TemporaryDirectory() as name:
        folders = Path(name) / "ray", Path(name) / "alone"
        cluster: Any = Cluster(initialize_head=True, head_node_args={**NODE, "include_dashboard": False})
        cluster.add_node(**NODE)
        try:
            process = call(
                folders[0], given.corpora, given.cells, given.updates, "--executor", f"ray:{cluster.address},retries=20"
            )
            for k in range(given.losses):
                kind = ("process", "node")[k % 2]
                if not lose(cluster, folders[0], process, draw, kind == "node"):
                    break
                lost[kind] += 1
            _, err = process.communicate(timeout=3600)
        finally:
            cluster.shutdown()
        if process.returncode:
            sys.exit(err)
        alone = call(folders[1], given.corpora, given.cells, given.updates)
        if alone.communicate(timeout=3600) and alone.returncode:
            sys.exit("the call without an executor failed")
        models = [
            [(folder / "runs" / ROW / str(seed) / "model.safetensors").read_bytes() for folder in folders]
            for seed in range(1, given.cells + 1)
        ]
        starts = [calls_of(folders[0], seed) for seed in range(1, given.cells + 1)]
    figures: dict[str, float] = {
        "processes lost": lost["process"],
        "nodes lost": lost["node"],
        "cells": given.cells,
        "processes that trained them": sum(starts),
        "cells whose model is that of an undisturbed call, byte by byte": sum(one == two for one, two in models),
    }
    if given.record:
        where = {**ledger.conditions("float32"), "threads": 1, "nodes": 2}
        command = f"python benchmarks/ray_losses.py CORPORA --losses {given.losses} --cells {given.cells} --updates {given.updates}"
        title = "Cells on a Ray cluster of two nodes that loses processes and nodes"
        ledger.publish(ROOT / "docs" / "results", given.record, title, "robustness", command, figures, where)
    print(json.dumps(figures, indent=1))


if __name__ == "__main__":
    main()
