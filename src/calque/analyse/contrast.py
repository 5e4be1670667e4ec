"""Contrastive pairs: how often a model prefers the right translation to one with a planted error (Sennrich 2017; You 2020, table 4
and figure 5)."""

import json
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from calque.analyse.canvas import Panels, Style, styles_of
from calque.analyse.drawn import Cell, DrawnFigure, Table
from calque.analyse.runs import spread_over
from calque.data.lines import Lines
from calque.ground.diagnostics import Place, error
from calque.workflow.api import Run

if TYPE_CHECKING:
    from matplotlib.axes import Axes

FARTHEST = 15
"""Greater distances are one group, as in LingEval97."""
AGREEMENT = "subj_verb_agreement"
Z95 = 1.959963984540054
"""The normal quantile of a 95 % interval."""


@dataclass(frozen=True)
class ContrastivePair:
    """A source, its translation, and one with an error; `distance`: words between the two that must agree, where it is known."""

    kind: str
    source: str
    correct: str
    contrastive: str
    distance: int | None = None


def read_set(path: Path, most: int | None = None) -> list[ContrastivePair]:
    """A contrastive set: a folder or a JSON file. At most `most` pairs of each kind are taken, evenly spaced.

    A folder holds for each kind of error NAME.src.LANGUAGE, NAME.correct.LANGUAGE and NAME.incorrect.LANGUAGE, plain or
    compressed, line by line (distil-lingeval). A JSON file is a list of objects with `source`, `reference` and `errors`, each of
    which has `type`, `contrastive` and perhaps `distance` (LingEval97). Raises X824, X825, X826 and, where a file cannot be read,
    D1.
    """
    pairs = _read_folder(path) if path.is_dir() else _read_json(path)
    if not pairs:
        raise error("X824", Place(str(path)))
    by_kind: dict[str, list[ContrastivePair]] = {}
    for pair in pairs:
        by_kind.setdefault(pair.kind, []).append(pair)
    return [kind[k] for kind in by_kind.values() for k in spread_over(len(kind), most or len(kind))]


def _read_folder(folder: Path) -> list[ContrastivePair]:
    pairs: list[ContrastivePair] = []
    for file in sorted(folder.glob("*.src.*")):
        name = file.name.partition(".src.")[0]
        sides = [list(Lines(file))]
        for part in ("correct", "incorrect"):
            other = sorted(folder.glob(f"{name}.{part}.*"))
            if not other:
                raise error("X825", Place(str(file)), part=part, expected=len(sides[0]), found=0)
            sides.append(list(Lines(other[0])))
            if len(sides[-1]) != len(sides[0]):
                raise error("X825", Place(str(other[0])), part=part, expected=len(sides[0]), found=len(sides[-1]))
        pairs += [ContrastivePair(name, *lines) for lines in zip(*sides, strict=True)]
    return pairs


def _read_json(path: Path) -> list[ContrastivePair]:
    try:
        content = json.loads("\n".join(Lines(path)))
        return [
            ContrastivePair(
                str(bad["type"]),
                _text(entry, "source"),
                _text(entry, "reference"),
                _text(bad, "contrastive"),
                _distance(bad),
            )
            for entry in content
            for bad in entry["errors"]
        ]
    except (ValueError, OverflowError, RecursionError):
        raise error("X826", Place(str(path)), reason="it is not JSON") from None
    except (KeyError, TypeError, AttributeError) as fault:
        name = fault.args[0] if isinstance(fault, KeyError) else None
        reason = f"an entry has no `{name}`" if name else "it is no list of entries with texts and `errors`"
        raise error("X826", Place(str(path)), reason=reason) from None


def _text(entry: Mapping[str, object], key: str) -> str:
    if not isinstance(value := entry[key], str):
        raise TypeError
    return value


def _distance(bad: Mapping[str, Any]) -> int | None:
    value = bad.get("distance")
    return None if value is None else int(value)


def decide(run: Run, pairs: Sequence[ContrastivePair]) -> list[bool]:
    """Whether the mean cross-entropy of the right translation's tokens, end symbol included, is below that of the other."""
    # A source is read once, and a translation with several errors planted in it is scored once.
    versions: dict[str, dict[str, float]] = {}
    for p in pairs:
        versions.setdefault(p.source, {}).update({p.correct: 0.0, p.contrastive: 0.0})
    for scored, mean in zip(versions.values(), run.cross_entropies(versions), strict=True):
        scored.update(zip(scored, mean, strict=True))
    return [versions[p.source][p.correct] < versions[p.source][p.contrastive] for p in pairs]


def wilson(correct: int, total: int) -> tuple[float, float]:
    """The 95 % interval of a share (Wilson 1927), in per cent."""
    share, z2 = correct / total, Z95**2
    middle = (share + z2 / (2 * total)) / (1 + z2 / total)
    half = Z95 / (1 + z2 / total) * math.sqrt(share * (1 - share) / total + z2 / (4 * total**2))
    # Rounding must not move an end past the share.
    return 100 * min(share, middle - half), 100 * max(share, middle + half)


