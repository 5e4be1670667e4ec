"""Pictures by matplotlib, an optional package: an empty figure, and a layout in which no words overlap.

Widths and heights are in inches, font sizes in points. Words are measured with the renderer that draws them.
"""

import functools
import io
import itertools
import math
import re
import warnings
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from calque.ground.diagnostics import error
from calque.ground.fonts import boxes, families, set_fonts

if TYPE_CHECKING:
    from matplotlib.artist import Artist
    from matplotlib.axes import Axes
    from matplotlib.axis import Axis
    from matplotlib.figure import Figure, SubFigure
    from matplotlib.text import Text
    from matplotlib.transforms import Bbox

POINT = 1 / 72
LINE = 1.3
"""Height of a line of text, in its size."""
MARGIN = 0.06
"""Between words and the edge of the picture."""
LABELS, LEAST = 0.4, 1.5
"""The share of a picture's width that row labels may take, and the inches that they may take in any picture."""
ROUNDS = 6
"""A change of one label can move others: the layout is repeated at most so often."""
EVEN = 4
"""Texts of fewer lines are broken into lines of similar width."""
COLORBAR = "<colorbar>"
_BREAKS = re.compile(r"[^,/+=_-]*[,/+=_-]+|[^,/+=_-]+")


def figure(width: float, height: float) -> "Figure":
    """An empty figure whose parts are laid out by matplotlib. Raises X301 without matplotlib."""
    try:
        from matplotlib.backends.backend_agg import FigureCanvasAgg
        from matplotlib.figure import Figure
    except ImportError:
        raise error("X301", extra="plot", package="matplotlib") from None
    made = Figure(figsize=(width, height), layout="constrained")
    FigureCanvasAgg(made)
    return made


def drawn(figure: "Figure", kind: str) -> bytes:
    """The file of a figure, svg or png."""
    settle(figure)
    body = io.BytesIO()
    with boxes():
        figure.savefig(body, dpi=130, format=kind)
    return body.getvalue()


def width_of(figure: "Figure | SubFigure", text: str, size: float, family: str | None = None) -> float:
    """The width of the widest line of a text."""
    import matplotlib as mpl

    named = (family,) if family else (*(families(text) or mpl.rcParams["font.family"]),)
    return max(_line_width(line, size, named, figure.dpi) for line in text.split("\n"))


@functools.lru_cache(4096)  # a layout measures the same words again and again
def _line_width(line: str, size: float, family: tuple[str, ...], dpi: float) -> float:
    from matplotlib.backends import backend_agg
    from matplotlib.font_manager import FontProperties

    agg: Any = backend_agg  # untyped
    with boxes():
        width, *_ = agg.RendererAgg(1, 1, dpi).get_text_width_height_descent(
            line, FontProperties(family=family, size=size), False
        )
    return float(width / dpi)


def _renderer(figure: "Figure | SubFigure") -> Any:
    """The renderer of the canvas; matplotlib leaves it untyped."""
    canvas: Any = figure.canvas
    return canvas.get_renderer()


def _size(text: "Text") -> float:
    """The font size of a text in points."""
    return float(text.get_fontsize())


def height_of(lines: int, size: float) -> float:
    """The height of lines of text."""
    return lines * size * POINT * LINE


def wrapped(figure: "Figure", text: str, width: float, size: float, family: str | None = None) -> list[str]:
    """A text in lines that are at most as wide as `width`, broken at spaces.

    A single word that is too wide is broken after punctuation, or between letters where it has none.
    """
    width = 0.97 * width  # letters are rounded to pixels, and other resolutions round differently
    lines = _lines(figure, text, width, size, family)
    if 1 < len(lines) < EVEN:  # no single word in the last line
        narrower = (_lines(figure, text, share * width, size, family) for share in (0.55, 0.65, 0.75, 0.85, 0.92))
        return next((one for one in narrower if len(one) == len(lines)), lines)
    return lines


def _lines(figure: "Figure", text: str, width: float, size: float, family: str | None) -> list[str]:
    def fits(some: str) -> bool:
        return width_of(figure, some, size, family) <= width

    lines: list[str] = []
    for word in text.split():
        if lines and fits(f"{lines[-1]} {word}"):
            lines[-1] += f" {word}"
        elif fits(word):
            lines.append(word)
        else:
            lines += _broken(word, fits)
    return lines or [""]


