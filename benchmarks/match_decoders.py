"""At which inner width is each decoder of `beyond` as fast as self-attention? The widths of its table 2.

    python benchmarks/match_decoders.py [--threads 1] [--beam 5] [--sentences 64] [--passes 5] [--record FOLDER]

Models have random weights and the sizes of the table; 64 sentences of random words, in one batch, become 25 words each. A row
and the first one take turns, and the median of the ratios of neighbouring passes counts, so that other work of the machine affects
both alike. The width is a multiple of 64, as wide products like it, found by steps along the line through the two nearest ratios.
One JSON object comes out: of each row the width, the ratio there, and both at about the width of equal parameters.
"""

import argparse
import json
import statistics
import time
from datetime import date
from pathlib import Path

import torch

from calque.bench.decode import LENGTH, DecodeCase, random_subject, timed
from calque.bench.inputs import synthetic
from calque.decode.prepare import prepare_for_decoding
from calque.explain.totals import Surroundings
from calque.ground.diagnostics import Text
from calque.ledger.entry import Entry, conditions, record
from calque.model import Shape
from calque.papers.plan import Texts, checked_row
from calque.papers.request import Request

TABLE, FIRST, SLOWEST, STEP, STEPS = "table1", "self-attention", "retention", 64, 2
VOCABULARY = 7_000
"""About as many entries as both sides of Multi30k have."""


def case(texts: Texts, row: str, width: int, sentences: int) -> DecodeCase:
    """A row at an inner width, ready to decode."""
    checked, _ = checked_row(Text(row, texts.table.row(row).text), {"h": f"h={width}"})
    made = random_subject(checked, Shape(VOCABULARY, VOCABULARY), synthetic(sentences, VOCABULARY), torch.device("cpu"))
    return DecodeCase(prepare_for_decoding(made.model, "float32"), made.sentences)


def ratio(one: DecodeCase, first: DecodeCase, beam: int, passes: int) -> float:
    """How many times as long a row takes as the first one: the median over pairs of passes, one right behind the other."""
    seconds = [[timed(case, len(case.sentences), beam, LENGTH).seconds for case in (one, first)] for _ in range(passes)]
    return statistics.median(a / b for a, b in seconds)


def matched_width(texts: Texts, row: str, start: int, given: argparse.Namespace) -> dict[str, float]:
    """The width at which a row is as fast as the first, from that of equal parameters."""
    first = case(texts, FIRST, 1024, given.sentences)
    found: dict[int, float] = {}
    begin = STEP * max(1, round(start / STEP))
    for width in (begin, max(STEP, 2 * begin if row != SLOWEST else STEP)):
        found[width] = ratio(case(texts, row, width, given.sentences), first, given.beam, given.passes)
    for _ in range(STEPS):
        a, b = sorted(found, key=lambda w: abs(found[w] - 1))[:2]
        slope = max((found[b] - found[a]) / (b - a), 1e-4)
        width = STEP * max(1, round((a + (1 - found[a]) / slope) / STEP))
        if width in found:
            break
        found[width] = ratio(case(texts, row, width, given.sentences), first, given.beam, given.passes)
    width = min(found, key=lambda w: abs(found[w] - 1))
    print(row, {w: round(r, 3) for w, r in sorted(found.items())}, flush=True)
    return {
        f"{row}, h": width,
        f"{row}, times the seconds of {FIRST}": round(found[width], 3),
        f"{row}, h of equal parameters": start,
        f"{row}, times the seconds there": round(found[begin], 3),
    }


def main() -> None:
    """Measures all rows, prints them, and records an entry where it is asked to."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    for name, value in (("threads", 1), ("beam", 5), ("sentences", 64), ("passes", 5)):
        parser.add_argument(f"--{name}", type=int, default=value)
    parser.add_argument("--rows", default="", help="joined by commas; default: all")
    parser.add_argument("--record", type=Path)
    given = parser.parse_args()
    torch.set_num_threads(given.threads)
    texts = Texts(Request("beyond", TABLE, "multi30k", "linear", match=FIRST))
    around = Surroundings(VOCABULARY, VOCABULARY)
    began, figures = time.monotonic(), dict[str, float]()
    for row in texts.table.rows:
        if row.key != FIRST and (not given.rows or row.key in given.rows.split(",")):
            start = int(texts.definition(row.key, around)[1]["h"].partition("=")[2])
            figures |= matched_width(texts, row.key, start, given)
    print(json.dumps(figures, indent=1), f"{time.monotonic() - began:.0f} s")
    if given.record is not None:
        where = {**conditions(), "threads": given.threads, "vocabulary": VOCABULARY, "beam": given.beam}
        where |= {"sentences": given.sentences, "words of a translation": LENGTH, "weights": "random"}
        words = f"--threads {given.threads} --beam {given.beam} --sentences {given.sentences} --passes {given.passes}"
        command = f"python benchmarks/match_decoders.py {words}"
        title = "Inner widths at which decoders are as fast as self-attention"
        made = Entry("beyond-match", title, "speed", command, date.today().isoformat(), where, figures)
        record(given.record, made)


if __name__ == "__main__":
    main()
