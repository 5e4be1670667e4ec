"""Recipes, by name or as files of the user's, and how each follows a budget.

A recipe is the sections of an experiment, without text and definition. A file may have a section [settings] too: settings of the
rows, such as `p = 0.3`.
"""

import contextlib
import hashlib
import math
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from importlib import resources
from importlib.resources.abc import Traversable
from pathlib import Path

from calque.experiment import DataSettings, Experiment, TrainSettings, load
from calque.experiment.toml import KeyEntry, literal, parse
from calque.ground.diagnostics import CalqueError, Diagnostic, Place, Span, Text, error, read_text
from calque.ground.files import write_whole

SETTINGS = "settings"
"""The section of a recipe file with settings of the rows."""
COPY = "recipe.toml"
"""In an output folder: the recipe of its cells, where it is a file of the user's."""
FILE_NAME = re.compile(r"[a-z0-9]+([-_.][a-z0-9]+)*\.toml")
"""Names of recipe files: they become part of the names of cells."""

WARMUP_SHARE, CHECKPOINTS = 10, 20
"""Of a budget in updates: warm-up is a tenth of it, a checkpoint comes after each twentieth."""
WARMUP_PER_MINUTE, CHECK_PER_MINUTE = 30, 10
"""Of a budget in minutes: updates of warm-up, and updates between checkpoints, for each minute."""


@dataclass(frozen=True)
class Budget:
    """What a cell may take: minutes of training time, updates, or epochs; none of them: as much as the recipe says.

    With `patience` it ends earlier, after so many epochs in a row without a better validation perplexity.
    """

    minutes: float | None = None
    updates: int | None = None
    epochs: int | None = None
    patience: int | None = None

    @property
    def words(self) -> str:
        """The budget in words; empty where it sets no limit."""
        words = [f"{self.minutes:g} minutes"] if self.minutes is not None else []
        words += [f"{self.updates:,} updates"] if self.updates is not None else []
        words += [f"{self.epochs:,} epoch{'s' * (self.epochs > 1)}"] if self.epochs is not None else []
        words += [f"{self.patience} epochs without a better perplexity"] if self.patience is not None else []
        return " or ".join(words)


def names() -> list[str]:
    """Every recipe, sorted."""
    return sorted(f.name.removesuffix(".toml") for f in _folder().iterdir() if f.name.endswith(".toml"))


def recipe_text(recipe: str) -> Text:
    """The TOML of a recipe, a name or FILE.toml. Raises X101 and X102 for a file that cannot be read."""
    if recipe in names():
        return Text(recipe, _folder().joinpath(f"{recipe}.toml").read_text(encoding="utf-8"))
    return read_text(recipe, "X101", "X102")


def row_settings(recipe: str) -> tuple[str, ...]:
    """The settings of the rows that a recipe has, each NAME=VALUE. Raises what is wrong with its TOML."""
    entries = [entry for entry in _entries(recipe) if entry.section == SETTINGS and entry.key is not None]
    return tuple(f"{entry.key}={entry.value}" for entry in entries)


def _entries(recipe: str) -> list[KeyEntry]:
    """The keys of a recipe. Raises what is wrong with its TOML."""
    text = recipe_text(recipe)
    return parse(Text(text.name, text.body.replace("\r\n", "\n")))


def digest(recipe: str) -> str:
    """Twelve digits that name the text of a file of the user's; empty for a recipe of Calque."""
    return "" if recipe in names() else hashlib.sha256(recipe_text(recipe).body.encode()).hexdigest()[:12]


def record(recipe: str, out: Path) -> None:
    """Copies a file of the user's into an output folder, so that later calls need no other."""
    if recipe not in names():
        write_whole(out / COPY, recipe_text(recipe).body.encode())


