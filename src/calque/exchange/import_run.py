"""`calque import`: a model of another tool as an ordinary run folder."""

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

from calque.exchange.from_hf import TYPES, Reader, read_config, read_model
from calque.exchange.from_t5 import read_t5
from calque.exchange.hf_folder import read_json, read_tensors
from calque.exchange.hf_vocabulary import Languages, Words, read_words
from calque.experiment import DataSettings, DecodeSettings, Experiment, ModelSettings, TrainSettings
from calque.ground.diagnostics import Place, error
from calque.ground.files import made
from calque.model import Model
from calque.run.folder import start_run
from calque.run.model_file import save_model, weights_of
from calque.run.tensors import writing

KINDS: dict[str, Reader] = {**dict.fromkeys(TYPES, read_model), "t5": read_t5, "mt5": read_t5}
"""The function that reads each model type."""
_NEEDED = ("eos_token_id", "pad_token_id", "d_model")


def import_hf(folder: Path, out: Path, asked: Languages) -> Model:
    """Writes a run folder from a folder of transformers; returns its model.

    Raises X405 (`out` has files already), X510 to X518 (what cannot be read), K301.
    """
    if out.exists() and (not out.is_dir() or any(out.iterdir())):
        raise error("X405", Place(str(out)), name=out.name)
    model, words, closed, config = open_hf(folder, asked)
    with writing(out), made(out):
        _write(out, model, words, _experiment(folder, model, closed), config)
    return model


def open_hf(folder: Path, asked: Languages) -> tuple[Model, tuple[Words, Words], bool, dict[str, Any]]:
    """The model of a folder, its words, whether sources get an end symbol, and its settings. Writes nothing."""
    config = read_json(folder, "config.json")
    kind = config.get("model_type", "none")
    if kind not in KINDS:
        raise error("X511", Place(str(folder / "config.json")), found=kind, names=tuple(KINDS))
    generation = read_json(folder, "generation_config.json", required=False)
    config = {**_ids(generation), **read_config(folder, config)}
    for key in _NEEDED:
        if key not in config:
            raise error("X512", Place(str(folder / "config.json")), key=key, found="absent", expected="a number")
    config.setdefault("decoder_start_token_id", config.get("pad_token_id"))
    tensors = read_tensors(folder)
    source, target, closed = read_words(folder, config, tensors.sizes(), asked)
    model = KINDS[kind](config, tensors, (source, target), Place(str(folder)))
    return model, (source, target), closed, config


def _ids(generation: dict[str, Any]) -> dict[str, Any]:
    """The special ids that older folders have in config.json and newer ones in generation_config.json."""
    return {key: value for key, value in generation.items() if key.endswith("token_id") and value is not None}


def _experiment(folder: Path, model: Model, closed: bool) -> Experiment:
    generation = read_json(folder, "generation_config.json", required=False)
    shape = model.shape
    return Experiment(
        DataSettings(
            subwords="imported", vocabulary_size=0, joint=shape.tying == "three-way", source_end=closed, max_tokens=512
        ),
        ModelSettings(text=model.checked.text, tying=shape.tying),
        TrainSettings(),
        DecodeSettings(
            beam=int(generation.get("num_beams") or 4), alpha=float(generation.get("length_penalty") or 1.0)
        ),
    )


def _write(out: Path, model: Model, words: Sequence[Words], experiment: Experiment, config: dict[str, Any]) -> None:
    start_run(out, experiment, model.checked, (words[0].codec, words[1].codec))
    origin = {"imported": {"format": "Hugging Face transformers", "model_type": config["model_type"]}}
    save_model(out, model, weights_of(model), experiment, "none", {}, origin)


FORMATS: dict[str, Callable[[Path, Path, Languages], Model]] = {"hf": import_hf}
"""The formats by the words of `--from`."""
