"""One entry of an experiment file: faults of its name and its value, and the setting that it becomes."""

import math
import os
from collections.abc import Callable, Iterator, Mapping, Sequence
from datetime import date, time

from calque.experiment.key import Key
from calque.experiment.keys import SECTIONS
from calque.experiment.rules import Fields
from calque.experiment.texts import table_problems, text_of
from calque.experiment.toml import LARGEST, KeyEntry, literal
from calque.ground.diagnostics import Diagnostic, Fix, Place, Span, Text, nearest

_PATHS = {
    *("data.train", "data.valid", "data.valid_more", "data.test", "data.codes"),
    *("data.stream", "model.file", "model.plugins", "model.parent"),
}
_TEXTS = "data.train"
"""Two paths, or tables that name them."""
_STREAM = "data.stream"
"""A path, or `-`."""
STANDARD_INPUT = "-"
"""The stream that standard input is."""
_MODULES = "model.plugins"
"""A list of paths and of module names; a module name does not end in `.py`."""
_NAMED = "model.file"
"""A path that may instead be the name of an architecture of the zoo."""
_KINDS = {
    bool: "true or false",
    str: "a string",
    int: "a whole number",
    float: "a number",
    list: "a list",
    dict: "a table",
}


ELSEWHERE = {
    "learning_rate": "lr",
    "max_steps": "max_updates",
    "train_steps": "max_updates",
    "max_epoch": "max_epochs",
    "epochs": "max_epochs",
    "batch_size": "batch_tokens",
    "update_freq": "accumulate",
    "accum_count": "accumulate",
    "warmup_steps": "warmup_updates",
    "bpe_dropout": "subword_sampling",
    "beam_size": "beam",
    "num_beams": "beam",
    "length_penalty": "alpha",
    "vocab_size": "vocabulary_size",
}
"""Names that other toolkits have for keys."""


def name_faults(entry: KeyEntry, entries: Sequence[KeyEntry]) -> Iterator[Diagnostic]:
    """The faults of the names of an entry: X104 (section), X105 (key), X106 (a section that is not a table)."""
    if entry.section not in SECTIONS:
        bare = entry.key is None and not isinstance(entry.value, dict)
        home = _home(entry.section) if bare else None
        meant = None if home else _nearest_new(entry.section, SECTIONS, {e.section for e in _beside(entry, entries)})
        yield _with_fix("X104", entry.section_at, {"section": entry.section, "home": home, "nearest": meant})
    elif entry.key is None:
        if not isinstance(entry.value, dict):
            fields = {"key": entry.section, "expected": "a table of keys", "found": _kind(entry.value)}
            yield Diagnostic("X106", entry.value_at, fields)
    elif entry.key not in SECTIONS[entry.section]:
        home = _home(entry.key)
        written = {e.key for e in _beside(entry, entries) if e.section == entry.section}
        meant = None if home else _meant(entry.key, SECTIONS[entry.section], written)
        names = {"section": entry.section, "key": entry.key, "home": home, "nearest": meant}
        yield _with_fix("X105", entry.key_at, names)


def _beside(entry: KeyEntry, entries: Sequence[KeyEntry]) -> list[KeyEntry]:
    """The entries of the same text: what a file has can still be meant by `--set`."""
    return [e for e in entries if _text(e) == _text(entry)]


def _text(entry: KeyEntry) -> Text | None:
    return entry.section_at.text if isinstance(entry.section_at, Span) else None


def _home(key: str) -> str | None:
    """The section that has a key of this name."""
    return next((section for section, keys in SECTIONS.items() if key in keys), None)


def _meant(name: str, known: Mapping[str, object], written: set[str | None]) -> str | None:
    """The key that a name of another toolkit stands for, else the most similar one; only one that is not in the text yet."""
    other = ELSEWHERE.get(name)
    return other if other in known and other not in written else _nearest_new(name, known, written)


def _nearest_new(name: str, known: Mapping[str, object], written: set[str] | set[str | None]) -> str | None:
    """The known name most similar to `name` that is not in the text yet."""
    return nearest(name, [other for other in known if other not in written])


def value_faults(key: Key, entry: KeyEntry) -> list[Diagnostic]:
    """The faults of the value of an entry: X106 (type), X107 (choice), X108 (bounds), X110 (characters)."""
    name = f"{entry.section}.{entry.key}"
    number = key.kind in (int, float)
    if name == _TEXTS and isinstance(entry.value, list) and any(isinstance(part, dict) for part in entry.value):
        found = table_problems(entry.value, _kind)
    else:
        found = _number_problems(key, entry.value, _written(entry)) if number else _text_problems(key, entry.value)
    # Within a table only its place is known.
    return [
        _with_fix(code, entry.value_at, {"key": name, **fields}, literal)
        if code != "X218"
        else Diagnostic(code, entry.value_at, fields)
        for code, fields in found
    ]


