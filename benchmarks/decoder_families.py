"""What share of the machine's own limit does each family of decoders reach?

    python benchmarks/decoder_families.py [--threads 1] [--batch 64] [--precisions bfloat16 int8] [--families NAME ...]

Every architecture of `benchmarks/families`, with random weights and 10,000 words, decodes in a process of its own: 128 sentences of
random words become 25 words each, greedily. Prints one JSON object: target tokens per second, milliseconds of a step, and the share
of the limit of its products (`calque bench decode` says how that is measured). The median of the passes counts.
"""

import argparse
import json
import os
import subprocess
import sys
from pathlib import Path

from calque.bench.machine import BYTES
from calque.ledger.entry import conditions, publish

ROOT = Path(__file__).resolve().parents[1]
FAMILIES = ROOT / "benchmarks" / "families"
SENTENCES, VOCABULARY = 128, 10_000


def measure(family: str, precision: str, given: argparse.Namespace) -> dict[str, float]:
    """The figures of one architecture in one precision."""
    how = [*("--threads", str(given.threads)), *("--batch", str(given.batch)), *("--repeats", str(given.repeats))]
    what = [*("--sentences", str(SENTENCES)), *("--vocabulary", str(VOCABULARY)), *("--precision", precision)]
    done = subprocess.run(
        [sys.executable, "-m", "calque", "bench", "decode", str(FAMILIES / f"{family}.adl"), *what, *how],
        env={**os.environ, "PYTHONPATH": str(ROOT / "src")},
        stdout=subprocess.PIPE,
        text=True,
        check=True,
    )
    cell = json.loads(done.stdout)["cells"][0]
    name = f"{family} {precision}"
    return {
        f"{name}: target tokens/s": cell["target_tokens_per_second"]["median"],
        f"{name}: ms per step": cell["ms_per_step"],
        f"{name}: share of the limit": cell["share_of_limit"],
    }


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--threads", type=int, default=1)
    parser.add_argument("--batch", type=int, default=64)
    parser.add_argument("--repeats", type=int, default=5)
    parser.add_argument("--precisions", nargs="+", default=["bfloat16", "int8"], choices=list(BYTES))
    families = sorted(file.stem for file in FAMILIES.glob("*.adl"))
    parser.add_argument("--families", nargs="+", default=families, choices=families)
    parser.add_argument("--record", metavar="ID", help="write the figures to the ledger")
    given = parser.parse_args()
    figures: dict[str, float] = {}
    for family in given.families:
        for precision in given.precisions:
            figures |= measure(family, precision, given)
    about: dict[str, int] = {"threads": given.threads, "batch": given.batch, "beam": 1, "words of a translation": 25}
    where = {**conditions(" and ".join(given.precisions)), **about, "weights": "random", "vocabulary": VOCABULARY}
    if given.record:
        command = f"python benchmarks/decoder_families.py --threads {given.threads} --batch {given.batch} "
        command += f"--precisions {' '.join(given.precisions)} --families {' '.join(given.families)}"
        title = "Decoders of several families beside the limit of their products"
        publish(ROOT / "docs" / "results", given.record, title, "speed", command, figures, where)
    print(json.dumps({"conditions": where, "figures": figures}, indent=1))


if __name__ == "__main__":
    main()
