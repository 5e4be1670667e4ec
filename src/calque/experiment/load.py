"""Reads an experiment file and reports all of its faults together."""

import os
from collections.abc import Callable, Collection, Iterator, Sequence
from pathlib import Path
from typing import TypeVar

from calque.experiment.keys import SECTIONS, DataSettings, DecodeSettings, Experiment, ModelSettings, TrainSettings
from calque.experiment.rules import contradictions
from calque.experiment.toml import KeyEntry, parse, parse_override
from calque.experiment.values import allowed, name_faults, setting, value_faults
from calque.ground.diagnostics import CalqueError, Diagnostic, Place, Span, Text, read_text

T = TypeVar("T")


def load(path: Path | str, overrides: Sequence[str | KeyEntry] = (), besides: Collection[str] = ()) -> Experiment:
    """Reads and checks an experiment file. Sections named in `besides` are ignored: they do not belong to the experiment.

    Each override replaces a value of the file: an entry, or `section.key=value` with a TOML value or a string without quotes. Every
    path in the result is absolute: paths of the file start from its folder, those of overrides from the current folder. A
    `model.file` that does not exist and does not end in `.adl` is unchanged: it may name an architecture of the zoo.

    Raises CalqueError with all faults together: X1 for what cannot be read, X2 for keys that contradict one another.
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
            entries.append(override(written) if isinstance(written, str) else written)
        except CalqueError as e:
            faults += e.diagnostics
    readable = not faults
    settings = _SettingReader(entries)
    faults += settings.faults
    experiment = settings.experiment()
    if readable:
        faults += settings.contradictions(experiment, Place(text.name))
    if faults:
        raise CalqueError(faults)
    return experiment


class _SettingReader:
    """The settings of all entries without faults, and the faults of the others."""

    def __init__(self, entries: Sequence[KeyEntry]):
        self.values: dict[str, dict[str, object]] = {name: {} for name in SECTIONS}
        self.places: dict[str, Span | Place] = {}
        self.faults: list[Diagnostic] = []
        self.doubtful: set[str] = set()
        """Keys that a fault may concern: contradictions between them are not reported."""
        for entry in entries:
            for fault in self._read(entry, entries):
                self.doubtful |= _about(entry, fault)
                if fault not in self.faults:
                    self.faults.append(fault)

    def _read(self, entry: KeyEntry, entries: Sequence[KeyEntry]) -> list[Diagnostic]:
        faults = list(name_faults(entry, entries))
        if not faults and entry.key is not None:
            key = SECTIONS[entry.section][entry.key]
            faults = value_faults(key, entry)
            self.places[f"{entry.section}.{entry.key}"] = entry.value_at
            if not faults:
                self.values[entry.section][entry.key] = setting(key, entry)
        return faults

    def experiment(self) -> Experiment:
        """The experiment, with defaults for faulty keys."""
        return Experiment(
            self._section(DataSettings, "data"),
            self._section(ModelSettings, "model"),
            self._section(TrainSettings, "train"),
            self._section(DecodeSettings, "decode"),
        )

    def _section(self, make: Callable[..., T], name: str) -> T:
        return make(**self.values[name])

    def contradictions(self, experiment: Experiment, file: Place) -> Iterator[Diagnostic]:
        """X2 for each broken rule between keys without faults, at the first of its keys in the file."""
        for code, keys, fields in contradictions(experiment):
            if self.doubtful.isdisjoint(keys):
                yield Diagnostic(code, next((self.places[k] for k in keys if k in self.places), file), fields)


def override(written: str) -> KeyEntry:
    """The entry of one `--set section.key=value`. Raises X109 and X111."""

    def is_text(section: str, key: str) -> bool:
        known = SECTIONS.get(section, {}).get(key)
        return known is not None and known.kind is str

    def expected(section: str, key: str) -> str:
        known = SECTIONS.get(section, {}).get(key)
        return "" if known is None else allowed(known)

    return parse_override(written, is_text, expected)


def setting_entry(section: str, key: str, value: object) -> KeyEntry:
    """An override from a Python value; `load` checks it like the values of a file."""
    place = Place(f"{section}.{key}")
    return KeyEntry(section, key, list(value) if isinstance(value, tuple) else value, place, place, place, os.getcwd())


def _about(entry: KeyEntry, fault: Diagnostic) -> set[str]:
    """The keys that a faulty entry may concern."""
    sections = [s for s in (entry.section, fault.fields.get("home"), fault.fields.get("nearest")) if s in SECTIONS]
    if entry.key is None or fault.code == "X104":
        return {f"{s}.{k}" for s in sections for k in SECTIONS[str(s)]}
    return {f"{s}.{k}" for s in sections for k in (entry.key, fault.fields.get("nearest"))}
