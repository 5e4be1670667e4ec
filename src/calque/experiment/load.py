"""The experiment file: one TOML is one complete run.

Every key is a field of a section in `experiment_keys`, typed, with its unit in its name and its meaning beside it; `calque
new` writes them out with these words, an unknown key is an error with a suggestion, and the run folder holds the file with
every value resolved.
"""

import hashlib
import math
import os
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import Field, dataclass, field, fields
from pathlib import Path
from typing import Any

from calque.experiment.keys import DataSettings, DecodeSettings, ModelSettings, TrainSettings
from calque.experiment.toml import KeyEntry, comment, literal, parse, parse_override
from calque.ground.diagnostics import CalqueError, Diagnostic, Fix, Place, Span, Text, nearest, read_text
from calque.ground.files import write_whole

__all__ = [
    "LIMITS",
    "DataSettings",
    "DecodeSettings",
    "Experiment",
    "ModelSettings",
    "TrainSettings",
    "check",
    "differences",
]
__all__ += ["digest", "load", "override", "to_toml", "write"]


@dataclass(frozen=True)
class Experiment:
    """A whole run."""

    data: DataSettings = field(default_factory=DataSettings)
    model: ModelSettings = field(default_factory=ModelSettings)
    train: TrainSettings = field(default_factory=TrainSettings)
    decode: DecodeSettings = field(default_factory=DecodeSettings)


_SECTIONS: dict[str, dict[str, Field[Any]]] = {
    f.name: {k.name: k for k in fields(f.type)} for f in fields(Experiment) if isinstance(f.type, type)
}
_PATHS = {
    *("data.train", "data.valid", "data.valid_more", "data.test", "data.codes"),
    *("model.file", "model.plugins", "model.parent"),
}
_MODULES = "model.plugins"
"""The list of paths that may also hold names of modules: what does not end in `.py`."""
_NAMED = "model.file"
"""The path that may be the name of an architecture that comes with the package instead."""
LIMITS = ("max_updates", "max_epochs", "max_seconds", "patience", "min_lr")
"""The keys of [train] that end a training."""
_BUDGET = ("max_updates", "max_epochs", "max_seconds")
_VALIDATE = ("validate_every_updates", "validate_every_epochs", "validate_every_seconds")
_LARGEST = 2**63 - 1  # TOML's whole numbers have 64 bits; tomllib reads longer ones


def load(path: Path | str, overrides: Sequence[str] = (), besides: Collection[str] = ()) -> Experiment:
    """Reads an experiment file and checks all of it, save sections named `besides`, which are not those of an experiment.

    Each override is `section.key=value` with a TOML value, or with a string without quotes, and replaces what the file says. Every
    path comes back absolute: those of the file start from its folder, those of overrides from the current folder. A `model.file`
    that is no file there and does not end in `.adl` stays as it is: it may name an architecture of the zoo.

    Raises CalqueError with all faults at once: X1 for what cannot be read, X2 for keys that contradict one another.
    """
    text = read_text(path, "X101", "X102")
    text = Text(text.name, text.body.replace("\r\n", "\n"))
    entries: list[KeyEntry] = []
    faults: list[Diagnostic] = []
    try:
        entries += [entry for entry in parse(text) if entry.section not in besides]
    except CalqueError as e:
        faults += e.diagnostics
    for written in overrides:
        try:
            entries.append(override(written))
        except CalqueError as e:
            faults += e.diagnostics
    readable = not faults
    values: dict[str, dict[str, Any]] = {name: {} for name in _SECTIONS}
    places: dict[str, Span | Place] = {}
    silent: set[str] = set()  # keys of which a fault is told already, and so nothing further
    for entry in entries:
        name = f"{entry.section}.{entry.key}"
        found = list(_misplaced(entry, entries))
        if not found and entry.key is not None:
            known = _SECTIONS[entry.section][entry.key]
            found = [
                _with_fix(c, entry.value_at, {"key": name, **f}, literal) for c, f in _problems(known, entry.value)
            ]
            places[name] = entry.value_at
            if not found:
                values[entry.section][entry.key] = _setting(known, entry, name in _PATHS)
        for fault in found:
            silent |= _about(entry, fault)
            if fault not in faults:
                faults.append(fault)
    experiment = Experiment(
        DataSettings(**values["data"]),
        ModelSettings(**values["model"]),
        TrainSettings(**values["train"]),
        DecodeSettings(**values["decode"]),
    )
    if readable:
        for code, keys, given in _contradictions(experiment):
            if silent.isdisjoint(keys):
                at = next((places[k] for k in keys if k in places), Place(text.name))
                faults.append(Diagnostic(code, at, given))
    if faults:
        raise CalqueError(faults)
    return experiment


