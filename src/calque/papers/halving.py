"""A recipe that is found: settings tried on validation perplexity by successive halving (Jamieson and Talwalkar 2016).

Rung k trains each setting that is left with eta^k times the budget, and keeps the best 1/eta of them. Every trial is a whole
training with a schedule of its own: a rate that has fallen to zero cannot be continued (docs/decisions/0036).
"""

import math
import shlex
import shutil
import traceback
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from pathlib import Path
from typing import cast

from calque.adl.check import CheckedDefinition
from calque.experiment import Experiment
from calque.ground.diagnostics import CalqueError, Text, error, render_all
from calque.ground.files import only
from calque.ground.json_lines import json_lines
from calque.ledger.entry import conditions
from calque.papers.cells import begin, train_run, updates_per_epoch, validations
from calque.papers.output import OutputFolder
from calque.papers.plan import checked_row
from calque.papers.recipes import Budget, settings_text
from calque.papers.request import LOCKS, RUNS, TUNE
from calque.papers.trials import JOURNAL, Journal, SettingGrid, TrialRecord, TrialSetting, about, loss_of, setting_of
from calque.run.folder import CHECKPOINTS
from calque.run.tensors import writing
from calque.train.log import Watcher
from calque.train.loop import FinishedTraining, StoppedTraining

DIVERGED = "diverged"
"""Why a training whose validation perplexity is not finite has none."""
DROPOUTS = ("p", "drop")
"""The settings that rows call their dropout."""
DEFAULT_DROPOUT = (0.1, 0.3)
CHOSEN = {
    *("train.lr", "train.warmup_share", "train.warmup_updates", "train.schedule", "train.final_lr", "train.min_lr"),
    *("train.max_updates", "train.max_epochs", "train.max_seconds"),
}
"""Keys that a tuning chooses itself."""
SEED = 1
"""Of every trial; `--set train.seed=N` chooses another."""
TRIAL = "trial.json"
"""In the run folder of a trial that a job trains: its record, until the tuning takes it into the journal."""
_NOT_OF_A_TRIAL = {"K203", "K301"}
"""Faults that say nothing about a setting: another process trains there, the disk is full."""


@dataclass(frozen=True)
class TrialRun:
    """A setting with the budget of a rung, ready to be trained."""

    rung: int
    setting: TrialSetting
    budget: Budget
    checked: CheckedDefinition
    settings: tuple[str, ...]
    experiment: Experiment

    def __str__(self) -> str:
        return f"rung {self.rung}, {self.setting}, {self.budget.words}"


