"""Training: from an experiment and a prepared corpus to a run folder."""

import contextlib
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import torch

from calque.adl.check import CheckedDefinition
from calque.data.codecs import Codec, difference
from calque.data.corpus import PreparedCorpus
from calque.experiment import Experiment, TrainSettings
from calque.ground.diagnostics import error
from calque.layers.contract import Registry
from calque.model import Model, Shape
from calque.run.folder import LOG, sole_training, write_definition
from calque.run.tensors import writing
from calque.train.call import TrainingCall, TrainingTask, shape_of
from calque.train.checkpoint import Checkpoints
from calque.train.feed import Feed, feed_of
from calque.train.finish import FinishedTraining, finish
from calque.train.initialise import initialise
from calque.train.log import Log, Translated, Watcher
from calque.train.order import Group
from calque.train.parent import begin_from
from calque.train.phases import PhaseHistory
from calque.train.precision import conditions, pick_device, probe_precision, processor
from calque.train.progress import ProgressReporter
from calque.train.run_identity import identity, refuse_another, written
from calque.train.schedule import first_horizon, horizon, rate, warm_up
from calque.train.shared_update import shared_update
from calque.train.standing import Interrupted, Signals
from calque.train.training_state import TrainingState
from calque.train.validate import Validator

__all__ = ["FinishedTraining", "StoppedTraining", "train"]


@dataclass(frozen=True)
class StoppedTraining:
    """A training that a signal stopped; the same call continues it."""

    update: int
    signal: int


def train(
    experiment: Experiment,
    folder: Path,
    prepared: PreparedCorpus,
    checked: CheckedDefinition,
    registry: Registry | None = None,
    watcher: Watcher | None = None,
    translate: Callable[[Model], Translated] | None = None,
    call: TrainingCall | None = None,
) -> FinishedTraining | StoppedTraining:
    """Trains `checked` on `prepared` in a run folder, or continues there exactly where a training stopped.

    `translate` translates validation sentences and scores them; it is called at each validation. Seconds are training time.
    SIGINT and SIGTERM end the call after the last complete update; the next call repeats what they interrupted. Changes of the
    experiment of a run that continues become a new phase: see `calque.train.phases`.

    Raises K2 (the folder holds another run, or no state to continue from, or another training is there), K301 (cannot write),
    X410 (no such device), X210, X211, X224, X301, X441.
    """
    task = TrainingTask(experiment, folder, prepared, checked, registry, watcher, translate, call or TrainingCall())
    with sole_training(folder), processor(experiment.train.threads), Signals() as signals:
        loop = _open(task, signals)
        try:
            result = loop.run()
        finally:
            loop.log.close()
        loop.ranks.send("end")
        return result


def _open(task: TrainingTask, signals: Signals) -> "_Loop":
    """The training of a run folder: a new one, or the one that its last state continues."""
    folder, prepared, call = task.folder, task.prepared, task.call
    device = pick_device(task.experiment.train.device)
    shape = shape_of(task.experiment, prepared)
    names = {**identity(task.experiment, task.checked), "corpus": prepared.digest, "shape": written(shape)}
    checkpoints = Checkpoints(folder, task.experiment.train)
    stored = checkpoints.load_state()
    about = stored[1] if stored else {}
    refuse_another(folder, about, names, task.experiment)
    requested = _with_precision(task.experiment, about, device)
    history = PhaseHistory(folder, about["standing"]["update"] if stored else None)
    experiment = history.settle(requested, call.limits)
    if experiment.train.subword_sampling:
        for codec in prepared.codecs:
            codec.cut_anew([], experiment.train.subword_sampling, 0)  # refuses where words are cut in one way alone
    if stored is None and shape.tying == "three-way":
        _check_shared(prepared.codecs)
    model = _build(experiment, task, shape, device, initial=stored is None)
    parent = about.get("parent")
    origin: Mapping[str, Any] = {}
    if stored is None and experiment.model.parent:
        parent, origin = begin_from(model, prepared.codecs, experiment, call.tell)
    state = TrainingState(model, experiment.train, checkpoints, names, parent, call.tell)
    if stored is not None:
        state.resume(*stored)
    feed = feed_of(replace(task, experiment=experiment))
    state.standing.lay_out(feed.layout)
    checkpoints.open(state.standing.update)
    if (figures := about.get("checkpoint")) is not None:
        state.save_checkpoint(figures)  # a kill after the state was saved may have prevented it
    write_definition(folder, task.checked, prepared.codecs)
    call.ranks.send("begin", experiment, folder.resolve(), {n: t.cpu() for n, t in state.updater.state().items()})
    call.ranks.begin()
    news = history.news(experiment)
    history.begin(experiment)
    with writing(folder):
        log = Log(folder / LOG, experiment.train.tensorboard, state.standing.update if stored else -1)
        history.write(log, news, requested.train, call.tell, {**conditions(device), **origin})
    return _Loop(replace(task, experiment=experiment), requested.train, state, history, log, signals, feed)


