"""The steps of a run, put together: definition, corpus, training, trained model."""

import importlib
import importlib.util
import sys
from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path
from types import ModuleType

from calque.adl.check import check
from calque.data.compiled import Prepared, prepare
from calque.decode.translate import Loaded, translate_lines
from calque.diagnostics import Place, Text, error, read_text
from calque.evaluate import bleu
from calque.experiment import Data, Experiment
from calque.experiment import Model as ModelSettings
from calque.layers.contract import Registry
from calque.layers.registry import builtin, with_plugins
from calque.model import Model
from calque.train.loop import Finished, Stopped, train
from calque.train.report import Watcher

CORPUS = "data"
"""The prepared corpus, below a run folder."""


def load_plugin(name: str) -> ModuleType:
    """A module of layers: a file ending in .py, or an importable name. Raises X401 where it cannot be imported."""
    try:
        if not name.endswith(".py"):
            return importlib.import_module(name)
        path = Path(name)
        spec = importlib.util.spec_from_file_location(path.stem, path)
        if spec is None or spec.loader is None or not path.is_file():
            raise error("X401", Place(name), reason="there is no such file")
        module = importlib.util.module_from_spec(spec)
        sys.modules[path.stem] = module
        spec.loader.exec_module(module)
    except (ImportError, SyntaxError, NameError, AttributeError, TypeError, ValueError) as e:
        raise error("X401", Place(name), reason=str(e)) from None
    return module


def registry_of(model: ModelSettings) -> Registry:
    """The library's layers and those of the experiment's plugins."""
    return with_plugins(tuple(load_plugin(name) for name in model.plugins)) if model.plugins else builtin()


def definition(experiment: Experiment) -> Text:
    """The architecture's text, from the file the experiment names or from the experiment itself."""
    if experiment.model.file:
        return read_text(experiment.model.file, "X402", "X403")
    return Text("model.text", experiment.model.text)


def run_training(
    experiment: Experiment,
    folder: Path,
    watcher: Watcher | None = None,
    tell: Callable[[str], None] | None = None,
) -> Finished | Stopped:
    """Checks the definition, prepares the corpus and trains, all into `folder`; continues what stands there."""
    registry = registry_of(experiment.model)
    checked = check(definition(experiment), registry)
    prepared = prepare_corpus(experiment.data, folder, tell)
    resolved = replace(experiment, model=replace(experiment.model, file="", text=checked.text))
    scorer = validation_bleu(prepared, resolved) if experiment.train.validate_bleu_sentences else None
    return train(resolved, folder, prepared, checked, registry, watcher, scorer)


def prepare_corpus(data: Data, folder: Path, tell: Callable[[str], None] | None = None) -> Prepared:
    """The run's corpus, compiled below its folder."""
    return prepare(data, folder / CORPUS, Path(), tell)


def validation_bleu(prepared: Prepared, experiment: Experiment) -> Callable[[Model], float]:
    """BLEU of greedy translations of the first validation sentences."""
    count = experiment.train.validate_bleu_sentences
    sources, references = (lines[:count] for lines in prepared.lines("valid"))
    decode = replace(experiment.decode, beam=1)

    def score(model: Model) -> float:
        loaded = Loaded(model, *prepared.codecs, decode, experiment.data.source_end)
        return bleu(first_best(loaded, sources), references, tokenize=tokenisation(experiment.data)).value

    return score


def first_best(loaded: Loaded, lines: Sequence[str]) -> list[str]:
    """The best translation of each line."""
    return [best[0].text for best in translate_lines(loaded, lines)]


def tokenisation(data: Data) -> str:
    """How BLEU cuts words: 13a on plain text, none on text that was tokenised before."""
    return "none" if data.subwords in ("codes", "words") else "13a"
