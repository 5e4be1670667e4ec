"""How a score changes with depth, heads or another number, from the cells of a ledger (Gehring 2017, figure 2; You 2020, figures 3
and 7)."""

import re
import statistics
from collections.abc import Iterator, Mapping, Sequence

import numpy as np

from calque.analyse.canvas import Panels, lines_of
from calque.analyse.drawn import Cell, DrawnFigure, NotDrawn, Table
from calque.ledger.entry import Entry

SCORES = ("BLEU", "METEOR", "validation perplexity")
APART = 0.05
"""The least distance of labelled numbers, as a share of the scale."""
_NUMBER = re.compile(r"\d+")
_SETTING = re.compile(r"(\w+)=(\d+(?:\.\d+)?)")


def numbers_of(entry: Entry) -> tuple[str, dict[str, float]]:
    """The family of a cell and its numbers: its settings, and the numbers in the name of its row, counted from `#1`.

    `a-6-c-3` is of the family `a-#-c-#` and has #1 = 6 and #2 = 3.
    """
    row = str(entry.conditions.get("row") or entry.id)
    found = {f"#{k}": float(n) for k, n in enumerate(_NUMBER.findall(row), 1)}
    found |= {name: float(n) for name, n in _SETTING.findall(str(entry.conditions.get("settings", "")))}
    return _NUMBER.sub("#", row), found


_Cells = list[tuple[dict[str, float], float]]
"""The numbers and the score of each cell of a family."""


def sweeps(entries: Sequence[Entry]) -> list[tuple[str, Table]]:
    """For each number that varies within a family: a table of the cells in which it varies, with seeds averaged.

    A line is a family with its other numbers, without settings that follow the number (a width matched to a size). `n` counts
    seeds; `deviation` is None for one.
    """
    score = next((name for name in SCORES if any(name in e.figures for e in entries)), None)
    if score is None:
        return []
    cells = [(*numbers_of(e), float(e.figures[score])) for e in entries if score in e.figures]
    tables = []
    for name in dict.fromkeys(name for _, numbers, _ in cells for name in numbers):
        families: dict[str, _Cells] = {}
        for family, numbers, value in cells:
            if name in numbers:
                place = _line(family, {k: v for k, v in numbers.items() if k != name and k.startswith("#")})
                families.setdefault(place, []).append((numbers, value))
        if rows := [row for family, some in families.items() for row in _points(name, family, some)]:
            tables.append((name, Table.of(("line", name, score, "deviation", "n"), rows)))
    return tables


def _points(name: str, family: str, cells: _Cells) -> Iterator[tuple[Cell, ...]]:
    """The rows of a family: the mean score at each value of the number, for each line along which it varies."""
    follow = _followers(name, [numbers for numbers, _ in cells])
    lines: dict[str, dict[float, list[float]]] = {}
    for numbers, value in cells:
        line = _line(family, {k: v for k, v in numbers.items() if k != name and k not in follow})
        lines.setdefault(line, {}).setdefault(numbers[name], []).append(value)
    for line, points in lines.items():
        if len(points) > 1:
            for x, scores in sorted(points.items()):
                deviation = statistics.stdev(scores) if len(scores) > 1 else None
                yield line, x, statistics.mean(scores), deviation, len(scores)


def _followers(name: str, cells: Sequence[Mapping[str, float]]) -> set[str]:
    """The settings that differ among cells and have one value for each value of `name`."""
    found = set()
    for other in {key for cell in cells for key in cell if key != name and not key.startswith("#")}:
        values: dict[float, set[float | None]] = {}
        for cell in cells:
            values.setdefault(cell[name], set()).add(cell.get(other))
        if len(set().union(*values.values())) > 1 and all(len(some) == 1 for some in values.values()):
            found.add(other)
    return found


def _line(family: str, numbers: Mapping[str, float]) -> str:
    """The name of a line: `*` for the number that varies."""
    for k in range(1, family.count("#") + 1):
        family = family.replace("#", f"{numbers[f'#{k}']:g}" if f"#{k}" in numbers else "*", 1)
    named = [f"{k}={v:g}" for k, v in numbers.items() if not k.startswith("#")]
    return " ".join([family, *named])


def _apart(values: Sequence[float]) -> list[float]:
    """The sorted numbers, without those that are too close to the one before for a label of their own."""
    found = list(values[:1])
    for value in values[1:]:
        if value - found[-1] >= APART * (values[-1] - values[0]):
            found.append(value)
    return found


def draw(name: str, table: Table, where: str) -> DrawnFigure:
    """A line for each family, deviations over seeds as whiskers."""
    if not table.rows:
        raise NotDrawn("no number varies")
    score = table.columns[2]
    canvas = Panels(1, 3.0)
    (axes,) = canvas.axes
    style = lines_of(table.each("line"))
    for line in table.each("line"):
        found = table.where(line=line)
        spread = np.nan_to_num(found.numbers("deviation"))
        axes.errorbar(found.column(name), found.column(score), spread, label=line, lw=1.3, capsize=2, **style[line])
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
    return DrawnFigure(
        stem,
        f"{score} against {label}",
        f"Cells of the ledger {where}; {trainings} trainings per point; whiskers are their deviations. In names, * stands for the "
        "number that varies; settings that follow it are left out.",
        table,
        *canvas.files(),
        f"A line that rises to the right says that more of {label} helps; differences smaller than the whiskers can be chance.",
    )
