"""Where the words of a picture stand: which of them overlap, and which are cut off."""

import itertools
from collections.abc import Iterator
from typing import Any

from matplotlib.figure import Figure
from matplotlib.text import Text
from matplotlib.transforms import Bbox

SLACK = 1.0
"""Pixels that letters may share with their neighbours: the spacing around them is not ink."""


def words(figure: Figure) -> Iterator[Text]:
    """Every text that is drawn: labels of ticks outside of the scale are not."""
    for axes in figure.axes:
        if axes.get_visible():
            yield from (axes.title, axes.xaxis.label, axes.yaxis.label, *axes.texts)
            for axis in (axes.xaxis, axes.yaxis):
                low, high = sorted(axis.get_view_interval())
                for tick in axis.get_major_ticks():
                    if low <= tick.get_loc() <= high:
                        yield from (tick.label1, tick.label2)
        if axes.get_legend():
            yield from axes.get_legend().get_texts()
    yield from (text for legend in figure.legends for text in legend.get_texts())
    yield from (*figure.texts, *filter(None, (figure._suptitle, figure._supxlabel, figure._supylabel)))


def placed(figure: Figure) -> list[tuple[str, Bbox]]:
    """Every text and the pixels it covers."""
    renderer = figure.canvas.get_renderer()  # type: ignore[attr-defined]
    found = dict[int, tuple[str, Bbox]]()
    for text in words(figure):
        if text.get_visible() and text.get_text().strip():
            found[id(text)] = text.get_text(), text.get_window_extent(renderer)
    return list(found.values())


def faults(figure: Figure) -> list[str]:
    """Texts that overlap, and texts that are not wholly inside the figure."""
    some, whole = placed(figure), figure.bbox
    assert some, "a picture without words"
    found = [
        f"cut off: {text!r} {box.extents} of {whole.extents}"
        for text, box in some
        if box.x0 < -SLACK or box.y0 < -SLACK or box.x1 > whole.x1 + SLACK or box.y1 > whole.y1 + SLACK
    ]
    for (one, a), (other, b) in itertools.combinations(some, 2):
        across, down = min(a.x1, b.x1) - max(a.x0, b.x0), min(a.y1, b.y1) - max(a.y0, b.y0)
        if across > SLACK and down > SLACK:
            found.append(f"overlap: {one!r} and {other!r}")
    return found + [f"beyond its panel: {text!r}" for text in _outside(figure)]


def _outside(figure: Figure) -> Iterator[str]:
    """Words inside of panels that reach beyond them."""
    renderer: Any = figure.canvas.get_renderer()  # type: ignore[attr-defined]
    for axes in figure.axes:
        room = axes.get_window_extent()
        for text in axes.texts:
            box = text.get_window_extent(renderer)
            if box.x0 < room.x0 - SLACK or box.x1 > room.x1 + SLACK:
                yield text.get_text()