def override(written: str) -> KeyEntry:
    """The entry of one `--set section.key=value`. Raises X109 and X111."""

    def is_text(section: str, key: str) -> bool:
        known = _SECTIONS.get(section, {}).get(key)
        return known is not None and known.type is str

    return parse_override(written, is_text)


def _misplaced(entry: KeyEntry, entries: Sequence[KeyEntry]) -> Iterator[Diagnostic]:
    """What is wrong with the names of an entry."""
    key = entry.section if entry.key is None else entry.key
    if entry.section not in _SECTIONS:
        bare = entry.key is None and not isinstance(entry.value, dict)
        home = next((s for s, known in _SECTIONS.items() if bare and key in known), None)
        taken = {e.section for e in entries}
        meant = None if home else nearest(entry.section, [s for s in _SECTIONS if s not in taken])
        yield _with_fix("X104", entry.section_at, {"section": entry.section, "home": home, "nearest": meant})
    elif entry.key is None:
        if not isinstance(entry.value, dict):
            given = {"key": entry.section, "expected": "a table of keys", "found": _kind(entry.value)}
            yield Diagnostic("X106", entry.value_at, given)
    elif key not in _SECTIONS[entry.section]:
        home = next((s for s, known in _SECTIONS.items() if key in known), None)
        keys = {e.key for e in entries if e.section == entry.section}
        meant = None if home else nearest(key, [k for k in _SECTIONS[entry.section] if k not in keys])
        yield _with_fix("X105", entry.key_at, {"section": entry.section, "key": key, "home": home, "nearest": meant})


def _with_fix(code: str, at: Span | Place, given: Mapping[str, object], form: Callable[[str], str] = str) -> Diagnostic:
    """A diagnostic that offers the nearest name, where there is one, in place of what was written."""
    meant = given.get("nearest")
    fix = Fix(at, form(str(meant))) if meant and isinstance(at, Span) else None
    return Diagnostic(code, at, given, fix)


def _about(entry: KeyEntry, fault: Diagnostic) -> set[str]:
    """The keys that a faulty entry was, or may have been, about."""
    sections = [s for s in (entry.section, fault.fields.get("home"), fault.fields.get("nearest")) if s in _SECTIONS]
    if entry.key is None or fault.code == "X104":
        return {f"{s}.{k}" for s in sections for k in _SECTIONS[str(s)]}
    return {f"{s}.{k}" for s in sections for k in (entry.key, fault.fields.get("nearest"))}


def _problems(known: "Field[Any]", value: object) -> Iterator[tuple[str, dict[str, object]]]:
    """Codes and fields of what is wrong with a value: its type, then its text, its bounds or its choice."""
    if known.type in (int, float):
        yield from _number_problems(known, value)
    elif known.type is bool:
        if not isinstance(value, bool):
            yield "X106", {"expected": "true or false", "found": _kind(value)}
    elif known.type is str and not isinstance(value, str):
        yield "X106", {"expected": "a string", "found": _kind(value)}
    elif known.type is not str and not isinstance(value, list):
        yield "X106", {"expected": "a list of strings", "found": _kind(value)}
    else:
        for part in value if isinstance(value, list) else [value]:
            if not isinstance(part, str):
                yield "X106", {"expected": "strings in the list", "found": _kind(part)}
            # No file can have such a name, and no file can hold such text.
            elif bad := next((c for c in part if c == "\0" or "\ud800" <= c <= "\udfff"), None):
                yield "X110", {"found": f"U+{ord(bad):04X}"}
        choices = known.metadata["choices"]
        if choices and value not in choices:
            yield "X107", {"choices": choices, "found": value, "nearest": nearest(str(value), choices)}


