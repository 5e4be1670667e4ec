"""The arguments of commands about a definition: a file, an architecture of the zoo, an experiment file or a run folder."""

import stat
from collections.abc import Collection, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from calque import zoo
from calque.data.lines import check_rereadable, unreadable
from calque.experiment import Experiment, ModelSettings, load
from calque.experiment.inline import INLINE
from calque.experiment.rules import has_architecture
from calque.experiment.toml import EXPERIMENT
from calque.experiment.values import STANDARD_INPUT
from calque.ground.diagnostics import CalqueError, Diagnostic, Place, Text, error
from calque.workflow.run_folders import MODEL, nearest_beside


@dataclass(frozen=True)
class DefinitionSubject:
    """A definition and the layers that it may name. `experiment` is the one that it belongs to, if there is one."""

    text: Text
    library: Any
    dialect: str | None = None
    experiment: Experiment | None = None


def with_architecture(experiment: Experiment, run: Path | None = None) -> Experiment:
    """The experiment; where it names no architecture, with that of its parent, and its tied matrices, output bias and plugins.

    A training that has begun needs its parent no more: they are then those of `run`. Raises K101 where neither is a run.
    """
    if has_architecture(experiment):
        return experiment
    parent = Path(experiment.model.parent)
    places = [*([run] if run is not None else []), parent]
    folder = next((place for place in places if (place / EXPERIMENT).is_file()), None)
    if folder is None:
        raise error("K101", Place(str(parent)), name=EXPERIMENT)
    theirs = load(folder / EXPERIMENT).model
    kept = {name: getattr(theirs, name) for name in ("file", "text", "dialect", "plugins", "tying", "output_bias")}
    return replace(experiment, model=replace(experiment.model, **kept))


def definition(experiment: Experiment) -> Text:
    """The definition of an experiment: its own text, a file or an architecture of the zoo.

    Raises X220 for an unknown name that begins with a paper of the zoo, X402 or X403 for a file that cannot be read.
    """
    if experiment.model.file:
        return zoo.find(experiment.model.file)
    return Text(INLINE, experiment.model.text)


def experiment_file(name: str) -> Path | None:
    """The experiment file with this name, or in the run folder with this name. Raises X113 for a folder that is no run."""
    path = Path(name)
    if path.is_dir():
        if not (path / EXPERIMENT).is_file():
            raise error("X113", Place(name), name=name)
        return path / EXPERIMENT
    return path if path.suffix == ".toml" and not name.endswith(".adl.toml") else None


def subject(name: str, plugins: Sequence[str] = ()) -> DefinitionSubject:
    """The definition of a file or of the zoo, with declarations of layers, without torch unless there are plugins.

    Raises X112 for an unknown name, and what `registry_of` raises.
    """
    refuse_missing(name)
    return DefinitionSubject(zoo.find(name), _library(ModelSettings(plugins=tuple(plugins))))


def _library(model: ModelSettings) -> Any:
    """The layers that a definition may name: declarations without torch, unless there are plugins."""
    if model.plugins:
        from calque.workflow.plugins import registry_of  # with torch: plugins are Python modules

        return registry_of(model)
    from calque.layers.declared import declared

    return declared()


def named_subject(
    name: str, settings: Sequence[str] = (), plugins: Sequence[str] = ()
) -> tuple[DefinitionSubject, tuple[str, ...]]:
    """The definition of a file, of the zoo, of an experiment or of a run folder, and those of `settings` that are its own.

    `plugins`: modules with layers that a definition names, which is of no experiment. Raises what `subject` and `subject_of`
    raise, and `load` for those that are keys of an experiment.
    """
    file = experiment_file(name)
    if file is None:
        return subject(name, plugins), tuple(settings)
    keys, own = split_settings(settings)
    return subject_of(load(file, keys)), own


def split_settings(settings: Sequence[str]) -> tuple[tuple[str, ...], tuple[str, ...]]:
    """Of an experiment: keys, with a dot before `=`, and settings of its definition."""
    keys = tuple(one for one in settings if "." in one.partition("=")[0])
    return keys, tuple(one for one in settings if one not in keys)


def refuse_missing(name: str) -> None:
    """Raises X112 for a name that is neither that of a file or a folder nor one of the zoo's papers."""
    path = Path(name)
    if not path.exists() and not path.suffix and name.partition("/")[0] not in zoo.shelves():
        raise missing(path)


def subject_of(experiment: Experiment) -> DefinitionSubject:
    """The definition of an experiment. Layers are declarations without torch, unless the experiment has plugins.

    Raises what `with_architecture`, `definition` and `registry_of` raise.
    """
    experiment = with_architecture(experiment)
    return DefinitionSubject(definition(experiment), _library(experiment.model), experiment.model.dialect, experiment)


def missing(path: Path) -> CalqueError:
    """X112: there is no file, run folder or architecture of this name."""
    near = nearest_beside(path, _defined) or zoo.nearest_name(str(path))
    return error("X112", Place(str(path)), name=str(path), near=near)


def _defined(path: Path) -> Path | None:
    """This path, if it is a file or a folder with a definition."""
    file = path.is_file() and path.suffix in (".adl", ".toml")
    return path if file or (path / EXPERIMENT).is_file() else None


def missing_files(experiment: Experiment, doubtful: Collection[str] = ()) -> list[Diagnostic]:
    """D101 for every missing file of the corpus and stream, D108 for a pipe; keys that are `doubtful` are left out."""
    data = experiment.data
    named = {
        "data.train": (*data.train_files, *(file for text in data.texts for file in text.valid)),
        "data.valid": data.valid,
        "data.valid_more": data.valid_more,
        "data.test": data.test,
        "data.codes": (data.codes,),
    }
    files = dict.fromkeys(file for key, files in named.items() if key not in doubtful for file in files)
    missing = [fault for file in files if file for fault in _faults_of(file)]
    return missing if "data.stream" in doubtful else missing + missing_stream(experiment)


def missing_parent(experiment: Experiment) -> list[Diagnostic]:
    """K101 where the folder that an experiment takes weights from has no model."""
    parent = experiment.model.parent
    if not parent or (Path(parent) / MODEL).is_file():
        return []
    return [Diagnostic("K101", Place(parent), {"name": MODEL})]


def missing_stream(experiment: Experiment) -> list[Diagnostic]:
    """D101 where the stream of a training is neither standard input nor a file or a pipe."""
    stream = experiment.data.stream
    return [] if stream in ("", STANDARD_INPUT) else _missing(stream)


def _faults_of(file: str) -> Sequence[Diagnostic]:
    try:
        check_rereadable(Path(file))
    except CalqueError as fault:
        return fault.diagnostics
    return _missing(file)


def _missing(file: str) -> list[Diagnostic]:
    """D101 for a file that is not found, and for a folder."""
    try:
        mode = Path(file).stat().st_mode
    except OSError as fault:
        return list(unreadable(Path(file), fault).diagnostics)
    return [Diagnostic("D101", Place(file), {"reason": "is a directory"})] if stat.S_ISDIR(mode) else []
