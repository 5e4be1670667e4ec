"""Whether trained attention aligns words: the alignment error rate of every layer that reads the source, on links by hand.

    python benchmarks/attention_alignment.py RUN SOURCE TARGET GOLD [--turned] [--lowercase] [--first 0] [--record ID]

Each given TARGET is forced; a word is linked to the source word that the mean of a layer's heads weighs most, at the step that
predicts it and at the step that reads it. `--turned`: GOLD links target to source. Beside them the rate of a diagonal, which
has seen no text.
"""

import argparse
import json
from dataclasses import replace
from pathlib import Path

import calque
from calque.align.links import Gold, Links, read_gold
from calque.data.codecs import split
from calque.data.lines import Lines
from calque.decode.attention import align_lines
from calque.evaluate.aer import alignment_error_rate
from calque.ledger.entry import conditions, publish

LEDGER = Path(__file__).parent.parent / "docs" / "results"


def turned(links: Links) -> Links:
    """The same with source and target words exchanged."""
    return frozenset((t, s) for s, t in links)


def diagonal(source: str, target: str) -> Links:
    """Every target word with the source word at the same share of the sentence."""
    n, m = len(split(source)), len(split(target))
    return frozenset(((2 * t + 1) * n // (2 * m), t) for t in range(m))


def main() -> None:
    """Force, measure, print."""
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("run", type=Path)
    for name in ("source", "target", "gold"):
        parser.add_argument(name, type=Path)
    parser.add_argument("--turned", action="store_true")
    parser.add_argument("--lowercase", action="store_true")
    parser.add_argument("--first", type=int, default=1, choices=[0, 1], help="the number of the first word in GOLD")
    parser.add_argument("--record", metavar="ID")
    parser.add_argument("--notes", default="")
    given = parser.parse_args()
    gold = read_gold(given.gold, given.first)
    if given.turned:
        gold = [Gold(*map(turned, one)) for one in gold]
    source, target = (
        [line.lower() if given.lowercase else line for line in Lines(file)] for file in (given.source, given.target)
    )
    loaded = calque.load(given.run).loaded
    layers = loaded.model.source_attentions()
    figures: dict[str, int | float] = {"pairs": len(gold)}
    score = alignment_error_rate([diagonal(s, t) for s, t in zip(source, target, strict=True)], gold)
    figures["AER, diagonal"] = round(score.value, 2)
    for layer in layers:
        for row, told in ((0, "the step that predicts"), (1, "the step that reads")):
            decode = replace(loaded.decode, align_layer=layer, align_row=row)
            score = alignment_error_rate(align_lines(replace(loaded, decode=decode), source, target), gold)
            figures[f"AER, {layer}, {told}"] = round(score.value, 2)
    where = {**conditions("float32"), "signature": score.signature}
    if given.record:
        names = " ".join(file.name for file in (given.source, given.target, given.gold))
        options = " --turned" * given.turned + " --lowercase" * given.lowercase + " --first 0" * (not given.first)
        command = f"python benchmarks/attention_alignment.py RUN {names}{options}"
        title = f"Attention of a trained run as an aligner, {given.gold.stem}"
        publish(LEDGER, given.record, title, "alignment", command, figures, where, notes=given.notes)
    print(json.dumps({"figures": figures, "conditions": where}))


if __name__ == "__main__":
    main()
