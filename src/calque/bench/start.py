"""How long commands take to start, as separate processes."""

import os
import statistics
import subprocess
import sys
import time
from functools import partial
from pathlib import Path
from tempfile import TemporaryDirectory

from calque import zoo
from calque.bench.clock import Spread, digits, in_turn

TEXT = "domhan2018/transformer"


def start(repeats: int = 5, run: Path | None = None) -> dict[str, Spread]:
    """Seconds of `calque --help`, of `calque check`, which loads the layers' declarations, and of an empty Python.

    With a run folder also of `calque translate`, of one word in int8 on one thread, and of a Python that imports torch alone.
    """
    with TemporaryDirectory() as folder:
        file = Path(folder) / "model.adl"
        file.write_text(zoo.read(TEXT).body, encoding="utf-8")
        calque = [sys.executable, "-m", "calque.cli"]
        commands = {
            "python": [sys.executable, "-c", ""],
            "help": [*calque, "--help"],
            "check": [*calque, "check", str(file)],
        }
        if run is not None:
            commands["torch"] = [sys.executable, "-c", "import torch"]
            commands["translate"] = [*calque, "translate", str(run), "--precision", "int8", "--threads", "1"]
        seconds = in_turn({name: partial(_seconds, command) for name, command in commands.items()}, repeats)
    return {
        name: {"median": digits(statistics.median(v)), "slowest": digits(max(v)), "fastest": digits(min(v))}
        for name, v in seconds.items()
    }


def _seconds(command: list[str]) -> float:
    """Modules are compiled once, as those of an installed package are."""
    environment = {key: value for key, value in os.environ.items() if key != "PYTHONDONTWRITEBYTECODE"}
    began = time.perf_counter()
    subprocess.run(command, check=True, capture_output=True, input=b"a\n", env=environment)
    return time.perf_counter() - began
