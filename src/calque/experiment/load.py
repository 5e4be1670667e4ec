"""Reads an experiment file and reports all of its faults together."""

import os
from collections.abc import Callable, Collection, Iterable, Sequence
from pathlib import Path
from typing import Any, TypeVar

from calque.experiment.decode_keys import DecodeSettings
from calque.experiment.inline import INLINE, in_file
from calque.experiment.keys import SECTIONS, DataSettings, Experiment, ModelSettings, TrainSettings
from calque.experiment.rules import RULES, KeyRule, contradictions, taken_over
from calque.experiment.toml import KeyEntry, parse, parse_override
from calque.experiment.values import allowed, name_faults, setting, value_faults
from calque.ground.diagnostics import CalqueError, Diagnostic, Place, Span, Text, error, read_text

T = TypeVar("T")
KEYS = frozenset(f"{section}.{key}" for section, keys in SECTIONS.items() for key in keys)


def load(path: Path | str, overrides: Sequence[str | KeyEntry] = (), besides: Collection[str] = ()) -> Experiment:
    """Reads and checks an experiment file. Sections named in `besides` are ignored: they do not belong to the experiment.

    Each override replaces a value of the file: an entry, or `section.key=value` with a TOML value or a string without quotes. Every
    path in the result is absolute: paths of the file start from its folder, those of overrides from the current folder. A
    `model.file` that does not exist and does not end in `.adl` is unchanged: it may name an architecture of the zoo.

    Raises CalqueError with all faults together: X1 for what cannot be read, X2 for keys that contradict one another.
    """
    read = ReadExperiment(path, overrides, besides)
    if read.faults:
        raise CalqueError(read.faults)
    return read.experiment


class ReadExperiment:
    """An experiment file as far as it can be read, and all its faults, as `load` raises them."""

    def __init__(
        self, path: Path | str, overrides: Sequence[str | KeyEntry] = (), besides: Collection[str] = ()
    ) -> None:
        """Raises X101 and X102."""
        text = read_text(path, "X101", "X102")
        text = Text(text.name, text.body.replace("\r\n", "\n"))
        self.faults: list[Diagnostic] = []
        self.doubtful: set[str] = set()
        """Keys that a fault may concern, as `section.key`: contradictions between them are not reported."""
        self._file = Place(text.name)
        self._values: dict[str, dict[str, Any]] = {name: {} for name in SECTIONS}
        self._places: dict[str, Span | Place] = {}
        entries = [entry for entry in self._parsed(parse, text) if entry.section not in besides]
        for one in overrides:
            entries += self._parsed(lambda written: [override(written)], one) if isinstance(one, str) else [one]
        for entry in entries:
            for fault in self._read(entry, entries):
                self.doubtful |= _about(entry, fault)
                if fault not in self.faults:
                    self.faults.append(fault)
        self.experiment = self._experiment()
        """The experiment, with defaults for faulty keys."""
        if taken_over(self.experiment):  # the parent's keys are checked once it is read
            self.doubtful |= {key for key in ("data.subwords", "data.codes") if key not in self._places}
        self.faults += self.broken(RULES)

    def _parsed(self, entries: Callable[[T], list[KeyEntry]], text: T) -> list[KeyEntry]:
        """The entries of a text; none where it cannot be read, which makes the keys doubtful that it may set."""
        try:
            return entries(text)
        except CalqueError as e:
            self.faults += e.diagnostics
            keys = {str(d.fields.get("key")) for d in e.diagnostics}
            self.doubtful |= keys if keys <= KEYS else KEYS
            return []

    def _read(self, entry: KeyEntry, entries: Sequence[KeyEntry]) -> list[Diagnostic]:
        faults = list(name_faults(entry, entries))
        if not faults and entry.key is not None:
            key = SECTIONS[entry.section][entry.key]
            faults = value_faults(key, entry)
            self._places[f"{entry.section}.{entry.key}"] = entry.value_at
            if not faults:
                self._values[entry.section][entry.key] = setting(key, entry)
        return faults

    def _experiment(self) -> Experiment:
        return Experiment(
            DataSettings(**self._values["data"]),
            ModelSettings(**self._values["model"]),
            TrainSettings(**self._values["train"]),
            DecodeSettings(**self._values["decode"]),
        )

    def broken(self, rules: Sequence[KeyRule], experiment: Experiment | None = None) -> list[Diagnostic]:
        """The broken rules between keys without faults, each at the first of its keys in the file; also of another experiment."""
        return [
            Diagnostic(code, self.place(keys), fields)
            for code, keys, fields in contradictions(experiment or self.experiment, rules)
            if self.doubtful.isdisjoint(keys)
        ]

    def place(self, keys: Sequence[str]) -> Span | Place:
        """Where the first of these keys is that the file or an override gives; else the file."""
        return next((self._places[key] for key in keys if key in self._places), self._file)

    def shown(self, faults: Iterable[Diagnostic]) -> list[Diagnostic]:
        """Faults of the definition that is written in the file, at their places in it; others as they are."""
        return [in_file(fault, self.place((INLINE,))) for fault in faults]


def override(written: str) -> KeyEntry:
    """The entry of one `--set section.key=value`. Raises X109 and X111."""

    def is_text(section: str, key: str) -> bool:
        known = SECTIONS.get(section, {}).get(key)
        return known is not None and known.kind is str

    def expected(section: str, key: str) -> str:
        known = SECTIONS.get(section, {}).get(key)
        return "" if known is None else allowed(known)

    key, equals, _ = written.partition("=")
    sections = [section for section, keys in SECTIONS.items() if key in keys]
    if equals and len(sections) == 1:
        near = f"{sections[0]}.{written}"
        raise error("X109", Span(Text("--set", written), 0, len(written)), found=written, near=near)
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
