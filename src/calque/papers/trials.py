"""The trials of a tuning: the settings of a grid, and the journal of what each gave."""

import dataclasses
import hashlib
import itertools
import json
import math
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TypedDict, cast

from calque.experiment import Experiment, digest
from calque.ground.files import write_whole
from calque.ground.json_lines import json_lines
from calque.run.tensors import writing

JOURNAL = "tune.jsonl"
"""The finished trials, in the output folder of a tuning."""


@dataclass(frozen=True)
class TrialSetting:
    """What a trial tries: the peak of the rate, the share of the budget over which it rises, and the dropout of the row.

    Without a dropout the row keeps its own.
    """

    lr: float
    warmup_share: float
    dropout: float | None

    def __str__(self) -> str:
        dropout = "" if self.dropout is None else f", dropout {self.dropout:g}"
        return f"lr {self.lr:g}, warm-up {self.warmup_share:g}{dropout}"

    @property
    def name(self) -> str:
        """The name of its folder."""
        return re.sub(r",? ", "-", str(self))

    @property
    def keys(self) -> tuple[str, ...]:
        """The keys of its experiment, SECTION.KEY=VALUE: the rate falls in a straight line to zero at the end of the budget."""
        tried = (f"train.lr={self.lr!r}", f"train.warmup_share={self.warmup_share!r}")
        return (*tried, "train.warmup_updates=0", 'train.schedule="linear"', "train.final_lr=0.0", "train.min_lr=0.0")


@dataclass(frozen=True)
class SettingGrid:
    """The values to try; without dropouts the row keeps its own."""

    lr: tuple[float, ...]
    warmup_share: tuple[float, ...]
    dropout: tuple[float, ...] = ()

    @property
    def settings(self) -> list[TrialSetting]:
        """Every combination, once."""
        product = itertools.product(self.lr, self.warmup_share, self.dropout or (None,))
        return [TrialSetting(*one) for one in dict.fromkeys(product)]

    def edges(self, setting: TrialSetting) -> list[str]:
        """The values beyond which the grid tries nothing, in words: of keys with three values or more; 0 is no edge."""
        words = []
        for name, values in (("lr", self.lr), ("warmup-share", self.warmup_share), ("dropout", self.dropout)):
            chosen = getattr(setting, name.replace("-", "_"))
            if len(set(values)) > 2 and chosen and chosen in (min(values), max(values)):
                words.append(f"--{name} {chosen:g} is the {'lowest' if chosen == min(values) else 'highest'} tried")
        return words


class TrialRecord(TypedDict):
    """A finished trial, a line of the journal. `about` is a hash of everything that its perplexity depends on."""

    about: str
    row: str
    rung: int
    lr: float
    warmup_share: float
    dropout: float | None
    budget: str
    perplexity: float | None
    """On the validation set; None where it failed or diverged."""
    failure: str
    """Why there is no perplexity."""
    updates: int
    epochs: float
    seconds: float
    keys: str
    """The keys in which its experiment differs from the defaults."""
    settings: str
    """The settings of its definition."""
    architecture: str
    parameters: int
    corpus: str
    data: str
    validations: Sequence[Sequence[float]]
    command: str
    conditions: Mapping[str, str | int | float | None]


def setting_of(record: TrialRecord) -> TrialSetting:
    """What a trial tried."""
    return TrialSetting(record["lr"], record["warmup_share"], record["dropout"])


def loss_of(record: TrialRecord) -> float:
    """What trials are ordered by: the perplexity, infinite where there is none."""
    return math.inf if record["perplexity"] is None else record["perplexity"]


def about(experiment: Experiment, corpus: str) -> str:
    """A hash of an experiment, paths left out, and of the digest of its corpus."""
    data = dataclasses.replace(experiment.data, train=(), valid=(), test=(), valid_more=(), codes="")
    named = f"{digest(dataclasses.replace(experiment, data=data))} {corpus}"
    return hashlib.sha256(named.encode()).hexdigest()[:16]


@dataclass(frozen=True)
class Journal:
    """The journal of an output folder. It is written whole at each trial; a damaged line is left out, its trial repeated."""

    path: Path

    def records(self) -> list[TrialRecord]:
        """Every finished trial, in the order in which they finished."""
        keys = TrialRecord.__required_keys__
        return [cast("TrialRecord", line) for line in json_lines(self.path) if keys <= line.keys()]

    def record(self, about: str) -> TrialRecord | None:
        """The finished trial of that hash."""
        return next((one for one in self.records() if one["about"] == about), None)

    def add(self, *records: TrialRecord) -> None:
        """Adds trials. Raises K301 where the file cannot be written."""
        with writing(self.path):
            self.path.parent.mkdir(parents=True, exist_ok=True)
            lines = [json.dumps(one) + "\n" for one in (*self.records(), *records)]
            write_whole(self.path, "".join(lines).encode())
