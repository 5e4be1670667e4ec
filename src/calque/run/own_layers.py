"""The files with layers of a user, kept in the run folder: a run is the same whatever becomes of the files that it came from."""

import hashlib
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

from calque.experiment import Experiment
from calque.ground.files import write_whole

PLUGINS = "plugins"


def keep_layers(folder: Path, experiment: Experiment, up: str = "") -> Experiment:
    """Copies the files of an experiment's plugins into a run folder; returns the experiment that names the copies.

    `up`: the way to the folder from the one that the experiment is written to.
    """
    names = dict(_copies(experiment))
    for written, name in names.items():
        file, copy = Path(written), folder / PLUGINS / name
        if file.is_file() and file.resolve() != copy.resolve():
            copy.parent.mkdir(exist_ok=True)
            write_whole(copy, file.read_bytes())
    plugins = tuple(f"{up}{PLUGINS}/{names[one]}" if one in names else one for one in experiment.model.plugins)
    return replace(experiment, model=replace(experiment.model, plugins=plugins))


def layers_digest(experiment: Experiment) -> str | None:
    """Twelve hexadecimal digits that name what is in the files of its plugins; None where it has none."""
    found = hashlib.sha256()
    files = [Path(written) for written, _ in _copies(experiment)]
    for file in files:
        found.update(hashlib.sha256(file.read_bytes()).digest())
    return found.hexdigest()[:12] if files else None


def _copies(experiment: Experiment) -> Iterator[tuple[str, str]]:
    """The files of the plugins, and the names of their copies. Other plugins are modules by name."""
    taken: set[str] = set()
    for written in experiment.model.plugins:
        if written.endswith(".py"):
            stem = Path(written).stem
            name = next(n for n in (f"{stem}.py", *(f"{stem}-{i}.py" for i in range(2, 1000))) if n not in taken)
            taken.add(name)
            yield written, name
