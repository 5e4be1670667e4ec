"""How fast are updates on an accelerator, with graphs of kernels and layer by layer?

    python benchmarks/accelerator_training.py --like train.en train.de [--batch-tokens 2048 16384] [--optimisers muon adam]
        [--families NAME ...] [--precision bfloat16] [--record ID]

The architectures of `benchmarks/families` are trained on a few batches of a text, over and over, once in each way, in one process.
The shapes of graphs have come before they are timed. Prints one JSON object: target tokens a second over all updates, the median
milliseconds of an update and of its optimiser, and the peak memory on the device.
"""

import argparse
import itertools
import json
import statistics
from dataclasses import replace
from pathlib import Path

from calque.bench.inputs import definition, words_file
from calque.bench.train import batches, settings_for
from calque.data.batches import Batch
from calque.ground.diagnostics import CalqueError
from calque.ledger.entry import conditions, publish
from calque.model import Shape
from calque.train.timed_updates import measure

ROOT = Path(__file__).resolve().parents[1]
FAMILIES = ROOT / "benchmarks" / "families"
VOCABULARY, PAIRS, BATCHES = 10_000, 29_000, 6
WARM = 3 * BATCHES
"""Updates before the time: a graph is captured where its shape comes for the second time."""


def figures(family: str, optimiser: str, tokens: int, data: list[Batch], given: argparse.Namespace) -> dict[str, float]:
    """The figures of one architecture, layer by layer and with graphs."""
    settings = replace(settings_for(given.precision, 1, tokens, given.device), optimiser=optimiser)
    checked = definition(str(FAMILIES / f"{family}.adl"))
    found: dict[str, float] = {}
    for way, graphs in (("layer by layer", False), ("graphs", True)):
        made = measure(checked, Shape(VOCABULARY, VOCABULARY), settings, data, given.updates, WARM, graphs=graphs)
        name = f"{family}, {optimiser}, {tokens} tokens, {way}"
        found |= {
            f"{name}: target tokens/s": round(sum(made.target_tokens) / sum(made.seconds)),
            f"{name}: ms an update": round(1e3 * statistics.median(made.seconds), 2),
            f"{name}: ms of its optimiser": round(1e3 * made.phases["optimiser"] / given.updates, 2),
            f"{name}: peak MB": round(made.peak_bytes / 1e6),
        }
    return found


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--like", type=Path, nargs=2, required=True, metavar=("SOURCE", "TARGET"))
    parser.add_argument("--device", default="cuda", choices=["cpu", "cuda"])
    parser.add_argument("--precision", default="bfloat16", choices=["bfloat16", "float32"])
    parser.add_argument("--batch-tokens", type=int, nargs="+", default=[2048, 16384])
    parser.add_argument("--optimisers", nargs="+", default=["muon", "adam"], choices=["muon", "adam", "sgd"])
    parser.add_argument("--updates", type=int, default=30)
    parser.add_argument("--families", nargs="+", default=sorted(file.stem for file in FAMILIES.glob("*.adl")))
    parser.add_argument("--record", metavar="ID", help="write the figures to the ledger")
    given = parser.parse_args()
    found: dict[str, float] = {}
    try:
        source, target = (words_file(file, PAIRS, VOCABULARY) for file in given.like)
        for tokens in given.batch_tokens:
            data = batches(source, target, settings_for(given.precision, 1, tokens, given.device))[:BATCHES]
            for family, optimiser in itertools.product(given.families, given.optimisers):
                found |= figures(family, optimiser, tokens, data, given)
    except CalqueError as fault:  # no such text, architecture or device
        raise SystemExit(str(fault)) from None
    about = {"vocabulary": VOCABULARY, "batches": BATCHES, "updates": given.updates}
    where = {**conditions(given.precision), **about}
    if given.record:
        command = (
            f"python benchmarks/accelerator_training.py --like train.en train.de --device {given.device} "
            f"--precision {given.precision} --batch-tokens "
            f"{' '.join(map(str, given.batch_tokens))} --optimisers {' '.join(given.optimisers)} --updates {given.updates} "
            f"--families {' '.join(given.families)}"
        )
        title = "Updates on an accelerator, with graphs of kernels and layer by layer"
        notes = "Words of Multi30k English-German. Batches lie ready; every phase waits for the device."
        publish(ROOT / "docs" / "results", given.record, title, "speed", command, found, where, notes=notes)
    print(json.dumps({"conditions": where, "figures": found}, indent=1))


if __name__ == "__main__":
    main()
