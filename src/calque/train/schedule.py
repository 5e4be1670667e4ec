"""The learning rate, as a pure function of where training stands."""

import math
from typing import NamedTuple

from calque.experiment import Train


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


def rate(settings: Train, update: int, epoch: int, plateau: Plateau) -> float:
    """The learning rate of update t (from 1) in epoch e (from 1); w = warmup_updates, warm = min(1, t / w).

    constant      lr warm
    inverse-sqrt  lr min(t / w, sqrt(w / t)), w at least 1 (Vaswani et al. 2017, equation 3, scaled to a peak of lr)
    linear        lr warm up to w, then from lr in a straight line to final_lr at max_updates, and final_lr after it
    plateau       lr warm decay^drops, a drop after every decay_patience validations without a better perplexity
    anneal        the same, but each validation behind the first drop is a drop (Gehring 2017, section 4.3)
    epoch         lr warm decay^max(0, e - decay_from_epoch)
    """
    warmup = settings.warmup_updates
    warm = min(1.0, update / warmup) if warmup else 1.0
    if settings.schedule == "inverse-sqrt":
        peak = max(1, warmup)
        return settings.lr * min(update / peak, math.sqrt(peak / update))
    if settings.schedule == "linear" and update > warmup:
        left = max(0.0, (settings.max_updates - update) / max(1, settings.max_updates - warmup))
        return settings.final_lr + (settings.lr - settings.final_lr) * left
    if settings.schedule in ("plateau", "anneal"):
        return settings.lr * warm * settings.decay**plateau.drops
    if settings.schedule == "epoch":
        return settings.lr * warm * settings.decay ** max(0, epoch - settings.decay_from_epoch)
    return settings.lr * warm