def _rows(decided: Mapping[str, Sequence[bool]], keys: Sequence[tuple[Cell, ...] | None]) -> list[tuple[Cell, ...]]:
    """For each run and each key of pairs, in their order: run, key, pairs, right ones, percentage, interval."""
    rows: list[tuple[Cell, ...]] = []
    for run, right in decided.items():
        groups: dict[tuple[Cell, ...], list[bool]] = {}
        for key, one in zip(keys, right, strict=True):
            if key is not None:
                groups.setdefault(key, []).append(one)
        for key, group in groups.items():
            correct, total = sum(group), len(group)
            rows.append((run, *key, total, correct, 100 * (correct / total), *wilson(correct, total)))
    return rows


_FIGURES = ("pairs", "right", "accuracy %", "low %", "high %")


def by_kind(pairs: Sequence[ContrastivePair], decided: Mapping[str, Sequence[bool]]) -> Table:
    """Accuracy of each run by kind of error, with its 95 % interval; the last row of each run is over all pairs."""
    rows = _rows(decided, [(p.kind,) for p in pairs])
    rows += _rows(decided, [("all",)] * len(pairs))
    runs: list[Cell] = [*decided]
    return Table.of(("run", "error", *_FIGURES), sorted(rows, key=lambda row: runs.index(row[0])), left=2)


def by_distance(pairs: Sequence[ContrastivePair], decided: Mapping[str, Sequence[bool]]) -> Table:
    """Accuracy by kind of error and distance, for pairs that have one, the nearest first; FARTHEST + 1 stands for all beyond."""
    order = sorted(range(len(pairs)), key=lambda i: (pairs[i].kind, pairs[i].distance or 0))
    keys: list[tuple[Cell, ...] | None]
    keys = [None if (d := pairs[i].distance) is None else (pairs[i].kind, min(d, FARTHEST + 1)) for i in order]
    chosen = {run: [right[i] for i in order] for run, right in decided.items()}
    return Table.of(("run", "error", "distance", *_FIGURES), _rows(chosen, keys), left=2)


def draw_kinds(table: Table, title: str) -> DrawnFigure:
    """A group of dots for each kind of error, a dot for each run, its interval as a whisker."""
    kinds = table.each("error")
    runs = table.each("run")
    canvas = Panels(1, 1.0 + len(kinds) * (0.2 + 0.1 * len(runs)))
    (axes,) = canvas.axes
    style = styles_of(runs)
    for k, run in enumerate(runs):
        part = table.where(run=run)
        place = [kinds.index(kind) + 0.6 * (k + 0.5) / len(runs) - 0.3 for kind in part.column("error")]
        _whiskers(axes, part, place, str(run), style[run], across=True)
    axes.set_yticks(range(len(kinds)), [str(kind).replace("_", " ").replace(".", ", ") for kind in kinds])
    axes.invert_yaxis()
    axes.axvline(50, color="0.4", lw=0.8, ls="--")
    axes.set_xlabel("accuracy, %; dashed: by chance")
    canvas.legend()
    return DrawnFigure(
        "contrast",
        "Contrastive accuracy by kind of error",
        f"{title}: how often the right translation has a lower mean cross-entropy per token, end symbol included, than one with a "
        "planted error; whiskers are 95 % intervals (Wilson).",
        table,
        *canvas.files(),
        "The further right a mark, the more often the run notices that error; where whiskers overlap widely, runs do not "
        "differ clearly, and at 50 % a run guesses.",
    )


def draw_distances(table: Table, title: str) -> DrawnFigure:
    """Accuracy over distance: subject-verb agreement where the set has it, else a panel for each kind of error."""
    kinds = [AGREEMENT] if AGREEMENT in table.column("error") else table.each("error")
    canvas = Panels(len(kinds), 2.6)
    runs = table.each("run")
    style = styles_of(runs)
    for axes, kind in zip(canvas.axes, kinds, strict=True):
        for k, run in enumerate(runs):
            part = table.where(run=run, error=kind)
            place = [d + 0.12 * (k - (len(runs) - 1) / 2) for d in part.numbers("distance")]
            _whiskers(axes, part, place, str(run), style[run], across=False)
        far = int(max(table.where(error=kind).numbers("distance")))
        ticks = range(far, 0, -(1 + far // 10))  # from the end, which may stand for all beyond
        axes.set_xticks(ticks, [f">{FARTHEST}" if t > FARTHEST else str(t) for t in ticks])
        axes.set_xlabel("distance, words")
        axes.set_ylabel("accuracy, %")
        axes.set_title(str(kind).replace("_", " "))
    canvas.legend()
    return DrawnFigure(
        "contrast-distance",
        "Contrastive accuracy by distance",
        f"{title}: accuracy by the distance in words between the two that have to agree; whiskers are 95 % intervals (Wilson). "
        "The table has every kind of error that is annotated with a distance.",
        table,
        *canvas.files(),
        "A line that falls to the right notices the error less often the further apart the two words are; at 50 % a run guesses.",
    )


def _whiskers(axes: "Axes", part: Table, place: list[float], label: str, style: Style, across: bool) -> None:
    """Accuracies with their intervals, `across` the picture or upwards."""
    value, low, high = (part.numbers(name) for name in ("accuracy %", "low %", "high %"))
    spread = [
        [a - b for a, b in zip(value, low, strict=True)],
        [b - a for a, b in zip(value, high, strict=True)],
    ]
    drawn = {"label": label, "ms": 4, "lw": 1.1, "elinewidth": 0.8, **style}
    if across:
        axes.errorbar(value, place, xerr=spread, ls="none", **drawn)
    else:
        axes.errorbar(place, value, yerr=spread, **drawn)
