"""The figures of a report as bars, the paper's beside them."""

import textwrap
from pathlib import Path
from typing import Any

from calque.plot import drawn, figure
from calque.reproduce.report import Report
from calque.whole import write_whole
from calque.zoo.paper import LOWER_IS_BETTER


def draw(report: Report, out: Path) -> None:
    """Writes a picture, PNG: one bar a row, ours and the paper's, deviations as whiskers. Raises X301 without matplotlib."""
    lines = report.lines
    caption = textwrap.wrap(report.command, 125, break_long_words=False, break_on_hyphens=False)
    picture = figure(10, 1.9 + 0.36 * len(lines) + 0.16 * len(caption))
    ours, theirs = picture.subplots(1, 2, sharey=True)
    means = [line.figures.get(report.metric, (None, None)) for line in lines]
    papers = [(p.value, p.deviation) if (p := line.paper) else (None, None) for line in lines]
    seeds = sorted({len(line.seeds) for line in lines})
    told = f"{'–'.join(map(str, (seeds[0], seeds[-1])[: len(seeds)]))} seed{'s' if seeds[-1] > 1 else ''} a row"
    _bars(ours, means, f"here: {report.corpus}, {told}", _axis(report), "tab:blue", 2)
    _bars(theirs, papers, f"paper: {report.pair}", _axis(report), "tab:gray", 1)
    ours.set_yticks(range(len(lines)), [line.label for line in lines])
    ours.invert_yaxis()
    picture.suptitle(report.title, fontsize=11)
    picture.supxlabel("\n".join(caption), fontsize=7, family="monospace")
    write_whole(out, drawn(picture, "png"))


def _axis(report: Report) -> str:
    better = "lower" if report.column.metric in LOWER_IS_BETTER else "higher"
    return f"{report.printed}, mean and deviation over seeds; {better} is better"


def _bars(axes: Any, values: list[tuple[Any, Any]], title: str, axis: str, colour: str, decimals: int) -> None:
    for k, (mean, deviation) in enumerate(values):
        if mean is None:
            axes.text(0, k, " none", va="center", fontsize=8)
            continue
        axes.barh(k, mean, xerr=deviation, color=colour, height=0.62, capsize=2)
        spread = "" if deviation is None else f" ± {deviation:.{decimals}f}"
        axes.text(mean + (deviation or 0), k, f"  {mean:.{decimals}f}{spread}", va="center", fontsize=8)
    axes.set_xlim(0, max([1.0, *(1.35 * m for m, _ in values if m is not None)]))
    axes.set_xlabel(axis, fontsize=8)
    axes.set_title(title, fontsize=9)
    axes.grid(axis="x", alpha=0.3)
