"""The steps of a run, put together: definition, corpus, training, trained model."""

import importlib
import importlib.util
import sys
from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path
from types import ModuleType

from calque.adl.check import check
from calque.adl.dialect import reader
from calque.adl.program import prelude
from calque.adl.signature import REPEAT, SETTINGS
from calque.data.compiled import Prepared, corpus_digest, prepare
from calque.decode.translate import Loaded, translate_lines
from calque.definitions import definition
from calque.diagnostics import CalqueError, Place, error, render_all
from calque.evaluate import bleu
from calque.experiment import Data, Experiment, load
from calque.experiment import Model as ModelSettings
from calque.layers.contract import Registry
from calque.layers.registry import builtin, layers_in, with_plugins
from calque.model import Model
from calque.run import EXPERIMENT, sole_training
from calque.train.checkpoint import newest_state
from calque.train.loop import Finished, Stopped, identity, refuse_another, train
from calque.train.report import Watcher

PLUGIN = "calque_plugin."
"""Before the names of modules that were loaded from files, so that none hides a module of the same name."""
CORPUS = "data"
"""The prepared corpus, below a run folder."""


def load_plugin(name: str) -> ModuleType:
    """A module of layers: a file ending in .py, or an importable name.

    Raises X401 where it cannot be imported, X411 where one of its layers has a name that the language has taken.
    """
    try:
        module = _from_file(name) if name.endswith(".py") else importlib.import_module(name)
    except CalqueError:
        raise
    except (Exception, SystemExit) as e:  # whatever a person's module does when it is run
        raise error("X401", Place(name), reason=f"{type(e).__name__}: {e}") from None
    _check_layers(module, name, {*builtin().layers, REPEAT.name, *SETTINGS, *(s.name for s in prelude())})
    return module


def _from_file(name: str) -> ModuleType:
    path = Path(name)
    spec = importlib.util.spec_from_file_location(PLUGIN + path.stem, path)
    if spec is None or spec.loader is None or not path.is_file():
        raise error("X401", Place(name), reason="there is no such file")
    module = importlib.util.module_from_spec(spec)
    sys.modules[spec.name] = module
    spec.loader.exec_module(module)
    return module


def _check_layers(module: ModuleType, file: str, taken: set[str]) -> None:
    for layer in layers_in(module):
        if (
            layer.name in taken and builtin().layers.get(layer.name) is not layer
        ):  # a module of the library may be named
            raise error("X411", Place(file), name=layer.name)
        try:
            layer.signature()
        except (TypeError, ValueError, AttributeError) as e:
            raise error("X401", Place(file), reason=f"the arguments of `{layer.name}`: {e}") from None


def registry_of(model: ModelSettings) -> Registry:
    """The library's layers and those of the experiment's plugins."""
    modules: list[ModuleType] = []
    for name in model.plugins:
        module = load_plugin(name)
        _check_layers(module, name, {layer.name for before in modules for layer in layers_in(before)})
        modules.append(module)
    return with_plugins(tuple(modules)) if modules else builtin()


def registry_of_run(folder: Path) -> Registry:
    """The layers that the definition in a run folder may name; the library's where the folder holds no experiment."""
    file = folder / EXPERIMENT
    return registry_of(load(file).model) if file.is_file() else builtin()


def run_training(
    experiment: Experiment,
    folder: Path,
    watcher: Watcher | None = None,
    tell: Callable[[str], None] | None = None,
) -> Finished | Stopped:
    """Checks the definition, prepares the corpus and trains, all into `folder`; continues what stands there.

    Raises what `check`, `prepare` and `train` raise; nothing that stands in the folder is touched before K201 and K203.
    """
    registry = registry_of(experiment.model)
    checked = check(definition(experiment), registry, reader(experiment.model.dialect))
    if checked.warnings and tell is not None:
        tell(render_all(checked.warnings))
    with sole_training(folder):
        # Before anything there is replaced: a run of something else keeps its corpus.
        corpus = corpus_digest(experiment.data, Path())
        if corpus is not None:
            refuse_another(folder, newest_state(folder), identity(experiment, checked, corpus))
        prepared = prepare_corpus(experiment.data, folder, tell)
    # A run folder is used from other folders than the one it was started in.
    plugins = tuple(str(Path(name).resolve()) if name.endswith(".py") else name for name in experiment.model.plugins)
    model = replace(experiment.model, file="", text=checked.text, dialect="calque", plugins=plugins)
    resolved = replace(experiment, model=model)
    scorer = validation_bleu(prepared, resolved) if experiment.train.validate_bleu_sentences else None
    return train(resolved, folder, prepared, checked, registry, watcher, scorer)


def prepare_corpus(data: Data, folder: Path, tell: Callable[[str], None] | None = None) -> Prepared:
    """The run's corpus, compiled below its folder."""
    return prepare(data, folder / CORPUS, Path(), tell)


def validation_bleu(prepared: Prepared, experiment: Experiment) -> Callable[[Model], float]:
    """BLEU of greedy translations of the first validation sentences."""
    count = experiment.train.validate_bleu_sentences
    sources, references = (lines[:count] for lines in prepared.lines("valid"))
    decode = replace(experiment.decode, beam=1, sample=False, replace_unknown=False)

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
