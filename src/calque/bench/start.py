"""How long commands take to start, as separate processes."""

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


def start(repeats: int = 5) -> dict[str, Spread]:
    """Seconds of `calque --help`, of `calque check`, which loads the layers' declarations, and of an empty Python."""
    with TemporaryDirectory() as folder:
        file = Path(folder) / "model.adl"
        file.write_text(zoo.read(TEXT).body, encoding="utf-8")
        calque = [sys.executable, "-m", "calque.cli"]
        commands = {
            "python": [sys.executable, "-c", ""],
            "help": [*calque, "--help"],
            "check": [*calque, "check", str(file)],
        }
        seconds = in_turn({name: partial(_seconds, command) for name, command in commands.items()}, repeats)
    return {
        name: {"median": digits(statistics.median(v)), "slowest": digits(max(v)), "fastest": digits(min(v))}
        for name, v in seconds.items()
    }


def _seconds(command: list[str]) -> float:
    began = time.perf_counter()
    subprocess.run(command, check=True, capture_output=True)
    return time.perf_counter() - began
