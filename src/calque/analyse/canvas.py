"""Pictures: one size, one palette, files that do not change from one call to the next.

A picture is five inches wide and panels stand one below the other: on paper it fits a column, on a telephone its letters are as
large as the text.
"""

import io
import re
from collections.abc import Iterator, Sequence
from itertools import cycle
from typing import Any

from calque.ground.plot import add_legend, figure, settle

WIDTH = 5.0
"""Inches."""
# Okabe and Ito 2008: told apart by colour-blind readers too; a marker beside each for print without colours.
COLOURS = ("#0072B2", "#D55E00", "#009E73", "#CC79A7", "#E69F00", "#56B4E9", "#000000", "#8C6D31")
DASHES = ("-", "--", "-.", ":", (0, (6, 1)), (0, (3, 1, 1, 1, 1, 1)), (0, (1, 1)), (0, (8, 2, 2, 2)))
# Of lines alone: a pattern of circles makes a file ten times as large.
HATCHES = ("", "////", "----", "xxxx", "||||", "\\\\\\\\", "++++", "//--")
_OUTLINE, _FINE = re.compile(rb' d="[^"]*"'), re.compile(rb"(\d+\.\d\d)\d+")
MARKERS = ("o", "s", "^", "D", "v", "P", "X", "*")
_STYLE: Any = {
    "font.size": 9,
    "axes.titlesize": 9,
    "axes.labelsize": 9,
    "xtick.labelsize": 8,
    "ytick.labelsize": 8,
    "legend.fontsize": 8,
    "axes.grid": True,
    "grid.alpha": 0.3,
    "axes.spines.top": False,
    "axes.spines.right": False,
    "svg.hashsalt": "calque",
}


class Panels:
    """A figure with panels, and its two files. Raises X301 without matplotlib."""

    def __init__(self, panels: int = 1, height: float = 2.6, width: float = WIDTH, **share: Any):
        self.figure = figure(width, height * panels)
        import matplotlib as mpl
        from matplotlib.layout_engine import ConstrainedLayoutEngine

        self._context = mpl.rc_context
        with self._context(_STYLE):
            self.figure.set_layout_engine(ConstrainedLayoutEngine(h_pad=0.08))
            self.axes: list[Any] = list(self.figure.subplots(panels, 1, squeeze=False, **share)[:, 0])

    def counted(self, axes: Any) -> None:
        """Writes large numbers below a panel short: 20k."""
        from matplotlib.ticker import EngFormatter

        axes.xaxis.set_major_formatter(EngFormatter(sep=""))

    def legend(self) -> None:
        """One legend for all panels, above them; none for a single line."""
        found: dict[str, Any] = {}
        for axes in self.axes:
            for handle, label in zip(*axes.get_legend_handles_labels(), strict=True):
                found.setdefault(label, handle)
        if len(found) > 1:
            with self._context(_STYLE):
                add_legend(self.figure, found, _STYLE["legend.fontsize"])

    def files(self) -> tuple[bytes, bytes]:
        """SVG and PNG."""
        found = []
        for axes in self.figure.axes:  # what was added since, colour bars too, has the sizes of another style
            for text in (axes.title, axes.xaxis.label, axes.yaxis.label):
                text.set_fontsize(_STYLE["font.size"])
            axes.tick_params(labelsize=_STYLE["xtick.labelsize"])
        with self._context(_STYLE):
            settle(self.figure)
            for kind in ("svg", "png"):
                body = io.BytesIO()
                about = {"Date": None} if kind == "svg" else {"Software": None}
                self.figure.savefig(body, format=kind, dpi=160, metadata=about)
                found.append(body.getvalue())
                self.figure.set_layout_engine("none")  # what was laid out once stays as it is
        # A hundredth of a point is finer than any printer; what matplotlib writes beyond is most of the file.
        return _OUTLINE.sub(lambda outline: _FINE.sub(rb"\1", outline[0]), found[0]), found[1]


def styles() -> Iterator[dict[str, str]]:
    """Colour and marker of one line after another."""
    return ({"color": c, "marker": m} for c, m in zip(cycle(COLOURS), cycle(MARKERS), strict=False))


def styles_of(names: Sequence[object]) -> dict[object, dict[str, str]]:
    """A style for each name."""
    return dict(zip(names, styles(), strict=False))


def lines_of(names: Sequence[object]) -> dict[object, dict[str, Any]]:
    """The same with dashes, for lines that have to be told apart without colours."""
    return {
        name: {**style, "linestyle": dash}
        for (name, style), dash in zip(styles_of(names).items(), cycle(DASHES), strict=False)
    }


def fills_of(names: Sequence[object]) -> dict[object, dict[str, Any]]:
    """Colour and hatching for bars."""
    return {
        name: {"color": style["color"], "hatch": hatch, "edgecolor": "white", "linewidth": 0.5}
        for (name, style), hatch in zip(styles_of(names).items(), cycle(HATCHES), strict=False)
    }
