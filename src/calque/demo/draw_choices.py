"""Choices of the embedded corpus, drawn from a seed."""

import random
from collections.abc import Callable, Sequence
from typing import TypeVar

from calque.demo.phrases import Phrase

T = TypeVar("T")


class Draw:
    """Choices from a seed, through `random.Random.random` alone: the one sequence that Python promises to keep."""

    def __init__(self, seed: int):
        self._random = random.Random(seed).random

    def between(self, low: int, high: int) -> int:
        """An integer of `low..high`, both included."""
        return low + int(self._random() * (high - low + 1))

    def pick(self, items: Sequence[T]) -> T:
        """One of `items`."""
        return items[self.between(0, len(items) - 1)]

    def chance(self, p: float) -> bool:
        """True with probability `p`."""
        return self._random() < p


Slot = Callable[[Draw], Phrase]
"""Draws a phrase of one kind."""
