"""A measurement as an entry of the ledger."""

import shlex
import sys
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from calque.ledger.entry import publish

_LABELS = ("system", "beam", "length", "rows", "inner", "outer")
"""The keys that distinguish the cells of a list."""


def record(path: Path, title: str, figures: Mapping[str, Any]) -> Path:
    """Writes a measurement to FOLDER/ID.json, every number under a name of its own. Raises what `publish` raises."""
    parts = {key: value for key, value in figures.items() if key not in ("conditions", "timed")}
    where = {k: v for k, v in figures["conditions"].items() if k != "architecture"}
    return publish(
        path.parent,
        path.name.removesuffix(".json"),
        title,
        "speed",
        command(sys.argv[1:]),
        dict(_numbers(parts, "")),
        where,
        architecture_hash=figures["conditions"].get("architecture"),
        notes=f"Timed: {figures['timed']}.",
    )


def command(arguments: list[str]) -> str:
    """The command that measures again, without --record."""
    kept = list(arguments)
    while "--record" in kept:
        at = kept.index("--record")
        del kept[at : at + 2]
    return shlex.join(["calque", *(a for a in kept if not a.startswith("--record="))])


def _numbers(value: object, name: str) -> Iterator[tuple[str, int | float]]:
    """Every number below a value, with a name joined from the labels and keys that lead to it."""
    if isinstance(value, Mapping):
        label = ", ".join(f"{key} {value[key]}" for key in _LABELS if value.get(key) is not None)
        for key, part in value.items():
            if key not in _LABELS:
                yield from _numbers(part, ", ".join(filter(None, (name, label, key.replace("_", " ")))))
    elif isinstance(value, list):
        # A list of numbers is a curve; entries hold single figures.
        for part in value:
            if isinstance(part, Mapping):
                yield from _numbers(part, "")
    elif isinstance(value, int | float) and not isinstance(value, bool):
        yield name, value
