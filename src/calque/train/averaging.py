"""A model of its own from the checkpoints of a run."""

from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path

from torch import Tensor

from calque.adl.check import check
from calque.data.codecs import Codec
from calque.data.compiled import link_corpus, open_corpus
from calque.experiment import Experiment, load
from calque.experiment.toml import EXPERIMENT
from calque.ground.diagnostics import Place, error, read_text
from calque.ground.files import whole
from calque.layers.contract import Registry
from calque.model import Model
from calque.run.folder import ARCHITECTURE, CORPUS, refuse_full, sole_training, start_run
from calque.run.model_file import load_model, save_model
from calque.run.tensors import writing
from calque.train.call import shape_of
from calque.train.checkpoint import Checkpoints, average


def average_run(run: Path, out: Path, which: str, count: int, registry: Registry | None = None) -> tuple[int, ...]:
    """Writes the mean of the `count` best or last checkpoints of a run into a new folder; returns their updates.

    The run is not touched; `registry` is needed only for layers that are not Calque's own. A folder that cannot be written
    whole is removed. Raises X405 (`out` is not empty), K108 (no checkpoints) and what `load_model` raises.
    """
    refuse_full(out)
    loaded = load_model(run, registry=registry)
    checkpoints = Checkpoints(run, replace(loaded.experiment.train, average=which, average_count=count))
    checkpoints.look()
    updates = tuple(sorted(c.update for c in checkpoints.averaged()))
    if not updates:
        raise error("K108", Place(str(run)))
    weights = average([checkpoints.path(update) for update in updates])
    with writing(out), sole_training(out), whole(out):
        _write_mean(out, loaded.experiment, loaded.codecs, loaded.model, weights, loaded.meta["data"], updates)
    return updates


def unfinished_run(run: Path, out: Path, registry: Registry) -> int | None:
    """Writes the newest checkpoint of a training that has not ended into a new run folder; returns its update.

    None where there is no checkpoint yet. Raises K301 (`out` cannot be written whole) and what reading the folder raises.
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
    weights = average([checkpoints.path(update)])
    with writing(out), sole_training(out), whole(out):
        link_corpus((run / CORPUS).resolve(), out / CORPUS)
        _write_mean(out, experiment, corpus.codecs, model, weights, corpus.digest, (update,))
    return update


def _write_mean(
    out: Path,
    experiment: Experiment,
    codecs: tuple[Codec, Codec],
    model: Model,
    weights: Mapping[str, Tensor],
    data: str,
    updates: Sequence[int],
) -> None:
    """Writes a run of its own, whose model is the mean of the checkpoints of some updates."""
    start_run(out, experiment, model.checked, codecs)
    figures = {"averaged": list(updates), "parameters": sum(t.numel() for t in weights.values())}
    save_model(out, model, weights, experiment, data, figures)
