"""Quality against cost: speed, size and memory of runs, and the runs that no other beats."""

from collections.abc import Sequence

from calque.analyse.canvas import Panels, styles_of
from calque.analyse.drawn import DrawnFigure, Table

COSTS = (
    ("milliseconds per sentence", "milliseconds per sentence"),
    ("parameters", "parameters, millions"),
    ("state KiB", "decoding state, KiB per hypothesis"),
)

READING = (
    "Each point is a run: the higher, the better its translations, and the further left, the cheaper it is; a run on the grey "
    "line is beaten by no other run in both."
)


def front(costs: Sequence[float], qualities: Sequence[float]) -> list[bool]:
    """Whether no other point beats each one. A point beats another if it is as cheap and as good, and better in one of the two."""
    points = list(zip(costs, qualities, strict=True))
    return [not any(c <= cost and q >= good and (c, q) != (cost, good) for c, q in points) for cost, good in points]


def draw(table: Table, caption: str) -> DrawnFigure:
    """A panel for each cost; runs that no other beats are joined by a line."""
    canvas = Panels(len(COSTS), 2.2)
    runs = table.each("run")
    style = styles_of(runs)
    quality = table.numbers("BLEU")
    for axes, (name, label) in zip(canvas.axes, COSTS, strict=True):
        scale = 1e6 if name == "parameters" else 1
        costs = [v / scale for v in table.numbers(name)]
        best = sorted((c, q) for c, q, on in zip(costs, quality, front(costs, quality), strict=True) if on)
        axes.plot([c for c, _ in best], [q for _, q in best], color="0.6", lw=1, zorder=0)
        for run, c, q in zip(runs, costs, quality, strict=True):
            axes.plot([c], [q], label=str(run), ls="none", ms=7, **style[run])
        axes.set_xlim(0, 1.1 * max(costs))
        axes.set_ylabel("BLEU")
        axes.set_xlabel(label)
        axes.margins(y=0.15)
    canvas.legend()
    return DrawnFigure("pareto", "Quality, speed, size and memory", caption, table, *canvas.files(), READING)
