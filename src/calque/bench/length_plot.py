"""Decoding speed against the length of translations, a line for each system and beam."""

from collections.abc import Sequence

from calque.bench.decode import DecodeCell
from calque.ground.plot import add_legend, drawn, figure


def draw(cells: Sequence[DecodeCell], title: str, kind: str) -> bytes:
    """A picture, svg or png, of the figures in the JSON. Raises X301 without matplotlib."""
    picture = figure(6.4, 4)
    axes = picture.subplots()
    lines: dict[tuple[str, int], list[DecodeCell]] = {}
    for cell in cells:
        lines.setdefault((cell["system"], cell["beam"]), []).append(cell)
    for (system, beam), points in lines.items():
        points = sorted(points, key=lambda c: c["length"] or 0)
        lengths = [c["length"] or 0 for c in points]
        speeds = [c["target_tokens_per_second"] for c in points]
        axes.plot(lengths, [s["median"] for s in speeds], marker="o", markersize=4, label=f"{system}, beam {beam}")
        axes.fill_between(lengths, [s["slowest"] for s in speeds], [s["fastest"] for s in speeds], alpha=0.15)
    axes.set(xlabel="words of a translation", ylabel="target tokens/s", title=title, ylim=(0, None))
    axes.grid(alpha=0.3)
    handles, labels = axes.get_legend_handles_labels()
    add_legend(picture, dict(zip(labels, handles, strict=True)), 9)
    return drawn(picture, kind)
