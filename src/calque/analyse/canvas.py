"""Pictures: one width, one palette, and the same bytes from every call.

A picture is five inches wide, and its panels are below each other: on paper it fits a column, on a telephone its letters are as
large as the text.
"""

import io
import re
from collections.abc import Sequence
from itertools import cycle
from typing import TYPE_CHECKING, Any

from calque.ground.fonts import boxes
from calque.ground.plot import add_legend, figure, settle
from calque.ground.table import Cell

if TYPE_CHECKING:
    from matplotlib.artist import Artist
    from matplotlib.axes import Axes

WIDTH = 5.0
"""Inches."""
# Okabe and Ito 2008: colour-blind readers can distinguish them too; for print without colours each has a marker.
COLOURS = ("#0072B2", "#D55E00", "#009E73", "#CC79A7", "#E69F00", "#56B4E9", "#000000", "#8C6D31")
DASHES = ("-", "--", "-.", ":", (0, (6, 1)), (0, (3, 1, 1, 1, 1, 1)), (0, (1, 1)), (0, (8, 2, 2, 2)))
# Lines only: a pattern of circles makes a file ten times as large.
HATCHES = ("", "////", "----", "xxxx", "||||", "\\\\\\\\", "++++", "//--")
_OUTLINE, _FINE = re.compile(rb' d="[^"]*"'), re.compile(rb"(\d+\.\d\d)\d+")
MARKERS = ("o", "s", "^", "D", "v", "P", "X", "*")
_SIZE, _SMALL = 9, 8
_STYLE: Any = {
    "font.size": _SIZE,
    "axes.titlesize": _SIZE,
    "axes.labelsize": _SIZE,
    "xtick.labelsize": _SMALL,
    "ytick.labelsize": _SMALL,
    "legend.fontsize": _SMALL,
    "axes.grid": True,
    "grid.alpha": 0.3,
    "axes.spines.top": False,
    "axes.spines.right": False,
    "svg.hashsalt": "calque",
}


Style = dict[str, Any]
"""Arguments of matplotlib's functions that draw."""


class Panels:
    """A figure with panels, and its two files. Raises X301 without matplotlib."""

    def __init__(self, panels: int = 1, height: float = 2.6, width: float = WIDTH, sharey: bool = False):
        self.figure = figure(width, height * panels)
        import matplotlib as mpl
        from matplotlib.layout_engine import ConstrainedLayoutEngine

        self._context = mpl.rc_context
        with self._context(_STYLE):
            self.figure.set_layout_engine(ConstrainedLayoutEngine(h_pad=0.08))
            self.axes: list[Axes] = list(self.figure.subplots(panels, 1, squeeze=False, sharey=sharey)[:, 0])

    def shorten_counts(self, axes: "Axes") -> None:
        """Shortens large numbers below a panel: 20k."""
        from matplotlib.ticker import EngFormatter

        axes.xaxis.set_major_formatter(EngFormatter(sep=""))

    def legend(self) -> None:
        """One legend for all panels, above them; none for a single line."""
        handles: dict[str, Artist] = {}
        for axes in self.axes:
            for handle, label in zip(*axes.get_legend_handles_labels(), strict=True):
                handles.setdefault(label, handle)
        if len(handles) > 1:
            with self._context(_STYLE):
                add_legend(self.figure, handles, _SMALL)

    def files(self) -> tuple[bytes, bytes]:
        """SVG and PNG."""
        bodies = []
        for (
            axes
        ) in self.figure.axes:  # parts added after the panels, such as colour bars, have the sizes of another style
            for text in (axes.title, axes.xaxis.label, axes.yaxis.label):
                text.set_fontsize(_SIZE)
            axes.tick_params(labelsize=_SMALL)
        with self._context(_STYLE), boxes():
            settle(self.figure)
            for kind in ("svg", "png"):
                body = io.BytesIO()
                about = {"Date": None} if kind == "svg" else {"Software": None}
                self.figure.savefig(body, format=kind, dpi=160, metadata=about)
                bodies.append(body.getvalue())
                self.figure.set_layout_engine("none")  # both files have one layout
        # A hundredth of a point is finer than any printer; further digits would be most of the file.
        return _OUTLINE.sub(lambda outline: _FINE.sub(rb"\1", outline[0]), bodies[0]), bodies[1]


def styles_of(names: Sequence[Cell]) -> dict[Cell, Style]:
    """Colour and marker for each name."""
    return {name: {"color": c, "marker": m} for name, c, m in zip(names, cycle(COLOURS), cycle(MARKERS), strict=False)}


def lines_of(names: Sequence[Cell]) -> dict[Cell, Style]:
    """The same with dashes, for lines that a reader must distinguish without colours."""
    styles = styles_of(names).items()
    return {name: {**style, "linestyle": d} for (name, style), d in zip(styles, cycle(DASHES), strict=False)}


def fills_of(names: Sequence[Cell]) -> dict[Cell, Style]:
    """Colour and hatching for bars."""
    return {
        name: {"color": color, "hatch": hatch, "edgecolor": "white", "linewidth": 0.5}
        for name, color, hatch in zip(names, cycle(COLOURS), cycle(HATCHES), strict=False)
    }
