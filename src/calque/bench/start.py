"""How long commands take to start, as separate processes."""

import statistics
import subprocess
import sys
import time
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from calque import zoo
from calque.bench.clock import digits

TEXT = "domhan2018/transformer"


def start(repeats: int = 5) -> dict[str, Any]:
    """Seconds of `calque --help`, of `calque check`, which loads the layers' declarations, and of an empty Python."""
    with TemporaryDirectory() as folder:
        file = Path(folder) / "model.adl"
        file.write_text(zoo.read(TEXT).body, encoding="utf-8")
        calque = [sys.executable, "-m", "calque.cli"]
        ways = {
            "python": [sys.executable, "-c", ""],
            "help": [*calque, "--help"],
            "check": [*calque, "check", str(file)],
        }
        seconds: dict[str, list[float]] = {name: [] for name in ways}
        for number in range(repeats + 1):
            for name, command in ways.items():
                began = time.perf_counter()
                subprocess.run(command, check=True, capture_output=True)
                if number:  # the first finds cold files
                    seconds[name].append(time.perf_counter() - began)
    return {
        name: {"median": digits(statistics.median(v)), "slowest": digits(max(v)), "fastest": digits(min(v))}
        for name, v in seconds.items()
    }
