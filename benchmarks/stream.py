"""Does memory grow with the number of lines? `calque translate` on 1,000, 10,000 and 100,000 of them.

A small Transformer with random weights is saved as a run. Each count of made-up lines goes through a process of its own, as a
user's would; its largest resident memory is what the system says when it ends.

    python benchmarks/stream.py [--beam 4] [--workers 1] [--lines 100000] [--record ID]

prints one JSON object: MiB and seconds for each count.
"""

import argparse
import json
import os
import random
import subprocess
import sys
import tempfile
import time
from datetime import date
from pathlib import Path

import torch

import calque
from calque.data.codecs import WordCodec
from calque.data.vocabulary import Vocabulary
from calque.experiment import DataSettings, DecodeSettings, Experiment, ModelSettings, TrainSettings
from calque.ledger.entry import Entry, conditions, record
from calque.model import Model as Network
from calque.run.folder import start_run
from calque.run.model_file import save_model, weights_of

TEXT = "d = 32\nheads = 2\nencoder = pos -> tenc -> norm\ndecoder = pos -> tdec -> norm\n"
WORDS = [f"word{n}" for n in range(996)]
LONGEST = 24


def make_run(folder: Path) -> Network:
    """A run folder with random weights."""
    torch.manual_seed(1)
    network = calque.build(TEXT, len(WORDS) + 4, len(WORDS) + 4)
    codec = WordCodec(Vocabulary(WORDS))
    experiment = Experiment(
        DataSettings(train=("source", "target"), valid=("source", "target"), subwords="words"),
        ModelSettings(text=network.checked.text),
        TrainSettings(max_updates=1),
        DecodeSettings(max_length_factor=1.0, max_length_offset=5),
    )
    start_run(folder, experiment, network.checked, (codec, codec))
    save_model(folder, network, weights_of(network), experiment, "none", {})
    return network


def write_lines(path: Path, count: int) -> None:
    """Lines of 1 to LONGEST random words."""
    draw = random.Random(1)
    with open(path, "w", encoding="utf-8") as file:
        for _ in range(count):
            file.write(" ".join(draw.choices(WORDS, k=draw.randint(1, LONGEST))) + "\n")


def translate(run: Path, source: Path, options: list[str]) -> tuple[float, float, int]:
    """Largest resident MiB of the process and its own, seconds, and lines that came out."""
    out = source.with_suffix(".out")
    began = time.perf_counter()
    with open(source, "rb") as stdin, open(out, "wb") as stdout:
        process = subprocess.Popen(
            [sys.executable, "-m", "calque.cli", "translate", str(run), *options], stdin=stdin, stdout=stdout
        )
        _, status, usage = os.wait4(process.pid, 0)
        process.returncode = os.waitstatus_to_exitcode(status)
    if process.returncode:
        sys.exit(f"calque translate ended with {process.returncode}")
    with open(out, "rb") as file:
        lines = sum(1 for _ in file)
    return usage.ru_maxrss / 1024, time.perf_counter() - began, lines


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--beam", type=int, default=4)
    parser.add_argument("--workers", type=int, default=1)
    parser.add_argument("--threads", type=int, default=1)
    parser.add_argument(
        "--lines", type=int, default=100_000, help="the largest count; a tenth and a hundredth come before"
    )
    parser.add_argument("--record", metavar="ID", help="write the figures to the ledger")
    given = parser.parse_args()
    options = [f"--{name}={getattr(given, name)}" for name in ("beam", "workers", "threads")]
    figures: dict[str, int | float] = {}
    held = []
    with tempfile.TemporaryDirectory() as folder:
        run, source = Path(folder, "run"), Path(folder, "lines")
        network = make_run(run)
        for count in (given.lines // 100, given.lines // 10, given.lines):
            write_lines(source, count)
            size, seconds, lines = translate(run, source, options)
            if lines != count:
                sys.exit(f"expected {count} lines, found {lines}")
            held.append(size)
            figures[f"{count} lines: MiB resident at most"] = round(size, 1)
            figures[f"{count} lines: seconds, start included"] = round(seconds, 1)
    figures["MiB of the largest count over those of a tenth of it"] = round(held[2] / held[1], 3)
    torch.set_num_threads(given.threads)
    where = {**conditions(), "beam": given.beam, "workers": given.workers, "words in a line": f"1 to {LONGEST}"}
    if given.record:
        entry = Entry(
            given.record,
            "Memory of `calque translate` against the number of lines",
            "size",
            f"python benchmarks/stream.py {' '.join(options)} --lines={given.lines}",
            date.today().isoformat(),
            where,
            figures,
            network.checked.hash,
            seed=1,
            notes="A small Transformer with random weights; of workers, the largest single process.",
        )
        record(Path(__file__).parent.parent / "docs" / "results", entry)
    print(json.dumps({"figures": figures, "conditions": where}))


if __name__ == "__main__":
    main()
