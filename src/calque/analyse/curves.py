"""Learning curves: the logs of runs over updates, target tokens and seconds (Luong 2015, figure 5; Zhang 2018, figure 5)."""

import math
from collections.abc import Mapping, Sequence
from itertools import cycle
from typing import TYPE_CHECKING

from calque.analyse.canvas import DASHES, Panels, lines_of
from calque.analyse.drawn import Cell, DrawnFigure, NotDrawn, Table
from calque.run.log import LogLine, tokens_by_time

if TYPE_CHECKING:
    from matplotlib.axes import Axes

AXES = (("update", "updates"), ("tokens", "target tokens"), ("seconds", "training seconds"))
TRAIN = "training"


def learning_curves(logs: Mapping[str, Sequence[LogLine]]) -> Table:
    """The negative log-likelihood per token, in nats, of each run and set of text.

    Tokens are the target tokens trained on, end symbols included: the sum over the log's windows of rate times seconds; between
    two lines they grow with the seconds. Seconds are those of training, without validation. A validation line may name its set.
    """
    columns = ("run", "set", "update", "tokens", "seconds", "nll", "bleu")
    rows: list[tuple[Cell, ...]] = []
    for run, lines in logs.items():
        clock = tokens_by_time(lines)
        for line in lines:
            if line.get("kind") not in ("train", "valid") or line.get("nll") is None:
                continue
            name = TRAIN if line["kind"] == "train" else str(line.get("set", "validation"))
            seconds = float(line["seconds"])
            rows.append((run, name, line["update"], round(_at(clock, seconds)), seconds, line["nll"], line.get("bleu")))
    return Table.of(columns, rows)


def _at(clock: Sequence[tuple[float, float]], seconds: float) -> float:
    """Tokens after so many seconds: linear between two lines, and after the last one at its speed."""
    after = next((k for k, (s, _) in enumerate(clock) if s >= seconds and k), len(clock) - 1)
    if after == 0:
        return 0.0
    (s0, t0), (s1, t1) = clock[after - 1], clock[after]
    return t0 + (t1 - t0) * (seconds - s0) / (s1 - s0) if s1 > s0 else t1


def draw(table: Table) -> DrawnFigure:
    """A panel per axis: validation as lines with marks, training as thin lines."""
    if not table.rows:
        raise NotDrawn("no run has a log with a validation")
    canvas = Panels(len(AXES), 2.1)
    sets = [str(name) for name in table.each("set") if name != TRAIN]
    for axes, (name, label) in zip(canvas.axes, AXES, strict=True):
        _panel(axes, table, name, sets)
        axes.set_xlabel(label)
        canvas.shorten_counts(axes)
    canvas.legend()
    named = f"s {', '.join(sets)}" if len(sets) > 1 else ""
    return DrawnFigure(
        "curves",
        "Learning curves",
        "Negative log-likelihood per target token, end symbols included (its exponential is the perplexity), over updates, target "
        f"tokens and seconds of training. Lines with marks: validation text{named}; thin lines: training text, with dropout and "
        "without label smoothing. Each run has its own vocabulary: costs compare only where the subwords are the same.",
        table,
        *canvas.files(),
        "The lower a line, the better the run predicts the text; where a thin line falls while the line with marks rises, the run "
        "overfits, and where both still fall at the end, training ended too early.",
    )


def _panel(axes: "Axes", table: Table, name: str, sets: Sequence[str]) -> None:
    """The curves of all runs over one axis. Of one validation text, dashes mark the run; of several, the text."""
    dashes = dict(zip(sets, cycle(DASHES), strict=False)) if len(sets) > 1 else {}
    styles = lines_of(table.each("run"))
    for run in table.each("run"):
        style = styles[run]
        thin = table.where(run=run, set=TRAIN)
        axes.plot(thin.numbers(name), thin.numbers("nll"), color=style["color"], lw=0.6, alpha=0.5)
        for text in sets:
            curve = table.where(run=run, set=text)
            axes.plot(
                curve.numbers(name),
                curve.numbers("nll"),
                label=f"{run}, {text}" if dashes else str(run),
                markersize=3,
                markevery=max(1, len(curve.rows) // 12),
                lw=1.3,
                **{**style, **({"linestyle": dashes[text]} if dashes else {})},
            )
    axes.set_ylabel("cost, nats per token")
    costs = sorted(v for v in table.numbers("nll") if math.isfinite(v))
    axes.set_ylim(costs[0] - 0.1, costs[int(0.98 * (len(costs) - 1))] + 0.2)
    axes.set_xlim(left=0)
