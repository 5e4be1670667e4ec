"""Translations side by side: the choice of lines, and where a translation differs from its reference."""

from collections.abc import Iterator, Mapping, Sequence
from difflib import SequenceMatcher

from calque.analyse.drawn import Cell, DrawnFigure, Table
from calque.evaluate.statistics import measure

COUNT = 10
FIXED = ("line", "chrF", "source", "reference")
"""The columns before those of the runs."""
SAME, OTHER, MISSING = "same", "other", "missing"


def chosen(scores: Sequence[float], count: int = COUNT) -> list[int]:
    """At most `count` lines, evenly spaced in the order of their scores, the lowest first; equals in the order of the text."""
    order = sorted(range(len(scores)), key=lambda line: (scores[line], line))
    count = min(count, len(order))
    return [order[(2 * k + 1) * len(order) // (2 * count)] for k in range(count)]


def side_by_side(
    sources: Sequence[str], references: Sequence[str], systems: Mapping[str, Sequence[str]]
) -> DrawnFigure:
    """Ten lines with the translation of each run."""
    metric = measure("chrf")
    each = [metric.sentence(metric.statistics(lines, references)) for lines in systems.values()]
    means = [float(sum(scores) / len(each)) for scores in zip(*each, strict=True)]
    rows: list[tuple[Cell, ...]] = [
        (line + 1, means[line], sources[line], references[line], *(lines[line] for lines in systems.values()))
        for line in chosen(means)
    ]
    caption = (
        f"{len(rows)} of {len(sources):,} lines. All lines are ordered by their chrF (mean over the runs), and lines evenly "
        "spaced in this order are shown: the first is among the worst, the last among the best. chrF is that of the line."
    )
    reading = (
        "Marked words are not in the reference at that place, and ‸ stands where words of the reference are missing; a marked word "
        "can be a good translation all the same."
    )
    columns = (*FIXED, *systems)
    return DrawnFigure("translations", "Translations side by side", caption, Table.of(columns, rows), reading=reading)


def differences(reference: str, hypothesis: str) -> Iterator[tuple[str, str]]:
    """The parts of a translation in order, each with its kind; `MISSING` parts are words of the reference.

    Words are compared; where neither text has a space, letters.
    """
    between = " " if " " in reference.strip() or " " in hypothesis.strip() else ""
    old, new = (text.split() if between else list(text.strip()) for text in (reference, hypothesis))
    for kind, a, b, c, d in SequenceMatcher(None, old, new, autojunk=False).get_opcodes():
        if c < d:
            yield between.join(new[c:d]), SAME if kind == "equal" else OTHER
        if kind == "delete":
            yield between.join(old[a:b]), MISSING
