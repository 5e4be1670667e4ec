"""The log of a run: a line of JSON for each window of training, validation and event."""

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from calque.ground.json_lines import json_lines
from calque.run.folder import LOG

LogLine = Mapping[str, Any]
"""A line of a log; `kind` says what it is about, `update` behind which update it was written."""


def read_log(run: Path) -> list[LogLine]:
    """The lines that name an update, without the incomplete last one of a training that still runs."""
    return [line for line in json_lines(run / LOG) if isinstance(line.get("update"), int)]


def tokens_by_time(lines: Sequence[LogLine]) -> list[tuple[float, float]]:
    """Seconds of training, and the target tokens trained on until then, at the start and at each line of training."""
    clock = [(0.0, 0.0)]
    for line in lines:
        if line.get("kind") == "train":
            seconds, before = float(line["seconds"]), clock[-1]
            clock.append((seconds, before[1] + line["target_tokens_per_second"] * (seconds - before[0])))
    return clock


def mean_speed(lines: Sequence[LogLine]) -> float | None:
    """Target tokens per second of training, over the whole log; None without a line of training."""
    seconds, tokens = tokens_by_time(lines)[-1]
    return tokens / seconds if seconds else None
