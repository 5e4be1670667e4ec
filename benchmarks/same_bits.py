"""Do sentences come out the same alone, among others and with more threads, to the bit?

    python benchmarks/same_bits.py [NAME ...] [--sentences 12] [--precisions float32 bfloat16 int8] [--record ID]

For every architecture of the zoo that differs from the others, or those named, with random weights: beams of 1 and 4 over
sentences of 1 to 40 tokens, all together, each alone, and all together with two threads. Counted are sentences of which a word, a
score or a log-probability of a hypothesis differs in any bit. Output weights are eight times as large as at the beginning of a
training, so that hypotheses differ as those of trained models do.
"""

import argparse
import json
from pathlib import Path

import torch
from torch import Tensor

import calque
from calque import zoo
from calque.data.vocabulary import EOS
from calque.decode.prepare import prepare_for_decoding
from calque.decode.rule import SearchSettings
from calque.decode.search import search
from calque.ledger.entry import conditions, publish
from calque.model import Model
from calque.native.kernels import kernels
from calque.train.initialise import initialise

LEDGER = Path(__file__).parent.parent / "docs" / "results"
WORDS, LONGEST = 2000, 40


def model_of(name: str, precision: str) -> Model:
    """An architecture with random weights, ready to decode."""
    model = calque.build(zoo.read(name).body, WORDS, WORDS).eval()
    initialise(model, "glorot", 0.1, 1)
    with torch.no_grad():
        model.output.weight.mul_(8)
    return prepare_for_decoding(model, precision)


def sentences_of(count: int) -> list[Tensor]:
    """Sentences of random words, the first as long as any."""
    lengths = torch.randint(1, LONGEST, (count,)).tolist()
    return [torch.cat((torch.randint(4, WORDS, (n,)), torch.tensor([EOS]))) for n in [LONGEST - 1, *lengths[1:]]]


def found(model: Model, sentences: list[Tensor], beam: int, threads: int) -> list[str]:
    """All hypotheses of each sentence with their scores, digit by digit."""
    source = torch.nn.utils.rnn.pad_sequence(sentences, batch_first=True)
    limits = torch.tensor([5 + len(sentence) % 8 for sentence in sentences])
    torch.set_num_threads(threads)
    hypotheses = search(model, source, source > 0, limits, SearchSettings(beam, n_best=beam))
    torch.set_num_threads(1)
    return [repr(each) for each in zip(*hypotheses, strict=True)]


def changed(name: str, precision: str, sentences: list[Tensor]) -> dict[str, int]:
    """How many sentences differ, alone and with two threads."""
    model, counts = model_of(name, precision), {"alone": 0, "with two threads": 0}
    for beam in (1, 4):
        together = found(model, sentences, beam, 1)
        alone = [found(model, [sentence], beam, 1)[0] for sentence in sentences]
        counts["alone"] += sum(a != b for a, b in zip(together, alone, strict=True))
        counts["with two threads"] += sum(
            a != b for a, b in zip(together, found(model, sentences, beam, 2), strict=True)
        )
    return counts


def main() -> None:
    """Count and print."""
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("names", nargs="*", metavar="NAME")
    parser.add_argument("--sentences", type=int, default=12)
    parser.add_argument("--precisions", nargs="+", default=["float32", "bfloat16", "int8"])
    parser.add_argument("--record", metavar="ID")
    given = parser.parse_args()
    torch.manual_seed(1)
    torch.set_num_threads(1)
    names, sentences = given.names or list(zoo.distinct()), sentences_of(given.sentences)
    figures: dict[str, int | float] = {
        "architectures": len(names),
        "sentences, with two beams": 2 * len(names) * len(sentences),
    }
    differ: set[str] = set()
    for precision in given.precisions:
        totals = {"alone": 0, "with two threads": 0}
        for name in names:
            counts = changed(name, precision, sentences)
            if any(counts.values()):
                differ.add(f"{name} in {precision}")
                print(json.dumps({"architecture": name, "precision": precision, **counts}), flush=True)
            totals = {how: totals[how] + counts[how] for how in totals}
        figures |= {f"{precision}: sentences that differ {how}": count for how, count in totals.items()}
    where = {**conditions(", ".join(given.precisions)), "beam": "1, 4"}
    here = kernels()
    where["kernels"] = "none" if here is None else here.instructions
    if given.record:
        command = f"python benchmarks/same_bits.py --sentences {given.sentences}"
        title = "Sentences alone, among others and with two threads, every architecture of the zoo with random weights"
        publish(
            LEDGER,
            given.record,
            title,
            "law",
            command,
            figures,
            where,
            notes=f"Differ: {', '.join(sorted(differ)) or 'none'}.",
        )
    print(json.dumps({"figures": figures, "conditions": where}))


if __name__ == "__main__":
    main()
