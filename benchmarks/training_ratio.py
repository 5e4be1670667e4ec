"""How fast is training, compared with an earlier commit on the same machine?

Checks the earlier commit out into a temporary folder. For every architecture of `benchmarks/families` and every precision the two
versions train in turn, each round in a process of its own, on the same batches of a text; every batch is new to the process.

    python benchmarks/training_ratio.py --like train.en train.de [--against 9b5e621] [--threads 1] [--device cuda]

prints one JSON object: target tokens per second of both (medians over rounds), the median of the ratios of neighbouring rounds
with the smallest and the largest, and the peak memory of both. Timed are whole updates: forward, loss, backward, optimiser.
"""

import argparse
import json
import os
import statistics
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from calque.ledger.entry import conditions, publish

ROOT = Path(__file__).resolve().parents[1]
FAMILIES = ROOT / "benchmarks" / "families"
VOCABULARY, PAIRS, WARM_UP = 10_000, 29_000, 3


@contextmanager
def earlier(commit: str) -> Iterator[Path]:
    """The package of an earlier commit, checked out into a temporary folder."""
    with tempfile.TemporaryDirectory() as folder:
        tree = Path(folder) / "before"
        git = ["git", "-C", str(ROOT), "worktree"]
        subprocess.run([*git, "add", "--quiet", "--detach", str(tree), commit], check=True)
        try:
            yield tree / "src"
        finally:
            subprocess.run([*git, "remove", "--force", str(tree)], check=True)


def measure(source: Path, family: str, precision: str, given: argparse.Namespace) -> tuple[float, float]:
    """Target tokens per second and peak bytes of one round with the package in `source`."""
    text = [*("--words", "--like"), *map(str, given.like), "--pairs", str(PAIRS), "--vocabulary", str(VOCABULARY)]
    amount = ["--updates", str(given.updates), "--warm-up", str(WARM_UP), "--repeats", "1"]
    how = ["--precision", precision, "--threads", str(given.threads), "--device", given.device]
    size = ["--batch-tokens", str(given.batch_tokens)]
    command = [sys.executable, "-m", "calque.cli", "bench", "train", str(FAMILIES / f"{family}.adl")]
    if source == ROOT / "src":
        how.append("--no-limit")
    done = subprocess.run(
        [*command, *text, *size, *amount, *how],
        env={**os.environ, "PYTHONPATH": str(source)},
        capture_output=True,
        text=True,
        check=True,
    )
    system = json.loads(done.stdout)["systems"][0]
    return float(system["target_tokens_per_second"]["median"]), float(system["peak_bytes"])


def compare(before: Path, family: str, precision: str, given: argparse.Namespace) -> dict[str, float]:
    """The figures of one architecture in one precision."""
    rounds = [
        [measure(source, family, precision, given) for source in (ROOT / "src", before)] for _ in range(given.rounds)
    ]
    now, then = ([pair[k][0] for pair in rounds] for k in (0, 1))
    ratios = [a / b for a, b in zip(now, then, strict=True)]
    name = f"{family} {precision}"
    return {
        f"{name}: target tokens/s": round(statistics.median(now), 1),
        f"{name}: target tokens/s before": round(statistics.median(then), 1),
        f"{name}: ratio": round(statistics.median(ratios), 3),
        f"{name}: smallest ratio": round(min(ratios), 3),
        f"{name}: largest ratio": round(max(ratios), 3),
        f"{name}: peak MB": round(max(pair[0][1] for pair in rounds) / 1e6),
        f"{name}: peak MB before": round(max(pair[1][1] for pair in rounds) / 1e6),
    }


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--like", type=Path, nargs=2, required=True, metavar=("SOURCE", "TARGET"))
    parser.add_argument("--against", default="9b5e621", help="a commit of this repository")
    parser.add_argument("--threads", type=int, default=1)
    parser.add_argument("--device", default="cpu", choices=["cpu", "cuda"])
    parser.add_argument("--batch-tokens", type=int, default=1024)
    parser.add_argument("--updates", type=int, default=40, help="of a round")
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--families", nargs="+", default=sorted(file.stem for file in FAMILIES.glob("*.adl")))
    parser.add_argument("--precisions", nargs="+", default=["bfloat16", "float32"])
    parser.add_argument("--record", metavar="ID", help="write the figures to the ledger")
    given = parser.parse_args()
    figures: dict[str, float] = {}
    with earlier(given.against) as before:
        for family in given.families:
            for precision in given.precisions:
                figures |= compare(before, family, precision, given)
    chosen = {key: getattr(given, key) for key in ("against", "device", "threads", "batch_tokens", "updates", "rounds")}
    where = {**conditions(" and ".join(given.precisions)), **chosen, "vocabulary": VOCABULARY}
    if given.record:
        command = f"python benchmarks/training_ratio.py --like train.en train.de --device {given.device} --threads {given.threads} "
        command += f"--batch-tokens {given.batch_tokens} --updates {given.updates} --rounds {given.rounds} "
        command += f"--families {' '.join(given.families)} --precisions {' '.join(given.precisions)}"
        title = f"Training compared with commit {given.against}, batches of {given.batch_tokens} tokens"
        notes = "Words of Multi30k English-German. Versions take turns, each round in a new process."
        publish(ROOT / "docs" / "results", given.record, title, "speed", command, figures, where, notes=notes)
    print(json.dumps({"conditions": where, "figures": figures}, indent=1))


if __name__ == "__main__":
    main()
