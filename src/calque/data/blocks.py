"""Blocks of sentence pairs: what one process reads and others work on."""

import time
from collections.abc import Callable, Iterator
from itertools import islice
from typing import NamedTuple

EVERY = 10.0
"""Seconds between two lines of progress."""
COMMIT = 20.0
"""Seconds of work after which it is secured, so that a call that is killed repeats no more."""


class Block(NamedTuple):
    """Consecutive lines of two files that belong together. At the end of files of unequal length one side may have fewer."""

    number: int
    """The first line, from 1."""
    offsets: tuple[int, int]
    """The bytes of the texts before it."""
    source: list[bytes]
    target: list[bytes]


def blocks(
    source: Iterator[bytes], target: Iterator[bytes], size: int, skip: int = 0, offsets: tuple[int, int] = (0, 0)
) -> Iterator[Block]:
    """All lines of two texts in blocks of `size`; the first `skip` lines of each, which have `offsets` bytes, are left out."""
    for side in (source, target):
        next(islice(side, skip, skip), None)
    number = skip + 1
    while True:
        block = Block(number, offsets, list(islice(source, size)), list(islice(target, size)))
        if not block.source and not block.target:
            return
        yield block
        number += size
        offsets = offsets[0] + sum(map(len, block.source)), offsets[1] + sum(map(len, block.target))


class Pace:
    """Progress of long work, told every `EVERY` seconds, with its speed and the time that is left."""

    def __init__(self, tell: Callable[[str], None], what: str, pairs: int = 0):
        self._tell, self._what = tell, what
        self._first = self.pairs = pairs
        self._began = self._told = self._secured = time.monotonic()
        self._fraction: float | None = None

    def add(self, pairs: int, fraction: float) -> None:
        """Counts pairs; `fraction` of the work, from 0 to 1, is done."""
        self.pairs += pairs
        now = time.monotonic()
        if self._fraction is None:
            self._fraction = fraction if self._first else 0.0  # an earlier call had another pace
            self._began = now if self._first else self._began
        elif now - self._told >= EVERY:
            self._told = now
            done = fraction - self._fraction
            left = (now - self._began) * (1 - fraction) / done if done > 0 else 0.0
            self._tell(
                f"{self._what}: {self.pairs:,} pairs, {fraction:.0%}, {self.speed:,.0f} pairs/s, {_time(left)} left"
            )

    @property
    def speed(self) -> float:
        """Pairs a second in this call."""
        return (self.pairs - self._first) / max(1e-9, time.monotonic() - self._began)

    def commit_due(self) -> bool:
        """Whether the work should be secured now."""
        if time.monotonic() - self._secured < COMMIT:
            return False
        self._secured = time.monotonic()
        return True


def _time(seconds: float) -> str:
    whole = round(seconds)
    if whole < 60:
        return f"{whole} s"
    return f"{whole // 60} min" if whole < 3600 else f"{whole // 3600} h {whole % 3600 // 60} min"
