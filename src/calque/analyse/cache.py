"""What an analysis has finished: files below its folder, each with the fingerprint of what it was made from."""

import base64
import contextlib
import hashlib
import json
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

from calque.analyse.drawn import DrawnFigure, Table
from calque.data.corpus import checksum
from calque.ground.files import write_whole
from calque.ground.version import VERSION
from calque.run.tensors import writing

KEPT = "kept"
"""The folder, below that of the report."""
FORMAT = 2


class AnalysisCache:
    """Parts by name; without a folder nothing is kept. A part that was made from something else is made anew."""

    def __init__(self, folder: Path | None = None):
        self.folder = folder

    def part(self, name: str, source: Any, make: Callable[[], Any]) -> tuple[Any, bool]:
        """The part, of plain values as JSON has them, and whether it was there. Raises K301, and what `make` raises."""
        if self.folder is None:
            return make(), False
        path, wanted = self.folder / f"{name}.json", fingerprint([FORMAT, VERSION, source])
        with contextlib.suppress(OSError, ValueError, KeyError, TypeError):  # damaged files are written anew
            held = json.loads(path.read_bytes())
            if held["from"] == wanted:
                return held["part"], True
        part = make()
        with writing(path):
            self.folder.mkdir(parents=True, exist_ok=True)
            write_whole(path, json.dumps({"from": wanted, "part": part}).encode())
        return part, False


def fingerprint(value: Any) -> str:
    """Names plain values."""
    return hashlib.sha256(json.dumps(value, sort_keys=True, default=str).encode()).hexdigest()


def contents(path: Path | None) -> Any:
    """What a file, or a folder with all below it, holds: names and checksums; None for nothing."""
    if path is None or not path.exists():
        return None
    if path.is_dir():
        return {str(file.relative_to(path)): checksum(file) for file in sorted(path.rglob("*")) if file.is_file()}
    return checksum(path)


def plain(found: Sequence[DrawnFigure | str]) -> list[Any]:
    """Figures and notes as plain values; `drawn` reads them."""
    return [
        one
        if isinstance(one, str)
        else {
            "name": one.name,
            "title": one.title,
            "caption": one.caption,
            "columns": one.table.columns,
            "rows": one.table.rows,
            "svg": one.svg.decode(),
            "png": base64.b64encode(one.png).decode(),
            "reading": one.reading,
        }
        for one in found
    ]


def drawn(values: Sequence[Any]) -> list[DrawnFigure | str]:
    """The inverse of `plain`."""
    return [
        one
        if isinstance(one, str)
        else DrawnFigure(
            one["name"],
            one["title"],
            one["caption"],
            Table.of(one["columns"], one["rows"]),
            one["svg"].encode(),
            base64.b64decode(one["png"]),
            one["reading"],
        )
        for one in values
    ]