def allowed(key: Key) -> str:
    """What a key takes, in words."""
    if key.kind not in (bool, str, int, float):
        return 'a list of strings, such as ["a", "b"]'
    words = next(words for kind, words in _KINDS.items() if key.kind is kind)
    return ", ".join([words, *filter(None, [_bounds(key)])])


def _bounds(key: Key) -> str:
    bounds = (("at least", key.low), ("at most", key.high))
    return " and ".join(f"{word} {bound}" for word, bound in bounds if bound is not None)


def _text_problems(key: Key, value: object) -> Iterator[tuple[str, Fields]]:
    expected: dict[object, tuple[type, str]] = {bool: (bool, _KINDS[bool]), str: (str, _KINDS[str])}
    type_, words = expected.get(key.kind, (list, "a list of strings"))
    if not isinstance(value, type_):
        yield "X106", {"expected": words, "found": _kind(value)}
        return
    if isinstance(value, bool):
        return
    for part in value if isinstance(value, list) else [value]:
        if not isinstance(part, str):
            yield "X106", {"expected": "strings in the list", "found": _kind(part)}
        # No file can have such a name, and no file can hold such text.
        elif bad := next((c for c in part if c == "\0" or "\ud800" <= c <= "\udfff"), None):
            yield "X110", {"found": f"U+{ord(bad):04X}"}
    yield from _choice_problems(key, value)


def _choice_problems(key: Key, value: object) -> Iterator[tuple[str, Fields]]:
    for part in value if isinstance(value, list) else [value]:
        if key.choices and isinstance(part, str) and part not in key.choices:
            meant = nearest(part, key.choices) if isinstance(value, str) else None
            yield "X107", {"choices": key.choices, "found": part, "nearest": meant}


def _number_problems(key: Key, value: object, written: str) -> Iterator[tuple[str, Fields]]:
    whole = key.kind is int
    if isinstance(value, bool) or not isinstance(value, int if whole else int | float):
        yield "X106", {"expected": _KINDS[int if whole else float], "found": _kind(value)}
    elif isinstance(value, int) and abs(value) > LARGEST:
        yield "X108", {"bounds": "a number of 64 bits", "found": "a longer one"}
    elif not math.isfinite(value):
        yield "X108", {"bounds": ", ".join(filter(None, ["a finite number", _bounds(key)])), "found": written}
    elif not _within(key, value):
        yield "X108", {"bounds": _bounds(key), "found": value}


def _written(entry: KeyEntry) -> str:
    """A value as it was written, where that is known: TOML reads 1e400 as infinity."""
    at = entry.value_at
    return at.text.body[at.start : at.end] if isinstance(at, Span) else str(entry.value)


def _within(key: Key, value: float) -> bool:
    return (key.low is None or value >= key.low) and (key.high is None or value <= key.high)


def setting(key: Key, entry: KeyEntry) -> object:
    """The setting of an entry without faults: lists become tuples, paths become absolute."""
    value = entry.value
    if key.kind is float and isinstance(value, int):
        return float(value)
    name = f"{entry.section}.{entry.key}"
    if name == _TEXTS and isinstance(value, list) and any(isinstance(part, dict) for part in value):
        return tuple(text_of(part, lambda written: _path(name, written, entry.folder)) for part in value)
    if isinstance(value, list):
        return tuple(_path(name, part, entry.folder) if name in _PATHS else part for part in value)
    return _path(name, str(value), entry.folder) if name in _PATHS else value


def _path(name: str, written: str, folder: str) -> str:
    path = os.path.normpath(os.path.join(folder, written)) if written else ""
    if name == _MODULES and not path.endswith(".py"):
        return written
    if name == _STREAM and written == STANDARD_INPUT:
        return written
    if name == _NAMED and not written.endswith(".adl") and not os.path.exists(path):
        return written
    return path


def _with_fix(code: str, at: Span | Place, fields: Fields, form: Callable[[str], str] = str) -> Diagnostic:
    """A diagnostic with an edit that writes the most similar name, where there is one."""
    meant = fields.get("nearest")
    fix = Fix(at, form(str(meant))) if meant and isinstance(at, Span) else None
    return Diagnostic(code, at, fields, fix)


def _kind(value: object) -> str:
    if isinstance(value, date | time):  # a datetime is a date
        return "a date or time"
    # A Python program may give what TOML has not, such as None.
    return _KINDS.get(type(value), type(value).__name__)
