"""Paths that a command takes for runs, and what is said of one that is none."""

from collections.abc import Callable
from pathlib import Path

from calque import zoo
from calque.experiment.toml import EXPERIMENT
from calque.ground.diagnostics import CalqueError, Place, error, nearest

MODEL = "model.json"
"""Of a run folder whose training has ended."""
BEGUN = ("architecture.adl", "codecs")
"""Of a run folder, one at least; a model alone may be that of another tool."""


def check_run_folder(path: Path, command: str | None = None) -> None:
    """Raises X114, X115 or X118 for what is no folder, X113 for one of something else, K101 for one of a run that has not begun."""
    if not path.exists():
        raise missing_run(path)
    if not path.is_dir():
        raise _no_folder(path, command)
    inner = _trained(path)
    if inner == path or any((path / name).exists() for name in BEGUN):
        return
    if inner is None and not (path / EXPERIMENT).exists():
        raise error("X113", Place(str(path)), name=path.name)
    raise error("K101", Place(str(path)), name=MODEL, near=inner)


def missing_run(path: Path) -> CalqueError:
    """There is no run of this name: X115 where it is that of an architecture, else X118."""
    if str(path) in zoo.names():
        return error("X115", Place(str(path)), name=str(path))
    return error("X118", Place(str(path)), name=str(path), near=nearest_beside(path, _trained))


def missing_experiment(path: Path) -> CalqueError:
    """There is no run or experiment of this name: X115 where it is that of an architecture, else X116."""
    if str(path) in zoo.names():
        return error("X115", Place(str(path)), name=str(path))
    return error("X116", Place(str(path)), name=str(path), near=nearest_beside(path, _experiment))


def nearest_beside(path: Path, found: Callable[[Path], Path | None]) -> str | None:
    """The run of this name in `runs`, else what has a similar name beside the path or there; `found`: what to name for a path."""
    runs = Path("runs") / path
    if (exact := found(runs)) is not None:
        return str(exact)
    for wanted in (path, runs):
        try:
            beside = {p.name: there for p in wanted.parent.iterdir() if (there := found(p)) is not None}
        except OSError:
            continue
        if (near := nearest(wanted.name, beside)) is not None:
            return str(beside[near])
    return None


def _no_folder(path: Path, command: str | None) -> CalqueError:
    """X114; the run that is meant may be the one that the file belongs to, or the one that its experiment makes."""
    meant, experiment = [path.parent], None
    if path.name == EXPERIMENT:
        meant, experiment = [path.parent, path.parent / "run"], path.parent
    elif path.suffix == ".toml":
        meant, experiment = [path.parent, Path("runs") / path.stem], path
    near = next((run for run in meant if (run / MODEL).is_file()), None)
    text = command if command == "translate" else None
    return error("X114", Place(str(path)), name=path.name, near=near, experiment=experiment, text=text)


def _trained(path: Path) -> Path | None:
    """A run folder with a model: this one, or the one in a folder of `calque new`."""
    files = MODEL, EXPERIMENT
    return next((run for run in (path, path / "run") if all((run / name).is_file() for name in files)), None)


def _experiment(path: Path) -> Path | None:
    """This path, if it is an experiment file or a folder with one."""
    return path if (path.is_file() and path.suffix == ".toml") or (path / EXPERIMENT).is_file() else None