@dataclass(frozen=True)
class Tuning:
    """Successive halving over a grid for one row. `folder` asks for the budget of the first rung."""

    folder: OutputFolder
    row: str
    grid: SettingGrid
    eta: int
    rungs: int
    ranks: list[list[TrialRecord]] = field(default_factory=list)
    """The trials of each rung so far, the best first."""
    ahead: "Ahead | None" = None
    """Trains the trials of a rung that the journal lacks, side by side, before they are read from it one by one."""

    def run(self) -> StoppedTraining | None:
        """Trains what the journal lacks, rung by rung, until one setting is left or the last rung is done.

        Returns the training that a signal stopped; the same call resumes it. A trial that fails or diverges loses. Raises what
        `begin` raises, what is wrong with a setting, K203 and K301.
        """
        folder = self.folder
        begin(folder, [folder.table.row(self.row)])
        self.ranks.clear()
        with writing(folder.out):
            (folder.out / LOCKS).mkdir(exist_ok=True)
        with only(folder.out / LOCKS / TUNE, folder.tell):
            self.journal.add()  # a journal that cannot be written is reported before the work
            left = self.grid.settings
            for rung in range(self.rungs):
                trials = [self.trial(rung, setting) for setting in left]
                if (stopped := self._rung(trials)) is not None:
                    return stopped
                left = [setting_of(one) for one in self._kept(self.ranks[-1])]
                if len(left) < 2:
                    break
        return None

    @property
    def winner(self) -> TrialRecord | None:
        """The best trial of the last rung; None where no trial of it learned anything."""
        best = self.ranks[-1][0] if self.ranks else None
        return None if best is None or best["perplexity"] is None else best

    @property
    def journal(self) -> Journal:
        """The journal of the output folder."""
        return Journal(self.folder.out / JOURNAL)

    @cached_property
    def dropout(self) -> str | None:
        """The setting that the row calls its dropout; None where it has none."""
        row = self.folder.table.row(self.row)
        text, library = Text(row.name, row.at(self.folder.request.pair)), self.folder.texts.library
        return next((name for name in DROPOUTS if name in checked_row(text, {name: f"{name}=0.1"}, library)[1]), None)

    def budget(self, rung: int) -> Budget:
        """eta^k times that of the first rung."""
        first, times = self.folder.request.limits, self.eta**rung
        return Budget(
            updates=first.updates and first.updates * times,
            epochs=first.epochs and first.epochs * times,
        )

    def row_settings(self, setting: TrialSetting) -> tuple[str, ...]:
        """What a trial sets in the row's text."""
        return () if setting.dropout is None else (f"{self.dropout}={setting.dropout!r}",)

    @property
    def command(self) -> str:
        """The command that tunes, without folders."""
        words = shlex.split(self.folder.request.command_to(TUNE))
        words.insert(words.index("--corpus"), self.row)
        for name, values in (
            ("lr", self.grid.lr),
            ("warmup-share", self.grid.warmup_share),
            ("dropout", self.grid.dropout),
        ):
            words += [word for value in values for word in (f"--{name}", f"{value:g}")]
        return shlex.join([*words, "--eta", str(self.eta), "--rungs", str(self.rungs)])

    def _kept(self, ranked: Sequence[TrialRecord]) -> list[TrialRecord]:
        """The best 1/eta, rounded up, of those that have a perplexity."""
        return [one for one in ranked[: math.ceil(len(ranked) / self.eta)] if one["perplexity"] is not None]

    def trial(self, rung: int, setting: TrialSetting) -> TrialRun:
        """A setting in a rung, the first of which is 0. Raises what is wrong with its definition and its experiment."""
        budget = self.budget(rung)
        checked, settings = self.folder.definition(self.row, self.row_settings(setting))
        # Limits of the recipe itself would end some trials before their budget, and bend their schedules.
        limits = (
            f"train.max_updates={budget.updates or 0}",
            f"train.max_epochs={budget.epochs or 0}",
            "train.max_seconds=0.0",
        )
        experiment = self.folder.experiment(checked.text, SEED, budget, (*setting.keys, *limits))
        return TrialRun(rung + 1, setting, budget, checked, tuple(settings.values()), experiment)

    def _rung(self, trials: Sequence[TrialRun]) -> StoppedTraining | None:
        """Trains the trials of a rung, and ranks them."""
        tell = self.folder.tell
        records: list[TrialRecord] = []
        if self.ahead is not None and (stopped := self.ahead(self, trials)) is not None:
            return stopped
        for k, trial in enumerate(trials, 1):
            where = f"[{k}/{len(trials)}] {trial}"
            name = self.hash(trial)
            if (record := self.journal.record(name) or self._collected(trial)) is None:
                tell(where)
                outcome = self.train(trial)
                if isinstance(outcome, StoppedTraining):
                    tell(f"stopped after update {outcome.update} of {trial}; the same call resumes it")
                    return outcome
                self.journal.add(record := outcome)
            # Nothing reads them again: the next rung begins anew.
            shutil.rmtree(self.run_folder(trial) / CHECKPOINTS, ignore_errors=True)
            tell(f"{where}: {outcome_of(record)}")
            records.append(record)
        self.ranks.append(sorted(records, key=loss_of))
        return None

    def hash(self, trial: TrialRun) -> str:
        """A hash of everything that the perplexity of a trial depends on."""
        return about(trial.experiment, self.folder.prepared.digest)

    def run_folder(self, trial: TrialRun) -> Path:
        """The run folder of a trial."""
        return (
            self.folder.out
            / RUNS
            / self.row
            / trial.setting.name
            / trial.budget.words.replace(" ", "-").replace(",", "")
        )

    def left(self, trial: TrialRun) -> TrialRecord | None:
        """The record that a job has left."""
        keys, name = TrialRecord.__required_keys__, self.hash(trial)
        lines = json_lines(self.run_folder(trial) / TRIAL)
        return next((cast("TrialRecord", one) for one in lines if keys <= one.keys() and one["about"] == name), None)

    def _collected(self, trial: TrialRun) -> TrialRecord | None:
        """Takes the record that a job has left into the journal."""
        if (record := self.left(trial)) is not None:
            record = {**record, "command": self.command}
            self.journal.add(record)
            (self.run_folder(trial) / TRIAL).unlink(missing_ok=True)
        return record

    def train(self, trial: TrialRun, *watchers: Watcher) -> TrialRecord | StoppedTraining:
        """Trains a trial as a cell is trained; whatever it raises, the others are worth trying."""
        run, folder, name = self.run_folder(trial), self.folder, self.hash(trial)
        if not (run / CHECKPOINTS).is_dir():  # of a trial whose line of the journal is lost
            shutil.rmtree(run, ignore_errors=True)
        try:
            done = train_run(folder, trial.experiment, run, str(trial), *watchers)
        except CalqueError as fault:
            if {d.code for d in fault.diagnostics} & _NOT_OF_A_TRIAL:
                raise
            return self._record(trial, name, None, render_all(fault.diagnostics).split("\n")[0])
        except Exception as fault:
            folder.tell(traceback.format_exc())
            return self._record(trial, name, None, f"{type(fault).__name__}: {fault}")
        if isinstance(done, StoppedTraining):
            return done
        return self._record(trial, name, done, DIVERGED if done.diverged else "")

    def _record(self, trial: TrialRun, name: str, done: FinishedTraining | None, failure: str) -> TrialRecord:
        """The line of a trial in the journal."""
        folder, train, setting = self.folder, trial.experiment.train, trial.setting
        here, update = conditions(train.precision), done.update if done else 0
        return {
            "about": name,
            "row": self.row,
            "rung": trial.rung,
            "lr": setting.lr,
            "warmup_share": setting.warmup_share,
            "dropout": setting.dropout,
            "budget": trial.budget.words,
            "perplexity": None if failure or done is None else round(done.perplexity, 4),
            "failure": failure,
            "updates": update,
            "epochs": round(update / updates_per_epoch(folder.prepared, train), 2),
            "seconds": round(done.seconds, 1) if done else 0.0,
            "keys": settings_text(trial.experiment),
            "settings": " ".join(trial.settings) or "as in the text",
            "architecture": trial.checked.hash,
            "parameters": folder.size(trial.checked),
            "corpus": folder.corpus.title,
            "data": folder.prepared.digest[:12],
            "validations": validations(self.run_folder(trial), folder.prepared, train),
            "command": self.command,
            "conditions": {**here, "threads": train.threads or here["threads"]},
        }


Ahead = Callable[[Tuning, Sequence[TrialRun]], StoppedTraining | None]


def tuning_of(
    folder: OutputFolder, row: str, grid: SettingGrid, eta: int, rungs: int, ahead: Ahead | None = None
) -> Tuning:
    """A tuning whose grid fits the row: without dropouts of its own it has `DEFAULT_DROPOUT`, unless the row or the request says
    which. Raises X856 for a dropout of a row that has none, and for a key that the tuning chooses itself."""
    tuning = Tuning(folder, row, grid, eta, rungs, ahead=ahead)
    names = {one.partition("=")[0].strip() for one in folder.request.overrides}
    if chosen := sorted(names & CHOSEN):
        raise error("X856", None, name=chosen[0], row=row)
    if grid.dropout and tuning.dropout is None:
        raise error("X856", None, name="--dropout", row=row)
    if not grid.dropout and tuning.dropout is not None and tuning.dropout not in folder.request.given:
        return replace(tuning, grid=replace(grid, dropout=DEFAULT_DROPOUT))
    return tuning


def outcome_of(record: TrialRecord) -> str:
    """What a trial gave, in words."""
    return record["failure"] or f"validation perplexity {record['perplexity']:.3f}, {record['seconds']:,.0f} s"
