"""What a command gives back."""

from collections.abc import Callable
from typing import NamedTuple


class Outcome(NamedTuple):
    status: int
    out: str
    err: str


Run = Callable[..., Outcome]
