"""How times are taken and told."""

import statistics
import time
from collections.abc import Callable, Sequence

import torch

Spread = dict[str, float]


def best(run: Callable[[], object], budget: float, wait: Callable[[], object] = lambda: None) -> float:
    """The shortest of the times, in seconds, that `run` takes within `budget` seconds, after one call that is not counted."""
    run()
    wait()
    began, shortest = time.perf_counter(), float("inf")
    while True:
        before = time.perf_counter()
        run()
        wait()
        after = time.perf_counter()
        shortest = min(shortest, after - before)
        if after - began > budget:
            return shortest


def speeds(amount: float, seconds: Sequence[float]) -> Spread:
    """`amount` a second: of all repeats the median, the slowest and the fastest."""
    median = statistics.median(seconds)
    return {
        "median": digits(amount / median),
        "slowest": digits(amount / max(seconds)),
        "fastest": digits(amount / min(seconds)),
    }


def digits(value: float, kept: int = 4) -> float:
    """`value` to so many significant digits: no clock gives more."""
    return float(f"{value:.{kept}g}")


def waiter(device: torch.device) -> Callable[[], object]:
    """Waits for what was asked of the device."""
    return torch.cuda.synchronize if device.type == "cuda" else lambda: None
