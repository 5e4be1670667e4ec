"""Who may ask, and how often."""

import hashlib
import time
from collections import OrderedDict
from collections.abc import Callable, Mapping

MOST_CLIENTS = 10_000
"""Clients that are remembered; the one that has asked least lately is forgotten."""


class Keys:
    """The API keys of a server, as checksums: the time of a look-up says nothing about a key."""

    def __init__(self, rates: Mapping[str, int | None]):
        self._rates = {_sum(key): rate for key, rate in rates.items()}

    def __contains__(self, key: str) -> bool:
        return _sum(key) in self._rates

    def rate(self, key: str, otherwise: int) -> int:
        """Requests per minute of a key."""
        rate = self._rates.get(_sum(key))
        return otherwise if rate is None else rate


def _sum(key: str) -> bytes:
    return hashlib.sha256(key.encode("utf-8", "surrogatepass")).digest()


class Rates:
    """Requests per minute and client. A client that has not asked for a minute may ask for all of them at once."""

    def __init__(self, most: int = MOST_CLIENTS, clock: Callable[[], float] = time.monotonic):
        self._most, self._clock = most, clock
        self._left: OrderedDict[str, tuple[float, float]] = OrderedDict()

    def wait(self, client: str, per_minute: int) -> float:
        """Takes one request of a client; the seconds until the next is free where none is left, else 0. A rate of 0 is no bound."""
        if not per_minute:
            return 0.0
        now = self._clock()
        left, when = self._left.pop(client, (float(per_minute), now))
        left = min(float(per_minute), left + (now - when) * per_minute / 60)
        wait = 0.0 if left >= 1 else (1 - left) * 60 / per_minute
        self._left[client] = (left if wait else left - 1), now
        if len(self._left) > self._most:
            self._left.popitem(last=False)
        return wait
