"""The steps of a run, put together: definition, corpus, training, trained model."""

import contextlib
import importlib
import importlib.util
import sys
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from types import ModuleType
from typing import Any

from calque.adl.check import check
from calque.adl.dialect import reader
from calque.adl.program import prelude
from calque.adl.signature import REPEAT, SETTINGS
from calque.data.compiled import GivenCodecs, PreparedCorpus, compiled_before, corpus_digest, prepare
from calque.decode.translate import Translator, translate_lines
from calque.evaluate import bleu
from calque.experiment import DataSettings, Experiment, ModelSettings, load
from calque.experiment import check as check_experiment
from calque.ground.diagnostics import CalqueError, Place, error, render_all
from calque.layers.contract import Registry
from calque.layers.registry import builtin, layers_in, with_plugins
from calque.model import Model
from calque.run.folder import CORPUS, EXPERIMENT, MODEL, check_codecs, read_about, sole_training
from calque.train.call import TrainingCall
from calque.train.checkpoint import newest_state
from calque.train.log import SampleTranslation, Translated, Watcher
from calque.train.loop import FinishedTraining, StoppedTraining, train
from calque.train.parent import codecs_of, refuse_another_parent
from calque.train.restart import complete_move, move_aside
from calque.train.run_identity import identity, refuse_another
from calque.workflow.definitions import definition

PLUGIN = "calque_plugin."
"""Before the names of modules that were loaded from files, so that none hides a module of the same name."""
SAMPLES = 2
"""Validation sentences whose translations are shown at each validation ..."""
SAMPLED = 100
"""... chosen from so many where none are translated for BLEU ..."""
GLANCE = (5, 20)
"""... of so many words, if there are such."""


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
    _check_layers(module, name, {*builtin(), REPEAT.name, *SETTINGS, *(s.name for s in prelude())})
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
            layer.name in taken and builtin().get(layer.name) is not layer
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
    call: TrainingCall | None = None,
    own: bool = False,
    restart: bool = False,
) -> FinishedTraining | StoppedTraining:
    """Checks the definition, prepares the corpus and trains, all into `folder`; continues the run that it holds.

    `own`: the experiment is that of the run folder itself, whose compiled corpus is used even where its text changed or is gone.
    `restart`: what the folder holds is moved aside first, and nothing is continued. Raises what `check`, `prepare` and `train`
    raise; nothing in the folder is touched before K201 to K204.
    """
    say = tell or (lambda line: None)
    registry = registry_of(experiment.model)
    checked = check(definition(experiment), registry, reader(experiment.model.dialect))
    if checked.warnings:
        say(render_all(checked.warnings))
    with sole_training(folder):
        complete_move(folder)
        state = {} if restart else newest_state(folder)
        experiment, given = _with_parent(experiment, folder, state, say)
        refuse_another(folder, state, identity(experiment, checked))
        if restart:
            move_aside(folder, say)
        prepared = _corpus(experiment.data, folder, state, given, own, say)
    # A run folder is used from other folders than the one it was started in.
    plugins = tuple(str(Path(name).resolve()) if name.endswith(".py") else name for name in experiment.model.plugins)
    model = replace(experiment.model, file="", text=checked.text, dialect="calque", plugins=plugins)
    resolved = replace(experiment, model=model)
    translator = validation_translator(prepared, resolved)
    return train(
        resolved, folder, prepared, checked, registry, watcher, translator, replace(call or TrainingCall(), tell=say)
    )


def _with_parent(
    experiment: Experiment, folder: Path, state: Mapping[str, Any], say: Callable[[str], None]
) -> tuple[Experiment, GivenCodecs | None]:
    """The experiment, and the codecs that it takes over: of its parent or, where it has begun, of the run itself."""
    before = load(folder / EXPERIMENT) if state and (folder / EXPERIMENT).is_file() else None
    if before is not None:
        refuse_another_parent(folder, state, before.model.parent, experiment.model.parent)
        kept = before.data.vocabulary if before.model.parent else experiment.data.vocabulary
        experiment = replace(
            experiment,
            data=replace(experiment.data, vocabulary=kept),
            model=replace(experiment.model, parent=before.model.parent),
        )
    if not experiment.model.parent or experiment.data.vocabulary != "parent":
        return experiment, None
    source = Path(experiment.model.parent) if before is None else folder
    if before is None:
        check_codecs(source, read_about(source / MODEL))
    data, given = codecs_of(experiment.data, source)
    resolved = replace(experiment, data=data)
    if before is None:
        say(f'the vocabulary is that of {source} ({data.subwords}); data.vocabulary = "own" learns another')
    check_experiment(resolved, Place(experiment.model.parent))
    return resolved, given


