"""Training: from an experiment and a prepared corpus to a run folder."""

import contextlib
import math
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from calque.adl.check import CheckedDefinition
from calque.data.batches import collate, plan
from calque.data.corpus import FURTHER, PreparedCorpus
from calque.experiment import Experiment
from calque.ground.diagnostics import Place
from calque.layers.contract import Registry
from calque.model import Model, Shape
from calque.run.folder import LOG, sole_training, write_definition
from calque.run.model_file import load_weights, save_model, weights_of
from calque.run.tensors import writing
from calque.train.call import TrainingCall
from calque.train.checkpoint import Checkpoint, Checkpoints, average, best
from calque.train.initialise import initialise
from calque.train.log import Log, LogWindow, Progress, Translated, Validation, Watcher
from calque.train.loss import batch_loss
from calque.train.optimise import Updater
from calque.train.order import Group, layout, updates
from calque.train.parent import begin_from
from calque.train.phases import PhaseHistory
from calque.train.precision import conditions, pick_device, probe_precision, processor
from calque.train.run_identity import identity, refuse_another, written
from calque.train.schedule import horizon, rate, warm_up
from calque.train.standing import Interrupted, Signals, TrainingPosition, random_states, restore_random_states
from calque.train.update import update

WATCH_SECONDS = 0.5
"""Between two values for the watcher."""


