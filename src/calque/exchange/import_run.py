"""`calque import`: a model of another tool as an ordinary run folder."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

from calque.exchange.from_hf import TYPES, Reader, read_config, read_model
from calque.exchange.from_marian import MarianFolder
from calque.exchange.from_t5 import read_t5
from calque.exchange.hf_folder import read_json, read_tensors
from calque.exchange.hf_vocabulary import Languages, Words, read_words
from calque.exchange.settings import SEARCH, SIZE, check_values, integer
from calque.experiment import DataSettings, DecodeSettings, Experiment, ModelSettings, TrainSettings
from calque.ground.diagnostics import Place, error
from calque.ground.files import whole
from calque.model import Model
from calque.run.folder import refuse_full, start_run
from calque.run.model_file import save_model, weights_of
from calque.run.tensors import writing

KINDS: dict[str, Reader] = {**dict.fromkeys(TYPES, read_model), "t5": read_t5, "mt5": read_t5}
"""The function that reads each model type."""
GENERATION = "generation_config.json"
_SEARCH = {"num_beams": SEARCH["beam"], "length_penalty": SEARCH["alpha"]}
_IDS = ("eos_token_id", "pad_token_id", "decoder_start_token_id")


def import_hf(folder: Path, out: Path, asked: Languages) -> Model:
    """Writes a run folder from a folder of transformers; returns its model.

    Raises X405 (`out` has files already), X510 to X518 and X522 (what cannot be read), K301.
    """
    refuse_full(out)
    model, words, closed, config = open_hf(folder, asked)
    generation = _generation(folder)
    values = {"num_beams": 4, "length_penalty": 1.0, **generation}
    check_values(values, _SEARCH, Place(str(folder / GENERATION)))
    search = DecodeSettings(
        beam=values["num_beams"],
        alpha=float(values["length_penalty"]),
        stop="full" if generation.get("early_stopping") is True else "best",
    )
    origin = {"format": "Hugging Face transformers", "model_type": config["model_type"]}
    _write(out, model, words, _experiment(model, closed, search), origin)
    return model


def import_marian(folder: Path, out: Path, asked: Languages) -> Model:
    """Writes a run folder from a folder of Marian; returns its model.

    Raises X405, X301 (a package is missing), X510 to X518, X521 and X522 (what cannot be read), K301.
    """
    refuse_full(out)
    theirs = MarianFolder(folder, asked)
    model = theirs.read()
    experiment = _experiment(model, True, DecodeSettings(**theirs.search))
    _write(out, model, theirs.words, experiment, {"format": "Marian", "model_type": "transformer"})
    return model


def open_hf(folder: Path, asked: Languages) -> tuple[Model, tuple[Words, Words], bool, dict[str, Any]]:
    """The model of a folder, its words, whether sources get an end symbol, and its settings. Writes nothing."""
    config = read_json(folder, "config.json")
    kind = config.get("model_type", "none")
    if not isinstance(kind, str) or kind not in KINDS:
        raise error("X511", Place(str(folder / "config.json")), found=kind, names=tuple(KINDS))
    config = {**_ids(_generation(folder)), **read_config(config)}
    config.setdefault("decoder_start_token_id", config.get("pad_token_id"))
    if isinstance(end := config.get("eos_token_id"), list) and end:
        config["eos_token_id"] = end[0]
    tensors = read_tensors(folder)
    sizes = tensors.sizes()
    needed = {"d_model": SIZE, **dict.fromkeys(_IDS, integer(0, min(sizes) - 1))}
    check_values(config, needed, Place(str(folder / "config.json")))
    source, target, closed = read_words(folder, config, sizes, asked)
    model = KINDS[kind](config, tensors, (source, target), Place(str(folder / "config.json")))
    return model, (source, target), closed, config


def _generation(folder: Path) -> dict[str, Any]:
    """The settings of generation_config.json that have a value."""
    content = read_json(folder, GENERATION, required=False)
    return {key: value for key, value in content.items() if value is not None}


def _ids(generation: dict[str, Any]) -> dict[str, Any]:
    """The special ids that older folders have in config.json and newer ones in generation_config.json."""
    return {key: value for key, value in generation.items() if key.endswith("token_id")}


def _experiment(model: Model, closed: bool, search: DecodeSettings) -> Experiment:
    shape = model.shape
    joint = shape.tying == "three-way"
    return Experiment(
        DataSettings(subwords="imported", vocabulary_size=0, joint=joint, source_end=closed, max_tokens=512),
        ModelSettings(text=model.checked.text, tying=shape.tying),
        TrainSettings(),
        search,
    )


def _write(out: Path, model: Model, words: tuple[Words, Words], experiment: Experiment, origin: dict[str, str]) -> None:
    with writing(out), whole(out):
        start_run(out, experiment, model.checked, (words[0].codec, words[1].codec))
        save_model(out, model, weights_of(model), experiment, "none", {}, {"imported": origin})


FORMATS: dict[str, Callable[[Path, Path, Languages], Model]] = {"hf": import_hf, "marian": import_marian}
"""The formats by the words of `--from`."""
