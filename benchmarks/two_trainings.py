"""What does a second training on the same machine cost the first?

A training runs alone, then two at the same time, in processes of their own, with one thread each and with as many as there are
cores: waiting threads that do not sleep would make the latter many times slower.

    python benchmarks/two_trainings.py --like train.en train.de [--family transformer] [--rounds 3]

prints one JSON object: target tokens per second of a training alone and of each of two, and what share of it each of them keeps
(medians over rounds, which take turns). Timed are whole updates: forward, loss, backward, optimiser.
"""

import argparse
import json
import os
import statistics
import subprocess
import sys
from pathlib import Path

from calque.ledger.entry import conditions, publish

ROOT = Path(__file__).resolve().parents[1]
VOCABULARY, PAIRS = 10_000, 29_000


def start(threads: int, given: argparse.Namespace) -> subprocess.Popen[str]:
    """One training in a process of its own."""
    text = ["--words", "--like", *map(str, given.like), "--pairs", str(PAIRS), "--vocabulary", str(VOCABULARY)]
    amount = [
        "--updates",
        str(given.updates),
        "--warm-up",
        "3",
        "--repeats",
        "1",
        "--batch-tokens",
        str(given.batch_tokens),
    ]
    how = ["--precision", given.precision, "--threads", str(threads), "--device", "cpu", "--no-limit"]
    subject = str(ROOT / "benchmarks" / "families" / f"{given.family}.adl")
    command = [sys.executable, "-m", "calque.cli", "bench", "train", subject, *text, *amount, *how]
    # The program chooses how its threads wait, as it does for a user.
    plain = {key: value for key, value in os.environ.items() if not key.startswith(("OMP_", "GOMP_", "MKL_"))}
    return subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True, env=plain)


def speeds(count: int, threads: int, given: argparse.Namespace) -> list[float]:
    """Target tokens per second of so many trainings at the same time."""
    running = [start(threads, given) for _ in range(count)]
    outputs = [process.communicate()[0] for process in running]
    if any(process.returncode for process in running):
        raise SystemExit("a training failed")
    return [float(json.loads(out)["systems"][0]["target_tokens_per_second"]["median"]) for out in outputs]


def compare(threads: int, given: argparse.Namespace) -> dict[str, float]:
    """The figures with so many threads for each training."""
    alone, each = [], []
    for _ in range(given.rounds):
        alone += speeds(1, threads, given)
        each.append(statistics.mean(speeds(2, threads, given)))
    shares = [two / one for one, two in zip(alone, each, strict=True)]
    name = f"{threads} thread{'s'[: threads > 1]} each"
    return {
        f"{name}: alone, target tokens/s": round(statistics.median(alone), 1),
        f"{name}: each of two, target tokens/s": round(statistics.median(each), 1),
        f"{name}: share that each keeps": round(statistics.median(shares), 3),
        f"{name}: smallest share": round(min(shares), 3),
        f"{name}: largest share": round(max(shares), 3),
    }


def main() -> None:
    """Measure and print."""
    cores = len(os.sched_getaffinity(0))
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--like", type=Path, nargs=2, required=True, metavar=("SOURCE", "TARGET"))
    parser.add_argument("--family", default="transformer")
    parser.add_argument("--precision", default="bfloat16", choices=["bfloat16", "float32"])
    parser.add_argument("--batch-tokens", type=int, default=1024)
    parser.add_argument("--updates", type=int, default=60, help="of a round")
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--record", metavar="ID", help="write the figures to the ledger")
    given = parser.parse_args()
    figures = {key: value for threads in sorted({1, cores}) for key, value in compare(threads, given).items()}
    chosen = {key: getattr(given, key) for key in ("family", "batch_tokens", "updates", "rounds")}
    where = {**conditions(given.precision), **chosen, "threads": f"1 and {cores}", "vocabulary": VOCABULARY}
    if given.record:
        command = f"python benchmarks/two_trainings.py --like train.en train.de --family {given.family} "
        command += f"--precision {given.precision} --batch-tokens {given.batch_tokens} --updates {given.updates} "
        command += f"--rounds {given.rounds}"
        notes = (
            "Words of Multi30k English-German. Two trainings start together; one core is left idle by one thread alone."
        )
        title = f"Two trainings side by side on {cores} cores"
        publish(ROOT / "docs" / "results", given.record, title, "speed", command, figures, where, notes=notes)
    print(json.dumps({"conditions": where, "figures": figures}, indent=1))


if __name__ == "__main__":
    main()