@dataclass(frozen=True)
class FinishedTraining:
    """A training that reached a limit. Perplexity and BLEU are those of the final, averaged model."""

    update: int
    epoch: int
    seconds: float
    perplexity: float
    bleu: float | None
    limit: str
    """The key of [train] that ended it."""
    averaged: tuple[int, ...]
    """Updates of the checkpoints in the mean."""


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

    `translate` translates validation sentences and scores them; it is called at each validation. Seconds are
    training time. SIGINT and SIGTERM end it with the last complete update; what is under way is done anew by the next call.
    What changes in the experiment of a run that continues becomes a new phase of it: see `calque.train.phases`.
    Raises K2 (the folder holds another run, no state to continue from, or another training is there), K301 (cannot write), X410
    (no such device), X210, X211, X301, X441.
    """
    with sole_training(folder), processor(experiment.train.threads), Signals() as signals:
        trainer = _Trainer(
            experiment, folder, prepared, checked, registry, watcher, translate, signals, call or TrainingCall()
        )
        try:
            return trainer.run()
        finally:
            trainer.log.close()


class _Trainer:
    def __init__(
        self,
        experiment: Experiment,
        folder: Path,
        prepared: PreparedCorpus,
        checked: CheckedDefinition,
        registry: Registry | None,
        watcher: Watcher | None,
        translate: Callable[[Model], Translated] | None,
        signals: Signals,
        call: TrainingCall,
    ):
        self.folder, self.data, self.watcher, self.signals = folder, prepared, watcher, signals
        self.translate, self.call = translate, call
        self.device = pick_device(experiment.train.device)
        source, target = (codec.size for codec in prepared.codecs)
        shape = Shape(source, target, experiment.model.tying, experiment.model.output_bias, prepared.gamma)
        self.identity = {**identity(experiment, checked), "corpus": prepared.digest, "shape": written(shape)}
        self.checkpoints = Checkpoints(folder, experiment.train)
        held = self.checkpoints.load_state()
        asked = self._resolve(experiment, held[1] if held else {})
        self.history = PhaseHistory(folder, held[1]["standing"]["update"] if held else None)
        self.experiment = experiment = self.history.settle(asked, call.limits)
        self.settings, self.limits = experiment.train, asked.train
        self.parent: dict[str, Any] | None = held[1].get("parent") if held else None
        torch.manual_seed(self.settings.seed)
        self.model = Model(checked, shape, registry).to(self.device)
        if held is None:
            how = experiment.model
            seed = self.settings.seed
            initialise(self.model, how.initialisation, how.initial_scale, seed, how.joint_projections)
        parent: dict[str, Any] = {}
        if held is None and experiment.model.parent:
            self.parent, parent = begin_from(self.model, prepared.codecs, experiment, call.tell)
        self.updater = Updater(self.model, self.settings, self.settings.precision)
        self.standing = TrainingPosition()
        torch.manual_seed(self.settings.seed)
        if held is not None:
            self._continue(*held)
        self.standing.lay_out(layout(self.settings))
        self.checkpoints.open(self.standing.update)
        if held is not None and (figures := held[1].get("checkpoint")) is not None:
            # Killed after the state was saved and, perhaps, before the checkpoint was.
            self._save_checkpoint(figures)
        write_definition(folder, checked, prepared.codecs)
        news = self.history.news(experiment)
        self.history.begin(experiment)
        with writing(folder):
            self.log = Log(folder / LOG, self.settings.tensorboard, self.standing.update if held else -1)
            self.history.write(self.log, news, self.limits, self.call.tell, {**conditions(self.device), **parent})
        self.window = LogWindow()
        self.groups: list[Group] = []
        self.planned = -1
        self.lr = self.norm = 0.0
        self.started, self.seconds_before, self.update_before = (
            time.monotonic(),
            self.standing.seconds,
            self.standing.update,
        )
        self.watched = -math.inf

    def _resolve(self, experiment: Experiment, state: Mapping[str, Any]) -> Experiment:
        """The experiment without `auto`; raises K201 where the state belongs to another run."""
        refuse_another(self.folder, state, self.identity)
        precision = experiment.train.precision
        if precision == "auto":
            precision = state.get("precision") or probe_precision(self.device)
        return replace(experiment, train=replace(experiment.train, precision=precision))

    def _continue(self, tensors: Mapping[str, Tensor], about: Mapping[str, Any]) -> None:
        kinds = ("weight/", "constant/")
        weights = {key.split("/", 1)[1]: t for key, t in tensors.items() if key.startswith(kinds)}
        load_weights(self.model, weights, Place(str(self.checkpoints.folder)))
        self.updater.load(tensors)
        self.standing = TrainingPosition.from_json(about["standing"])
        self.updater.skipped = self.standing.skipped
        restore_random_states(tensors, self.device)

    def _constants(self) -> dict[str, Tensor]:
        return {n: t for n, t in weights_of(self.model).items() if n not in self.updater.masters}

    def run(self) -> FinishedTraining | StoppedTraining:
        standing = self.standing
        while True:
            if self._due():
                self._validate()
            if self.signals.received is not None:
                self._write_log()
                self._save_state()
                return StoppedTraining(standing.update, self.signals.received)
            if (limit := self._limit()) is not None:
                break
            self._update()
        if self.call.plan is not None and not limit:  # the next part of a repetition follows
            self._write_log()
            self._save_state()
            return StoppedTraining(standing.update, 0)
        if standing.validated != standing.update:
            self._validate()
        if standing.validated == standing.update:
            with contextlib.suppress(Interrupted):
                return self._finish(limit)
        self._save_state()
        return StoppedTraining(standing.update, self.signals.received or 0)

    def _due(self) -> bool:
        plan, standing = self.call.plan, self.standing
        if plan is not None and standing.update <= plan.recorded:
            return plan.due(standing)
        return standing.due(self.settings)

    def _limit(self) -> str | None:
        """What ends this call: a key of [train]; empty at the end of a part that is repeated; None where nothing does."""
        s, now = self.limits, self.standing
        if (plan := self.call.plan) is not None and plan.until is not None:
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

    def _plan(self) -> None:
        """Plans the updates of the epoch under way, where that is not done yet."""
        standing = self.standing
        while self.planned != standing.epoch or not self.groups:
            self.groups = updates(self.data.split("train"), standing.epoch, standing.layout, standing.earlier)
            self.planned = standing.epoch
            if not self.groups:  # other layouts have been through all of it
                self._end_epoch()

    def _end(self) -> float:
        """The update at which the run's own budget will be spent, as far as its counters show."""
        self._plan()
        now = self.standing
        return horizon(self.settings, now.update, now.epochs(len(self.groups)), now.seconds)

    def _rate(self) -> float:
        """The rate of the next update. It follows the run's own limits: a limit of one call does not bend the schedule."""
        now = self.standing
        return rate(self.settings, now.update + 1, now.epoch + 1, now.plateau, self._end())

    def _update(self) -> None:
        """One update, the next of the plan."""
        began = time.perf_counter()
        settings, standing, window = self.settings, self.standing, self.window
        pairs, source_end = self.data.split("train"), self.experiment.data.source_end
        self._plan()
        self.lr = self._rate()
        group = (collate(pairs, rows, source_end) for rows in self.groups[standing.group])
        before = random_states(self.device)
        try:
            done = update(self.model, self.updater, group, settings, self.lr, yielding=self.signals.yielding)
        except Interrupted:
            self.updater.forget()
            restore_random_states(before, self.device)
            return
        self.norm = done.norm
        window.add(done)
        standing.skipped = self.updater.skipped
        standing.update += 1
        standing.group += 1
        if standing.group >= len(self.groups):
            self._end_epoch()
        took = time.perf_counter() - began
        window.seconds += took
        standing.seconds += took
        if self.watcher is not None and time.monotonic() - self.watched > WATCH_SECONDS:
            self._watch(self.watcher)
        if standing.update % settings.log_every_updates == 0:
            self._write_log()

    def _end_epoch(self) -> None:
        self.standing.epoch, self.standing.group, self.standing.earlier = self.standing.epoch + 1, 0, []

    def _write_log(self) -> None:
        window, standing = self.window, self.standing
        if not window.target:
            return
        values = {
            "update": standing.update,
            "epoch": standing.latest_epoch,
            "loss": float(window.loss) / window.target,
            "nll": float(window.nll) / window.target,
            "lr": self.lr,
            "source_tokens_per_second": round(window.source / window.seconds, 1),
            "target_tokens_per_second": round(window.target / window.seconds, 1),
            "seconds": round(standing.seconds, 3),
            "gradient_norm": self.norm,
            "skipped": standing.skipped,
        }
        with writing(self.folder / LOG):
            self.log.write("train", values)
        self.window = LogWindow()

    def _watch(self, watcher: Watcher) -> None:
        window, standing, s = self.window, self.standing, self.limits
        self.watched = time.monotonic()
        epochs = standing.epochs(len(self.groups))
        done = [(standing.update, s.max_updates), (epochs, s.max_epochs), (standing.seconds, s.max_seconds)]
        fraction = max((min(1.0, at / limit) for at, limit in done if limit), default=None)
        eta = None
        if fraction:
            # Validation takes its share of the time to come as it did of the time so far.
            pace = (self.watched - self.started) / max(1e-9, standing.seconds - self.seconds_before)
            eta = standing.seconds * (1 / fraction - 1) * pace
        loss, speed = float(window.loss) / window.target, window.target / window.seconds
        watcher(Progress(standing.update, standing.latest_epoch, loss, self.lr, speed, fraction, eta))

    def _measure(self, split: str = "valid") -> float:
        """Perplexity on the pairs of a validation text, end symbols included."""
        settings, pairs = self.settings, self.data.split(split)
        self.model.eval()
        nll, tokens = torch.zeros((), dtype=torch.float64, device=self.device), 0
        with torch.no_grad():
            for rows in plan(pairs, settings.batch_tokens, settings.batch_sentences, 0, 0):
                batch = collate(pairs, rows, self.experiment.data.source_end)
                nll += batch_loss(self.model, batch, 0.0)[1]
                tokens += batch.target_tokens
        return perplexity(float(nll), tokens)

    def _translate(self) -> Translated:
        if self.translate is None:
            return Translated(None, ())
        with torch.no_grad():
            return self.translate(self.model.eval())

    def _validate(self) -> None:
        """Measures, saves the state and a checkpoint, tells; nothing where a signal came in between."""
        standing = self.standing
        began = time.perf_counter()
        try:
            with self.signals.yielding():
                found, translated = self._measure(), self._translate()
                others = {name: self._measure(FURTHER + name) for name in self.data.further}
        except Interrupted:
            return
        best = standing.note(found, self.settings)
        figures = {"epoch": standing.latest_epoch, "bleu": translated.bleu, "seconds": round(standing.seconds, 3)}
        values = {"update": standing.update, "perplexity": found, "nll": math.log(found), **figures, "best": best}
        with writing(self.folder / LOG):
            self.log.write("valid", {**values, "validation_seconds": round(time.perf_counter() - began, 3)})
            self.log.write_samples(standing.update, translated.samples)
            for name, other in others.items():
                told = {"perplexity": other, "nll": math.log(other), "epoch": figures["epoch"]}
                self.log.write("valid", {"set": name, "update": standing.update, **told, "seconds": figures["seconds"]})
        # The state first, with all that makes the checkpoint: whoever is killed in between finds it made by the next call.
        figures["perplexity"] = found if math.isfinite(found) else None
        self._save_state(figures)
        self._save_checkpoint(figures)
        if self.watcher is not None:
            self.watcher(Validation(standing.update, found, translated.bleu, best, translated.samples))

    def _save_checkpoint(self, figures: Mapping[str, Any]) -> None:
        weights = {**self.updater.masters, **self._constants()}
        self.checkpoints.save(weights, self.standing.update, figures)

    def _save_state(self, checkpoint: Mapping[str, Any] | None = None) -> None:
        """Saves what an exact continuation needs, and the figures of a checkpoint that is about to be saved."""
        constants = {f"constant/{n}": t for n, t in self._constants().items()}
        tensors = {**self.updater.state(), **constants, **random_states(self.device)}
        about = {
            "identity": self.identity,
            "precision": self.settings.precision,
            "standing": self.standing.to_json(),
            "checkpoint": checkpoint,
            **({"parent": self.parent} if self.parent else {}),
        }
        self.checkpoints.save_state(tensors, self.standing.update, about)

    def _mean(self, chosen: Sequence[Checkpoint]) -> tuple[dict[str, Tensor], float]:
        """The mean of checkpoints, now in the model, and its validation perplexity."""
        weights = average([self.checkpoints.path(c.update) for c in chosen])
        load_weights(self.model, weights, Place(str(self.checkpoints.folder)))
        return weights, self._measure()

    def _finish(self, limit: str) -> FinishedTraining:
        """Averages checkpoints, measures the mean and writes it as the model of the run; a signal raises `Interrupted`."""
        standing = self.standing
        self._write_log()
        with self.signals.yielding():
            chosen = self.checkpoints.averaged()
            weights, found = self._mean(chosen)
            # Checkpoints that lie far apart, as in a short training, may have a mean that is worse than one of them.
            single = best(chosen, 1)
            if len(chosen) > 1 and found > single[0].perplexity:
                chosen = single
                weights, found = self._mean(chosen)
            score = self._translate().bleu
        averaged = tuple(sorted(c.update for c in chosen))
        done = FinishedTraining(standing.update, standing.epoch, standing.seconds, found, score, limit, averaged)
        figures = {**asdict(done), "skipped": standing.skipped, "parameters": sum(t.numel() for t in weights.values())}
        if not math.isfinite(done.perplexity):
            figures["perplexity"] = None
        origin: dict[str, Any] = {"phases": self.history.summary(), **({"parent": self.parent} if self.parent else {})}
        save_model(self.folder, self.model, weights, self.experiment, self.data.digest, figures, origin)
        return done


def perplexity(nll: float, tokens: int) -> float:
    """exp(nll / tokens); infinite where that is no number."""
    mean = nll / max(1, tokens)
    return math.exp(mean) if mean < 700 else math.inf
