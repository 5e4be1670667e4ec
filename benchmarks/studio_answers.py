"""How long the studio takes to answer while a text is typed: faults, costs, picture and numbers of every text of the zoo.

    python benchmarks/studio_answers.py [--rounds 3] [--record ID]

A studio is started as a user starts it, and asked over HTTP on this machine. Every question is another text (its last comment
changes), so that no answer has been given before. The figures are wall times of a question; of the rounds the fastest counts, since
other work on the machine only takes time. The first answer of a studio is reported apart.
"""

import argparse
import json
import re
import statistics
import subprocess
import sys
import time
import urllib.request
from pathlib import Path

from calque import zoo
from calque.ledger.entry import conditions, publish

LEDGER = Path(__file__).parent.parent / "docs" / "results"


def answer(address: str, text: str) -> float:
    """Seconds until the whole answer is there."""
    body = json.dumps({"text": text}).encode()
    asked = urllib.request.Request(f"{address}/api/check", body, {"Content-Type": "application/json"})
    began = time.perf_counter()
    with urllib.request.urlopen(asked, timeout=60) as reply:
        found = json.load(reply)
    seconds = time.perf_counter() - began
    if not found["ok"]:
        raise SystemExit(f"a text of the zoo has faults: {text}")
    return seconds


def main() -> None:
    """Ask, and print or record."""
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--record", metavar="ID", help="write an entry of the ledger")
    given = parser.parse_args()
    command = [sys.executable, "-m", "calque", "studio", "--no-open"]
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True) as studio:
        try:
            figures = measure(address_of(studio), given.rounds)
        finally:
            studio.terminate()
    where = conditions()
    if given.record:
        shown = f"python benchmarks/studio_answers.py --rounds {given.rounds}"
        publish(LEDGER, given.record, "Answers of the studio to every text of the zoo", "speed", shown, figures, where)
    print(json.dumps({"figures": figures, "conditions": where}, indent=1))


def address_of(studio: "subprocess.Popen[str]") -> str:
    """Where it listens, as it says; the program ends where it does not."""
    for line in studio.stdout or ():
        if found := re.search(r"http://[\w.:]+", line):
            return found[0]
    raise SystemExit("the studio has not started")


def measure(address: str, rounds: int) -> dict[str, int | float]:
    """Milliseconds of all texts."""
    texts = {name: zoo.read(name).body for name in zoo.distinct()}
    first = answer(address, next(iter(texts.values())))
    best = {
        name: min(answer(address, f"{text}\n# {round_}") for round_ in range(rounds)) for name, text in texts.items()
    }
    slowest = max(best, key=lambda name: best[name])
    print(f"slowest: {slowest}", file=sys.stderr)
    ms = sorted(1000 * seconds for seconds in best.values())
    return {
        "texts": len(ms),
        "ms, median": round(statistics.median(ms), 1),
        "ms, slowest": round(ms[-1], 1),
        "texts beyond 100 ms": sum(one > 100 for one in ms),
        "ms, first answer of a studio": round(1000 * first, 1),
    }


if __name__ == "__main__":
    main()
