"""Training under kills, failing disks and interruptions, at length; all are counted.

    python benchmarks/faults.py [--kills 100] [--failures 24] [--record]

prints one JSON object; with --record the counts become files of the ledger. The fast suite runs a few of each. With none of a kind
that kind is left out.
"""

import argparse
import json
import sys
import tempfile
from collections.abc import Mapping
from datetime import date
from pathlib import Path

import torch

from calque.ledger.entry import Entry, conditions, record

ROOT = Path(__file__).parent.parent
LEDGER = ROOT / "docs" / "results"
sys.path.insert(0, str(ROOT / "tests" / "train"))
import training_faults as faults  # noqa: E402  the harness of the tests


def main() -> None:
    """Kill, fail, stop; count and print. Exit status 1 where anything was lost."""
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--kills", type=int, default=100)
    parser.add_argument("--failures", type=int, default=len(faults.FAILURES), help="the first so many of the list")
    parser.add_argument("--record", action="store_true", help="write the counts to the ledger")
    given = parser.parse_args()
    torch.set_num_threads(1)  # and no pool of threads before a fork
    import calque.train.progress

    calque.train.progress.WATCH_SECONDS = -1.0  # so that a training can be stopped after any update
    where: Mapping[str, str | int | float | None] = conditions("float32")
    parts: dict[str, tuple[str, dict[str, int]]] = {}
    with tempfile.TemporaryDirectory() as name:
        base = Path(name)
        if given.kills:
            made = faults.experiment(base / "kills")
            counted = faults.killed(made, base / "kills", given.kills, 1)
            parts["training-killed"] = "Training killed at random moments", counted
        if given.failures:
            made = faults.experiment(base / "failures", max_updates=8)
            counted = faults.failed(made, base / "failures", faults.FAILURES[: given.failures])
            parts["training-write-failures"] = "Writes that fail in training", counted
        for family in faults.FAMILIES:
            made = faults.experiment(base / family, family, max_updates=9, validate_every_updates=3, accumulate=2)
            title = f"Training stopped after each update, {family}"
            parts[f"training-resumed-{family}"] = title, faults.resumed(made, base / family)
    command = f"python benchmarks/faults.py --kills {given.kills} --failures {given.failures}"
    for name, (title, figures) in parts.items():
        if given.record:
            record(LEDGER, Entry(name, title, "robustness", command, date.today().isoformat(), where, figures, seed=1))
    counts = {name: figures for name, (_, figures) in parts.items()}
    print(json.dumps({"figures": counts, "conditions": where}))
    kills, failures = counts.get("training-killed"), counts.get("training-write-failures")
    good = kills is None or kills["equal"] == kills["runs"]
    good = good and (failures is None or failures["equal"] == failures["one clear error"] == given.failures)
    good = good and not any(f.get("checkpoints lost or half") for f in counts.values())
    good = good and all(f["equal"] == f["resumed after an update"] for n, f in counts.items() if "resumed" in n)
    sys.exit(not good)


if __name__ == "__main__":
    main()
