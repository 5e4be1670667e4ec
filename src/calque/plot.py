"""A picture by matplotlib, which is an extra."""

import io
from typing import Any

from calque.diagnostics import error


def figure(width: float, height: float) -> Any:
    """An empty figure, inches, whose parts find their places themselves. Raises X301 without matplotlib."""
    try:
        from matplotlib.backends.backend_agg import FigureCanvasAgg
        from matplotlib.figure import Figure
    except ImportError:
        raise error("X301", extra="plot", package="matplotlib") from None
    made = Figure(figsize=(width, height), layout="constrained")
    FigureCanvasAgg(made)
    return made


def drawn(figure: Any, kind: str) -> bytes:
    """The file of a figure, svg or png."""
    body = io.BytesIO()
    figure.savefig(body, dpi=130, format=kind)
    return body.getvalue()
