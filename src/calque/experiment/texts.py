"""The tables of `data.train`: several training texts, each with a weight."""

import math
from collections.abc import Callable, Iterator, Mapping
from dataclasses import fields

from calque.experiment.keys import TrainingText
from calque.experiment.rules import Fields
from calque.ground.diagnostics import nearest

HEAVIEST = 1e6
_KEYS = tuple(field.name for field in fields(TrainingText))


def table_problems(tables: list[object], kind: Callable[[object], str]) -> Iterator[tuple[str, Fields]]:
    """Code and fields of each fault: X106 (type), X108 (weight), X218 (unknown key), X219 (no source or target)."""
    for number, table in enumerate(tables, 1):
        if not isinstance(table, dict):
            yield "X106", {"expected": "tables alone in the list", "found": kind(table)}
            continue
        for key, value in table.items():
            yield from _problems(f"data.train {number}", str(key), value, kind)
        for key in ("source", "target"):
            if key not in table:
                yield "X219", {"number": number, "missing": key}


def _problems(text: str, key: str, value: object, kind: Callable[[object], str]) -> Iterator[tuple[str, Fields]]:
    if key not in _KEYS:
        yield "X218", {"found": key, "nearest": nearest(key, _KEYS)}
    elif key == "weight":
        if isinstance(value, bool) or not isinstance(value, int | float):
            yield "X106", {"key": f"{text}: {key}", "expected": "a number", "found": kind(value)}
        elif not (math.isfinite(value) and 0 < value <= HEAVIEST):
            yield "X108", {"key": f"{text}: {key}", "bounds": f"above 0, at most {HEAVIEST:,.0f}", "found": value}
    elif key == "valid":
        if not (isinstance(value, list) and len(value) == 2 and all(isinstance(file, str) and file for file in value)):
            yield "X106", {"key": f"{text}: {key}", "expected": "two files, source and target", "found": kind(value)}
    elif not (isinstance(value, str) and value):
        yield "X106", {"key": f"{text}: {key}", "expected": "a string", "found": kind(value)}
    elif any(c == "\0" or "\ud800" <= c <= "\udfff" for c in value):
        yield "X110", {"found": "a character that no file name can have"}


def text_of(table: Mapping[str, object], path: Callable[[str], str]) -> TrainingText:
    """The training text of a table without faults; `path` makes paths absolute."""
    valid = table.get("valid", ())
    return TrainingText(
        path(str(table["source"])),
        path(str(table["target"])),
        float(str(table.get("weight", 1.0))),
        tuple(path(str(file)) for file in valid) if isinstance(valid, list) else (),
        str(table.get("name", "")),
    )
