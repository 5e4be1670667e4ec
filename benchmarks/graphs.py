"""How fast do decoders run on an accelerator, and what do graphs and kernels add?

    python benchmarks/graphs.py [--batches 128] [--beams 1 4] [--families NAME ...] [--precision bfloat16] [--record ID]

The base Transformer and every architecture of `benchmarks/families`, with random weights and 32,000 words, translate four batches
of random words, 25 words each, in one process. The ways take turns: as `calque translate` does, with a graph of kernels for each
step; the same with torch's operators in place of Calque's kernels; step by step. Shapes have come before, so that nothing is
captured in the time. Prints one JSON object: target words a second, the median of the passes.
"""

import argparse
import itertools
import json
from contextlib import nullcontext
from dataclasses import replace
from pathlib import Path

from calque.bench.clock import digits, in_turn
from calque.bench.decode import DecodeCase, DecodePass, subject, timed
from calque.decode.captured import Captured
from calque.decode.prepare import prepare_for_decoding
from calque.ground.diagnostics import CalqueError
from calque.ledger.entry import conditions, publish
from calque.native.kernels import without_kernels
from calque.train.precision import pick_device

ROOT = Path(__file__).resolve().parents[1]
FAMILIES = ROOT / "benchmarks" / "families"
VOCABULARY, WORDS, BATCHES = 32_000, 25, 4
WARM = 3
"""Passes before the time: steps are captured in the first, what precedes the second step in the next one."""


class Way:
    """A way to decode a case, warm."""

    def __init__(self, case: DecodeCase, batch: int, beam: int, graphs: bool, kernels: bool):
        self.case, self.batch, self.beam, self.kernels = case, batch, beam, kernels
        self.programs = Captured() if graphs else None
        for _ in range(WARM):
            self()
        if self.programs is not None and self.programs.refused:
            raise SystemExit(f"no graph: {self.programs.refused}")

    def __call__(self) -> DecodePass:
        self.case.model.programs = self.programs
        with nullcontext() if self.kernels else without_kernels():
            return timed(self.case, self.batch, self.beam, WORDS)


def measure(family: str, batch: int, beam: int, given: argparse.Namespace) -> dict[str, float]:
    """The figures of one architecture."""
    device = pick_device(given.device)
    file = FAMILIES / f"{family}.adl"
    case = subject(str(file) if file.exists() else family, VOCABULARY, None, BATCHES * batch, device)
    case = replace(case, model=prepare_for_decoding(case.model, given.precision))
    ways = {
        "graphs": Way(case, batch, beam, graphs=True, kernels=True),
        "graphs of torch's operators": Way(case, batch, beam, graphs=True, kernels=False),
        "step by step": Way(case, batch, beam, graphs=False, kernels=False),
    }
    name = f"{family}, batch {batch}, beam {beam}"
    found: dict[str, float] = {}
    for way, passes in in_turn(ways, given.repeats).items():
        speeds = sorted(one.tokens / one.seconds for one in passes)
        found[f"{name}, {way}: target words/s"] = digits(speeds[len(speeds) // 2])
        if way == "graphs" and passes[0].steps:
            each = sorted(one.step_seconds / one.steps for one in passes)
            found[f"{name}, {way}: ms per step"] = digits(each[len(each) // 2] * 1e3)
    return found


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    families = ["domhan2018/transformer", *sorted(file.stem for file in FAMILIES.glob("*.adl"))]
    parser.add_argument("--device", default="cuda", choices=["cpu", "cuda"])
    parser.add_argument("--batches", type=int, nargs="+", default=[128])
    parser.add_argument("--beams", type=int, nargs="+", default=[1, 4])
    parser.add_argument("--precision", default="bfloat16")
    parser.add_argument("--repeats", type=int, default=3)
    parser.add_argument("--families", nargs="+", default=families, metavar="NAME", help="or texts")
    parser.add_argument("--record", metavar="ID", help="write the figures to the ledger")
    given = parser.parse_args()
    figures: dict[str, float] = {}
    try:
        for family, batch, beam in itertools.product(given.families, given.batches, given.beams):
            figures |= measure(family, batch, beam, given)
    except CalqueError as fault:  # no such device, no such text
        raise SystemExit(str(fault)) from None
    about: dict[str, str | int] = {
        "words of a translation": WORDS,
        "vocabulary": VOCABULARY,
        "batches of a pass": BATCHES,
        "weights": "random",
    }
    if given.record:
        publish(
            ROOT / "docs" / "results",
            given.record,
            "Decoding on an accelerator: steps as graphs of kernels, of torch's operators, and step by step",
            "speed",
            f"python benchmarks/graphs.py --batches {' '.join(map(str, given.batches))} --beams {' '.join(map(str, given.beams))} "
            f"--precision {given.precision} --repeats {given.repeats} --families {' '.join(given.families)}",
            figures,
            {**conditions(given.precision), **about},
            notes="Timed: encoder, states, search, words on the processor. Graphs are captured before.",
        )
    print(json.dumps({"figures": figures, "conditions": {**conditions(given.precision), **about}}, indent=1))


if __name__ == "__main__":
    main()
