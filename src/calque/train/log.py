"""The log of a training, its TensorBoard events, and the events that a watcher receives."""

import contextlib
import json
import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any, NamedTuple, TextIO

from torch import Tensor

from calque.ground.diagnostics import error
from calque.ground.files import write_whole
from calque.run.log import read_log
from calque.train.update import UpdateSums


@dataclass(frozen=True)
class Progress:
    """Progress of a training, a few times per second. Means are over the updates since the last line of the log."""

    update: int
    epoch: int
    """The epoch of that update, from 1."""
    loss: float
    """The smoothed loss per target token, in nats."""
    lr: float
    tokens_per_second: float
    """Target tokens, end symbols included."""
    fraction: float | None
    """How much of the nearest limit is used, from 0 to 1; None where patience is the only limit."""
    eta_seconds: float | None
    """Seconds until that limit at the present pace, validation included."""


@dataclass(frozen=True)
class SampleTranslation:
    """A validation sentence and what the model makes of it at a validation, greedily."""

    source: str
    reference: str
    translation: str


class Translated(NamedTuple):
    """What a validation translated, and how good it is."""

    bleu: float | None
    """None where the experiment asks for none."""
    samples: tuple[SampleTranslation, ...]
    """The same sentences each time."""


@dataclass(frozen=True)
class Validation:
    """The outcome of a validation."""

    update: int
    perplexity: float
    bleu: float | None
    best: bool
    """Better than every one before."""
    samples: tuple[SampleTranslation, ...] = ()


class LogWindow:
    """Sums over the updates since the last line of the log; losses stay on the device until they are read."""

    def __init__(self) -> None:
        self.loss: Tensor | float = 0.0
        self.nll: Tensor | float = 0.0
        self.source = self.target = 0
        self.seconds = 0.0

    def add(self, done: UpdateSums) -> None:
        """Adds the sums of an update."""
        self.loss, self.nll = self.loss + done.loss, self.nll + done.nll
        self.source, self.target = self.source + done.source_tokens, self.target + done.target_tokens


Watcher = Callable[[Progress | Validation], None]


class Log:
    """`log.jsonl`, one object per line, and TensorBoard events beside it where asked for."""

    def __init__(self, path: Path, tensorboard: bool, after: int):
        """Continues a log after an update, -1 for a new log: later lines, of a run that was killed, and a torn one are dropped.

        Raises X301 where TensorBoard is asked for and not installed.
        """
        self._events: Any = None
        if tensorboard:
            try:
                from torch.utils.tensorboard import SummaryWriter
            except ImportError:
                raise error("X301", package="tensorboard", extra="tensorboard") from None
            self._events = SummaryWriter(str(path.with_name("tensorboard")), purge_step=after + 1)
        kept = [line for line in read_log(path.parent) if line["update"] <= after]
        self.phases = {line.get("phase") for line in kept if line.get("kind") == "phase"}
        """The numbers of the phases that the log names."""
        write_whole(path, "".join(_json(line) for line in kept).encode())
        self._file: TextIO = open(path, "a", encoding="utf-8")  # noqa: SIM115  closed by `close`

    def write(self, kind: str, values: dict[str, Any]) -> None:
        """Adds a line; `values` has the key `update`. Numbers that are not finite become null."""
        self._file.write(_json({"kind": kind, **values}))
        self._file.flush()
        if self._events is not None:
            kind = f"{kind}/{values['set']}" if "set" in values else kind
            for name, value in values.items():
                if isinstance(value, int | float) and name != "update":
                    self._events.add_scalar(f"{kind}/{name}", value, values["update"])

    def event(self, kind: str, values: dict[str, Any]) -> None:
        """Adds a line about the training itself, which is no measurement: `phase` or `start`; `values` has the key `update`."""
        self._file.write(_json({"kind": kind, **values}))
        self._file.flush()

    def write_samples(self, update: int, samples: Sequence[SampleTranslation]) -> None:
        """Adds a line of kind `sample` for each, numbered from 1, and a text of TensorBoard."""
        for number, sample in enumerate(samples, 1):
            values = {"update": update, "number": number, **asdict(sample)}
            self._file.write(_json({"kind": "sample", **values}))
            if self._events is not None:
                # Markdown: indented, so that it is shown as it is.
                text = "\n".join(f"    {name}: {sentence}" for name, sentence in asdict(sample).items())
                self._events.add_text(f"sample/{number}", text, update)
        self._file.flush()

    def close(self) -> None:
        """Closes the files; nothing can be written afterwards."""
        with contextlib.suppress(OSError):  # every line was written before; one that could not be is an error already
            self._file.close()
        if self._events is not None:
            self._events.close()


def _json(values: Mapping[str, Any]) -> str:
    finite = {k: None if isinstance(v, float) and not math.isfinite(v) else v for k, v in values.items()}
    return json.dumps(finite) + "\n"
