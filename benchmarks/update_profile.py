"""Where does the time of an update go? For the architectures of `benchmarks/families`, by phase and by kind of operator.

    python benchmarks/update_profile.py --like train.en train.de [--threads 1] [--precision bfloat16] [--batch-tokens 1024]

prints one JSON object: for each architecture target tokens per second and milliseconds of an update, the shares of its phases, and
the shares of kinds of operators in torch's own profile of further updates. Batches are words of a text, each new to the process.
"""

import argparse
import json
import statistics
from collections.abc import Callable
from contextlib import AbstractContextManager
from pathlib import Path
from typing import Any
from unittest.mock import patch

from torch.profiler import ProfilerActivity, profile, record_function

from calque.bench.inputs import definition, words_file
from calque.bench.train import batches, settings_for
from calque.ground.allocation import keep_freed_memory
from calque.ledger.entry import conditions, publish
from calque.model import Shape
from calque.native.training_calls import Calls
from calque.train.timed_updates import measure

ROOT = Path(__file__).resolve().parents[1]
FAMILIES = ROOT / "benchmarks" / "families"
VOCABULARY, PAIRS, WARM_UP = 10_000, 29_000, 3
KERNEL = "kernel "
KINDS = {
    "products": (
        *("mm", "addmm", "addmm_", "bmm", "baddbmm", "dot", "mkldnn_rnn_layer", "mkldnn_rnn_layer_backward"),
        *(KERNEL + name for name in ("product", "weight", "rows", "pack")),
    ),
    "attention": (KERNEL + "attend", KERNEL + "attend_back"),
    "output loss": (KERNEL + "loss",),
    "cells of an LSTM": (KERNEL + "lstm", KERNEL + "lstm_back"),
    "dropout and random numbers": ("random_", "randint", "bernoulli_", KERNEL + "drop", KERNEL + "drop_relu_back"),
    "optimiser": ("_fused_adamw_", KERNEL + "adam", KERNEL + "squares"),
    "softmax and norm": (
        *("_softmax", "_softmax_backward_data", "native_layer_norm", "native_layer_norm_backward"),
        *(KERNEL + "norm", KERNEL + "norm_back"),
    ),
    "copies": ("copy_", "cat", "fill_", "index_add_", "clone", "constant_pad_nd", "stack"),
}


def named_kernels() -> AbstractContextManager[object]:
    """While it lasts, a profile shows each call of a kernel of training by its name."""
    plain = Calls.__getattr__

    def recorded(calls: Calls, name: str) -> Callable[..., Any]:
        function = plain(calls, name)

        def call(*given: Any) -> Any:
            with record_function(KERNEL + name):
                return function(*given)

        return call

    return patch.object(Calls, "__getattr__", recorded)


def kind_of(operator: str) -> str:
    """The kind of an operator of a profile."""
    name = operator.removeprefix("aten::").split("::")[-1]
    for kind, names in KINDS.items():
        if name in names:
            return kind
    own = operator.startswith(("_", "autograd")) or operator.endswith("Backward")
    return "dispatch of own functions" if own else "other operators"


def shares(figures: dict[str, float]) -> dict[str, float]:
    """Each figure's share of their sum."""
    total = sum(figures.values())
    return {name: round(value / total, 3) for name, value in figures.items()}


def family(name: str, given: argparse.Namespace) -> dict[str, float]:
    """The figures of one architecture."""
    checked = definition(str(FAMILIES / f"{name}.adl"))
    settings = settings_for(given.precision, given.threads, given.batch_tokens, "cpu")
    source, target = (words_file(file, PAIRS, VOCABULARY) for file in given.like)
    data = batches(source, target, settings)
    shape = Shape(VOCABULARY, VOCABULARY)
    plain = measure(checked, shape, settings, data, given.updates, WARM_UP)
    with named_kernels(), profile(activities=[ProfilerActivity.CPU]) as recorded:
        measure(checked, shape, settings, data, given.updates, WARM_UP)
    kinds: dict[str, float] = {}
    for event in recorded.key_averages():
        kind = kind_of(event.key)
        kinds[kind] = kinds.get(kind, 0.0) + event.self_cpu_time_total
    figures = {
        "target tokens/s": round(sum(plain.target_tokens) / sum(plain.seconds), 1),
        "ms an update": round(1e3 * statistics.median(plain.seconds), 1),
        "peak MB": round(plain.peak_bytes / 1e6),
    }
    figures |= {f"phase {phase}": share for phase, share in shares(plain.phases).items()}
    figures |= {f"operators: {kind}": share for kind, share in shares(kinds).items()}
    return {f"{name}: {key}": value for key, value in figures.items()}


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--like", type=Path, nargs=2, required=True, metavar=("SOURCE", "TARGET"))
    parser.add_argument("--threads", type=int, default=1)
    parser.add_argument("--precision", default="bfloat16", choices=["bfloat16", "float32"])
    parser.add_argument("--batch-tokens", type=int, default=1024)
    parser.add_argument("--updates", type=int, default=20)
    parser.add_argument("--families", nargs="+", default=sorted(file.stem for file in FAMILIES.glob("*.adl")))
    parser.add_argument("--record", metavar="ID", help="write the figures to the ledger")
    given = parser.parse_args()
    keep_freed_memory()
    figures: dict[str, float] = {}
    for name in given.families:
        figures |= family(name, given)
    chosen = {key: getattr(given, key) for key in ("threads", "batch_tokens", "updates")}
    where = {**conditions(given.precision), **chosen, "vocabulary": VOCABULARY}
    if given.record:
        command = f"python benchmarks/update_profile.py --like train.en train.de --threads {given.threads} "
        command += f"--precision {given.precision} --batch-tokens {given.batch_tokens} --updates {given.updates}"
        title = f"Where the time of an update goes, {given.precision}, {given.threads} thread{'s'[: given.threads > 1]}"
        notes = (
            "Words of Multi30k English-German. The operators' shares come from a profile, which slows small ones down."
        )
        publish(ROOT / "docs" / "results", given.record, title, "speed", command, figures, where, notes=notes)
    print(json.dumps({"conditions": where, "figures": figures}, indent=1))


if __name__ == "__main__":
    main()