def adapted(train: TrainSettings, budget: Budget) -> Mapping[str, int | float]:
    """The keys of [train] that a budget changes, with their values.

    N epochs: max_epochs = N. A budget in epochs, or a patience, has a checkpoint at the end of each epoch and no others, so that
    patience counts epochs. How many updates an epoch has is not known before, so warm-up in updates stays.

    N updates: max_updates = N, warm-up at most N/10, checkpoints at least every N/20. M minutes: max_seconds = 60 M,
    warm-up at most 30 M updates, checkpoints at least every 10 M updates, since how many updates there will be is not
    known before. Both are rounded up. Where checkpoints come by time, it is at most 3 M seconds, and N/20 updates are set
    beside it. Peak rates, decays, checkpoints by epochs, and patience, which counts checkpoints, stay as they are; a linear
    schedule falls to the end of the budget, minutes included.
    """
    if budget.patience is not None:
        rest = adapted(train, Budget(budget.minutes, budget.updates, budget.epochs))
        return {**rest, **_BY_EPOCH, "patience": budget.patience}
    if budget.epochs is not None:
        return {"max_epochs": budget.epochs, **_BY_EPOCH}
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
    """A recipe, by name or FILE.toml, under a budget, for a definition on a corpus.

    `overrides`, `section.key=value`, have the last word.

    Raises X704 where neither the budget nor the recipe nor `overrides` names an end, X859 where the recipe or `overrides` name a
    text or a definition, and what `experiment.load` raises.
    """
    given = [
        f"data.{key}={literal(value)}" for key, value in vars(data).items() if value != getattr(DataSettings(), key)
    ]
    given.append(f"model.text={literal(text)}")
    _refuse_text(recipe, overrides)
    with _file(recipe) as file:
        # An end for this reading alone: what the budget changes is not known before.
        train = load(file, [*given, "train.max_updates=1"], besides=(SETTINGS,)).train
        changed = {**adapted(train, budget), "seed": seed}
        written = [f"train.{key}={literal(value)}" for key, value in changed.items()]
        try:
            return load(file, [*given, *written, *overrides], besides=(SETTINGS,))
        except CalqueError as fault:
            if [d.code for d in fault.diagnostics] != ["X206"]:
                raise
            raise error("X704", None, name=recipe) from None


def _refuse_text(recipe: str, overrides: Sequence[str]) -> None:
    """Raises X859 for keys that name what a cell has from its corpus and its row."""
    given: list[tuple[str, Span | Place]] = [(f"{one.section}.{one.key}", one.key_at) for one in _entries(recipe)]
    for text in (Text("--set", one) for one in overrides):
        key = text.body.partition("=")[0]
        given.append((key.strip(), Span(text, 0, len(key))))
    if faults := [Diagnostic("X859", where, {"key": key}) for key, where in given if key in _OF_A_CELL]:
        raise CalqueError(faults)


def settings_text(made: Experiment) -> str:
    """The keys in which an experiment differs from the defaults, paths and definition left out, on one line."""
    plain, keys = Experiment(), []
    for section in ("data", "model", "train", "decode"):
        for key, value in vars(getattr(made, section)).items():
            own = key in ("seed", "text", "file", "plugins", "parent") or f"{section}.{key}" in _PATHS
            if not own and value != getattr(getattr(plain, section), key):
                keys.append(f"{section}.{key}={literal(value)}")
    return " ".join(keys)


_TEXTS = {"data.train", "data.valid", "data.test"}
_PATHS = {*_TEXTS, "data.codes"}
_OF_A_CELL = {*_TEXTS, "data.stream", "model.text", "model.file"}
"""Keys that no recipe has: the corpus and the rows give them."""
_BY_EPOCH: Mapping[str, int | float] = {
    "validate_every_epochs": 1,
    "validate_every_updates": 0,
    "validate_every_seconds": 0.0,
}


@contextlib.contextmanager
def _file(recipe: str) -> Iterator[Path]:
    """The file of a recipe."""
    if recipe not in names():
        yield Path(recipe)
        return
    with resources.as_file(_folder()) as folder:
        yield Path(folder) / f"{recipe}.toml"


def _folder() -> Traversable:
    return resources.files("calque.papers").joinpath("recipes")
