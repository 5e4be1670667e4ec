"""How long do layers take in training, forward and backward, beside an earlier commit on the same machine?

Each layer stands alone on its side of a model; a batch of random numbers passes through it and a gradient of ones back. The two
versions take turns, each round in a process of its own. Without texts every example of every layer is measured, at widths of `d`:
where one takes long for its multiply-adds, there is something to gain.

    python benchmarks/layer_training.py [TEXT ...] [--side decoder] [--against 42a5504] [--threads 1] [--precision bfloat16]

prints one JSON object: milliseconds, medians over rounds of the fastest of several passes; with `--against` those of that commit,
and the median ratio with the smallest and the largest.
"""

import argparse
import json
import os
import re
import statistics
import subprocess
import sys
import time
from collections.abc import Iterator, Sequence
from contextlib import nullcontext
from pathlib import Path

from training_ratio import ROOT, earlier

Case = tuple[str, str, str]
"""Text, side, and the encoder that it reads where it stands in the decoder."""
PASSES = 6


def examples(width: int) -> Iterator[Case]:
    """Every example of every layer with widths of `width` and four heads."""
    from calque.layers.registry import builtin

    registry = builtin()
    for name in registry:
        for example in registry[name].examples:
            text = re.sub(r"\bheads=\d+", "heads=4", re.sub(r"\bwidth=\d+", f"width={width}", example.text))
            for side in example.sides:
                yield text, side, example.encoder or "id"


def milliseconds(case: Case, given: argparse.Namespace) -> float:
    """The fastest of some passes, forward and backward."""
    import torch

    from calque.adl.check import check
    from calque.ground.diagnostics import Text
    from calque.layers.registry import builtin
    from calque.prove.case import ProofCase

    text, side, encoder = case
    sides = f"encoder = {text}\ndecoder = id" if side == "encoder" else f"encoder = {encoder}\ndecoder = {text}"
    registry, dtype = builtin(), getattr(torch, given.precision)
    proof = ProofCase(check(Text("layer", f"d = {given.d}\n{sides}\n"), registry), registry, 0)
    model = proof.model.to(dtype).train()
    x = torch.randn(given.sentences, given.length, given.d, dtype=dtype, requires_grad=True)
    mask = torch.arange(given.length) < given.length - (torch.arange(given.sentences) % 4)[:, None]
    with torch.no_grad():
        sources = proof.encode(torch.randn_like(x), mask)
    taken = []
    for _ in range(PASSES):
        model.zero_grad()
        x.grad = None
        start = time.perf_counter()
        y = proof.encode(x, mask)["end"].value if side == "encoder" else proof.forward(x, sources, mask)
        torch.autograd.backward(y.sum())
        taken.append(time.perf_counter() - start)
    return 1e3 * min(taken)


def worker(given: argparse.Namespace) -> None:
    """Print what each case takes, none for those that cannot have the width."""
    import torch

    from calque.ground.diagnostics import CalqueError

    torch.set_num_threads(given.threads)
    cases = [(text, given.side, "id") for text in given.texts] or list(examples(given.d))
    found: dict[str, float | None] = {}
    for case in cases:
        try:
            found[f"{case[0]}, {case[1]}"] = milliseconds(case, given)
        except CalqueError:
            found[f"{case[0]}, {case[1]}"] = None
    print(json.dumps(found))


def measured(source: Path, options: Sequence[str]) -> dict[str, float | None]:
    """One round with the package in `source`."""
    command = [sys.executable, __file__, "--worker", *options]
    env = {**os.environ, "PYTHONPATH": str(source)}
    done = subprocess.run(command, env=env, capture_output=True, text=True, check=True)
    found: dict[str, float | None] = json.loads(done.stdout)
    return found


def figures_of(now: Sequence[dict[str, float | None]], then: Sequence[dict[str, float | None]]) -> dict[str, float]:
    """Medians and ratios of all rounds, longest first."""
    figures = {}
    for name in sorted((name for name, ms in now[0].items() if ms is not None), key=lambda n: -(now[0][n] or 0)):
        mine = [float(one[name] or 0) for one in now]
        figures[f"{name}: ms"] = round(statistics.median(mine), 2)
        if then:
            theirs = [float(one[name] or 0) for one in then]
            ratios = [b / a for a, b in zip(mine, theirs, strict=True)]
            figures[f"{name}: ms before"] = round(statistics.median(theirs), 2)
            figures[f"{name}: ratio"] = round(statistics.median(ratios), 2)
            figures[f"{name}: smallest ratio"] = round(min(ratios), 2)
            figures[f"{name}: largest ratio"] = round(max(ratios), 2)
    return figures


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("texts", nargs="*", metavar="TEXT", help="chains of layers; none: every example of every layer")
    parser.add_argument("--side", default="encoder", choices=["encoder", "decoder"], help="where the texts stand")
    parser.add_argument("--d", type=int, default=256)
    parser.add_argument("--sentences", type=int, default=64)
    parser.add_argument("--length", type=int, default=16)
    parser.add_argument("--threads", type=int, default=1)
    parser.add_argument("--precision", default="bfloat16", choices=["bfloat16", "float32"])
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--against", help="a commit of this repository")
    parser.add_argument("--record", metavar="ID", help="write the figures to the ledger")
    parser.add_argument("--worker", action="store_true", help=argparse.SUPPRESS)
    given = parser.parse_args()
    if given.worker:
        worker(given)
        return
    chosen = {key: getattr(given, key) for key in ("side", "d", "sentences", "length", "threads", "precision")}
    options = [*given.texts, *(part for key, value in chosen.items() for part in (f"--{key}", str(value)))]
    now, then = [], []
    with earlier(given.against) if given.against else nullcontext() as before:
        for _ in range(given.rounds):
            now.append(measured(ROOT / "src", options))
            if before is not None:
                then.append(measured(before, options))
    figures = figures_of(now, then)
    from calque.ledger.entry import conditions, publish

    where = {**conditions(given.precision), **chosen, "rounds": given.rounds, "against": given.against}
    if given.record:
        said = " ".join(f"'{part}'" if " " in part or "(" in part else part for part in options)
        command = f"python benchmarks/layer_training.py {said} --rounds {given.rounds}"
        command += f" --against {given.against}" if given.against else ""
        title = f"Layers in training, {given.sentences} sentences of {given.length} positions, d = {given.d}, {given.precision}"
        notes = "Forward and backward of a layer alone. Versions take turns, each round in a new process."
        publish(ROOT / "docs" / "results", given.record, title, "speed", command, figures, where, notes=notes)
    print(json.dumps({"conditions": where, "figures": figures}, indent=1))


if __name__ == "__main__":
    main()
