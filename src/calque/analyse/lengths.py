"""Quality and output length by length of sentence (Luong 2015, figure 6; Gehring 2017, figure 3; Zhang 2018, figure 6; You 2020,
figure 4)."""

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from calque.analyse.canvas import Panels, fills_of, lines_of
from calque.analyse.drawn import DrawnFigure, NotDrawn, Table
from calque.data.codecs import split
from calque.evaluate.statistics import measure

EQUAL = ("size", "width")


def words(line: str) -> int:
    """The length of a sentence: words between spaces and tabs."""
    return len(split(line))


def buckets(lengths: Sequence[int], count: int, equal: str = "size") -> list[list[int]]:
    """The numbers of sentences, put by length into at most `count` buckets, the shortest first; none is empty.

    `size`: as many sentences in each, one more in the first ones where it does not divide; sentences of one length stand in the
    order of the text. `width`: from the shortest to the longest in ranges of one width.
    """
    order = sorted(range(len(lengths)), key=lambda i: lengths[i])
    if not order:
        return []
    if equal == "size":
        found = [part.tolist() for part in np.array_split(order, min(count, len(order)))]
    else:
        low, high = lengths[order[0]], lengths[order[-1]]
        width = (high - low + 1) / count
        found = [[] for _ in range(count)]
        for i in order:
            found[int((lengths[i] - low) / width)].append(i)
    return [part for part in found if part]


def scored(hypotheses: Sequence[str], references: Sequence[str], parts: Sequence[Sequence[int]], tokenize: str) -> Any:
    """BLEU and chrF of each part of a corpus, each part a corpus of its own: two lists."""
    found = []
    for metric in (measure("bleu", tokenize=tokenize), measure("chrf")):
        statistics = metric.statistics(hypotheses, references)
        found.append([float(metric.score(statistics[list(part)].sum(0))) for part in parts])
    return found


def by_source_length(
    sources: Sequence[str],
    references: Sequence[str],
    systems: Mapping[str, Sequence[str]],
    count: int,
    equal: str = "size",
    tokenize: str = "13a",
) -> Table:
    """BLEU, chrF and mean length of each system's output, by length of the source in words. None: nothing to score."""
    lengths = [words(line) for line in sources]
    parts = buckets(lengths, count, equal)
    rows: list[tuple[Any, ...]] = []
    for name, hypotheses in systems.items():
        bleu, chrf = scored(hypotheses, references, parts, tokenize)
        for part, b, c in zip(parts, bleu, chrf, strict=True):
            n = len(part)
            mean = sum(lengths[i] for i in part) / n
            out, expected = (sum(words(lines[i]) for i in part) / n for lines in (hypotheses, references))
            rows.append((name, lengths[part[0]], lengths[part[-1]], mean, n, b, c, out, expected))
    columns = ("run", "from", "to", "mean", "sentences", "BLEU", "chrF", "output words", "reference words")
    return Table.of(columns, rows)


def differences(
    references: Sequence[str],
    systems: Mapping[str, Sequence[str]],
    base: str,
    count: int = 5,
    equal: str = "size",
    tokenize: str = "13a",
) -> Table:
    """BLEU of each system less that of `base`, by length of the reference in words."""
    lengths = [words(line) for line in references]
    parts = buckets(lengths, count, equal)
    scores = {name: scored(lines, references, parts, tokenize)[0] for name, lines in systems.items()}
    rows = [
        (name, lengths[part[0]], lengths[part[-1]], len(part), bleu, bleu - scores[base][k])
        for name, found in scores.items()
        for k, (part, bleu) in enumerate(zip(parts, found, strict=True))
    ]
    return Table.of(("run", "from", "to", "sentences", "BLEU", f"BLEU less that of {base}"), rows)


def draw(table: Table, equal: str) -> DrawnFigure:
    """Three panels over the mean source length of a bucket: BLEU, chrF, words of output per word of reference."""
    canvas = Panels(3, 2.1)
    runs = table.each("run")
    style = lines_of(runs)
    for axes, name in zip(canvas.axes, ("BLEU", "chrF", "output words"), strict=True):
        for run in runs:
            found = table.where(run=run)
            axes.plot(found.column("mean"), found.column(name), label=run, markersize=4, lw=1.3, **style[run])
        if name == "output words":
            found = table.where(run=runs[0])
            axes.plot(
                found.column("mean"), found.column("reference words"), color="0.4", ls="--", lw=1, label="reference"
            )
        axes.set_ylabel({"output words": "words of output"}.get(name, name))
        axes.set_xlabel("source words, mean of the bucket")
        axes.set_ylim(bottom=0)
    canvas.legend()
    how = "as many sentences in each" if equal == "size" else "ranges of one width"
    return DrawnFigure(
        "lengths",
        "Quality and output length by source length",
        f"BLEU and chrF of the sentences of each bucket, taken as a corpus, and words of output, by source length in words between "
        f"white space; {len(table.where(run=runs[0]).rows)} buckets, {how}. Few sentences make a noisy bucket: the table has the "
        "counts.",
        table,
        *canvas.files(),
        "A line that falls to the right loses quality on long sentences; in the lowest panel, a line below the reference "
        "translates too briefly.",
    )


def draw_differences(table: Table, base: str) -> DrawnFigure:
    """A group of bars for each bin, a bar for each run."""
    runs = [run for run in table.each("run") if run != base]
    if not runs:
        raise NotDrawn("a difference needs a second run")
    canvas = Panels(1, 2.8)
    (axes,) = canvas.axes
    style = fills_of(table.each("run"))
    bins = table.where(run=base)
    width = 0.8 / len(runs)
    name = table.columns[-1]
    for k, run in enumerate(runs):
        at = [x + (k - (len(runs) - 1) / 2) * width for x in range(len(bins.rows))]
        axes.bar(at, table.where(run=run).column(name), width, label=run, **style[run])
    ends = zip(bins.column("from"), bins.column("to"), bins.column("sentences"), strict=True)
    axes.set_xticks(range(len(bins.rows)), [f"{a}–{b}\nn={n}" for a, b, n in ends])
    axes.axhline(0, color="black", lw=0.8)
    axes.set_xlabel("reference words, and sentences in the bin")
    axes.set_ylabel("BLEU difference")
    axes.grid(axis="x", visible=False)
    if len(runs) == 1:
        axes.set_title(f"{runs[0]} less {base}")
    canvas.legend()
    return DrawnFigure(
        "length-differences",
        "BLEU difference by reference length",
        f"BLEU of each run less that of {base}, by length of the reference in words between white space; each bin is scored as a "
        "corpus.",
        table,
        *canvas.files(),
        f"A bar above 0 is a run that is better than {base} on sentences of that length, a bar below 0 one that is worse.",
    )
