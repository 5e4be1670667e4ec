"""The speed of training: updates as a training does them, timed by phase. Nothing is written."""

import contextlib
import resource
import sys
import time
from dataclasses import dataclass
from pathlib import Path

import torch

from calque.adl.check import CheckedDefinition
from calque.data.batches import Batch
from calque.experiment import TrainSettings
from calque.layers.contract import Registry
from calque.model import Model, Shape
from calque.train.captured import updater_of
from calque.train.initialise import initialise
from calque.train.optimise import Updater
from calque.train.precision import pick_device, probe_precision, processor
from calque.train.schedule import Plateau, rate
from calque.train.shared_update import batch_seed
from calque.train.update import Phases, UpdateSums, update


@dataclass(frozen=True)
class TrainingSpeed:
    """Measurements of some updates, without warm-up. A tuple has an entry for each update."""

    seconds: tuple[float, ...]
    phases: dict[str, float]
    """Seconds of all these updates by phase; they add up to the sum of `seconds`."""
    source_tokens: tuple[int, ...]
    target_tokens: tuple[int, ...]
    """End symbols included, padding not."""
    padded_tokens: tuple[int, ...]
    """Positions computed: sources and targets, padding included."""
    losses: tuple[float, ...]
    """The smoothed loss per target token, in nats."""
    skipped: int
    peak_bytes: int
    """Peak memory of the whole process while it trained; on an accelerator, the peak of allocations there."""
    parameters: int
    precision: str


def measure(
    checked: CheckedDefinition,
    shape: Shape,
    settings: TrainSettings,
    batches: list[Batch],
    updates: int,
    warm_up: int,
    registry: Registry | None = None,
    graphs: bool = True,
) -> TrainingSpeed:
    """Trains a fresh model for `warm_up + updates` updates, taking `batches` in turn, `settings.accumulate` at a time.

    The updates are those of a training, with its seed, rate, precision and threads. Seconds by phase are `data` (moving the given
    batches to the device), `forward`, `loss` (output layer, with its gradient), `backward`, `optimiser`, `other`. On an accelerator
    the three in the middle are one graph, counted as `backward`, unless `graphs` is false.
    """
    with processor(settings.threads):
        device = pick_device(settings.device)
        precision = probe_precision(device) if settings.precision == "auto" else settings.precision
        updater, model = fresh(checked, shape, settings, registry, device, precision, graphs)
        groups = [batches[i : i + settings.accumulate] for i in range(0, len(batches), settings.accumulate)]
        taken = [groups[number % len(groups)] for number in range(warm_up + updates)]
        seconds: list[float] = []
        sums: list[UpdateSums] = []
        phases = Phases(device)
        for number, group in enumerate(taken):
            if number == warm_up:
                _forget_peak(device)
                phases = Phases(device)
            began = time.perf_counter()
            seeds = [batch_seed(settings.seed, number, n) for n in range(len(group))]
            one = update(model, updater, group, settings, rate(settings, number + 1, 1, Plateau()), phases, seeds=seeds)
            phases("other")
            if number >= warm_up:
                seconds.append(time.perf_counter() - began)
                sums.append(one)
        padded = tuple(_padded(group) for group in taken[warm_up:])
        return _speed(seconds, sums, padded, phases, updater, device, precision)


def _speed(
    seconds: list[float],
    sums: list[UpdateSums],
    padded: tuple[int, ...],
    phases: Phases,
    updater: Updater,
    device: torch.device,
    precision: str,
) -> TrainingSpeed:
    return TrainingSpeed(
        seconds=tuple(seconds),
        phases=phases.seconds,
        source_tokens=tuple(one.source_tokens for one in sums),
        target_tokens=tuple(one.target_tokens for one in sums),
        padded_tokens=padded,
        losses=tuple(float(one.loss) / one.target_tokens for one in sums),
        skipped=updater.skipped,
        peak_bytes=_peak(device),
        parameters=sum(m.numel() for m in updater.masters.values()),
        precision=precision,
    )


def fresh(
    checked: CheckedDefinition,
    shape: Shape,
    settings: TrainSettings,
    registry: Registry | None,
    device: torch.device,
    precision: str,
    graphs: bool = True,
) -> tuple[Updater, Model]:
    """A model with the first weights of a training, and its optimiser."""
    torch.manual_seed(settings.seed)
    model = Model(checked, shape, registry).to(device)
    initialise(model, "glorot", 0.0, settings.seed)
    updater = updater_of(model, settings, precision, graphs)
    torch.manual_seed(settings.seed)
    return updater, model


def _padded(group: list[Batch]) -> int:
    return sum(batch.source.numel() + batch.target_in.numel() for batch in group)


_STATUS = Path("/proc/self/status")


def _forget_peak(device: torch.device) -> None:
    if device.type == "cuda":
        torch.cuda.reset_peak_memory_stats(device)
        return
    with contextlib.suppress(OSError):  # another system: the peak is that of the whole process
        Path("/proc/self/clear_refs").write_text("5")


def _peak(device: torch.device) -> int:
    if device.type == "cuda":
        return torch.cuda.max_memory_allocated(device)
    try:
        lines = _STATUS.read_text(encoding="ascii", errors="replace").splitlines()
        return next(int(line.split()[1]) * 1024 for line in lines if line.startswith("VmHWM"))
    except (OSError, StopIteration):
        unit = 1 if sys.platform == "darwin" else 1024  # bytes or kilobytes
        return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * unit
