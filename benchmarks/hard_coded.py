"""What does fixed attention save? You 2020, tables 3 and 7, with random weights: speed of decoding, and memory of training.

    python benchmarks/hard_coded.py speed [--size small] [--sentences 64] [--beam 4] [--repeats 5] [--record ID]
    python benchmarks/hard_coded.py memory [--size small] [--sentences 64] [--gigabytes 11] [--record ID]

`speed` decodes sentences of equal length at a forced length, all networks in turn, and prints beside the sentences in a second what
arithmetic alone would allow: multiply-adds of BASE divided by those of a network, by `calque.explain`, with the whole output layer
and with one of few selected words. `memory` trains one update on batches of two sizes: of the peaks, the process included, the
straight line through them says how many target tokens a memory holds. One JSON object comes out.
"""

import argparse
import json
import statistics
import time
from collections.abc import Mapping
from pathlib import Path

import torch
from torch import Tensor

from calque import zoo
from calque.adl.check import CheckedDefinition
from calque.bench.clock import digits
from calque.data.batches import Batch, collate
from calque.data.corpus import Pairs
from calque.decode.prepare import prepare_for_decoding
from calque.decode.rule import SearchSettings
from calque.decode.search import search
from calque.explain.totals import Surroundings, whole
from calque.ledger.entry import conditions, publish
from calque.model import Model, Shape
from calque.papers import read_paper
from calque.papers.plan import checked_row
from calque.train.initialise import initialise
from calque.train.loss import batch_loss
from calque.train.objective import Objective

ROWS = ("base", "hc-sa", "hc-all", "sh-x", "base-sa", "sh-x-sa")
PAIRS = {"small": "iwslt16-ende", "large": "wmt16-enro"}
VOCABULARY, SELECTED, LENGTH = 32000, 1000, 25
"""Words, those of an output layer with vocabulary selection, and words of a sentence on either side."""
COPIES = 4
"""Numbers for each parameter in training: itself, its gradient, two moments of Adam; all in float32."""


def networks(size: str) -> dict[str, CheckedDefinition]:
    """The networks of the paper at one of its two sizes."""
    pair = next(p for p in read_paper.paper("you2020").pairs if p.name == PAIRS[size])
    settings = {name: f"{name}={value}" for name, value in pair.settings.items()}
    return {row: checked_row(zoo.read(f"you2020/{row}"), settings)[0] for row in ROWS}


def multiply_adds(checked: CheckedDefinition, beam: int, words: int) -> float:
    """Of a sentence: the source and what is foreseen once, the steps for each of its hypotheses."""
    told = whole(checked, Surroundings(VOCABULARY, words), LENGTH, LENGTH)
    once = LENGTH * (told.per_source_token + told.per_place)
    return once + beam * (told.sentence - once)


def sources(count: int) -> Tensor:
    """Sentences of equal length."""
    return torch.randint(4, VOCABULARY, (count, LENGTH))


def sentences_a_second(checked: Mapping[str, CheckedDefinition], given: argparse.Namespace) -> dict[str, list[float]]:
    """By network, of every repeat."""
    made: dict[str, Model] = {}
    for name, one in checked.items():
        model = Model(one, Shape(VOCABULARY, VOCABULARY))
        initialise(model, "glorot", 0.1, 1)
        made[name] = prepare_for_decoding(model)
    settings = SearchSettings(given.beam, exact_length=LENGTH, scores=False)
    batch = sources(given.sentences)
    found: dict[str, list[float]] = {name: [] for name in made}
    mask, most = torch.ones_like(batch, dtype=torch.bool), torch.full((given.sentences,), LENGTH - 1)
    for repeat in range(given.repeats + 1):
        for name, model in made.items():
            began = time.perf_counter()
            search(model, batch, mask, most, settings)
            if repeat:  # the first warms up
                found[name].append(given.sentences / (time.perf_counter() - began))
    return found


def speed(given: argparse.Namespace) -> dict[str, int | float]:
    """The figures of `speed`."""
    checked = networks(given.size)
    with torch.inference_mode():
        found = sentences_a_second(checked, given)
    figures: dict[str, int | float] = {}
    for name, values in found.items():
        figures[f"{name}: sentences/s"] = digits(statistics.median(values))
    for name, values in found.items():
        ratio = statistics.median(a / b for a, b in zip(values, found["base"], strict=True))
        figures[f"{name}: times as fast as base"] = digits(ratio, 3)
        for what, words in (("by arithmetic", VOCABULARY), (f"by arithmetic, {SELECTED:,} words selected", SELECTED)):
            bound = multiply_adds(checked["base"], given.beam, words) / multiply_adds(checked[name], given.beam, words)
            figures[f"{name}: {what}"] = digits(bound, 3)
    return figures


