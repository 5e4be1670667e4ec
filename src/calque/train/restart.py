"""`calque train --restart`: what a run folder holds is moved aside, and a new training begins there."""

import os
import re
import shutil
from collections.abc import Callable
from pathlib import Path

from calque.data.compiled import link_corpus
from calque.data.corpus import INDEX
from calque.ground.diagnostics import CalqueError
from calque.ground.files import sync_folder
from calque.run.folder import ARCHITECTURE, CHECKPOINTS, CODECS, CORPUS, EXPERIMENT, LOG, MODEL, PHASES
from calque.run.own_layers import PLUGINS
from calque.run.tensors import read_about, writing

REPLACED = "replaced"
"""The folders below a run folder that hold what was moved aside: `replaced-0001` and so on. Each is a run folder."""
_UNFINISHED = ".replaced.new"
_MODEL = (f"{MODEL}.json", f"{MODEL}.safetensors")
_PARTS = (CHECKPOINTS, LOG, PHASES, "tensorboard", "tune.jsonl", *_MODEL)
"""In this order: as long as the model is there, a call that was cut off is refused as a model without a state is."""
_COPIED = (EXPERIMENT, ARCHITECTURE, CODECS, PLUGINS)


def move_aside(run: Path, tell: Callable[[str], None]) -> None:
    """Moves the training that a run folder holds into a folder below it, and reports what it moved. Raises K301.

    Nothing is deleted, and a call that was killed is completed by the next. The caller holds the lock of the folder.
    """
    if not any((run / name).exists() for name in (*_MODEL, LOG, _UNFINISHED)) and not _any(run / CHECKPOINTS):
        return
    tell(f"--restart: {_contents(run)} is moved to {next_folder(run)}")
    aside = run / _UNFINISHED
    with writing(run):
        aside.mkdir(exist_ok=True)
        for name in _COPIED:
            if (run / name).is_dir():
                shutil.copytree(run / name, aside / name, dirs_exist_ok=True)
            elif (run / name).is_file():
                shutil.copy2(run / name, aside / name)
        if (run / CORPUS / INDEX).is_file():
            link_corpus((run / CORPUS).resolve(), aside / CORPUS)
        _move(run)
    complete_move(run)


def complete_move(run: Path) -> None:
    """Gives what was moved aside its name, where a call was killed before it had one."""
    left = _any(run / CHECKPOINTS) or any((run / name).exists() for name in _MODEL)
    if (run / _UNFINISHED).exists() and not left:
        with writing(run):
            _move(run)
            os.rename(run / _UNFINISHED, next_folder(run))
            sync_folder(run)
            (run / CHECKPOINTS).mkdir(exist_ok=True)


def _move(run: Path) -> None:
    for name in _PARTS:
        old, new = run / name, run / _UNFINISHED / name
        if old.is_dir() and new.exists() and not _any(old):
            old.rmdir()  # a call in between made an empty one
        if old.exists() and not new.exists():
            os.rename(old, new)


def _any(folder: Path) -> bool:
    return folder.is_dir() and any(folder.iterdir())


def next_folder(run: Path) -> Path:
    """The first name for what is moved aside that is free."""
    taken = [int(m[1]) for p in run.glob(f"{REPLACED}-*") if (m := re.fullmatch(rf"{REPLACED}-(\d+)", p.name))]
    return run / f"{REPLACED}-{max(taken, default=0) + 1:04}"


def _contents(run: Path) -> str:
    """In words, what a run folder holds."""
    try:
        figures = read_about(run / MODEL)["figures"]
    except (CalqueError, KeyError):
        return f"the training in {run}"
    known = [f"{figures['update']} updates"] if "update" in figures else []
    known += [f"validation perplexity {figures['perplexity']:.3f}"] if figures.get("perplexity") else []
    return f"the model of {run}" + f" ({', '.join(known)})" * bool(known)
