"""Seconds to translate a sentence against its length (Zhang 2018, figure 7)."""

import statistics
import time
from collections.abc import Callable, Mapping, Sequence

import numpy as np

from calque.analyse.canvas import Panels, lines_of
from calque.analyse.drawn import Cell, DrawnFigure, Table
from calque.analyse.lengths import buckets, ruler
from calque.analyse.runs import spread_over
from calque.train.precision import processor

PER_BUCKET = 6
"""Sentences timed in each bucket."""


def decode_times(
    sources: Sequence[str],
    systems: Mapping[str, Callable[[str], str]],
    count: int,
    equal: str = "size",
    per_bucket: int = PER_BUCKET,
    clock: Callable[[], float] = time.perf_counter,
) -> Table:
    """The mean seconds of sentences in buckets by source length, one sentence at a time on one thread.

    The systems take turns, sentence by sentence, so that other work of the machine affects all of them alike. Each translates one
    sentence first, which does not count.
    """
    sizes = list(map(ruler(sources), sources))
    parts = buckets(sizes, count, equal)
    chosen = [[part[k] for k in spread_over(len(part), per_bucket)] for part in parts]
    rows: list[tuple[Cell, ...]] = []
    with processor(1):
        for translate in systems.values():
            translate(sources[chosen[0][0]])
        for part in chosen:
            taken: dict[str, list[float]] = {name: [] for name in systems}
            written: dict[str, list[str]] = {name: [] for name in systems}
            for i in part:
                for name, translate in systems.items():
                    began = clock()
                    translation = translate(sources[i])
                    taken[name].append(clock() - began)
                    written[name].append(translation)
            lengths = [sizes[i] for i in part]
            for name in systems:
                spread = statistics.stdev(taken[name]) if len(part) > 1 else None
                mean, out = statistics.mean(taken[name]), statistics.mean(map(ruler(written[name]), written[name]))
                rows.append((name, min(lengths), max(lengths), statistics.mean(lengths), len(part), mean, spread, out))
    columns = ("run", "from", "to", "mean", "sentences", "seconds", "deviation", "output words")
    order: list[Cell] = [*systems]
    return Table.of(columns, sorted(rows, key=lambda row: order.index(row[0])))


def draw(table: Table, beam: str, machine: str) -> DrawnFigure:
    """Seconds over the mean length of a bucket, deviations as whiskers."""
    canvas = Panels(1, 2.8)
    (axes,) = canvas.axes
    runs = table.each("run")
    style = lines_of(runs)
    for run in runs:
        part = table.where(run=run)
        spread = np.nan_to_num(part.numbers("deviation"))
        place, seconds = part.numbers("mean"), part.numbers("seconds")
        axes.errorbar(place, seconds, spread, label=str(run), lw=1.3, ms=4, elinewidth=0.6, capsize=2, **style[run])
    axes.set_xlabel("source words, mean of the bucket")
    axes.set_ylabel("seconds per sentence")
    axes.set_ylim(bottom=0)
    axes.set_xlim(left=0)
    canvas.legend()
    return DrawnFigure(
        "decode-time",
        "Decoding time by source length",
        f"Mean seconds to translate a sentence, one sentence at a time, on one thread of {machine}, {beam}; whiskers are "
        f"deviations over the {max(table.numbers('sentences')):.0f} sentences timed in a bucket, not of the mean. "
        "The runs take turns.",
        table,
        *canvas.files(),
        "The lower a line, the faster the run; a line that bends upwards takes more time per word in long sentences.",
    )
