"""Progress of a training: lines of the log, and events for whoever watches."""

import math
import time
from typing import Any

from calque.experiment import TrainSettings
from calque.run.folder import LOG
from calque.run.tensors import writing
from calque.train.call import TrainingTask
from calque.train.log import Log, LogWindow, Progress, Watcher
from calque.train.standing import TrainingPosition
from calque.train.update import UpdateSums

WATCH_SECONDS = 0.5
"""Minimum seconds between progress events."""


class ProgressReporter:
    """Sums up updates, and writes and reports their means. `limits` are those of this call."""

    def __init__(self, task: TrainingTask, limits: TrainSettings, standing: TrainingPosition, log: Log):
        self.task, self.limits, self.standing, self.log = task, limits, standing, log
        self.window = LogWindow()
        self.lr = self.norm = 0.0
        self.rates: list[float] = []
        """those since the last line"""
        self._started, self._seconds_before = time.monotonic(), standing.seconds
        self._reported = -math.inf

    def add(self, sums: UpdateSums, lr: float) -> None:
        """Counts an update; its seconds follow with `report`."""
        self.window.add(sums)
        self.lr, self.norm = lr, sums.norm
        self.rates.append(lr)

    def report(self, seconds: float, epoch_updates: int) -> None:
        """Adds the seconds of the last update; informs the watcher and writes a line of the log where they are due.

        `epoch_updates`: the updates of an epoch in its present layout.
        """
        self.window.seconds += seconds
        if self.task.watcher is not None and time.monotonic() - self._reported > WATCH_SECONDS:
            self._watch(self.task.watcher, epoch_updates)
        if self.standing.update % self.task.experiment.train.log_every_updates == 0:
            self.write()

    def write(self) -> None:
        """Writes a line of the log about the updates since the last one, if there are any."""
        window, standing = self.window, self.standing
        if not window.target:
            return
        values: dict[str, Any] = {
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
        if self.task.experiment.train.max_seconds:  # no other run has them again
            values["rates"] = self.rates
        with writing(self.task.folder / LOG):
            self.log.write("train", values)
        self.window, self.rates = LogWindow(), []

    def _watch(self, watcher: Watcher, epoch_updates: int) -> None:
        window, standing, s = self.window, self.standing, self.limits
        self._reported = time.monotonic()
        epochs = standing.epochs(epoch_updates)
        spent = [(standing.update, s.max_updates), (epochs, s.max_epochs), (standing.seconds, s.max_seconds)]
        fraction = max((min(1.0, at / limit) for at, limit in spent if limit), default=None)
        eta = None
        if fraction:
            # Validation will take the same share of the time as it has taken so far.
            pace = (self._reported - self._started) / max(1e-9, standing.seconds - self._seconds_before)
            eta = standing.seconds * (1 / fraction - 1) * pace
        loss, speed = float(window.loss) / window.target, window.target / window.seconds
        watcher(Progress(standing.update, standing.latest_epoch, loss, self.lr, speed, fraction, eta))
