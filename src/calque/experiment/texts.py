"""The tables of `data.train`: several training texts, each with a weight."""

from collections.abc import Callable, Iterator, Mapping
from dataclasses import fields

from calque.experiment.rules import Fields
from calque.experiment.symbols import can_be_symbol
from calque.experiment.toml import LARGEST
from calque.experiment.training_text import TrainingText
from calque.ground.diagnostics import nearest

HEAVIEST = 1e6
_KEYS = tuple(field.name for field in fields(TrainingText))


def table_problems(tables: list[object], kind: Callable[[object], str]) -> Iterator[tuple[str, Fields]]:
    """Code and fields of each fault: X106 (type), X108 (weight, name), X218 (unknown key), X219 (no source, target), X233 (tag)."""
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
    rules = {"weight": _weight, "valid": _pair, "name": _name, "tag": _tag}
    if key not in _KEYS:
        yield "X218", {"found": key, "nearest": nearest(key, _KEYS)}
    elif (problem := rules.get(key, _string)(value)) is not None:
        code, expected = problem
        found = kind(value) if code == "X106" else value
        if isinstance(found, int) and abs(found) > LARGEST:
            found = "a longer one"
        yield code, {"key": f"{text}: {key}", "expected": expected, "bounds": expected, "found": found}


def _weight(value: object) -> tuple[str, str] | None:
    if isinstance(value, bool) or not isinstance(value, int | float):
        return "X106", "a number"
    return None if 0 < value <= HEAVIEST else ("X108", f"a number above 0, at most {HEAVIEST:,.0f}")


def _pair(value: object) -> tuple[str, str] | None:
    files = value if isinstance(value, list) else []
    return None if len(files) == 2 and not any(map(_string, files)) else ("X106", "two files, source and target")


def _string(value: object) -> tuple[str, str] | None:
    if not isinstance(value, str) or not value:
        return "X106", "a string that is not empty"
    # No file can have such a name.
    return ("X106", "a string without NUL") if any(c == "\0" or "\ud800" <= c <= "\udfff" for c in value) else None


def _name(value: object) -> tuple[str, str] | None:
    """It becomes a part of names of files."""
    return _string(value) or (("X108", "a name without `/`") if "/" in str(value) else None)


def _tag(value: object) -> tuple[str, str] | None:
    fitting = isinstance(value, str) and can_be_symbol(value)
    return _string(value) or (None if fitting else ("X233", ""))


def text_of(table: Mapping[str, object], path: Callable[[str], str]) -> TrainingText:
    """The training text of a table without faults; `path` makes paths absolute."""
    valid = table.get("valid", ())
    return TrainingText(
        path(str(table["source"])),
        path(str(table["target"])),
        float(str(table.get("weight", 1.0))),
        tuple(path(str(file)) for file in valid) if isinstance(valid, list) else (),
        str(table.get("name", "")),
        str(table.get("tag", "")),
    )
