"""Quality and output length by length of sentence (Luong 2015, figure 6; Gehring 2017, figure 3; Zhang 2018, figure 6; You 2020,
figure 4)."""

from collections.abc import Callable, Mapping, Sequence

import numpy as np

from calque.analyse.canvas import Panels, fills_of, lines_of
from calque.analyse.drawn import Cell, DrawnFigure, NotDrawn, Table
from calque.data.codecs import split
from calque.data.scripts import unspaced
from calque.evaluate.statistics import Measure, measure

EQUAL = ("size", "width")


def ruler(lines: Sequence[str]) -> Callable[[str], int]:
    """How long a sentence is: words between spaces and tabs; characters in text that has no spaces between words."""
    return len if unspaced(lines) else lambda line: len(split(line))


def buckets(lengths: Sequence[int], count: int, equal: str = "size") -> list[list[int]]:
    """The numbers of the sentences in at most `count` buckets by length, the shortest first; none is empty.

    `size`: buckets of equal size, the first ones larger by one where that does not divide; sentences of one length are in the
    order of the text. `width`: ranges of equal width from the shortest to the longest.
    """
    order = sorted(range(len(lengths)), key=lambda i: lengths[i])
    if not order:
        return []
    if equal == "size":
        parts = [part.tolist() for part in np.array_split(order, min(count, len(order)))]
    else:
        low, high = lengths[order[0]], lengths[order[-1]]
        parts = [[] for _ in range(count)]
        for i in order:  # in whole numbers: rounding would move lengths at the start of a range to the one before
            parts[(lengths[i] - low) * count // (high - low + 1)].append(i)
    return [part for part in parts if part]


def scored(
    hypotheses: Sequence[str], references: Sequence[str], parts: Sequence[Sequence[int]], metric: Measure
) -> list[float]:
    """The score of each part of a text as a corpus of its own."""
    statistics = metric.statistics(hypotheses, references)
    return [float(metric.score(statistics[list(part)].sum(0))) for part in parts]


def by_source_length(
    sources: Sequence[str],
    references: Sequence[str],
    systems: Mapping[str, Sequence[str]],
    count: int,
    equal: str = "size",
    tokenize: str = "13a",
) -> Table:
    """BLEU, chrF and mean length of each system's output, by length of the source, as `ruler` measures it."""
    lengths, size = list(map(ruler(sources), sources)), ruler(references)
    parts = buckets(lengths, count, equal)
    metrics = (measure("bleu", tokenize=tokenize), measure("chrf"))
    rows: list[tuple[Cell, ...]] = []
    for name, hypotheses in systems.items():
        bleu, chrf = (scored(hypotheses, references, parts, metric) for metric in metrics)
        for part, b, c in zip(parts, bleu, chrf, strict=True):
            n = len(part)
            mean = sum(lengths[i] for i in part) / n
            out, expected = (sum(size(lines[i]) for i in part) / n for lines in (hypotheses, references))
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
    """BLEU of each system less that of `base`, by length of the reference, as `ruler` measures it."""
    lengths = list(map(ruler(references), references))
    parts = buckets(lengths, count, equal)
    metric = measure("bleu", tokenize=tokenize)
    scores = {name: scored(lines, references, parts, metric) for name, lines in systems.items()}
    rows = [
        (name, lengths[part[0]], lengths[part[-1]], len(part), bleu, bleu - scores[base][k])
        for name, scores_of_parts in scores.items()
        for k, (part, bleu) in enumerate(zip(parts, scores_of_parts, strict=True))
    ]
    return Table.of(("run", "from", "to", "sentences", "BLEU", f"BLEU less that of {base}"), rows)


def draw(table: Table, equal: str) -> DrawnFigure:
    """Three panels over the mean source length of a bucket: BLEU, chrF, words of output per word of reference."""
    canvas = Panels(3, 2.1)
    runs = table.each("run")
    style = lines_of(runs)
    for axes, name in zip(canvas.axes, ("BLEU", "chrF", "output words"), strict=True):
        for run in runs:
            part = table.where(run=run)
            axes.plot(part.numbers("mean"), part.numbers(name), label=str(run), markersize=4, lw=1.3, **style[run])
        if name == "output words":
            mean, reference = part.numbers("mean"), part.numbers("reference words")
            axes.plot(mean, reference, color="0.4", ls="--", lw=1, label="reference")
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
        axes.bar(at, table.where(run=run).numbers(name), width, label=str(run), **style[run])
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
