"""A model of its own from the checkpoints of a run."""

from dataclasses import replace
from pathlib import Path

from calque.adl.check import check
from calque.data.compiled import open_corpus
from calque.experiment import load
from calque.experiment.toml import EXPERIMENT
from calque.ground.diagnostics import Place, error, read_text
from calque.ground.files import whole
from calque.layers.contract import Registry
from calque.model import Model
from calque.run.folder import ARCHITECTURE, CORPUS, sole_training, start_run
from calque.run.model_file import load_model, save_model
from calque.run.tensors import writing
from calque.train.call import shape_of
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
    if not updates:
        raise error("K108", Place(str(run)))
    weights = average([checkpoints.path(update) for update in updates])
    figures = {"averaged": list(updates), "parameters": sum(t.numel() for t in weights.values())}
    with writing(out), sole_training(out), whole(out):
        start_run(out, loaded.experiment, loaded.model.checked, loaded.codecs)
        save_model(out, loaded.model, weights, loaded.experiment, loaded.meta["data"], figures)
    return updates


def unfinished_run(run: Path, out: Path, registry: Registry) -> int | None:
    """Writes the newest checkpoint of a training that has not ended into a new run folder; returns its update.

    None where there is no checkpoint yet. Raises what reading the folder raises.
    """
    experiment = load(run / EXPERIMENT)
    checkpoints = Checkpoints(run, experiment.train)
    checkpoints.look()
    if not checkpoints.held:
        return None
    update = checkpoints.held[-1].update
    checked = check(read_text(run / ARCHITECTURE, "X402", "X403"), registry, stored=True)
    corpus = open_corpus(run / CORPUS)
    model = Model(checked, shape_of(experiment, corpus), registry)
    start_run(out, experiment, checked, corpus.codecs)
    weights = average([checkpoints.path(update)])
    save_model(out, model, weights, experiment, corpus.digest, {"averaged": [update]})
    return update
