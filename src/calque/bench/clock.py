"""How times are measured and rounded."""

import statistics
import time
from collections.abc import Callable, Mapping, Sequence
from typing import TypedDict, TypeVar

import torch

T = TypeVar("T")


class Spread(TypedDict):
    """A figure over several repeats."""

    median: float
    slowest: float
    fastest: float


def best(run: Callable[[], object], budget: float, wait: Callable[[], object] = lambda: None) -> float:
    """The shortest time of a call, in seconds: `run` is called once uncounted, then again and again for `budget` seconds."""
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


def in_turn(ways: Mapping[str, Callable[[], T]], repeats: int) -> dict[str, list[T]]:
    """The results of each way, called one after the other in each round; a first round warms up and does not count."""
    rounds = [{name: run() for name, run in ways.items()} for _ in range(repeats + 1)]
    return {name: [results[name] for results in rounds[1:]] for name in ways}


def speeds(amount: float, seconds: Sequence[float]) -> Spread:
    """`amount` per second, from the seconds of each repeat."""
    median = statistics.median(seconds)
    return {
        "median": digits(amount / median),
        "slowest": digits(amount / max(seconds)),
        "fastest": digits(amount / min(seconds)),
    }


def digits(value: float, kept: int = 4) -> float:
    """`value`, rounded to so many significant digits: no clock gives more."""
    return float(f"{value:.{kept}g}")


def waiter(device: torch.device) -> Callable[[], object]:
    """A function that waits until the device has finished its work."""
    return torch.cuda.synchronize if device.type == "cuda" else lambda: None