def _number_problems(known: "Field[Any]", value: object) -> Iterator[tuple[str, dict[str, object]]]:
    whole = known.type is int
    if isinstance(value, bool) or not isinstance(value, int if whole else int | float):
        yield "X106", {"expected": "a whole number" if whole else "a number", "found": _kind(value)}
        return
    low, high = known.metadata["low"], known.metadata["high"]
    if isinstance(value, int) and abs(value) > _LARGEST:
        yield "X108", {"bounds": "a number of 64 bits", "found": "a longer one"}
    elif not math.isfinite(value) or (low is not None and value < low) or (high is not None and value > high):
        # Not a number is below nothing and above nothing, hence the first test.
        parts = [f"at least {low}"] * (low is not None) + [f"at most {high}"] * (high is not None)
        yield "X108", {"bounds": " and ".join(["a finite number", *parts][bool(parts) :]), "found": value}


def _setting(known: "Field[Any]", entry: KeyEntry, is_path: bool) -> Any:
    value: Any = entry.value
    if known.type is float:
        return float(value)
    parts = value if isinstance(value, list) else [value]
    if is_path:
        name = f"{entry.section}.{entry.key}"
        paths = [os.path.normpath(os.path.join(entry.folder, p)) if p else "" for p in parts]
        if name == _MODULES:
            return tuple(path if p.endswith(".py") else p for p, path in zip(parts, paths, strict=True))
        if name == _NAMED and not str(value).endswith(".adl") and not os.path.exists(paths[0]):
            return value
        parts = paths
    return tuple(parts) if isinstance(value, list) else parts[0]


def _kind(value: object) -> str:
    kinds = {
        bool: "true or false",
        str: "a string",
        int: "a whole number",
        float: "a number",
        list: "a list",
        dict: "a table",
    }
    return kinds.get(type(value), "a date or time")


def _contradictions(x: Experiment) -> Iterator[tuple[str, tuple[str, ...], dict[str, object]]]:
    """Code, keys concerned and fields of each rule between keys that does not hold."""
    for name, paths in (("data.train", x.data.train), ("data.valid", x.data.valid), ("data.test", x.data.test)):
        optional = name == "data.test" and not paths
        if not optional and (len(paths) != 2 or "" in paths):
            yield "X201", (name,), {"key": name, "found": sum(p != "" for p in paths)}
    if len(more := x.data.valid_more) % 2 or "" in more:
        yield "X216", ("data.valid_more",), {"found": sum(p != "" for p in more)}
    else:
        names = [name for name, _ in x.data.further]
        for twice in dict.fromkeys(name for name in names if names.count(name) > 1):
            yield "X217", ("data.valid_more",), {"name": twice}
    architecture = ("model.file", "model.text")
    if not x.model.file and not x.model.text.strip():
        yield "X202", architecture, {}
    if x.model.file and x.model.text:
        yield "X203", architecture, {}
    if x.data.subwords == "codes" and not x.data.codes:
        yield "X204", ("data.subwords", "data.codes"), {}
    if x.data.subwords != "codes" and x.data.codes:
        yield "X205", ("data.codes", "data.subwords"), {"found": x.data.subwords}
    if x.decode.replace_unknown and x.data.subwords != "words":
        yield "X801", ("decode.replace_unknown", "data.subwords"), {"found": x.data.subwords}
    if not any(getattr(x.train, k) for k in LIMITS):
        yield "X206", tuple(f"train.{k}" for k in LIMITS), {"keys": LIMITS}
    if not x.train.batch_tokens and not x.train.batch_sentences:
        yield "X207", ("train.batch_tokens", "train.batch_sentences"), {}
    if not any(getattr(x.train, k) for k in _BUDGET):
        ends = tuple(f"train.{k}" for k in _BUDGET)
        if x.train.schedule == "linear":
            yield "X208", ("train.schedule", *ends), {"keys": _BUDGET}
        if x.train.warmup_share:
            yield "X430", ("train.warmup_share", *ends), {"keys": _BUDGET}
    if x.train.beta2_half_life_tokens and not x.train.batch_tokens:
        yield "X431", ("train.beta2_half_life_tokens", "train.batch_tokens"), {}
    if x.train.beta2_half_life_tokens and x.train.bptt_words:
        yield "X432", ("train.beta2_half_life_tokens", "train.bptt_words"), {"found": x.train.bptt_words}
    counting = [("normalise", x.train.normalise == "batch"), ("sort_batches", x.train.sort_batches)]
    for key in (k for k, used in counting if used and not x.train.batch_sentences):
        yield "X209", (f"train.{key}", "train.batch_sentences"), {"key": f"train.{key}"}
    if x.train.bptt_words and x.train.accumulate > 1:
        yield "X212", ("train.bptt_words", "train.accumulate"), {"found": x.train.accumulate}
    if x.train.min_lr >= x.train.lr > 0:
        yield "X213", ("train.min_lr", "train.lr"), {"lr": x.train.lr, "found": x.train.min_lr}
    elif x.train.min_lr and x.train.schedule == "constant":
        yield "X215", ("train.min_lr", "train.schedule"), {}
    waiting = [("patience", x.train.patience), ("schedule", x.train.schedule in ("plateau", "anneal"))]
    for key in (k for k, used in waiting if used and not any(getattr(x.train, k) for k in _VALIDATE)):
        yield "X214", (f"train.{key}", *(f"train.{k}" for k in _VALIDATE)), {"key": f"train.{key}", "keys": _VALIDATE}


