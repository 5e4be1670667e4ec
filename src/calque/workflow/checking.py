"""What is wrong with a definition or an experiment, all of it together, before any text is read."""

import contextlib
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, replace
from pathlib import Path

from calque.adl.check import CheckedDefinition, check
from calque.adl.dialect import reader
from calque.adl.program import Reader
from calque.adl.settings import parse_settings
from calque.experiment import Experiment
from calque.experiment.inline import INLINE
from calque.experiment.load import ReadExperiment
from calque.experiment.rules import (
    ONE_VOCABULARY,
    OWN_TAG,
    SIZED_VOCABULARY,
    Fields,
    KeyRule,
    contradictions,
    has_architecture,
)
from calque.experiment.toml import EXPERIMENT
from calque.ground.diagnostics import CalqueError, Diagnostic, Span
from calque.workflow.definitions import (
    DefinitionSubject,
    experiment_file,
    missing_files,
    missing_parent,
    missing_stream,
    split_settings,
    subject,
    subject_of,
)

ARCHITECTURE = frozenset(f"model.{key}" for key in ("file", "text", "dialect", "plugins", "parent"))
"""The keys that say what the definition is and how it is read."""
NO_ARCHITECTURE = frozenset({"X202", "X203"})
"""The codes of an experiment that names no definition, or two."""


@dataclass(frozen=True)
class CheckedSubject:
    """A definition without faults, and how its text was read."""

    named: DefinitionSubject
    reader: Reader
    definition: CheckedDefinition


def check_subject(
    name: str, settings: tuple[str, ...], dialect: str, corpus: bool = False, plugins: tuple[str, ...] = ()
) -> CheckedSubject:
    """The checked definition of a file, an architecture of the zoo, an experiment or a run folder.

    Of an experiment, `settings` with a dot before `=` are keys. Raises all faults of its keys and of its definition together, with
    `corpus` also those of the files that it names; a run needs none of them. `plugins`: modules with layers that a definition
    names; an experiment and a run name their own.
    """
    file = experiment_file(name)
    if file is None:
        return _checked(subject(name, plugins), settings, dialect, Path(name).is_dir())
    keys, own = split_settings(settings)
    read = ReadExperiment(file, keys)
    faults, found = list(read.faults), None
    if read.doubtful.isdisjoint(ARCHITECTURE) and NO_ARCHITECTURE.isdisjoint(fault.code for fault in faults):
        try:
            found = _checked(subject_of(read.experiment), own, dialect, Path(name).is_dir())
        except CalqueError as e:
            faults += read.shown(e.diagnostics)
    if corpus and not Path(name).is_dir():
        faults += _foreseen_of(read, found) + missing_files(read.experiment, read.doubtful)
        faults += [] if found is None or "model.parent" in read.doubtful else missing_parent(read.experiment)
    if faults or found is None:
        raise CalqueError(faults)
    return replace(found, definition=replace(found.definition, warnings=tuple(read.shown(found.definition.warnings))))


def _checked(named: DefinitionSubject, settings: tuple[str, ...], dialect: str, stored: bool) -> CheckedSubject:
    read = reader(named.dialect or dialect, parse_settings(settings))
    return CheckedSubject(named, read, check(named.text, named.library, read, stored=stored))


def _foreseen_of(read: ReadExperiment, found: CheckedSubject | None) -> list[Diagnostic]:
    """The broken rules of a training that has not begun; of an architecture that is a parent's, once it is known."""
    if found is not None:
        return read.broken(rules_ahead(found.definition), found.named.experiment)
    return read.broken(rules_ahead()) if has_architecture(read.experiment) else []


def refuse_foreseen(experiment: Experiment, checked: CheckedDefinition | None = None) -> None:
    """Raises D207, X211, X225, X234 and D101 for what would end a training only after its vocabularies are learned."""
    broken = contradictions(experiment, rules_ahead(checked))
    faults = [Diagnostic(code, None, fields) for code, _, fields in broken] + missing_stream(experiment)
    if faults:
        raise CalqueError(faults)


@contextlib.contextmanager
def shown_in(
    experiment: Path, overrides: tuple[str, ...]
) -> Iterator[Callable[[Iterable[Diagnostic]], list[Diagnostic]]]:
    """Shows faults in an experiment, given by its file or its folder.

    What `refuse_foreseen` raises about keys gets its place; faults of a definition that is written in the experiment get theirs
    in the file. Gives a function that does the same for warnings.
    """

    def read_again() -> ReadExperiment:
        return ReadExperiment(experiment / EXPERIMENT if experiment.is_dir() else experiment, overrides)

    try:
        yield lambda warnings: read_again().shown(warnings)
    except CalqueError as e:
        keys = {rule.code: rule.keys for rule in rules_ahead()}
        spans = [fault.where for fault in e.diagnostics if isinstance(fault.where, Span)]
        if keys.keys().isdisjoint(fault.code for fault in e.diagnostics) and all(s.text.name != INLINE for s in spans):
            raise
        read = read_again()
        raise CalqueError(
            replace(fault, where=fault.where or read.place(keys[fault.code])) if fault.code in keys else fault
            for fault in read.shown(e.diagnostics)
        ) from None


def rules_ahead(checked: CheckedDefinition | None = None) -> tuple[KeyRule, ...]:
    """The rules of a training that has not begun; with its definition, also that of the output layer's width."""

    def other_width(x: Experiment) -> list[Fields]:
        if checked is None or x.model.tying == "none" or checked.decoder.width_out == checked.width:
            return []
        return [{"tying": x.model.tying, "width": checked.width, "found": checked.decoder.width_out}]

    return (
        ONE_VOCABULARY,
        SIZED_VOCABULARY,
        OWN_TAG,
        KeyRule("X211", ("model.tying", "model.text", "model.file"), other_width),
    )
