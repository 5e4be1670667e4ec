"""The figures of a report as bars, the paper's beside them."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from calque.ground.plot import POINT, drawn, figure, height_of, width_of, wrapped

if TYPE_CHECKING:
    from matplotlib.axes import Axes

Bar = tuple[float | None, float | None]
"""A value and its deviation."""
WIDTH = 10.0
TITLE, LABEL, HEAD, VALUE, CAPTION = 11, 9, 9, 8, 7
"""Sizes of letters: title, labels of rows, titles of panels, values and names of axes, the command."""
MONO = "monospace"
LABELS = 0.36
"""Share of the width that labels may take."""
ROW = 0.32


@dataclass(frozen=True)
class Bars:
    """What a picture shows: panels of bars with common labels; the paper's only where it reports a figure."""

    title: str
    labels: Sequence[str]
    here: Sequence[Bar]
    paper: Sequence[Bar]
    titles: tuple[str, str]
    axis: str
    command: str


def picture(bars: Bars) -> bytes:
    """The file, PNG; its height follows from the words in it."""
    made = figure(WIDTH, 1)  # measures words before its height is known
    titles = wrapped(made, bars.title, WIDTH - 0.3, TITLE)
    caption = wrapped(made, bars.command, WIDTH - 0.3, CAPTION, MONO)
    labels = [wrapped(made, label, LABELS * WIDTH, LABEL) for label in bars.labels]
    beside = max(width_of(made, "\n".join(lines), LABEL) for lines in labels)
    shown = [(bars.here, bars.titles[0], ("tab:blue", 2, "not measured"))]
    if any(mean is not None for mean, _ in bars.paper):
        shown.append((bars.paper, bars.titles[1], ("tab:gray", 1, "not reported")))
    panel = (WIDTH - beside - 0.6) / len(shown)
    heads = [wrapped(made, title, panel, HEAD) for _, title, _ in shown]
    axis = wrapped(made, bars.axis, panel, VALUE)
    row = max(ROW, max(height_of(len(lines), LABEL) for lines in labels) + 0.06)
    around = [(titles, TITLE), (max(heads, key=len), HEAD), (axis, VALUE), (caption, CAPTION), ([""], LABEL)]
    made.set_size_inches(WIDTH, row * (len(labels) + 0.5) + sum(height_of(len(t), size) for t, size in around) + 0.4)
    panels = made.subplots(1, len(shown), sharey=True, squeeze=False)[0]
    made.suptitle("\n".join(titles), fontsize=TITLE)
    made.supxlabel("\n".join(caption), fontsize=CAPTION, family=MONO)
    for axes, (values, _, look), head in zip(panels, shown, heads, strict=True):
        _bars(axes, values, *look)
        axes.set_title("\n".join(head), fontsize=HEAD)
        axes.set_xlabel("\n".join(axis), fontsize=VALUE)
        axes.tick_params(axis="x", labelsize=VALUE)
    panels[0].set_yticks(range(len(labels)), ["\n".join(lines) for lines in labels], fontsize=LABEL)
    panels[0].set_ylim(len(labels) - 0.4, -0.6)
    made.draw_without_rendering()
    for axes in panels:
        _make_room(axes)
    return drawn(made, "png")


def _bars(axes: "Axes", values: Sequence[Bar], colour: str, decimals: int, missing: str) -> None:
    for k, (mean, deviation) in enumerate(values):
        if mean is None:
            axes.text(0, k, f"  {missing}", va="center", fontsize=VALUE, color="0.35")
            continue
        axes.barh(k, mean, xerr=deviation, color=colour, height=0.62, capsize=2)
        digits = decimals if abs(mean) < 1000 else 0
        spread = "" if deviation is None else f" ± {deviation:,.{digits}f}"
        axes.text(mean + (deviation or 0), k, f"  {mean:,.{digits}f}{spread}", va="center", fontsize=VALUE)
    axes.grid(axis="x", alpha=0.3)
    axes.set_axisbelow(True)


def _make_room(axes: "Axes") -> None:
    """Ends the scale where the widest bar and the figure behind it have their place."""
    from matplotlib.ticker import EngFormatter, MaxNLocator

    wide = axes.get_window_extent().width / axes.figure.dpi
    ends = [1.0]
    for text in axes.texts:
        share = min(0.8, 1.04 * (width_of(axes.figure, text.get_text(), VALUE) + 4 * POINT) / wide)
        ends.append(text.get_position()[0] / (1 - share))
    axes.set_xlim(0, max(ends))
    axes.xaxis.set_major_locator(MaxNLocator(max(2, min(8, int(wide / 0.6))), steps=[1, 2, 5, 10]))
    if max(ends) >= 10_000:
        axes.xaxis.set_major_formatter(EngFormatter(sep=""))
