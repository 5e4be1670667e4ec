"""Runs to translate with, without what only their training needs: `calque export RUN --to calque`."""

from collections.abc import Iterable
from dataclasses import replace
from pathlib import Path

from calque.exchange.weights import Exported
from calque.experiment import Experiment
from calque.experiment.training_text import TrainingText
from calque.ground.diagnostics import error
from calque.run.folder import CHECKPOINTS, start_run
from calque.run.model_file import save_model, weights_of
from calque.run.stored import PRECISIONS, stored

NAME = "Calque"


def write_calque(exported: Exported, folder: Path, precision: str) -> None:
    """Writes a run folder with definition, codecs, plugins and weights into an empty folder.

    Files of text and the parent keep their names alone, not the folders where they lay. Raises X503 (the precision).
    """
    if precision not in PRECISIONS:
        raise error("X503", None, precision=precision, format=NAME, names=PRECISIONS)
    model, meta, experiment = exported.model, exported.trained.meta, _without_folders(exported.trained.experiment)
    start_run(folder, experiment, model.checked, exported.trained.codecs)
    (folder / CHECKPOINTS).rmdir()
    past = {key: meta[key] for key in ("phases", "imported") if key in meta} | {"stored": precision}
    if "parent" in meta:
        past["parent"] = {**meta["parent"], "run": Path(meta["parent"]["run"]).name}
    weights = stored(weights_of(model), dict(model.named_parameters()), precision)
    save_model(folder, model, weights, experiment, meta["data"], meta["figures"], past)


def _without_folders(experiment: Experiment) -> Experiment:
    data = experiment.data
    texts = tuple(_moved(text) for text in data.train if isinstance(text, TrainingText))
    data = replace(
        data,
        train=texts or _names(data.train_files),
        valid=_names(data.valid),
        test=_names(data.test),
        valid_more=_names(data.valid_more),
        codes=Path(data.codes).name,
        stream="",
    )
    return replace(experiment, data=data, model=replace(experiment.model, parent=""))


def _moved(text: TrainingText) -> TrainingText:
    source, target = _names((text.source, text.target))
    return replace(text, source=source, target=target, valid=_names(text.valid))


def _names(files: Iterable[str]) -> tuple[str, ...]:
    return tuple(Path(file).name for file in files)
