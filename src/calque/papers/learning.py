"""The learning curves of a table's rows in one picture."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

Curve = Sequence[Sequence[float]]
"""Update, epoch and perplexity of each validation."""
HEIGHT, WIDTH = 4.5, 8.0
"""Inches: of the picture, wide enough for long names of rows."""


@dataclass(frozen=True)
class LearningCurves:
    """By the label of each row: the curves of its seeds."""

    rows: Mapping[str, Sequence[Curve]]

    def picture(self) -> bytes:
        """The file, PNG: validation perplexity over epochs, a colour for each row and a line for each seed. Raises X301."""
        from calque.analyse.canvas import Panels, lines_of

        canvas = Panels(1, HEIGHT, WIDTH)  # where matplotlib is missing, this says so
        from matplotlib.ticker import LogLocator, NullLocator, StrMethodFormatter

        (axes,) = canvas.axes
        styles = lines_of(list(self.rows))
        for label, seeds in self.rows.items():
            for number, curve in enumerate(seeds):
                _, epochs, perplexities = zip(*curve, strict=True)
                every, name = max(1, len(curve) // 10), label if number == 0 else "_"
                axes.plot(epochs, perplexities, lw=1.2, markersize=3, markevery=every, label=name, **styles[label])
        axes.set_yscale("log")
        axes.yaxis.set_major_locator(LogLocator(subs=(1.0, 2.0, 5.0)))
        axes.yaxis.set_major_formatter(StrMethodFormatter("{x:g}"))
        axes.yaxis.set_minor_locator(NullLocator())
        axes.set_xlim(left=0)
        axes.set_xlabel("epochs")
        axes.set_ylabel("validation perplexity")
        canvas.legend()
        return canvas.files()[1]