def _broken(word: str, fits: Callable[[str], bool]) -> list[str]:
    lines = [""]
    for part in _BREAKS.findall(word):
        if fits(lines[-1] + part):
            lines[-1] += part
            continue
        lines += [""] if lines[-1] else []
        for letter in part:
            if lines[-1] and not fits(lines[-1] + letter):
                lines.append("")
            lines[-1] += letter
    return lines


def settle(figure: "Figure") -> None:
    """Lays out a figure so that no words overlap or leave it.

    It wraps long titles and labels, turns labels that touch each other, and enlarges the figure where that is not enough.
    """
    from matplotlib.text import Text

    for text in figure.findobj(Text):
        text.set_parse_math(False)  # a `$` in a name is a dollar sign
    set_fonts(figure)
    _wrap_rows(figure)
    for _ in range(ROUNDS):
        if _collapses(figure):
            width, height = figure.get_size_inches()
            figure.set_size_inches(1.1 * width, 1.4 * height)
            continue
        changes = [step(figure) for step in (_wrap_rows, _wrap_titles, _turn_columns, _grow)]
        if not any(changes):
            return
    _collapses(figure)


def _collapses(figure: "Figure") -> bool:
    """Lays out the figure; whether labels leave no space for the panels."""
    with boxes():
        warnings.filterwarnings("error", message="constrained_layout not applied")
        try:
            figure.draw_without_rendering()
        except UserWarning:
            return True
    return False


def add_legend(figure: "Figure", handles: "Mapping[str, Artist]", size: float) -> None:
    """A legend above all panels, with as many names in a row as fit; the figure grows by each row after the first."""
    width, height = figure.get_size_inches()
    em = size * POINT
    names = [wrapped(figure, name, width - 5 * em, size) for name in handles]
    widest = max(width_of(figure, "\n".join(lines), size) for lines in names) + 2.8 * em
    fitting = max(1, min(int((width - em) / (widest + 2 * em)), len(names)))
    rows = math.ceil(len(names) / fitting)
    lines = sum(max(map(len, names[k::rows])) for k in range(rows))  # names stand in columns
    figure.set_size_inches(width, height + height_of(lines - 1, size) + 0.5 * em * (rows - 1))
    texts = ["\n".join(one) for one in names]
    figure.legend(
        list(handles.values()), texts, loc="outside upper center", ncols=fitting, frameon=False, fontsize=size
    )


def shown_ticks(axis: "Axis") -> "list[Text]":
    """The labels of an axis that are drawn."""
    low, high = sorted(axis.get_view_interval())
    slack = 1e-9 * (high - low)
    return [
        tick.label1
        for tick in axis.get_major_ticks()
        if low - slack <= tick.get_loc() <= high + slack and tick.label1.get_visible() and tick.label1.get_text()
    ]


def _panels(figure: "Figure") -> "list[Axes]":
    return [axes for axes in figure.axes if axes.get_visible()]


def _extents(figure: "Figure", texts: "Sequence[Text]") -> "list[Bbox]":
    renderer = _renderer(figure)
    return [text.get_window_extent(renderer).transformed(figure.dpi_scale_trans.inverted()) for text in texts]


def _room(figure: "Figure", axes: "Axes", across: bool) -> tuple[float, float]:
    """The centre of a panel in one direction, and the largest width of words that are centred on it."""
    to_inches = figure.dpi_scale_trans.inverted()
    boxes = {one: one.get_window_extent().transformed(to_inches) for one in _panels(figure)}
    here = boxes.pop(axes)
    first, last, other_first, other_last = ("x0", "x1", "y0", "y1") if across else ("y0", "y1", "x0", "x1")
    low, high = MARGIN, figure.get_size_inches()[0 if across else 1] - MARGIN
    for one, box in boxes.items():
        beside = min(getattr(box, other_last), getattr(here, other_last)) > max(
            getattr(box, other_first), getattr(here, other_first)
        )
        if not beside or one.get_label() == COLORBAR or axes.get_label() == COLORBAR:
            continue
        if getattr(box, last) <= getattr(here, first):
            low = max(low, (getattr(box, last) + getattr(here, first)) / 2 + MARGIN)
        elif getattr(box, first) >= getattr(here, last):
            high = min(high, (getattr(box, first) + getattr(here, last)) / 2 - MARGIN)
    centre = (getattr(here, first) + getattr(here, last)) / 2
    return centre, max(0.5, 2 * min(centre - low, high - centre))


