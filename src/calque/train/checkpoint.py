"""Checkpoints: which of them stay, and their mean."""

import math
import os
import re
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import torch
from torch import Tensor

from calque.experiment import TrainSettings
from calque.ground.diagnostics import Place, error
from calque.run.folder import CHECKPOINTS, LOCK, MODEL
from calque.run.model_file import shape_text
from calque.run.tensors import read_about, read_tensors, remove_tensors, rewrite_about, write_tensors, writing

_STATE = "state-"


class Checkpoint(NamedTuple):
    """The weights after an update, and their validation perplexity."""

    update: int
    perplexity: float


class Checkpoints:
    """The checkpoints of a run, oldest first, and the states to resume from."""

    def __init__(self, run: Path, settings: TrainSettings):
        self.folder, self.settings = run / CHECKPOINTS, settings
        self.held: list[Checkpoint] = []
        self._lock: os.stat_result | None = None

    def path(self, update: int) -> Path:
        """The path of a checkpoint, without its ending."""
        return self.folder / str(update)

    def state_path(self, update: int) -> Path:
        """The path of a state, without its ending."""
        return self.folder / f"{_STATE}{update}"

    def states(self) -> list[int]:
        """The updates of which there is a state, oldest first."""
        return self._updates(_STATE)

    def open(self, until: int) -> None:
        """Reads what is there. Checkpoints after `until`, the update that training resumes from, and other states are deleted."""
        self._clean()
        for update in self.states():
            if update != until:
                remove_tensors(self.state_path(update))
        self._lock = self._lock_there()
        for update in self._updates(""):
            if update > until:
                remove_tensors(self.path(update))
            else:
                self.held.append(self._read(update))

    def look(self) -> None:
        """Reads what is there and changes nothing."""
        self.held = [self._read(update) for update in self._updates("")]

    def save(self, weights: Mapping[str, Tensor], update: int, about: Mapping[str, Any]) -> None:
        """Writes a checkpoint where it is not there yet, then deletes those neither among the best nor to be averaged.

        `about` has the `perplexity`, None where it is not finite. Raises K207, K301.
        """
        self._refuse_another_folder()
        if all(c.update != update for c in self.held):
            write_tensors(self.path(update), weights, {"update": update, **about})
            self.held.append(Checkpoint(update, _number(about["perplexity"])))
        keep = {self.held[-1], *best(self.held, self.settings.keep_checkpoints), *self.averaged()}
        for checkpoint in self.held:
            if checkpoint not in keep:
                remove_tensors(self.path(checkpoint.update))
        self.held = [c for c in self.held if c in keep]

    def averaged(self) -> list[Checkpoint]:
        """Those that make the final model: the best, the last, or with `none` the newest alone."""
        if self.settings.average == "best":
            return best(self.held, self.settings.average_count)
        return self.held[-(self.settings.average_count if self.settings.average == "last" else 1) :]

    def save_state(self, tensors: Mapping[str, Tensor], update: int, about: Mapping[str, Any]) -> None:
        """Writes the state after an update, then deletes the ones before. Raises K207, K301."""
        self._refuse_another_folder()
        path = self.state_path(update)
        if update in self.states():  # the numbers are those; the only state there is must not go for a moment
            rewrite_about(path, about)
        else:
            write_tensors(path, tensors, about)
        for other in self.states():
            if other != update:
                remove_tensors(self.state_path(other))

    def load_state(self) -> tuple[dict[str, Tensor], dict[str, Any]] | None:
        """The newest state, None in a new folder. Raises what `refuse_loss` and `read_tensors` raise."""
        if states := self.states():
            return read_tensors(self.state_path(states[-1]))
        self.refuse_loss()
        return None

    def refuse_loss(self) -> None:
        """Raises K202 or K204 where a new training would replace checkpoints or a model and none can continue."""
        if self.states():
            return
        run = self.folder.parent
        if any((run / f"{MODEL}.{end}").exists() for end in ("safetensors", "json")):
            raise error("K204", Place(str(run)), run=run)
        if self._updates(""):
            raise error("K202", Place(str(self.folder)), run=run)

    def _lock_there(self) -> os.stat_result | None:
        """The lock of the training that writes here, which the training holds open: no other file can have its number."""
        try:
            return (self.folder.parent / LOCK).stat()
        except FileNotFoundError:
            return None

    def _refuse_another_folder(self) -> None:
        """Raises K207 where the folder was removed since it was opened: what is there now may belong to another training."""
        there = self._lock_there()
        if self._lock is not None and (there is None or not os.path.samestat(there, self._lock)):
            raise error("K207", Place(str(self.folder.parent)))

    def _read(self, update: int) -> Checkpoint:
        return Checkpoint(update, _number(read_about(self.path(update)).get("perplexity")))

    def _updates(self, prefix: str) -> list[int]:
        names = [path.name for path in self.folder.glob("*.json")]
        return sorted(int(m[1]) for n in names if (m := re.fullmatch(rf"{prefix}(\d+)\.json", n)))

    def _clean(self) -> None:
        """Deletes what a killed process left: temporary files, and weights that never got their JSON."""
        for path in self.folder.iterdir():
            weights = re.fullmatch(rf"({_STATE})?\d+\.safetensors", path.name)
            temporary = re.fullmatch(rf"\.({_STATE})?\d+\.(safetensors|json)\..*", path.name)
            if temporary or (weights and not path.with_suffix(".json").exists()):
                with writing(path):
                    path.unlink()


def newest_state(run: Path) -> dict[str, Any]:
    """What the newest state of a run folder records beside its tensors; empty in a new folder.

    Raises K202, K204, and what `read_about` raises.
    """
    checkpoints = Checkpoints(run, TrainSettings())
    checkpoints.refuse_loss()
    states = checkpoints.states()
    return read_about(checkpoints.state_path(states[-1])) if states else {}


def best(checkpoints: Iterable[Checkpoint], count: int) -> list[Checkpoint]:
    """The `count` checkpoints of lowest perplexity, the later of two equals first."""
    return sorted(checkpoints, key=lambda c: (c.perplexity, -c.update))[:count]


def average(paths: Sequence[Path]) -> dict[str, Tensor]:
    """The mean of checkpoints, given without their ending: summed in float64, float32 in the end.

    Raises K106 where they differ in names or shapes, K108 where there are none, and what `read_tensors` raises.
    """
    if not paths:
        raise error("K108")
    total: dict[str, Tensor] = {}
    types: dict[str, torch.dtype] = {}
    for path in paths:
        weights, _ = read_tensors(path)
        if not total:
            total = {name: torch.zeros_like(t, dtype=torch.float64) for name, t in weights.items()}
            types = {name: torch.float32 if t.is_floating_point() else t.dtype for name, t in weights.items()}
        for name in sorted(total.keys() | weights.keys()):
            expected, found = (shape_text(tensors.get(name)) for tensors in (total, weights))
            if expected != found:
                raise error("K106", Place(f"{path}.safetensors"), name=name, expected=expected, found=found)
            total[name] += weights[name]
    return {name: (t / len(paths)).to(types[name]) for name, t in total.items()}


def _number(value: object) -> float:
    return float(value) if isinstance(value, int | float) else math.inf
