"""A model of its own from the checkpoints of a run."""

from dataclasses import replace
from pathlib import Path

from calque.diagnostics import Place, error
from calque.run import load_model, save_model, start_run
from calque.train.checkpoint import Checkpoints, average


def average_run(run: Path, out: Path, which: str, count: int) -> tuple[int, ...]:
    """Writes the mean of the `count` best or last checkpoints of a run into a new folder; returns their updates.

    The run is not touched. Raises X405 (`out` is not empty), K108 (no checkpoints) and what `load_model` raises.
    """
    if out.exists() and (not out.is_dir() or any(out.iterdir())):
        raise error("X405", Place(str(out)), name=out.name)
    loaded = load_model(run)
    checkpoints = Checkpoints(run, replace(loaded.experiment.train, average=which, average_count=count))
    checkpoints.look()
    updates = tuple(sorted(c.update for c in checkpoints.averaged()))
    weights = average([checkpoints.path(update) for update in updates])
    start_run(out, loaded.experiment, loaded.model.checked, loaded.codecs)
    figures = {"averaged": list(updates), "parameters": sum(t.numel() for t in weights.values())}
    save_model(out, loaded.model, weights, loaded.experiment, loaded.meta["data"], figures)
    return updates
