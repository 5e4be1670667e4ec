"""The laws and the language at length: random architectures proved, random and mutated texts checked; both are counted.

    python benchmarks/soak.py [--architectures 2000] [--texts 20000] [--record]

prints one JSON object; with --record the counts become files of the ledger. A count of 0 leaves that part out. Exit status 1: a
law is broken, a text ends in an exception, or a check takes longer than 50 ms. `make soak` runs the same as tests.
"""

import argparse
import json
import random
import sys
import time
from concurrent.futures import ProcessPoolExecutor
from pathlib import Path

import torch

from calque.adl.check import check
from calque.ground.diagnostics import CalqueError, Text, render_all
from calque.layers.registry import builtin
from calque.ledger.entry import conditions, publish
from calque.prove import prove_text, random_program

ROOT = Path(__file__).parent.parent
LEDGER = ROOT / "docs" / "results"
SECONDS = 0.05
"""Of processor time, within which every check has to end."""
SLOWEST = "slowest, ms of processor time"


def architectures(count: int, jobs: int) -> dict[str, int | float]:
    """Proves seeds 0 .. count - 1, in so many processes."""
    began = time.perf_counter()
    with ProcessPoolExecutor(jobs, initializer=torch.set_num_threads, initargs=(1,)) as pool:
        outcomes = list(pool.map(_prove, range(count), chunksize=20))
    for seed, (_, told) in enumerate(outcomes):
        if told:
            print(f"seed {seed}\n{random_program(seed)}\n{told}", file=sys.stderr)
    return {
        "architectures": count,
        "verdicts": sum(verdicts for verdicts, _ in outcomes),
        "architectures that break a law": sum(bool(told) for _, told in outcomes),
        "seconds": round(time.perf_counter() - began, 1),
    }


def _prove(seed: int) -> tuple[int, str]:
    report = prove_text(random_program(seed), builtin(), seed)
    return len(report.verdicts), "" if report.passed else str(report)


def texts(count: int) -> dict[str, int | float]:
    """Checks random and mutated texts; the slowest is timed again, since a processor shared with others is slow at times."""
    sys.path.insert(0, str(ROOT / "tests" / "adl"))
    from adl_texts import any_text  # the generator of the tests

    valid = [p.read_text(encoding="utf-8") for p in sorted((ROOT / "tests/adl/conformance/valid").glob("*.adl"))]
    draw = random.Random(1)
    trees = diagnosed = crashed = 0
    slowest = 0.0
    for _ in range(count):
        body = any_text(draw, valid)
        seconds = float("inf")
        for _attempt in range(4):
            began = time.thread_time()
            try:
                check(Text("text", body), builtin())
                outcome = "tree"
            except CalqueError as e:
                outcome = "told" if render_all(e.diagnostics) else "crash"
            except Exception:
                outcome = "crash"
            seconds = min(seconds, time.thread_time() - began)
            if seconds < SECONDS:
                break
        trees, diagnosed, crashed = (
            trees + (outcome == "tree"),
            diagnosed + (outcome == "told"),
            crashed + (outcome == "crash"),
        )
        slowest = max(slowest, seconds)
    return {
        "texts": count,
        "valid": trees,
        "diagnosed": diagnosed,
        "other exceptions": crashed,
        SLOWEST: round(slowest * 1000, 1),
    }


def main() -> None:
    """Count and print."""
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--architectures", type=int, default=2000)
    parser.add_argument("--texts", type=int, default=20000)
    parser.add_argument("--jobs", type=int, default=2, help="processes, for the architectures")
    parser.add_argument("--record", action="store_true", help="write the counts to the ledger")
    given = parser.parse_args()
    where = conditions("float64")
    parts: dict[str, tuple[str, str, dict[str, int | float]]] = {}
    if given.architectures:
        counted = architectures(given.architectures, given.jobs)
        parts["random-architectures"] = ("law", "Random architectures under every law", counted)
    if given.texts:
        parts["random-texts"] = ("robustness", "Random and mutated definitions", texts(given.texts))
    command = f"python benchmarks/soak.py --architectures {given.architectures} --texts {given.texts}"
    for name, (kind, title, figures) in parts.items():
        if given.record:
            publish(LEDGER, name, title, kind, command, figures, where)
    found = {name: figures for name, (_, _, figures) in parts.items()}
    print(json.dumps({"figures": found, "conditions": where}))
    broken = found.get("random-architectures", {}).get("architectures that break a law", 0)
    told = found.get("random-texts", {})
    sys.exit(bool(broken or told.get("other exceptions", 0) or told.get(SLOWEST, 0.0) > 1000 * SECONDS))


if __name__ == "__main__":
    main()
