"""A key of an experiment file: how it is declared, and what is known of it."""

from dataclasses import dataclass, field
from typing import TypeVar

T = TypeVar("T")


def key(
    default: T, doc: str, *, choices: tuple[str, ...] = (), low: float | None = None, high: float | None = None
) -> T:
    """A documented key: its default, its meaning, and its possible values."""
    if isinstance(default, list | dict):
        raise TypeError("defaults are immutable: use a tuple")
    return field(default=default, metadata={"doc": doc, "choices": choices, "low": low, "high": high})


@dataclass(frozen=True, slots=True)
class Key:
    """One key of an experiment file: its type, meaning and possible values."""

    name: str
    kind: object
    """str, bool, int, float or tuple[str, ...]"""
    doc: str
    choices: tuple[str, ...]
    low: float | None
    high: float | None
