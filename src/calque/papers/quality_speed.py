"""Quality against speed of a table's rows in one picture: BLEU of its trained cells over the decoding speed of its timing."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

from calque.analyse.pareto import front
from calque.papers.ledger_tables import ReproducedTable
from calque.papers.metrics import DECODING
from calque.papers.paper import Column
from calque.papers.timings import measured
from calque.papers.trained_report import mean_and_deviation

HEIGHT, WIDTH = 4.5, 8.0
"""Inches."""


@dataclass(frozen=True)
class QualityPoint:
    """A row: its speed, its BLEU with the deviation over seeds, and whether it has learned enough to be compared."""

    label: str
    speed: float
    bleu: float
    deviation: float | None
    learned: bool


@dataclass(frozen=True)
class QualitySpeed:
    """The rows of a picture, and the unit of the speed."""

    points: Sequence[QualityPoint]
    axis: str

    def picture(self) -> bytes:
        """The file, PNG: rows that no other beats in both are joined by a line, under-trained ones are hollow. Raises X301."""
        from calque.analyse.canvas import COLOURS, MARKERS, Panels

        canvas = Panels(1, HEIGHT, WIDTH)
        (axes,) = canvas.axes
        many = len(MARKERS)
        best = front([1 / point.speed for point in self.points], [point.bleu for point in self.points])
        line = sorted((p.speed, p.bleu) for p, on in zip(self.points, best, strict=True) if on)
        axes.plot([x for x, _ in line], [y for _, y in line], color="0.6", lw=1, zorder=0)
        for k, p in enumerate(self.points):
            marker = MARKERS[(k + k // many) % many]  # a second round of colours has other markers
            fill = "full" if p.learned else "none"
            label = p.label if p.learned else f"{p.label} (under-trained)"
            spread = None if p.deviation is None else [p.deviation]
            (bar, *_) = axes.errorbar(
                [p.speed], [p.bleu], spread, ls="none", capsize=2, color=COLOURS[k % len(COLOURS)]
            )
            bar.set(label=label, marker=marker, markersize=8, fillstyle=fill)
        axes.set_xlabel(self.axis)
        axes.set_ylabel("BLEU")
        axes.set_xlim(0, 1.1 * max(point.speed for point in self.points))
        axes.margins(y=0.15)
        canvas.legend()
        return canvas.files()[1]


def quality_speed(timed: ReproducedTable, tables: Sequence[ReproducedTable]) -> QualitySpeed | None:
    """A timing's rows beside their quality in the first trained table of the same name; None where fewer than two have both."""
    request = timed.report.request
    trained = next((t for t in tables if not t.timed and t.report.request.table == request.table), None)
    repeats = measured(timed.entries[0], request.printed)
    column = next((c for c, rows in repeats.items() if c.of.kind == DECODING and rows), None)
    if trained is None or column is None or not timed.timed:
        return None
    points = list(_points(repeats[column], column, trained))
    unit = "sentences a second" if column.of.lower else column.of.name.replace("/s", " a second").replace("-", " ")
    beam = f", beam {column.beam or timed.entries[0].conditions.get('beam')}"
    return QualitySpeed(points, unit + beam) if len(points) > 1 else None


def _points(
    repeats: Mapping[str, tuple[float, ...]], column: Column, trained: ReproducedTable
) -> Iterator[QualityPoint]:
    for row, (median, *_) in repeats.items():
        found = mean_and_deviation(trained.by_row.get(row, ()), "BLEU")
        if found is not None:
            label = trained.report.request.printed.row(row).label
            speed = 1 / median if column.of.lower else median
            yield QualityPoint(label, speed, *found, row not in trained.report.under_trained)
