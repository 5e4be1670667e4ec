"""The steps of a run, put together: definition, corpus, training, trained model."""

import contextlib
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from calque.adl.check import check
from calque.adl.dialect import reader
from calque.data.compiled import GivenCodecs, PreparedCorpus, corpus_digest, open_corpus, prepare
from calque.data.kept_corpus import compiled_before
from calque.data.mixture import check_weights
from calque.experiment import DataSettings, Experiment, load
from calque.experiment import check as check_experiment
from calque.ground.diagnostics import CalqueError, Diagnostic, Place, error, render_all
from calque.run.folder import CORPUS, EXPERIMENT, MODEL, refuse_foreign, sole_training
from calque.run.model_file import check_codecs
from calque.run.tensors import read_about
from calque.train.call import TrainingCall, TrainingTask
from calque.train.checkpoint import newest_state
from calque.train.follower import follow
from calque.train.log import Watcher
from calque.train.loop import FinishedTraining, StoppedTraining, train
from calque.train.parent import codecs_of, refuse_another_parent
from calque.train.precision import pick_device
from calque.train.ranks import Ranks
from calque.train.restart import complete_move, move_aside
from calque.train.run_identity import identity, names_other_texts, refuse_another
from calque.workflow.checking import refuse_foreseen
from calque.workflow.definitions import definition, missing_files, with_architecture
from calque.workflow.plugins import registry_of
from calque.workflow.validation import validation_translator


def run_training(
    experiment: Experiment,
    folder: Path,
    watcher: Watcher | None = None,
    tell: Callable[[str], None] | None = None,
    call: TrainingCall | None = None,
    own: bool = False,
    restart: bool = False,
    shown: Callable[[Iterable[Diagnostic]], Sequence[Diagnostic]] = tuple,
) -> FinishedTraining | StoppedTraining:
    """Checks the definition, prepares the corpus and trains, all into `folder`; resumes the run that it holds.

    `own`: the experiment is that of the run folder itself; its compiled corpus is used even where the text has changed or is gone.
    `restart`: moves the contents of the folder aside and starts anew. `shown`: warnings of the definition at their lines.
    Raises what `check`, `prepare` and `train` raise; X447, X410, K201 to K204, X418 for files that no run has written, what
    `refuse_foreseen` raises of a training that has not begun, and D101 for missing text are raised before anything is moved.
    """
    say, call = tell or (lambda line: None), call or TrainingCall()
    _refuse_own_parent(experiment, folder, restart)
    named, experiment = experiment, with_architecture(experiment, None if restart else folder)
    if named is not experiment:
        say(f"the architecture is that of {named.model.parent}")
    pick_device(experiment.train.device)
    _refuse_idle_ranks(experiment, call.ranks)
    registry = registry_of(experiment.model)
    checked = check(definition(experiment), registry, reader(experiment.model.dialect))
    if checked.warnings:
        say(render_all(shown(checked.warnings)))
    refuse_foreign(folder)
    with sole_training(folder):
        complete_move(folder)
        state = {} if restart else newest_state(folder)
        experiment, given = _with_parent(experiment, folder, state, say)
        refuse_another(folder, state, identity(experiment, checked))
        if not state and call.plan is None:
            refuse_foreseen(experiment, checked)
        prepared = _corpus(experiment, folder, state, given, own, restart, say)
    resolved = _kept(experiment, checked.text)
    translator = validation_translator(prepared, resolved, call.ranks)
    return train(resolved, folder, prepared, checked, registry, watcher, translator, replace(call, tell=say))


def _refuse_own_parent(experiment: Experiment, folder: Path, restart: bool) -> None:
    """Raises X447 where the parent is the folder itself, whose contents `restart` moves aside."""
    parent = experiment.model.parent
    if restart and parent and Path(parent).resolve() == folder.resolve():
        raise error("X447", Place(parent), run=folder)


def _kept(experiment: Experiment, text: str) -> Experiment:
    """The experiment as the run keeps it, with its canonical text: the run may be used from another working directory."""
    plugins = tuple(str(Path(name).resolve()) if name.endswith(".py") else name for name in experiment.model.plugins)
    return replace(experiment, model=replace(experiment.model, file="", text=text, dialect="calque", plugins=plugins))


def follow_training(ranks: Ranks) -> None:
    """Trains together with the process that leads, until its training ends. Raises what `follow` raises."""
    follow(ranks, _followed_task)


def _followed_task(experiment: Experiment, folder: Path, ranks: Ranks) -> TrainingTask:
    registry = registry_of(experiment.model)
    checked = check(definition(experiment), registry, reader(experiment.model.dialect))
    prepared = open_corpus(folder / CORPUS)
    translator = validation_translator(prepared, experiment, ranks)
    call = TrainingCall(ranks=ranks)
    return TrainingTask(experiment, folder, prepared, checked, registry, None, translator, call)