def _corpus(
    data: DataSettings,
    folder: Path,
    state: Mapping[str, Any],
    given: GivenCodecs | None,
    own: bool,
    say: Callable[[str], None],
) -> PreparedCorpus:
    """The corpus of a run: compiled from its text, or compiled before where the run is its own experiment or text is gone.

    Raises K201 before anything that is compiled is replaced.
    """
    digest = corpus_digest(data, Path(), given)
    if own or digest is None:
        try:
            held = compiled_before(data, folder / CORPUS, Path(), own)
        except CalqueError:  # damaged: compiled anew where there is text
            if digest is None:
                raise
            held = None
        if held is not None:
            if digest is None:
                say(f"the text of the corpus is not where it was; {folder / CORPUS} holds it compiled")
            elif digest != held.digest:
                say(f"the text of the corpus has changed; {folder / CORPUS} holds it compiled as it was")
            return held
    if digest is not None:
        refuse_another(folder, state, {"corpus": digest})
    return prepare(data, folder / CORPUS, Path(), say, given)


def prepare_corpus(
    data: DataSettings, folder: Path, tell: Callable[[str], None] | None = None, parent: str = ""
) -> PreparedCorpus:
    """The run's corpus, compiled below its folder. Raises K201 where the folder holds a run with another corpus, which stays.

    `parent`: the run whose codecs it takes over, unless [data] asks for its own.
    """
    given = None
    if parent and data.vocabulary == "parent":
        data, given = codecs_of(data, Path(parent))
    if (digest := corpus_digest(data, Path(), given)) is not None:
        refuse_another(folder, _corpus_held(folder), {"corpus": digest})
    return prepare(data, folder / CORPUS, Path(), tell, given)


def _corpus_held(folder: Path) -> Mapping[str, Any]:
    """The identity of the corpus that a run folder was trained on; empty where nothing was."""
    try:
        return newest_state(folder)
    except CalqueError:  # no state, or a damaged one
        with contextlib.suppress(CalqueError, KeyError):
            return {"identity": {"corpus": read_about(folder / MODEL)["data"]}}
    return {}


def validation_translator(prepared: PreparedCorpus, experiment: Experiment) -> Callable[[Model], Translated]:
    """Translates the first validation sentences greedily: for BLEU, where it is asked for, and for samples to look at."""
    count = experiment.train.validate_bleu_sentences
    sources, references = (lines[: count or SAMPLED] for lines in prepared.lines("valid"))
    shown = samples_of(sources)
    if not count:
        sources, references = ([lines[n] for n in shown] for lines in (sources, references))
        shown = range(len(shown))
    decode = replace(experiment.decode, beam=1, sample=False, replace_unknown=False)

    def translate(model: Model) -> Translated:
        loaded = Translator(model, *prepared.codecs, decode, experiment.data.source_end)
        found = first_best(loaded, sources)
        samples = tuple(SampleTranslation(sources[n], references[n], found[n]) for n in shown)
        score = bleu(found, references, tokenize=tokenisation(experiment.data)).value if count else None
        return Translated(score, samples)

    return translate


def samples_of(sources: Sequence[str]) -> Sequence[int]:
    """The numbers of the sentences to show: the first of a length that a person reads at a glance, else the first with words."""
    words = [len(line.split()) for line in sources]
    fitting = [n for n, count in enumerate(words) if GLANCE[0] <= count <= GLANCE[1]]
    others = [n for n, count in enumerate(words) if count and n not in set(fitting)]
    return sorted([*fitting, *others][:SAMPLES])


def first_best(loaded: Translator, lines: Sequence[str]) -> list[str]:
    """The best translation of each line."""
    return [best[0].text for best in translate_lines(loaded, lines)]


def tokenisation(data: DataSettings) -> str:
    """How BLEU cuts words: 13a on plain text, none on text that was tokenised before."""
    return "none" if data.subwords in ("codes", "words") else "13a"