def training_batch(count: int) -> Batch:
    """So many pairs of equal length, end symbols included."""
    side = [row.tolist() for row in sources(count)[:, 1:]]
    return collate(Pairs.of(side, side), torch.arange(count).numpy(), True)


def kept_bytes(model: Model, batch: Batch) -> int:
    """What an update keeps of its forward pass for the gradient, parameters left out: every storage once."""
    own = {p.untyped_storage().data_ptr() for p in model.parameters()}
    held: dict[int, Tensor] = {}

    def keep(t: Tensor) -> Tensor:
        held.setdefault(t.untyped_storage().data_ptr(), t)
        return t

    with torch.autograd.graph.saved_tensors_hooks(keep, lambda t: t):
        loss = batch_loss(model, batch, Objective(0.1))[0]
    total = sum(t.untyped_storage().nbytes() for at, t in held.items() if at not in own)
    del loss
    return total


def memory(given: argparse.Namespace) -> dict[str, int | float]:
    """The figures of `memory`."""
    figures: dict[str, int | float] = {}
    for name, checked in networks(given.size).items():
        model = Model(checked, Shape(VOCABULARY, VOCABULARY)).train()
        batch = training_batch(given.sentences)
        each = kept_bytes(model, batch) / batch.target_tokens
        numbers = sum(p.numel() for p in model.parameters())
        figures[f"{name}: kB kept for each target token"] = digits(each / 1e3, 3)
        figures[f"{name}: target tokens in {given.gigabytes:g} GB"] = int(
            (given.gigabytes * 1e9 - COPIES * 4 * numbers) / each
        )
    return figures


TITLES = {
    "speed": "Decoding with fixed attention (You 2020, tables 3 and 7), {size} sizes",
    "memory": "Training with fixed attention (You 2020, tables 3 and 7), {size} sizes",
}
NOTES = {
    "speed": "Timed: encoder, states and search, random weights, forced length; not loading. Times as fast: the median over "
    "pairs of repeats. By arithmetic: multiply-adds of a sentence of base divided by the network's, all its hypotheses included.",
    "memory": "Kept: every tensor that the forward pass and the loss hold for the gradient, in float32, one source token to a "
    "target token. Tokens: what is left of the memory beside weights, gradients and two moments of Adam, divided by it; buffers "
    "that live for a moment are left out.",
}


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("what", choices=list(TITLES))
    parser.add_argument("--size", choices=list(PAIRS), default="small")
    parser.add_argument("--threads", type=int, default=1)
    parser.add_argument("--sentences", type=int, default=64)
    parser.add_argument("--beam", type=int, default=4)
    parser.add_argument("--repeats", type=int, default=5)
    parser.add_argument("--gigabytes", type=float, default=11)
    parser.add_argument("--record", metavar="ID", help="write the figures to the ledger")
    given = parser.parse_args()
    torch.set_num_threads(given.threads)
    torch.manual_seed(1)
    figures = {"speed": speed, "memory": memory}[given.what](given)
    asked = f"--sentences {given.sentences} --beam {given.beam} --repeats {given.repeats}"
    if given.what == "memory":
        asked = f"--sentences {given.sentences} --gigabytes {given.gigabytes:g}"
    where = {
        **conditions(),
        "vocabulary": VOCABULARY,
        "words": LENGTH,
        "sentences": given.sentences,
        **({"beam": given.beam, "repeats": given.repeats} if given.what == "speed" else {}),
    }
    if given.record:
        publish(
            Path(__file__).parent.parent / "docs" / "results",
            given.record,
            TITLES[given.what].format(size=given.size),
            "speed" if given.what == "speed" else "size",
            f"python benchmarks/hard_coded.py {given.what} --size {given.size} --threads {given.threads} {asked}",
            figures,
            where,
            notes=NOTES[given.what],
        )
    print(json.dumps({"figures": figures, "conditions": where}))


if __name__ == "__main__":
    main()
