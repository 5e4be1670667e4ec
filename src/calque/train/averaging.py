"""A model of its own from the checkpoints of a run."""

from dataclasses import replace
from pathlib import Path

from calque.adl.check import check
from calque.data.codecs import Codec
from calque.data.compiled import link_corpus, open_corpus
from calque.data.corpus import INDEX
from calque.experiment import Experiment, load
from calque.experiment.toml import EXPERIMENT
from calque.ground.diagnostics import CalqueError, Place, error, read_text
from calque.ground.files import whole
from calque.layers.contract import Registry
from calque.layers.registry import builtin
from calque.model import Model
from calque.run.folder import ARCHITECTURE, CHECKPOINTS, CORPUS, MODEL, refuse_full, sole_training, start_run
from calque.run.model_file import load_model, save_model
from calque.run.tensors import writing
from calque.train.call import shape_of
from calque.train.checkpoint import Checkpoints, average


def average_run(run: Path, out: Path, which: str, count: int, registry: Registry | None = None) -> tuple[int, ...]:
    """Writes the mean of the `count` best or last checkpoints of a run into a new folder; returns their updates.

    The training of the run may not have ended yet. The run is not touched; `registry` is needed only for layers that are not
    Calque's own. A folder that cannot be written whole is removed. Raises X405 (`out` is not empty), K108 (no checkpoints), and
    what `load_model` or, without a model, `open_corpus` raises.
    """
    refuse_full(out)
    experiment, model, codecs, data = _opened(run, registry or builtin())
    checkpoints = Checkpoints(run, replace(experiment.train, average=which, average_count=count))
    checkpoints.look()
    updates = tuple(sorted(c.update for c in checkpoints.averaged()))
    if not updates:
        raise error("K108", Place(str(run)))
    weights = average([checkpoints.path(update) for update in updates])
    figures = {"averaged": list(updates), "parameters": sum(t.numel() for t in weights.values())}
    with writing(out), sole_training(out), whole(out):
        if (run / CORPUS / INDEX).is_file():
            link_corpus((run / CORPUS).resolve(), out / CORPUS)
        start_run(out, experiment, model.checked, codecs)
        save_model(out, model, weights, experiment, data, figures)
    return updates


def _opened(run: Path, registry: Registry) -> tuple[Experiment, Model, tuple[Codec, Codec], str]:
    """The experiment of a run, a model of its architecture, its codecs, and the digest of its corpus."""
    if (run / f"{MODEL}.json").is_file() or not (run / CHECKPOINTS).is_dir():
        loaded = load_model(run, registry=registry)
        return loaded.experiment, loaded.model, loaded.codecs, loaded.meta["data"]
    experiment, corpus = load(run / EXPERIMENT), open_corpus(run / CORPUS)
    checked = check(read_text(run / ARCHITECTURE, "X402", "X403"), registry, stored=True)
    return experiment, Model(checked, shape_of(experiment, corpus), registry), corpus.codecs, corpus.digest


def unfinished_run(run: Path, out: Path, registry: Registry) -> int | None:
    """Writes the newest checkpoint of a training into a new run folder; returns its update, None where there is none yet.

    Raises what `average_run` raises.
    """
    try:
        return average_run(run, out, "last", 1, registry)[0]
    except CalqueError as fault:
        if fault.diagnostics[0].code == "K108":
            return None
        raise
