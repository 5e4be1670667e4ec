"""A model of its own from the checkpoints of a run."""

import shutil
from dataclasses import replace
from pathlib import Path

from calque.ground.diagnostics import Place, error
from calque.layers.contract import Registry
from calque.run.folder import sole_training, start_run
from calque.run.model_file import load_model, save_model
from calque.train.checkpoint import Checkpoints, average


def average_run(run: Path, out: Path, which: str, count: int, registry: Registry | None = None) -> tuple[int, ...]:
    """Writes the mean of the `count` best or last checkpoints of a run into a new folder; returns their updates.

    The run is not touched; `registry` is needed only for layers that are not Calque's own. A folder that cannot be written
    whole is removed. Raises X405 (`out` is not empty), K108 (no checkpoints) and what `load_model` raises.
    """
    if out.exists() and (not out.is_dir() or any(out.iterdir())):
        raise error("X405", Place(str(out)), name=out.name)
    loaded = load_model(run, registry=registry)
    checkpoints = Checkpoints(run, replace(loaded.experiment.train, average=which, average_count=count))
    checkpoints.look()
    updates = tuple(sorted(c.update for c in checkpoints.averaged()))
    weights = average([checkpoints.path(update) for update in updates])
    figures = {"averaged": list(updates), "parameters": sum(t.numel() for t in weights.values())}
    try:
        with sole_training(out):
            start_run(out, loaded.experiment, loaded.model.checked, loaded.codecs)
            save_model(out, loaded.model, weights, loaded.experiment, loaded.meta["data"], figures)
    except BaseException:
        shutil.rmtree(out, ignore_errors=True)
        raise
    return updates
