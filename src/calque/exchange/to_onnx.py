"""Runs as ONNX graphs: `calque export RUN --to onnx`. Any text goes, since what a decoder carries from word to word is a value.

`model.json` describes the states of the graphs, see `calque.exchange.graphs`.
"""

import json
from pathlib import Path

from calque.exchange.graphs import ABOUT, write_graphs
from calque.exchange.weights import Exported
from calque.ground.diagnostics import error

NAME = "ONNX"


def write_onnx(exported: Exported, folder: Path, precision: str) -> None:
    """Writes three graphs, their numbers and model.json into an empty folder.

    Raises X503 (the precision), and what `write_graphs` raises.
    """
    if precision != "float32":
        raise error("X503", None, precision=precision, format=NAME, names=("float32",))
    about = write_graphs(exported, folder)
    (folder / ABOUT).write_text(json.dumps(about, indent=1) + "\n", encoding="utf-8")