def _check_shared(codecs: tuple[Codec, Codec]) -> None:
    """Raises X224 where two vocabularies of one size, whose embeddings would be one matrix, are not the same."""
    source, target = codecs
    if source.size == target.size and (number := difference(source, target)) is not None:
        ((one,), (other,)) = source.tokens([number]), target.tokens([number])
        raise error("X224", None, number=number, source=one, target=other)


def _with_precision(experiment: Experiment, state: Mapping[str, Any], device: torch.device) -> Experiment:
    """The experiment with a precision in place of `auto`: that of the state, else the one that a probe recommends."""
    precision = experiment.train.precision
    if precision == "auto":
        precision = state.get("precision") or probe_precision(device)
    return replace(experiment, train=replace(experiment.train, precision=precision))


def _build(experiment: Experiment, task: TrainingTask, shape: Shape, device: torch.device, initial: bool) -> Model:
    """A model; with `initial`, its weights have the values with which a training begins."""
    how, seed = experiment.model, experiment.train.seed
    torch.manual_seed(seed)
    model = Model(task.checked, shape, task.registry).to(device)
    if initial:
        initialise(model, how.initialisation, how.initial_scale, seed, how.joint_projections)
    return model


class _Loop:
    """Updates and validations until a limit or a signal. `limits` are those of this call, not of the run."""

    def __init__(
        self,
        task: TrainingTask,
        limits: TrainSettings,
        state: TrainingState,
        history: PhaseHistory,
        log: Log,
        signals: Signals,
        feed: Feed,
    ):
        self.feed = feed
        self.task, self.limits, self.state, self.history, self.log = task, limits, state, history, log
        self.settings, self.standing, self.signals = task.experiment.train, state.standing, signals
        self.ranks = task.call.ranks
        self.progress = ProgressReporter(task, limits, state.standing, log)
        self.validator = Validator(task, state, log, signals)
        self.groups: list[Group] = []
        self.planned = -1

    def run(self) -> FinishedTraining | StoppedTraining:
        """Trains until a limit or a signal."""
        standing = self.standing
        self._tell_where_nothing_is_learned()
        while True:
            if self._due():
                if self.settings.max_seconds:  # no state is ahead of what is recorded of the clock
                    self.progress.write()
                self.validator.validate()
            if self.signals.received is not None:
                return self._stop(self.signals.received)
            if (limit := self._limit()) is not None:
                break
            if not self._ready():
                continue
            if self.feed.ended:
                limit = "stream"
                break
            self._update()
        if self.task.call.plan is not None and not limit:  # the next part of a repetition follows
            return self._stop(0)
        self.progress.write()
        if standing.validated != standing.update:
            self.validator.validate()
        if standing.validated == standing.update:
            with contextlib.suppress(Interrupted):
                return finish(self.task, self.state, self.validator, self.history.summary(), limit)
        self._save()
        return StoppedTraining(standing.update, self.signals.received or 0)

    def _tell_where_nothing_is_learned(self) -> None:
        """Tells who continues a training that has ended, or whose rate stays at zero, that nothing more is learned."""
        if not self.standing.update or self.task.call.plan is not None:
            return
        if (limit := self._limit()) is not None:
            self.task.call.tell(f"this training has ended by train.{limit}: nothing is trained in this call")
            return
        with contextlib.suppress(Interrupted):
            if self.settings.schedule == "linear" and self.settings.lr and not self._rate():
                self.task.call.tell(
                    "the learning rate is 0 behind the end of the schedule, and nothing more is learned: a limit of --set does not "
                    "move that end, one in the experiment file does"
                )

    def _stop(self, signal: int) -> StoppedTraining:
        self.progress.write()
        self._save()
        return StoppedTraining(self.standing.update, signal)

    def _save(self) -> None:
        with self.ranks.busy():  # the others wait for a slow disk
            self.state.save()

    def _due(self) -> bool:
        plan, standing = self.task.call.plan, self.standing
        if plan is not None and standing.update <= plan.recorded:
            return plan.due(standing)
        return standing.due(self.settings)

    def _limit(self) -> str | None:
        """What ends this call: a key of [train]; empty at the end of a part that is repeated; None where nothing does, or a signal
        comes while the epoch is planned, which the rate follows from."""
        try:
            return self._reached()
        except Interrupted:
            return None

    def _reached(self) -> str | None:
        s, now, plan = self.limits, self.standing, self.task.call.plan
        if plan is not None and plan.until is not None:
            return plan.limit if now.update >= plan.until else None
        if plan is not None and now.update < plan.recorded:
            return None
        reached = {
            "max_updates": s.max_updates and now.update >= s.max_updates,
            "max_epochs": s.max_epochs and now.epoch >= s.max_epochs,
            "max_seconds": s.max_seconds and now.seconds >= s.max_seconds,
            "patience": s.patience and now.since_best >= s.patience,
            "min_lr": s.min_lr and now.update >= warm_up(self.settings, self._end()) and self._rate() < s.min_lr,
        }
        return next((key for key, hit in reached.items() if hit), None)

    def _ready(self) -> bool:
        """Whether the next update is planned; not where a signal came before."""
        if self.signals.received is not None:
            return False
        try:
            self._plan()
        except Interrupted:
            return False
        return True

    def _plan(self) -> None:
        """Plans the updates of the current epoch, unless that is done or there is none. Raises `Interrupted` after a signal."""
        standing = self.standing
        while (self.planned != standing.epoch or not self.groups) and not self.feed.ended:
            with self.ranks.busy():
                groups = self.feed.updates(standing, self.signals.yielding)
            self.groups, self.planned = groups, standing.epoch
            if not groups and not self.feed.ended:  # every pair has been used, in earlier layouts
                self._end_epoch()

    def _end(self) -> float:
        """The update at which the run's own budget will be spent, as far as its counters show."""
        self._plan()
        now, epoch_updates = self.standing, max(1, len(self.groups))
        if not now.update:
            return first_horizon(self.settings, epoch_updates)
        return horizon(self.settings, now.update, now.epochs(epoch_updates), now.seconds)

    def _rate(self) -> float:
        """The rate of the next update. It follows the run's own limits: a limit of one call does not bend the schedule."""
        now, plan = self.standing, self.task.call.plan
        if plan is not None and (first := plan.rates.get(now.update + 1)) is not None:
            return first
        return rate(self.settings, now.update + 1, now.epoch + 1, now.plateau, self._end())

    def _update(self) -> None:
        """One update, the next of the plan. A signal before the optimiser's step undoes it."""
        began = time.perf_counter()
        state, standing = self.state, self.standing
        self._plan()
        lr = self._rate()
        group = self.groups[standing.group]
        self.ranks.send("update", group, standing.update, lr)
        yielding = self.signals.yielding if self.ranks.alone else contextlib.nullcontext
        try:
            details = group, standing.update, lr, yielding, self.feed.pairs
            sums = shared_update(self.task, state.model, state.updater, *details)
        except Interrupted:
            state.updater.forget()
            return
        self.progress.add(sums, lr)
        standing.skipped = state.updater.skipped
        standing.update += 1
        standing.group += 1
        if standing.group >= len(self.groups):
            self._end_epoch()
        seconds = time.perf_counter() - began
        standing.seconds += seconds
        self.progress.report(seconds, len(self.groups))

    def _end_epoch(self) -> None:
        self.standing.epoch, self.standing.group, self.standing.earlier = self.standing.epoch + 1, 0, []