def _refuse_idle_ranks(experiment: Experiment, ranks: Ranks) -> None:
    """Raises X442 where there are more processes than batches in an update."""
    batches = 1 if experiment.train.bptt_words else experiment.train.accumulate
    if ranks.count > batches:
        raise error("X442", None, ranks=ranks.count, batches=batches)


def _with_parent(
    experiment: Experiment, folder: Path, state: Mapping[str, Any], say: Callable[[str], None]
) -> tuple[Experiment, GivenCodecs | None]:
    """The experiment, and the codecs that it takes over: from its parent or, once it has begun, from the run itself."""
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
    if experiment.decode.tag:
        given.codecs[0].check_symbol(experiment.decode.tag, Place(str(source)))
    return resolved, given


def _corpus(
    experiment: Experiment,
    folder: Path,
    state: Mapping[str, Any],
    given: GivenCodecs | None,
    own: bool,
    restart: bool,
    say: Callable[[str], None],
) -> PreparedCorpus:
    """The corpus of a run: the one that was compiled before, or one compiled from its text.

    With `restart`, the contents of the folder are moved aside before, where no text that is needed is missing (D101, D108).
    """
    held = _held_corpus(experiment.data, folder, state, given, own, say)
    if restart:
        faults = [] if held is not None else missing_files(experiment, ("data.codes",) if given else ())
        if faults:
            raise CalqueError(faults)
        move_aside(folder, say)
    return held or _usable(prepare(experiment.data, folder / CORPUS, Path(), say, given), experiment.data)


def _held_corpus(
    data: DataSettings,
    folder: Path,
    state: Mapping[str, Any],
    given: GivenCodecs | None,
    own: bool,
    say: Callable[[str], None],
) -> PreparedCorpus | None:
    """With `own`, or where its text is gone, the corpus of a run that was compiled before; else None: `prepare` compares the text.

    Raises K201 where the state is of another corpus, and with `own` where it is of other files; D314.
    """
    digest = corpus_digest(data, Path(), given, folder / CORPUS)
    if own and names_other_texts(folder, data):
        refuse_another(folder, state, {"corpus": digest or "unknown text"}, Experiment(data))
    held = None
    if own or digest is None:
        begun = state.get("identity", {}).get("corpus") if own else None
        try:
            held = compiled_before(data, folder / CORPUS, Path(), given, own, begun)
        except CalqueError:  # damaged: compiled anew where there is text
            if digest is None:
                raise
    if held is None:
        if digest is not None:
            refuse_another(folder, state, {"corpus": digest}, Experiment(data))
        return None
    if digest is None:
        say(f"the text of the corpus is gone; the compiled one in {folder / CORPUS} is used")
    elif digest != held.digest:
        say(f"the text of the corpus has changed; the compiled one in {folder / CORPUS} is used")
    return _usable(held, data)


def prepare_corpus(experiment: Experiment, folder: Path, tell: Callable[[str], None] | None = None) -> PreparedCorpus:
    """Compiles the corpus of a run below its folder. Raises K201 where the folder holds a run with another corpus.

    It takes over the codecs of the parent, unless [data] asks for its own; where the run has begun, it has them itself. Raises
    X225 and D101 where a training that has not begun would be refused, and D314 once the corpus is compiled.
    """
    data, parent = experiment.data, experiment.model.parent
    given, held = None, _corpus_held(folder)
    if parent and data.vocabulary == "parent":
        data, given = codecs_of(data, folder if held and (folder / EXPERIMENT).is_file() else Path(parent))
    if (digest := corpus_digest(data, Path(), given, folder / CORPUS)) is not None:
        refuse_another(folder, held, {"corpus": digest}, Experiment(data))
    if not held:
        refuse_foreseen(with_architecture(experiment, folder))
    return _usable(prepare(data, folder / CORPUS, Path(), tell, given), data)


def _usable(corpus: PreparedCorpus, data: DataSettings) -> PreparedCorpus:
    """The corpus. Raises D314 where the weights of its texts would make an epoch too large."""
    if data.weights and not data.stream:
        check_weights(corpus.split("train").parts, data.weights)
    return corpus


def _corpus_held(folder: Path) -> Mapping[str, Any]:
    """The identity of the corpus that the run in a folder was trained on; empty where there is no run."""
    try:
        return newest_state(folder)
    except CalqueError:  # no state, or a damaged one
        with contextlib.suppress(CalqueError, KeyError):
            return {"identity": {"corpus": read_about(folder / MODEL)["data"]}}
    return {}
