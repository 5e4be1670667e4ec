"""The text aligner against links by hand: alignment error rate of every way to make one alignment of two directions.

    python benchmarks/aligner.py SOURCE TARGET GOLD [--more SOURCE TARGET]... [--run RUN] [--record ID] [--notes TEXT]

SOURCE and TARGET are the sentences that GOLD links (`s-t` sure, `spt` possible, from 1). They are learned from together with
further text (`--more`), which is cut at spaces as they are and lower-cased with `--lowercase`; figures say little where that
text is small or from elsewhere. With `--run`, the attention of a trained run is measured too.
"""

import argparse
import json
import time
from pathlib import Path

import calque
from calque.align.ibm import AlignerSettings, align
from calque.align.links import SYMMETRISE, read_gold
from calque.data.codecs import split
from calque.data.lines import Lines
from calque.decode.attention import align_lines
from calque.evaluate.aer import alignment_error_rate
from calque.ledger.entry import conditions, publish

LEDGER = Path(__file__).parent.parent / "docs" / "results"


def numbers(lines: list[str], lowercase: bool) -> list[list[int]]:
    """Words as numbers."""
    known: dict[str, int] = {}
    cased = (line.lower() if lowercase else line for line in lines)
    return [[known.setdefault(word, len(known)) for word in split(line)] for line in cased]


def main() -> None:
    """Train in both directions, measure, print."""
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    for name in ("source", "target", "gold"):
        parser.add_argument(name, type=Path)
    parser.add_argument("--more", type=Path, nargs=2, action="append", default=[], metavar=("SOURCE", "TARGET"))
    parser.add_argument("--lowercase", action="store_true")
    parser.add_argument("--longest", type=int, default=100, help="words of a further sentence, at most")
    parser.add_argument("--run", type=Path)
    parser.add_argument("--record", metavar="ID")
    parser.add_argument("--notes", default="")
    given = parser.parse_args()
    gold = read_gold(given.gold)
    sides = [list(Lines(given.source)), list(Lines(given.target))]
    for files in given.more:
        more = zip(*map(Lines, files), strict=True)
        kept = [pair for pair in more if max(len(split(text)) for text in pair) <= given.longest]
        for side, added in zip(sides, zip(*kept, strict=True), strict=True):
            side += added
    source, target = (numbers(side, given.lowercase) for side in sides)
    began = time.process_time()
    forward, backward = align(source, target), align(target, source)
    seconds = time.process_time() - began
    figures: dict[str, int | float] = {"pairs": len(source), "pairs by hand": len(gold)}
    both = list(zip(forward.links()[: len(gold)], backward.links(turned=True)[: len(gold)], strict=True))
    for way, make in SYMMETRISE.items():
        score = alignment_error_rate([make(*links) for links in both], gold)
        figures[f"AER, {way}"] = round(score.value, 2)
    if given.run is not None:
        loaded = calque.load(given.run).loaded
        links = align_lines(loaded, sides[0][: len(gold)], sides[1][: len(gold)])
        figures["AER, attention of the run"] = round(alignment_error_rate(links, gold).value, 2)
    figures |= {"tension": round(forward.tension, 3), "tension, backward": round(backward.tension, 3)}
    figures["processor seconds, both directions"] = round(seconds, 1)
    settings = AlignerSettings()
    where = {
        **conditions("float64"),
        "iterations": f"{settings.model1} of model 1, {settings.model2} of model 2",
        "null": settings.null,
        "alpha": settings.alpha,
        "signature": score.signature,
    }
    if given.record:
        names = " ".join(file.name for file in (given.source, given.target, given.gold))
        further = "".join(f" --more {a.name} {b.name}" for a, b in given.more) + " --lowercase" * given.lowercase
        publish(
            LEDGER,
            given.record,
            f"Text aligner, {given.gold.stem}",
            "alignment",
            f"python benchmarks/aligner.py {names}{further}" + (" --run RUN" if given.run else ""),
            figures,
            where,
            notes=given.notes,
        )
    print(json.dumps({"figures": figures, "conditions": where}))


if __name__ == "__main__":
    main()
