"""The learning rate, as a pure function of where training stands."""

import math
from typing import NamedTuple

from calque.experiment import TrainSettings

EARLY = 0.05
"""The share of a limit that must be used before the pace so far says when it will be reached."""
FIRST_SECONDS = 0.1
"""What the first update is taken to last for: nothing has shown the pace before it."""


class Plateau(NamedTuple):
    """What the plateau schedule remembers: the best perplexity, validations since then or since a drop, drops."""

    best: float = math.inf
    since: int = 0
    drops: int = 0

    def after(self, perplexity: float, patience: int, anneal: bool = False) -> "Plateau":
        """The memory after a validation; with `anneal` each one behind the first drop is a drop."""
        if anneal and self.drops:
            return Plateau(min(perplexity, self.best), 0, self.drops + 1)
        if perplexity < self.best:
            return Plateau(perplexity, 0, self.drops)
        if self.since + 1 < patience:
            return self._replace(since=self.since + 1)
        return Plateau(self.best, 0, self.drops + 1)


def horizon(settings: TrainSettings, update: int, epochs: float, seconds: float) -> float:
    """The update at which the budget will be spent: the smallest of the three estimates below; infinity where there is none.

    max_updates   max_updates itself, exactly
    max_epochs    update max_epochs / epochs, where `update` updates took `epochs` passes over the text
    max_seconds   update max_seconds / seconds, where they took `seconds` of training

    The rate falls towards this update. So a training that `max_updates` ends has the same rates on every machine, and one that is
    too slow for it falls in the time that it has. The estimates follow the pace and are exact when the budget is spent. Beside
    another limit, one of which less than `EARLY` is used is not counted yet: first updates are slower than those that follow.
    """
    estimates = [float(settings.max_updates)] if settings.max_updates else []
    for limit, used in ((settings.max_epochs, epochs), (settings.max_seconds, seconds)):
        if limit and used > 0 and (not estimates or used >= EARLY * limit):
            estimates.append(update * limit / used)
    return min(estimates, default=math.inf)


def first_horizon(settings: TrainSettings, epoch_updates: int) -> float:
    """The same before the first update, at the pace of an epoch of so many updates, each of `FIRST_SECONDS`."""
    return horizon(settings, 1, 1 / epoch_updates, FIRST_SECONDS)


def warm_up(settings: TrainSettings, end: float) -> float:
    """The updates over which the rate rises, in a training that ends at update `end`."""
    return settings.warmup_share * end if settings.warmup_share else settings.warmup_updates


def rate(settings: TrainSettings, update: int, epoch: int, plateau: Plateau, end: float | None = None) -> float:
    """The learning rate of update t (from 1) in epoch e (from 1) of a training that ends at update T, `end`.

    T is `max_updates`, infinity where that is 0, unless `horizon` gave another. w = warmup_updates, or warmup_share T where that is
    set; warm = min(1, t / w).

    constant      lr warm
    inverse-sqrt  lr min(t / w, sqrt(w / t)), w at least 1 (Vaswani et al. 2017, equation 3, scaled to a peak of lr)
    linear        lr warm up to w, then from lr in a straight line to final_lr at T, and final_lr after it
    plateau       lr warm decay^drops, a drop after every decay_patience validations without a better perplexity
    anneal        the same, but each validation behind the first drop is a drop (Gehring 2017, section 4.3)
    epoch         lr warm decay^max(0, e - decay_from_epoch)
    """
    if end is None:
        end = settings.max_updates or math.inf
    warmup = warm_up(settings, end)
    warm = min(1.0, update / warmup) if warmup else 1.0
    if settings.schedule == "inverse-sqrt":
        peak = max(1, warmup)
        return settings.lr * min(update / peak, math.sqrt(peak / update))
    if settings.schedule == "linear" and update > warmup:
        left = max(0.0, (end - update) / max(1, end - warmup)) if end < math.inf else 1.0
        return settings.final_lr + (settings.lr - settings.final_lr) * left
    if settings.schedule in ("plateau", "anneal"):
        return settings.lr * warm * settings.decay**plateau.drops
    if settings.schedule == "epoch":
        return settings.lr * warm * settings.decay ** max(0, epoch - settings.decay_from_epoch)
    return settings.lr * warm
