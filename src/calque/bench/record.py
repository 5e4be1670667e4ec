"""A measurement as an entry of the ledger."""

import shlex
import sys
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from calque.ledger.entry import publish

_LABELS = ("system", "beam", "length", "rows", "inner", "outer")
"""What tells one cell of a list from another."""


def record(path: Path, title: str, found: Mapping[str, Any]) -> Path:
    """Writes `found` to FOLDER/ID.json, every number under a name of its own. Raises what `calque.ledger.entry.record` raises."""
    parts = {key: value for key, value in found.items() if key not in ("conditions", "timed")}
    where = {k: v for k, v in found["conditions"].items() if k != "architecture"}
    return publish(
        path.parent,
        path.name.removesuffix(".json"),
        title,
        "speed",
        command(sys.argv[1:]),
        dict(_numbers(parts, "")),
        where,
        architecture_hash=found["conditions"].get("architecture"),
        notes=f"Timed: {found['timed']}.",
    )


def command(arguments: list[str]) -> str:
    """The line that measures again, without where its figures were written."""
    kept = list(arguments)
    while "--record" in kept:
        at = kept.index("--record")
        del kept[at : at + 2]
    return shlex.join(["calque", *(a for a in kept if not a.startswith("--record="))])


def _numbers(value: object, name: str) -> Iterator[tuple[str, int | float]]:
    if isinstance(value, Mapping):
        label = ", ".join(f"{key} {value[key]}" for key in _LABELS if value.get(key) is not None)
        for key, part in value.items():
            if key not in _LABELS:
                yield from _numbers(part, ", ".join(filter(None, (name, label, key.replace("_", " ")))))
    elif isinstance(value, list):
        # A list of numbers is a curve, which is no figure.
        for part in value:
            if isinstance(part, Mapping):
                yield from _numbers(part, "")
    elif isinstance(value, int | float) and not isinstance(value, bool):
        yield name, value
