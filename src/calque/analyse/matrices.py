"""Attention matrices of any layer and head, with links by hand (Luong 2015, figure 7; Gehring 2017, figures 4 and 5)."""

import re
from collections.abc import Sequence
from typing import TYPE_CHECKING

from jaxtyping import Float
from torch import Tensor

from calque.align.links import Gold
from calque.analyse.canvas import Panels
from calque.analyse.drawn import DrawnFigure, Table
from calque.ground.diagnostics import printable
from calque.ground.plot import figure, width_of

if TYPE_CHECKING:
    from matplotlib.axes import Axes

_ADDRESS = re.compile(r"(?P<path>[^#]+)(#(?P<head>\d+))?")
_CELL = 0.21
"""Inches of a row or column."""


def address(text: str) -> tuple[str, int | None]:
    """PATH or PATH#HEAD, heads from 1: the path of a layer and the head, None for the mean of all."""
    match = _ADDRESS.fullmatch(text)
    if match is None:
        return text, None
    return match["path"], int(match["head"]) if match["head"] else None


def matrix_table(weights: Float[Tensor, "T S"], source: Sequence[str], target: Sequence[str]) -> Table:
    """A row for each target token and source token with the weight between them; positions from 0."""
    rows = [
        (t, word, s, other, float(weights[t, s])) for t, word in enumerate(target) for s, other in enumerate(source)
    ]
    return Table.of(("target position", "target token", "source position", "source token", "weight"), rows)


def draw(
    weights: Float[Tensor, "T S"],
    source: Sequence[str],
    target: Sequence[str],
    name: str,
    title: str,
    caption: str = "",
    gold: tuple[Gold, Sequence[int], Sequence[int]] | None = None,
    axes_names: tuple[str, str] = ("source token", "target token"),
) -> DrawnFigure:
    """A picture of weights, white 0 and dark 1. `gold`: links of words, and the word of each source piece and of each target piece.

    Sure links are outlined, possible ones dotted. `axes_names` are those of columns and rows. A picture without a caption has its
    title above it. Raises X301 without matplotlib.
    """
    rows, columns = weights.shape
    # Long tokens need room beside the rows and below the columns.
    measure = figure(1, 1)
    across, down = (width_of(measure, "\n".join(map(shown_token, some)), 8) for some in (target, source))
    canvas = Panels(1, 0.9 + down + _CELL * rows, 1.3 + across + _CELL * columns)
    (axes,) = canvas.axes
    image = axes.imshow(weights.numpy(), cmap="Blues", vmin=0, vmax=1, aspect="auto", interpolation="nearest")
    axes.set_xticks(range(columns), [shown_token(s) for s in source], rotation=90)
    axes.set_yticks(range(rows), [shown_token(s) for s in target])
    axes.set_xlabel(axes_names[0])
    axes.set_ylabel(axes_names[1])
    axes.grid(visible=False)
    if not caption:
        axes.set_title(title)
    if gold is not None:
        _outline(axes, *gold)
    canvas.figure.colorbar(image, ax=axes, label="weight")
    reading = f"Follow a row ({axes_names[1]}): the darker a cell, the more of that column ({axes_names[0]}) it takes."
    return DrawnFigure(name, title, caption, matrix_table(weights, source, target), *canvas.files(), reading)


def gold_weights(gold: Gold, source: Sequence[int], target: Sequence[int], like: Tensor) -> Float[Tensor, "T S"]:
    """Links of words on the grid of pieces: 1 where sure, a half where possible; end symbols have none."""
    weights = like.new_zeros(like.shape)
    for t, word in enumerate(target):
        for s, other in enumerate(source):
            if (other, word) in gold.possible:
                weights[t, s] = 1.0 if (other, word) in gold.sure else 0.5
    return weights


def _outline(axes: "Axes", gold: Gold, source: Sequence[int], target: Sequence[int]) -> None:
    from matplotlib.patches import Rectangle

    for s, t in gold.possible:
        across = [k for k, word in enumerate(source) if word == s]
        down = [k for k, word in enumerate(target) if word == t]
        if across and down:
            corner = (across[0] - 0.5, down[0] - 0.5)
            style = "-" if (s, t) in gold.sure else ":"
            axes.add_patch(Rectangle(corner, len(across), len(down), fill=False, ec="#D55E00", lw=1.2, ls=style))


def shown_token(token: str) -> str:
    """A token as the picture shows it, shortened."""
    return printable(token, 16)
