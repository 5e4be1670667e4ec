"""Values in the settings of other tools: each has to be of its kind before anything is made of it."""

import json
from collections.abc import Callable, Mapping
from typing import Any, NamedTuple

from calque.ground.diagnostics import Place, error

SHOWN = 60
"""Characters of a wrong value that a message shows, at most."""


class Kind(NamedTuple):
    """What a value has to be: in words, and as a test."""

    words: str
    fits: Callable[[Any], bool]


def integer(low: int, high: int | None = None) -> Kind:
    """A whole number of a range."""
    words = f"a whole number from {low}" + ("" if high is None else f" to {high}")
    return Kind(words, lambda value: type(value) is int and low <= value and (high is None or value <= high))


def real(low: float, high: float) -> Kind:
    """A number of a range, its ends included."""
    return Kind(
        f"a number from {low:g} to {high:g}", lambda value: type(value) in (int, float) and low <= value <= high
    )


SIZE = integer(1)
DROPOUT = Kind("a number from 0 and below 1", lambda value: type(value) in (int, float) and 0 <= value < 1)
FLAG = Kind("true or false", lambda value: type(value) is bool)
TEXT = Kind("a text", lambda value: isinstance(value, str))
SEARCH = {"beam": integer(1, 1000), "alpha": real(0, 10)}
"""The settings of a search that an imported run gets."""


def check_values(values: Mapping[str, Any], kinds: Mapping[str, Kind], place: Place) -> None:
    """Raises X522 at the first value that is absent, or not of its kind."""
    for key, kind in kinds.items():
        if key not in values or not kind.fits(values[key]):
            found = _shown(values[key]) if key in values else "absent"
            raise error("X522", place, key=key, found=found, expected=kind.words)


def _shown(value: Any) -> str:
    text = json.dumps(value, ensure_ascii=False, default=str)
    return text if len(text) <= SHOWN else text[: SHOWN - 3] + "..."
