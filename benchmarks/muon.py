"""What does an update with Muon cost? Calque's own and torch's take turns, round by round, on the same batches.

    python benchmarks/muon.py --like train.en train.de [--threads 1] [--precision bfloat16] [--batch-tokens 2048]

prints one JSON object: for each architecture of `benchmarks/families` target tokens per second of both (medians over rounds), the
median of the ratios of neighbouring rounds with the smallest and the largest, and the share of the optimiser in an update of
both. Timed are whole updates: forward, loss, backward, optimiser.
"""

import argparse
import json
import statistics
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from unittest.mock import patch

from torch import Tensor
from torch.optim._muon import muon

from calque.bench.inputs import definition, words_file
from calque.bench.train import batches, settings_for
from calque.ground.allocation import keep_freed_memory
from calque.ledger.entry import conditions, publish
from calque.model import Shape
from calque.native.training import TrainingKernels
from calque.train import optimise
from calque.train.muon import EPSILON, MOMENTUM, NEWTON_SCHULZ, NEWTON_SCHULZ_STEPS
from calque.train.timed_updates import measure

ROOT = Path(__file__).resolve().parents[1]
FAMILIES = ROOT / "benchmarks" / "families"
VOCABULARY, PAIRS, WARM_UP = 10_000, 29_000, 3


def torch_muon(weights: Tensor, gradient: Tensor, mean: Tensor, rate: float, kept: float) -> None:
    """An update by torch's Muon, which computes in bfloat16."""
    lr = rate / (0.2 * max(weights.shape) ** 0.5)
    muon(
        [weights],
        [gradient],
        [mean],
        lr=lr,
        weight_decay=(1 - kept) / lr,
        momentum=MOMENTUM,
        nesterov=True,
        ns_coefficients=NEWTON_SCHULZ,
        ns_steps=NEWTON_SCHULZ_STEPS,
        eps=EPSILON,
        adjust_lr_fn="match_rms_adamw",
        has_complex=False,
    )


@contextmanager
def by_torch() -> Iterator[None]:
    """While it lasts, torch's Muon does the work."""
    with patch.object(TrainingKernels, "muon", lambda *given: False), patch.object(optimise, "muon", torch_muon):
        yield


def family(name: str, given: argparse.Namespace) -> dict[str, float]:
    """The figures of one architecture."""
    checked = definition(str(FAMILIES / f"{name}.adl"))
    settings = replace(settings_for(given.precision, given.threads, given.batch_tokens, "cpu"), optimiser="muon")
    source, target = (words_file(file, PAIRS, VOCABULARY) for file in given.like)
    data = batches(source, target, settings)

    def speed() -> tuple[float, float]:
        made = measure(checked, Shape(VOCABULARY, VOCABULARY), settings, data, given.updates, WARM_UP)
        return sum(made.target_tokens) / sum(made.seconds), made.phases["optimiser"] / sum(made.seconds)

    rounds = []
    for _ in range(given.rounds):
        ours = speed()
        with by_torch():
            rounds.append((ours, speed()))
    ratios = [ours[0] / theirs[0] for ours, theirs in rounds]
    figures = {
        "target tokens/s": statistics.median(ours[0] for ours, _ in rounds),
        "target tokens/s, torch's Muon": statistics.median(theirs[0] for _, theirs in rounds),
        "ratio": statistics.median(ratios),
        "smallest ratio": min(ratios),
        "largest ratio": max(ratios),
        "share of the optimiser": statistics.median(ours[1] for ours, _ in rounds),
        "share of the optimiser, torch's Muon": statistics.median(theirs[1] for _, theirs in rounds),
    }
    return {f"{name}: {key}": round(value, 1 if value > 10 else 3) for key, value in figures.items()}


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--like", type=Path, nargs=2, required=True, metavar=("SOURCE", "TARGET"))
    parser.add_argument("--threads", type=int, default=1)
    parser.add_argument("--precision", default="bfloat16", choices=["bfloat16", "float32"])
    parser.add_argument("--batch-tokens", type=int, default=2048)
    parser.add_argument("--updates", type=int, default=20, help="of a round")
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--families", nargs="+", default=["transformer", "rnmt-feed", "convs2s"])
    parser.add_argument("--record", metavar="ID", help="write the figures to the ledger")
    given = parser.parse_args()
    keep_freed_memory()
    figures: dict[str, float] = {}
    for name in given.families:
        figures |= family(name, given)
    chosen = {key: getattr(given, key) for key in ("threads", "batch_tokens", "updates", "rounds")}
    where = {**conditions(given.precision), **chosen, "vocabulary": VOCABULARY}
    if given.record:
        command = f"python benchmarks/muon.py --like train.en train.de --threads {given.threads} "
        command += f"--precision {given.precision} --batch-tokens {given.batch_tokens} --updates {given.updates} "
        command += f"--rounds {given.rounds} --families {' '.join(given.families)}"
        title = f"Updates with Muon by its own kernel and by torch's, {given.precision}"
        notes = "Words of Multi30k English-German. The two take turns in one process."
        publish(ROOT / "docs" / "results", given.record, title, "speed", command, figures, where, notes=notes)
    print(json.dumps({"conditions": where, "figures": figures}, indent=1))


if __name__ == "__main__":
    main()
