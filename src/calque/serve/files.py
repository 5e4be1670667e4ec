"""Files that are sent, and translated, until they are fetched."""

import contextlib
import time
import uuid
from collections.abc import Callable, Iterator
from pathlib import PurePath
from typing import NamedTuple
from urllib.parse import quote

from calque.ground.diagnostics import CalqueError, message
from calque.serve.asked import Refused
from calque.serve.batches import Order
from calque.workflow.document.formats import read_document
from calque.workflow.document.inline import Shares
from calque.workflow.document.layout import Lines

AT_ONCE = 4
"""Files that are translated at once: each may hold memory for all that is in it."""
PATIENCE, RETRY = 60.0, 0.2
"""Seconds that a part of a file waits for room in the queue, and after which it tries again."""
KEPT = 600.0
"""Seconds for which a translated file can be fetched."""
TOGETHER = 8
"""Translated files of the largest size for which there is room; the oldest leave first."""

UNPACKED = 8
"""A package is unpacked up to so many times the size of the largest file."""


class Kept(NamedTuple):
    """A translated file, under the name that it has where it is fetched."""

    name: str
    body: bytes
    since: float

    @property
    def headers(self) -> dict[str, str]:
        """It is never shown as a page of this server."""
        return {"content-disposition": f"attachment; filename*=UTF-8''{quote(self.name, safe='')}"}


class Files:
    """Translated files in memory, and places for those that are being translated."""

    def __init__(self, largest: int, clock: Callable[[], float] = time.monotonic):
        self._room, self._clock = TOGETHER * largest, clock
        self._kept: dict[str, Kept] = {}
        self._busy = 0

    @contextlib.contextmanager
    def place(self) -> Iterator[None]:
        """Room for one more. Raises Refused where there is none."""
        if self._busy >= AT_ONCE:
            raise Refused(429, f"{AT_ONCE} files are being translated: try again", 5)
        self._busy += 1
        try:
            yield
        finally:
            self._busy -= 1

    def keep(self, name: str, target: str, body: bytes) -> str:
        """Keeps a translation into this language; the name by which it is fetched, which nobody can guess."""
        self._sweep()
        path = PurePath(name)
        number = uuid.uuid4().hex + path.suffix.lower()
        self._kept[number] = Kept(f"{path.stem}.{target}{path.suffix}", body, self._clock())
        while sum(len(one.body) for one in self._kept.values()) > self._room and len(self._kept) > 1:
            del self._kept[next(iter(self._kept))]
        return number

    def fetch(self, number: str) -> Kept | None:
        """A translated file; None where it is not there any more."""
        self._sweep()
        return self._kept.get(number)

    def _sweep(self) -> None:
        old = [number for number, one in self._kept.items() if self._clock() - one.since > KEPT]
        for number in old:
            del self._kept[number]


class SentDocument:
    """A file that was sent, and its sentences: each once, in parts that leave room for others in the queue."""

    def __init__(self, name: str, body: bytes, inline: bool, largest: int):
        """Raises Refused."""
        self._lines = Lines(by_sentence=True, letters=True)
        try:
            self._document = read_document(name, body, self._lines, inline, UNPACKED * largest)
        except CalqueError as fault:
            raise Refused(400, message(fault.diagnostics[0])) from None
        self.sentences = list(dict.fromkeys(self._lines.lines))
        self.characters = sum(map(len, self._lines.lines))
        self._aligned = {self._lines.lines[n] for n in self._lines.aligned}
        self._best: dict[str, tuple[str, Shares | None]] = {}

    def parts(self, most: int) -> Iterator[tuple[list[str], set[int]]]:
        """Sentences, at most so many, and the numbers of those that are to be aligned."""
        for first in range(0, len(self.sentences), most):
            some = self.sentences[first : first + most]
            yield some, {k for k, line in enumerate(some) if line in self._aligned}

    def put(self, order: Order) -> None:
        """The translations of a part."""
        for k, (line, found) in enumerate(zip(order.lines, order.results, strict=True)):
            self._best[line] = found[0].text, next(iter(order.shares.get(k, [])), None)

    def written(self) -> bytes:
        """The translated file."""
        best = [self._best[line] for line in self._lines.lines]
        return self._document.fill([text for text, _ in best], {n: best[n][1] for n in self._lines.aligned})
