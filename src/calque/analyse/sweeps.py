"""How a score changes with depth, heads or another number, from the cells of a ledger (Gehring 2017, figure 2; You 2020, figures 3
and 7)."""

import re
import statistics
from collections import Counter
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
_SETTING = re.compile(r"(\w+)=((?:\d+\.?\d*|\.\d+)(?:[eE][-+]?\d+)?)")
_TEXT, _TRAINING = ("corpus", "sizes"), ("recipe", "keys")
"""Conditions of a cell: what its line has in common, and what seeds of one training have."""


class SweepCell(NamedTuple):
    """A cell of the ledger: its family, the numbers that may vary within it, its score, whether its training had converged, and the
    conditions of its text and of its training.
    """

    family: str
    numbers: dict[str, float]
    score: float
    converged: bool
    text: tuple[object, ...]
    training: tuple[object, ...]


def numbers_of(entry: Entry) -> tuple[str, dict[str, float]]:
    """The family of a cell and its numbers: its settings, and the numbers in the name of its row, counted from `#1`.

    `a-6-c-3` is of the family `a-#-c-#` and has #1 = 6 and #2 = 3. Settings that are no numbers belong to the family.
    """
    row = str(entry.conditions.get("row") or entry.id)
    numbers = {f"#{k}": float(n) for k, n in enumerate(_NUMBER.findall(row), 1)}
    given = [word for word in str(entry.conditions.get("settings", "")).split() if "=" in word]
    numbers |= {match[1]: float(match[2]) for word in given if (match := _SETTING.fullmatch(word))}
    words = [word for word in given if not _SETTING.fullmatch(word)]
    return " ".join([_NUMBER.sub("#", row), *words]), numbers


def sweeps(entries: Sequence[Entry]) -> list[tuple[str, Table]]:
    """For each number that varies within a family: a table of the cells in which it varies, with seeds averaged.

    A line is a family with its other numbers, without settings that follow the number (a width matched to a size). Its cells are
    of one corpus and one pair's sizes, and where a point has several trainings, each makes a line of its own; lines of one name are
    numbered. `deviation` is None for one seed. `not converged` counts the seeds whose learning curve does not show convergence.
    """
    score = next((name for name in SCORES if any(name in e.figures for e in entries)), None)
    if score is None:
        return []
    cells = [_cell(e, score) for e in entries if score in e.figures]
    tables = []
    for name in dict.fromkeys(name for cell in cells for name in cell.numbers):
        count: Counter[str] = Counter()
        rows: list[tuple[Cell, ...]] = []
        for line, members in _lines(name, cells):
            count[line] += 1
            numbered = line if count[line] == 1 else f"{line}, {count[line]}"
            rows += [(numbered, *point) for point in _points(name, members)]
        if rows:
            tables.append((name, Table.of(("line", name, score, "deviation", "seeds", "not converged"), rows)))
    return tables


def _cell(entry: Entry, score: str) -> SweepCell:
    text, training = (tuple(entry.conditions.get(key) for key in keys) for keys in (_TEXT, _TRAINING))
    converged = not why_not_converged(entry.validations)
    return SweepCell(*numbers_of(entry), float(entry.figures[score]), converged, text, training)


def _lines(name: str, cells: Sequence[SweepCell]) -> Iterator[tuple[str, list[SweepCell]]]:
    """The lines along which a number varies, and their cells."""
    for (family, _), members in _families(name, cells).items():
        follow = _followers(name, [cell.numbers for cell in members])
        lines: dict[str, list[SweepCell]] = {}
        for cell in members:
            line = _line(family, {k: v for k, v in cell.numbers.items() if k != name and k not in follow})
            lines.setdefault(line, []).append(cell)
        for line, some in lines.items():
            for one in _trainings(name, some):
                if len({cell.numbers[name] for cell in one}) > 1:
                    yield line, one


def _families(name: str, cells: Sequence[SweepCell]) -> dict[tuple[str, tuple[object, ...]], list[SweepCell]]:
    """The cells that have a number, grouped by family, by the other numbers of their rows' names, and by their text."""
    families: dict[tuple[str, tuple[object, ...]], list[SweepCell]] = {}
    for cell in cells:
        if name in cell.numbers:
            others = {k: v for k, v in cell.numbers.items() if k != name and k.startswith("#")}
            families.setdefault((_line(cell.family, others), cell.text), []).append(cell)
    return families


def _trainings(name: str, cells: Sequence[SweepCell]) -> list[list[SweepCell]]:
    """The cells of a line, apart by training where a point has several: rows may be tuned one by one, seeds may not."""
    trainings: dict[tuple[object, ...], list[SweepCell]] = {}
    for cell in cells:
        trainings.setdefault(cell.training, []).append(cell)
    points = {(cell.numbers[name], cell.training) for cell in cells}
    return [list(cells)] if len({x for x, _ in points}) == len(points) else list(trainings.values())


def _points(name: str, cells: Sequence[SweepCell]) -> Iterator[tuple[Cell, ...]]:
    """The mean score of a line at each value of the number."""
    points: dict[float, list[SweepCell]] = {}
    for cell in cells:
        points.setdefault(cell.numbers[name], []).append(cell)
    for x, seeds in sorted(points.items()):
        scores = [cell.score for cell in seeds]
        deviation = statistics.stdev(scores) if len(scores) > 1 else None
        unfinished = sum(not cell.converged for cell in seeds)
        yield x, statistics.mean(scores), deviation, len(scores), unfinished


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
    seeds = sorted({int(n) for n in table.numbers("seeds")})
    trainings = f"{seeds[0]}" if len(seeds) == 1 else f"{seeds[0]} to {seeds[-1]}"
    caption = f"Cells of the ledger {where}; {trainings} trainings per point; whiskers are their deviations. In names, * stands "
    caption += "for the number that varies; settings that follow it are left out. Numbered lines of one name differ in corpus, "
    caption += "sizes or training."
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
