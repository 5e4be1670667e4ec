"""The run folder: the files that training writes, and the lock that keeps other trainings out.

experiment.toml      the experiment, every value resolved
architecture.adl     the canonical definition
codecs/              text to ids and back
log.jsonl            one JSON object per line: training, validation, calls of `calque train`, changes of the experiment
phases/              the experiment of each phase of the training: NNNN-from-update-U.toml
data/                the compiled corpus
plugins/             copies of the files with layers of the user
training.lock        held by the training that writes here
checkpoints/         UPDATE.safetensors + UPDATE.json; state-UPDATE.* to resume from
model.safetensors    the final model, with model.json
replaced-NNNN/       what `calque train --restart` moved aside
"""

import contextlib
import re
from collections.abc import Iterator
from pathlib import Path

from calque.adl.check import CheckedDefinition
from calque.data.codecs import Codec
from calque.data.subwords import save_codecs
from calque.experiment import Experiment
from calque.experiment import write as write_experiment
from calque.experiment.toml import EXPERIMENT as EXPERIMENT
from calque.ground.diagnostics import Place, error
from calque.ground.files import clear_beside, made, only, sweep, write_whole
from calque.run.own_layers import PLUGINS, keep_layers
from calque.run.tensors import restore_pair, writing

ARCHITECTURE = "architecture.adl"
CODECS = "codecs"
LOG = "log.jsonl"
LOCK = "training.lock"
CHECKPOINTS = "checkpoints"
PHASES = "phases"
CORPUS = "data"
MODEL = "model"


def is_run(folder: Path) -> bool:
    """Whether a training has begun in a folder; `calque new` writes an experiment alone."""
    return any((folder / name).exists() for name in (PHASES, LOG, ARCHITECTURE, f"{MODEL}.json"))


def refuse_foreign(folder: Path) -> None:
    """Raises X418 where a new run would replace a file that no run has written."""
    if any((folder / name).exists() for name in (LOCK, PHASES, f"{MODEL}.json")):
        return
    for name in (EXPERIMENT, ARCHITECTURE, LOG, CODECS, PLUGINS):
        if (folder / name).exists():
            raise error("X418", Place(str(folder / name)), folder=folder, name=name, inner=folder / "run")


@contextlib.contextmanager
def sole_training(folder: Path) -> Iterator[None]:
    """Makes the run folder and keeps every other training out of it. Raises K203 (another training runs there), K301.

    After an error, folders that were made here and are empty are removed.
    """
    new = not (folder / LOCK).exists()
    with contextlib.ExitStack() as stack:
        with writing(folder):
            stack.enter_context(made(folder / CHECKPOINTS))
            free = stack.enter_context(only(folder / LOCK))
        if not free:
            raise error("K203", Place(str(folder)))
        with writing(folder):
            _clear(folder)
        try:
            yield
        except BaseException:
            if new:
                (folder / LOCK).unlink(missing_ok=True)
            raise


def clear(folder: Path) -> None:
    """Deletes temporary files of killed processes, for commands that only read the folder; errors are ignored."""
    with contextlib.suppress(OSError):
        if _leftovers(folder):
            with only(folder / LOCK) as free:
                if free:
                    _clear(folder)


def _leftovers(folder: Path) -> bool:
    return any(any(part.glob(".*")) for part in (folder, folder / CODECS, folder / PHASES, folder / CHECKPOINTS))


def _clear(folder: Path) -> None:
    """Deletes temporary files of killed processes; the caller holds the lock of the folder."""
    clear_beside(folder / CORPUS)
    for part in (folder, folder / CODECS, folder / PHASES, folder / CHECKPOINTS):
        if part.is_dir():
            for path in part.iterdir():
                if match := re.fullmatch(r"\.(.+)\.json\.(old|[a-z0-9_]{8})", path.name):
                    restore_pair(part / match[1], path)
            for weights in part.glob(".*.safetensors.tmp"):
                weights.unlink()
            sweep(part)


def refuse_full(out: Path) -> None:
    """Raises X405 where a folder that is to be written is not empty, or is a file."""
    if out.exists() and (not out.is_dir() or any(out.iterdir())):
        raise error("X405", Place(str(out)), name=out)


def start_run(folder: Path, experiment: Experiment, checked: CheckedDefinition, codecs: tuple[Codec, Codec]) -> None:
    """Makes the run folder and writes everything that is known before training. Raises K301."""
    write_definition(folder, checked, codecs)
    with writing(folder):
        write_experiment(keep_layers(folder, experiment), folder / EXPERIMENT)


def write_definition(folder: Path, checked: CheckedDefinition, codecs: tuple[Codec, Codec]) -> None:
    """Makes the run folder, with the architecture and the codecs. Raises K301."""
    with writing(folder):
        (folder / CODECS).mkdir(parents=True, exist_ok=True)
        (folder / CHECKPOINTS).mkdir(exist_ok=True)
        save_codecs(folder / CODECS, *codecs)
        write_whole(folder / ARCHITECTURE, checked.text.encode())
