"""The counters of a training, and the signals that interrupt it."""

import contextlib
import math
import signal
import threading
from collections.abc import Iterator, Mapping
from dataclasses import asdict, dataclass, field, fields
from types import FrameType, TracebackType
from typing import Any

import torch
from torch import Tensor

from calque.experiment import TrainSettings
from calque.train.order import Layout, layout_of
from calque.train.schedule import Plateau

_NESTED = {"plateau", "layout", "earlier"}


@dataclass
class TrainingPosition:
    """The counters of a run; with weights, optimiser and random states, all that an exact continuation needs."""

    update: int = 0
    """Updates done."""
    epoch: int = 0
    """Epochs finished."""
    group: int = 0
    """Updates done in the current epoch, in the present layout."""
    layout: Layout = field(default_factory=Layout)
    """How that epoch is cut into updates."""
    earlier: list[tuple[Layout, int]] = field(default_factory=list)
    """Earlier layouts of that epoch, in order, and the updates done in each."""
    seconds: float = 0.0
    """Training time, validation left out."""
    skipped: int = 0
    """Updates left out because the gradient was not finite."""
    validated: int = 0
    """The last update that was validated."""
    validated_seconds: float = 0.0
    """`seconds` at that time."""
    since_best: int = 0
    """Validations since the best one."""
    plateau: Plateau = field(default_factory=Plateau)

    @property
    def latest_epoch(self) -> int:
        """The epoch of the last update, from 1."""
        return max(1, self.epoch + (self.group > 0 or bool(self.earlier)))

    def epochs(self, updates: int) -> float:
        """Epochs done, with the share of the current one, which has `updates` updates in the present layout."""
        before = sum(count for _, count in self.earlier)
        return self.epoch + (before + self.group) / (before + updates)

    def due(self, settings: TrainSettings) -> bool:
        """Whether a validation follows the last update."""
        if not self.update or self.validated == self.update:
            return False
        updates, epochs = settings.validate_every_updates, settings.validate_every_epochs
        between = not self.group and not self.earlier  # two epochs
        return bool(
            (updates and self.update % updates == 0)
            or (epochs and between and self.epoch % epochs == 0)
            or 0 < settings.validate_every_seconds <= self.seconds - self.validated_seconds
        )

    def note(self, perplexity: float, settings: TrainSettings) -> bool:
        """Counts a validation; returns whether it was the best."""
        self.validated, self.validated_seconds = self.update, self.seconds
        better = perplexity < self.plateau.best
        self.since_best = 0 if better else self.since_best + 1
        self.plateau = self.plateau.after(perplexity, settings.decay_patience, settings.schedule == "anneal")
        return better

    def lay_out(self, layout: Layout) -> None:
        """Continues in this layout. Pairs that the current epoch has used are not used again."""
        if layout != self.layout and self.group:
            self.earlier = [*self.earlier, (self.layout, self.group)]
            self.group = 0
        self.layout = layout

    def to_json(self) -> dict[str, Any]:
        """The fields as JSON can hold them."""
        best, since, drops = self.plateau
        # JSON has no infinity.
        return {**asdict(self), "plateau": [best if math.isfinite(best) else None, since, drops]}

    @classmethod
    def from_json(cls, values: Mapping[str, Any]) -> "TrainingPosition":
        """Raises KeyError or TypeError for what `to_json` did not give; a counter that is missing starts at its default."""
        plain = {f.name for f in fields(cls)} - _NESTED
        position = cls(**{name: value for name, value in values.items() if name in plain})
        position.layout = layout_of(values["layout"])
        position.earlier = [(layout_of(layout), int(count)) for layout, count in values["earlier"]]
        best, since, drops = values["plateau"]
        position.plateau = Plateau(math.inf if best is None else best, since, drops)
        return position


def random_states(device: torch.device) -> dict[str, Tensor]:
    """The states of torch's generators."""
    states = {"random/cpu": torch.get_rng_state()}
    if device.type == "cuda":
        states["random/cuda"] = torch.cuda.get_rng_state(device)
    return states


def restore_random_states(states: Mapping[str, Tensor], device: torch.device) -> None:
    """Restores the states of `random_states`; ignores those of a device that is not in use."""
    torch.set_rng_state(states["random/cpu"])
    if device.type == "cuda" and "random/cuda" in states:
        torch.cuda.set_rng_state(states["random/cuda"], device)


class Interrupted(BaseException):
    """A signal came during work that can be abandoned. Like KeyboardInterrupt it is not an error."""


class Signals:
    """While open, the first SIGINT or SIGTERM only sets `received`; the next one has its usual effect.

    Only the main thread of a program receives signals; in other threads this changes nothing.
    """

    def __init__(self) -> None:
        self.received: int | None = None
        self._yielding = False
        self._before: dict[int, Any] = {}

    def __enter__(self) -> "Signals":
        if threading.current_thread() is threading.main_thread():
            for number in (signal.SIGINT, signal.SIGTERM):
                self._before[number] = signal.signal(number, self._note)
        return self

    def __exit__(self, *_: type[BaseException] | BaseException | TracebackType | None) -> None:
        for number, handler in self._before.items():
            signal.signal(number, handler)
        self._before = {}

    @contextlib.contextmanager
    def yielding(self) -> Iterator[None]:
        """For long work without side effects: a signal before or during it ends it there, and `Interrupted` is raised.

        Libraries written in C may drop what a signal raises in them, or make another exception of it.
        """
        self._yielding = True
        try:
            if self.received is None:
                yield
        except Exception:
            if self.received is None:
                raise
        finally:
            self._yielding = False
        if self.received is not None:
            raise Interrupted

    def _note(self, number: int, frame: FrameType | None) -> None:
        self.received = number
        self.__exit__()
        if self._yielding:
            raise Interrupted
