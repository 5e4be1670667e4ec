"""What a sentence becomes must not depend on its batch: counted on a file, with a trained run.

    python benchmarks/batch_independence.py RUN SOURCE REFERENCE [--tokenize none] [--record ID]

Batches of 1, 7 and 64 lines in the order of the file, in every precision that decodes here: translations that differ from those
at 64, the largest difference of forced scores, BLEU. Then `--invariant` decoding of the file and of the file shuffled:
translations and scores that differ in any bit.
"""

import argparse
import json
import random
import shlex
from pathlib import Path

import numpy as np
import torch

import calque
from calque.data.batches import collate
from calque.data.corpus import Pairs
from calque.data.lines import Lines
from calque.decode.products import packing_works
from calque.decode.score import score
from calque.decode.translate import Sentence, Translation, translate_batch, translate_lines
from calque.evaluate import TOKENISERS, bleu
from calque.ledger.entry import conditions, publish
from calque.workflow.api import Run

LEDGER = Path(__file__).parent.parent / "docs" / "results"
SIZES = (64, 7, 1)


def in_batches(run: Run, lines: list[str], size: int) -> list[Translation]:
    """The best translations, `size` lines at a time, in the order of the file."""
    sources = [Sentence((np.array(ids, np.int64),)) for ids in run.loaded.source.encode(lines)]
    parts = [sources[k : k + size] for k in range(0, len(sources), size)]
    return [found[0] for part in parts for found in translate_batch(run.loaded, part)]


def forced(run: Run, pairs: Pairs, size: int) -> torch.Tensor:
    """log p of every pair, `size` at a time."""
    rows = [np.arange(k, min(k + size, len(pairs))) for k in range(0, len(pairs), size)]
    return score(run.model, (collate(pairs, r, run.loaded.source_end) for r in rows)).logp


def main() -> None:
    """Count and print."""
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("run", type=Path)
    parser.add_argument("source", type=Path)
    parser.add_argument("reference", type=Path)
    parser.add_argument("--tokenize", default="13a", choices=TOKENISERS)
    parser.add_argument("--model", default="Transformer", help="what the run is, for the title of the entry")
    parser.add_argument("--record", metavar="ID")
    parser.add_argument("--note", default="", help="where the run is from, for the ledger")
    given = parser.parse_args()
    lines, references = list(Lines(given.source)), list(Lines(given.reference))
    figures: dict[str, int | float] = {"lines": len(lines)}
    precisions = ["float32", "bfloat16", *(["int8"] if packing_works(torch.int8) else [])]
    for precision in precisions:
        run = calque.load(given.run, precision=precision)
        pairs = Pairs.of(run.loaded.source.encode(lines), run.loaded.target.encode(references))
        outcomes = {size: in_batches(run, lines, size) for size in SIZES}
        scores = {size: forced(run, pairs, size) for size in SIZES}
        scale = scores[64].abs().clamp(min=1)
        for size in SIZES[1:]:
            changed = sum(a.ids != b.ids for a, b in zip(outcomes[64], outcomes[size], strict=True))
            figures[f"{precision}: lines changed, batch {size} against 64"] = changed
            apart = ((scores[size] - scores[64]).abs() / scale).max()
            figures[f"{precision}: forced scores apart, relative, batch {size} against 64"] = float(f"{apart:.2g}")
        for size in SIZES:
            text = [one.text for one in outcomes[size]]
            figures[f"{precision}: BLEU, batch {size}"] = round(
                bleu(text, references, tokenize=given.tokenize).value, 2
            )
        order = list(range(len(lines)))
        random.Random(1).shuffle(order)
        plain = [found[0] for found in translate_lines(run.loaded, lines, invariant=True)]
        mixed = translate_lines(run.loaded, [lines[i] for i in order], invariant=True)
        different = sum(plain[i] != found[0] for i, found in zip(order, mixed, strict=True))
        figures[f"{precision}: lines or score bits changed, invariant, shuffled"] = different
    experiment = run.experiment
    where = {**conditions(", ".join(precisions)), "beam": experiment.decode.beam}
    if given.record:
        command = f"python benchmarks/batch_independence.py RUN {given.source.name} {given.reference.name}"
        publish(
            LEDGER,
            given.record,
            f"Batch independence of a trained {given.model}, Multi30k test2016",
            "law",
            f"{command} --tokenize {given.tokenize} --model {shlex.quote(given.model)}",
            figures,
            where,
            notes=given.note,
        )
    print(json.dumps({"figures": figures, "conditions": where}))


if __name__ == "__main__":
    main()
