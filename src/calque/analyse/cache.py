"""Finished parts of an analysis: files below its folder, each with the fingerprint of what it was made from."""

import base64
import contextlib
import hashlib
import json
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TypedDict, TypeVar, cast

from calque.analyse.drawn import Cell, DrawnFigure, Table
from calque.data.sums import checksum
from calque.ground.files import write_whole
from calque.ground.version import VERSION
from calque.run.tensors import writing

KEPT = "kept"
"""The folder, below that of the report."""
FORMAT = 2
T = TypeVar("T")


class FigureRecord(TypedDict):
    """A figure as JSON; the pictures are text, PNG in base 64."""

    name: str
    title: str
    caption: str
    columns: Sequence[str]
    rows: Sequence[Sequence[Cell]]
    svg: str
    png: str
    reading: str


class AnalysisCache:
    """Parts by name; without a folder nothing is kept. A part is computed again where its fingerprint has changed."""

    def __init__(self, folder: Path | None = None):
        self.folder = folder

    def part(self, name: str, source: object, make: Callable[[], T]) -> tuple[T, bool]:
        """The part, and whether the cache held it: plain values, in which JSON turns tuples into lists.

        `source` holds plain values too: what the part is made from. Raises K301, and what `make` raises.
        """
        if self.folder is None:
            return make(), False
        path, key = self.folder / f"{name}.json", fingerprint([FORMAT, VERSION, source])
        with contextlib.suppress(OSError, ValueError, KeyError, TypeError):  # a damaged file is replaced
            content = json.loads(path.read_bytes())
            if content["from"] == key:
                return cast("T", content["part"]), True
        part = make()
        with writing(path):
            self.folder.mkdir(parents=True, exist_ok=True)
            write_whole(path, json.dumps({"from": key, "part": part}).encode())
        return part, False


def fingerprint(value: object) -> str:
    """A hash of plain values."""
    return hashlib.sha256(json.dumps(value, sort_keys=True, default=str).encode()).hexdigest()


def contents(path: Path | None) -> str | dict[str, str] | None:
    """The checksum of a file, or those of all files below a folder, by name; None where there is nothing."""
    if path is None or not path.exists():
        return None
    if path.is_dir():
        return {str(file.relative_to(path)): checksum(file) for file in sorted(path.rglob("*")) if file.is_file()}
    return checksum(path)


def to_json(section: Sequence[DrawnFigure | str]) -> list[FigureRecord | str]:
    """The figures and notes of a section as plain values; `from_json` reads them."""
    return [item if isinstance(item, str) else _record(item) for item in section]


def _record(figure: DrawnFigure) -> FigureRecord:
    return {
        "name": figure.name,
        "title": figure.title,
        "caption": figure.caption,
        "columns": figure.table.columns,
        "rows": figure.table.rows,
        "svg": figure.svg.decode(),
        "png": base64.b64encode(figure.png).decode(),
        "reading": figure.reading,
    }


def from_json(values: Sequence[FigureRecord | str]) -> list[DrawnFigure | str]:
    """The inverse of `to_json`."""
    return [item if isinstance(item, str) else _figure(item) for item in values]


def _figure(record: FigureRecord) -> DrawnFigure:
    return DrawnFigure(
        record["name"],
        record["title"],
        record["caption"],
        Table.of(record["columns"], record["rows"]),
        record["svg"].encode(),
        base64.b64decode(record["png"]),
        record["reading"],
    )