def check(experiment: Experiment, place: Place) -> None:
    """Raises the faults of an experiment that was put together from two: keys that contradict one another."""
    faults = [Diagnostic(code, place, given) for code, _, given in _contradictions(experiment)]
    if faults:
        raise CalqueError(faults)


def differences(before: Experiment, after: Experiment) -> dict[str, tuple[Any, Any]]:
    """The keys in which two experiments differ, as `section.key`, each with both values."""
    found = {}
    for section, known in _SECTIONS.items():
        for key in known:
            pair = tuple(getattr(getattr(x, section), key) for x in (before, after))
            if pair[0] != pair[1]:
                found[f"{section}.{key}"] = (pair[0], pair[1])
    return found


def to_toml(experiment: Experiment, *, comments: bool = False) -> str:
    """The whole experiment as TOML, every key written: `load` of it gives an equal one.

    With `comments`, each section and key stands below its meaning.
    """
    blocks = []
    for section, known in _SECTIONS.items():
        part = getattr(experiment, section)
        lines = [*(comment(str(type(part).__doc__).partition(": ")[2].rstrip(".")) if comments else ()), f"[{section}]"]
        for name, described in known.items():
            if comments:
                choices = [c for c in described.metadata["choices"] if c not in described.metadata["doc"]]
                end = "; one of " + ", ".join(described.metadata["choices"]) if choices else ""
                lines += comment(described.metadata["doc"] + end)
            lines.append(f"{name} = {literal(getattr(part, name))}")
        blocks.append("\n".join(lines) + "\n")
    return "\n".join(blocks)


def write(experiment: Experiment, path: Path | str, *, comments: bool = True, head: str = "") -> None:
    """Writes `to_toml` to a file, whole or not at all; `head` becomes comments before the first section."""
    above = "".join(f"{line}\n" for line in comment(head)) + "\n" if head else ""
    write_whole(Path(path), (above + to_toml(experiment, comments=comments)).encode("utf-8"))


def digest(experiment: Experiment) -> str:
    """Twelve hexadecimal digits that name an experiment: of the SHA-256 of its TOML."""
    return hashlib.sha256(to_toml(experiment).encode("utf-8")).hexdigest()[:12]
