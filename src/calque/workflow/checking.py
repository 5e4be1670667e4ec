"""What is wrong with a definition or an experiment, all of it together, before any text is read."""

from dataclasses import dataclass
from pathlib import Path

from calque.adl.check import CheckedDefinition, check
from calque.adl.dialect import reader
from calque.adl.program import Reader
from calque.adl.settings import parse_settings
from calque.experiment.load import ReadExperiment
from calque.ground.diagnostics import CalqueError
from calque.workflow.definitions import DefinitionSubject, experiment_file, missing_files, subject, subject_of

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


def check_subject(name: str, settings: tuple[str, ...], dialect: str, corpus: bool = False) -> CheckedSubject:
    """The checked definition of a file, an architecture of the zoo, an experiment or a run folder.

    Of an experiment, `settings` with a dot before `=` are keys. Raises all faults of its keys and of its definition together, with
    `corpus` also those of the files that it names; a run needs none of them.
    """
    file = experiment_file(name)
    if file is None:
        return _checked(subject(name), settings, dialect)
    keys = tuple(one for one in settings if "." in one.partition("=")[0])
    read = ReadExperiment(file, keys)
    faults, found = list(read.faults), None
    if read.doubtful.isdisjoint(ARCHITECTURE) and NO_ARCHITECTURE.isdisjoint(fault.code for fault in faults):
        try:
            found = _checked(subject_of(read.experiment), tuple(one for one in settings if one not in keys), dialect)
        except CalqueError as e:
            faults += e.diagnostics
    if corpus and not Path(name).is_dir():
        faults += missing_files(read.experiment, read.doubtful)
    if faults or found is None:
        raise CalqueError(faults)
    return found


def _checked(named: DefinitionSubject, settings: tuple[str, ...], dialect: str) -> CheckedSubject:
    read = reader(named.dialect or dialect, parse_settings(settings))
    return CheckedSubject(named, read, check(named.text, named.library, read))
