"""Where the reports of analyses lie."""

import hashlib
import json
from collections.abc import Mapping
from pathlib import Path


def report_folder(folder: Path, asked: Mapping[str, object]) -> Path:
    """Of these runs and lines, below the studio's folder: the same whenever they are asked for, so that nothing is drawn twice."""
    key = hashlib.sha256(json.dumps([asked["runs"], asked["lines"]]).encode()).hexdigest()
    return folder / "reports" / key[:16]


def report_file(folder: Path, asked: Mapping[str, object], name: str) -> Path | None:
    """A file of a report, once it is written; None for what is no part of it."""
    known = {path.name: path for path in report_folder(folder, asked).glob("*.*") if path.is_file()}
    return known.get(name)
