"""Recipes by name, and how each follows a budget."""

import math
from collections.abc import Mapping
from dataclasses import dataclass
from importlib import resources
from importlib.resources.abc import Traversable
from pathlib import Path

from calque.experiment import DataSettings, Experiment, TrainSettings, load
from calque.experiment.toml import literal
from calque.ground.diagnostics import CalqueError, error

WARMUP_SHARE, CHECKPOINTS = 10, 20
"""Of a budget in updates: warm-up is a tenth of it, a checkpoint comes after each twentieth."""
WARMUP_PER_MINUTE, CHECK_PER_MINUTE = 30, 10
"""Of a budget in minutes: updates of warm-up, and updates between checkpoints, for each minute."""


@dataclass(frozen=True)
class Budget:
    """What a cell may take: minutes of training time, or updates; neither: as much as the recipe says."""

    minutes: float | None = None
    updates: int | None = None


def names() -> list[str]:
    """Every recipe, sorted."""
    return sorted(f.name.removesuffix(".toml") for f in _folder().iterdir() if f.name.endswith(".toml"))


def adapted(train: TrainSettings, budget: Budget) -> Mapping[str, int | float]:
    """The keys of [train] that a budget changes, with their values.

    N updates: max_updates = N, warm-up at most N/10, checkpoints at least every N/20. M minutes: max_seconds = 60 M,
    warm-up at most 30 M updates, checkpoints at least every 10 M updates, since how many updates there will be is not
    known before. Both are rounded up. Where checkpoints come by time, it is at most 3 M seconds, and N/20 updates are set
    beside it. Peak rates, decays, checkpoints by epochs, and patience, which counts checkpoints, stay as they are; a linear
    schedule falls to the end of the budget, minutes included.
    """
    if budget.updates is not None:
        limit: dict[str, int | float] = {"max_updates": budget.updates}
        warmup, every = budget.updates / WARMUP_SHARE, budget.updates / CHECKPOINTS
    elif budget.minutes is not None:
        limit = {"max_seconds": 60.0 * budget.minutes}
        warmup, every = WARMUP_PER_MINUTE * budget.minutes, CHECK_PER_MINUTE * budget.minutes
    else:
        return {}
    changed = {**limit, "warmup_updates": min(train.warmup_updates, math.ceil(warmup))}
    often = max(1, math.ceil(every))
    if train.validate_every_updates:
        changed["validate_every_updates"] = min(train.validate_every_updates, often)
    elif train.validate_every_seconds and budget.minutes is not None:
        changed["validate_every_seconds"] = min(train.validate_every_seconds, 60 * budget.minutes / CHECKPOINTS)
    elif train.validate_every_seconds:
        changed["validate_every_updates"] = often
    return changed


def experiment(
    recipe: str, budget: Budget, data: DataSettings, text: str, seed: int, overrides: tuple[str, ...] = ()
) -> Experiment:
    """A recipe under a budget, for a definition on a corpus; `overrides`, `section.key=value`, have the last word.

    Raises X704 where neither the budget nor the recipe nor `overrides` names an end, and what `experiment.load` raises.
    """
    given = [
        f"data.{key}={literal(value)}" for key, value in vars(data).items() if value != getattr(DataSettings(), key)
    ]
    given.append(f"model.text={literal(text)}")
    with resources.as_file(_folder()) as folder:
        file = Path(folder) / f"{recipe}.toml"
        # An end for this reading alone: what the budget changes is not known before.
        train = load(file, [*given, "train.max_updates=1"]).train
        changed = {**adapted(train, budget), "seed": seed}
        written = [f"train.{key}={literal(value)}" for key, value in changed.items()]
        try:
            return load(file, [*given, *written, *overrides])
        except CalqueError as fault:
            if [d.code for d in fault.diagnostics] != ["X206"]:
                raise
            raise error("X704", None, name=recipe) from None


def settings_text(made: Experiment) -> str:
    """The keys in which an experiment differs from the defaults, paths and definition left out, on one line."""
    plain, keys = Experiment(), []
    for section in ("data", "model", "train", "decode"):
        for key, value in vars(getattr(made, section)).items():
            own = key in ("seed", "text", "file", "plugins", "parent") or f"{section}.{key}" in _PATHS
            if not own and value != getattr(getattr(plain, section), key):
                keys.append(f"{section}.{key}={literal(value)}")
    return " ".join(keys)


_PATHS = {"data.train", "data.valid", "data.test", "data.codes"}


def _folder() -> Traversable:
    return resources.files("calque.papers").joinpath("recipes")