def _wrap_titles(figure: "Figure") -> bool:
    """Breaks titles and axis labels that are wider than the space around their panel."""
    changed = False
    for axes in _panels(figure):
        for text, across in ((axes.title, True), (axes.xaxis.label, True), (axes.yaxis.label, False)):
            width = _room(figure, axes, across)[1]
            if text.get_text() and width_of(figure, text.get_text(), _size(text)) > width:
                lines = wrapped(figure, text.get_text(), width, _size(text))
                changed |= _replace(text, "\n".join(lines))
    return changed


def _replace(text: "Text", new: str) -> bool:
    if text.get_text() == new:
        return False
    text.set_text(new)
    return True


def _wrap_rows(figure: "Figure") -> bool:
    """Breaks row labels that take too much of the width."""
    changed = False
    width = max(LEAST, LABELS * figure.get_size_inches()[0])
    for axes in _panels(figure):
        labels = shown_ticks(axes.yaxis)
        if any(width_of(figure, one.get_text(), _size(one)) > width for one in labels):
            texts = ["\n".join(wrapped(figure, one.get_text(), width, _size(one))) for one in labels]
            changed |= texts != [one.get_text() for one in labels]
            low, high = sorted(axes.yaxis.get_view_interval())
            axes.set_yticks([at for at in axes.get_yticks() if low <= at <= high], texts)
    return changed


def _turn_columns(figure: "Figure") -> bool:
    """Turns column labels that touch each other; on a numeric scale, keeps every second one."""
    changed = False
    for axes in _panels(figure):
        labels = shown_ticks(axes.xaxis)
        boxes = sorted(_extents(figure, labels), key=lambda box: box.x0)
        if not any(a.x1 + 0.02 > b.x0 for a, b in itertools.pairwise(boxes)):
            continue
        if not _is_fixed(axes.xaxis):
            axes.locator_params(axis="x", nbins=max(1, len(labels) // 2))
            changed = True
        elif any(one.get_rotation() != 90 for one in labels):
            axes.tick_params(axis="x", rotation=90)
            longest = max(width_of(figure, one.get_text(), _size(one)) for one in labels)
            width, height = figure.get_size_inches()
            figure.set_size_inches(width, height + longest)  # panels stay as high as they were
            changed = True
    return changed


def _is_fixed(axis: "Axis") -> bool:
    from matplotlib.ticker import FixedLocator

    return isinstance(axis.get_major_locator(), FixedLocator)


def _grow(figure: "Figure") -> bool:
    """Enlarges a figure until neighbouring labels have enough space."""
    by = [1.0, 1.0]
    for axes in _panels(figure):
        for direction, axis in enumerate((axes.xaxis, axes.yaxis)):
            if _is_fixed(axis):
                by[direction] = max(by[direction], _tightness(figure, axis, direction))
    if max(by) == 1:
        return False
    size = [min(60.0, old * more) for old, more in zip(figure.get_size_inches(), by, strict=True)]
    figure.set_size_inches(*size)
    return True


def _tightness(figure: "Figure", axis: "Axis", direction: int) -> float:
    """The factor by which labels of an axis should be further apart; 1 where they are far enough."""
    boxes = _extents(figure, shown_ticks(axis))
    if direction == 0 and any(one.get_rotation() != 90 for one in shown_ticks(axis)):
        return 1.0
    ends = sorted(((box.x0, box.x1), (box.y0, box.y1))[direction] for box in boxes)
    return max([1.0, *_ratios(ends)])


def _ratios(ends: Sequence[tuple[float, float]]) -> Iterator[float]:
    for (a0, a1), (b0, b1) in itertools.pairwise(ends):
        apart, needed = (b0 + b1 - a0 - a1) / 2, (a1 - a0 + b1 - b0) / 2 + 0.02
        if 0 < apart < needed:
            yield min(3.0, needed / apart)
