"""How a score changes with depth, heads or another number, from the cells of a ledger (Gehring 2017, figure 2; You 2020, figures 3
and 7)."""

import re
import statistics
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from calque.analyse.canvas import Panels, lines_of
from calque.analyse.drawn import Cell, DrawnFigure, NotDrawn, Table
from calque.ledger.convergence import NOT_CONVERGED, why_not_converged
from calque.ledger.entry import Entry

if TYPE_CHECKING:
    from matplotlib.axes import Axes

SCORES = ("BLEU", "METEOR", "validation perplexity")
APART = 0.05
"""The least distance of labelled numbers, as a share of the scale."""
_NUMBER = re.compile(r"\d+")
_SETTING = re.compile(r"(\w+)=(\d+(?:\.\d+)?)")


class SweepCell(NamedTuple):
    """A cell of the ledger: its family, the numbers that may vary within it, its score, and whether its training had converged."""

    family: str
    numbers: dict[str, float]
    score: float
    converged: bool


def numbers_of(entry: Entry) -> tuple[str, dict[str, float]]:
    """The family of a cell and its numbers: its settings, and the numbers in the name of its row, counted from `#1`.

    `a-6-c-3` is of the family `a-#-c-#` and has #1 = 6 and #2 = 3.
    """
    row = str(entry.conditions.get("row") or entry.id)
    numbers = {f"#{k}": float(n) for k, n in enumerate(_NUMBER.findall(row), 1)}
    numbers |= {name: float(n) for name, n in _SETTING.findall(str(entry.conditions.get("settings", "")))}
    return _NUMBER.sub("#", row), numbers


def sweeps(entries: Sequence[Entry]) -> list[tuple[str, Table]]:
    """For each number that varies within a family: a table of the cells in which it varies, with seeds averaged.

    A line is a family with its other numbers, without settings that follow the number (a width matched to a size). `n` counts
    seeds; `deviation` is None for one. `not converged` counts the seeds whose learning curve does not show convergence.
    """
    score = next((name for name in SCORES if any(name in e.figures for e in entries)), None)
    if score is None:
        return []
    cells = [
        SweepCell(*numbers_of(e), float(e.figures[score]), not why_not_converged(e.validations))
        for e in entries
        if score in e.figures
    ]
    tables = []
    for name in dict.fromkeys(name for cell in cells for name in cell.numbers):
        families = _families(name, cells).items()
        if rows := [row for family, members in families for row in _points(name, family, members)]:
            tables.append((name, Table.of(("line", name, score, "deviation", "n", "not converged"), rows)))
    return tables


def _families(name: str, cells: Sequence[SweepCell]) -> dict[str, list[SweepCell]]:
    """The cells that have a number, grouped by family and by the other numbers of their rows' names."""
    families: dict[str, list[SweepCell]] = {}
    for cell in cells:
        if name in cell.numbers:
            others = {k: v for k, v in cell.numbers.items() if k != name and k.startswith("#")}
            families.setdefault(_line(cell.family, others), []).append(cell)
    return families


def _points(name: str, family: str, cells: Sequence[SweepCell]) -> Iterator[tuple[Cell, ...]]:
    """The rows of a family: the mean score at each value of the number, for each line along which it varies."""
    follow = _followers(name, [cell.numbers for cell in cells])
    lines: dict[str, dict[float, list[SweepCell]]] = {}
    for cell in cells:
        line = _line(family, {k: v for k, v in cell.numbers.items() if k != name and k not in follow})
        lines.setdefault(line, {}).setdefault(cell.numbers[name], []).append(cell)
    for line, points in lines.items():
        if len(points) > 1:
            for x, seeds in sorted(points.items()):
                scores = [cell.score for cell in seeds]
                deviation = statistics.stdev(scores) if len(scores) > 1 else None
                unfinished = sum(not cell.converged for cell in seeds)
                yield line, x, statistics.mean(scores), deviation, len(scores), unfinished


def _followers(name: str, cells: Sequence[Mapping[str, float]]) -> set[str]:
    """The settings that differ among cells and have one value for each value of `name`."""
    followers = set()
    for other in {key for cell in cells for key in cell if key != name and not key.startswith("#")}:
        values: dict[float, set[float | None]] = {}
        for cell in cells:
            values.setdefault(cell[name], set()).add(cell.get(other))
        if len(set().union(*values.values())) > 1 and all(len(some) == 1 for some in values.values()):
            followers.add(other)
    return followers


def _line(family: str, numbers: Mapping[str, float]) -> str:
    """The name of a line: `*` for the number that varies."""
    for k in range(1, family.count("#") + 1):
        family = family.replace("#", f"{numbers[f'#{k}']:g}" if f"#{k}" in numbers else "*", 1)
    named = [f"{k}={v:g}" for k, v in numbers.items() if not k.startswith("#")]
    return " ".join([family, *named])


def _apart(values: Sequence[float]) -> list[float]:
    """Sorted numbers, less those that are too close to the one before to have a label."""
    labelled = list(values[:1])
    for value in values[1:]:
        if value - labelled[-1] >= APART * (values[-1] - values[0]):
            labelled.append(value)
    return labelled


def _panel(axes: "Axes", name: str, table: Table) -> None:
    """The lines of all families; a point is hollow where one of its trainings had not converged."""
    score = table.columns[2]
    style = lines_of(table.each("line"))
    for line in table.each("line"):
        points = table.where(line=line)
        spread = np.nan_to_num(points.numbers("deviation"))
        axes.errorbar(
            points.numbers(name), points.numbers(score), spread, label=str(line), lw=1.3, capsize=2, **style[line]
        )
        hollow = replace(points, rows=tuple(row for row in points.rows if row[-1]))
        above = {**style[line], "linestyle": "none", "markerfacecolor": "white", "zorder": 3}
        axes.plot(hollow.numbers(name), hollow.numbers(score), **above)


def draw(name: str, table: Table, where: str) -> DrawnFigure:
    """A line for each family, deviations over seeds as whiskers."""
    if not table.rows:
        raise NotDrawn("no number varies")
    score = table.columns[2]
    canvas = Panels(1, 3.0)
    (axes,) = canvas.axes
    _panel(axes, name, table)
    label = f"number {name[1:]} in the row's name" if name.startswith("#") else name
    axes.set_xlabel(label)
    if len(values := sorted(set(table.numbers(name)))) < 15:
        ticks = _apart(values)
        axes.set_xticks(ticks, [f"{x:g}" for x in ticks])
    axes.set_ylabel(score)
    canvas.legend()
    stem = f"sweep-{name.replace('#', 'number-')}"
    seeds = sorted({int(n) for n in table.numbers("n")})
    trainings = f"{seeds[0]}" if len(seeds) == 1 else f"{seeds[0]} to {seeds[-1]}"
    caption = f"Cells of the ledger {where}; {trainings} trainings per point; whiskers are their deviations. In names, * stands "
    caption += "for the number that varies; settings that follow it are left out."
    if unfinished := sum(int(n) for n in table.numbers(NOT_CONVERGED)):
        caption += (
            f" Hollow points: {unfinished} trainings had not converged, or have no learning curve that would show it."
        )
    return DrawnFigure(
        stem,
        f"{score} against {label}",
        caption,
        table,
        *canvas.files(),
        f"A line that rises to the right says that more of {label} helps; differences smaller than the whiskers can be chance.",
    )
