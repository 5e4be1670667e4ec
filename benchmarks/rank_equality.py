"""Do several processes train the model of one, also where a run stops with two and continues with another number?

For each family a small model is trained by 1, 2, 3 and 4 processes, and once by 2 up to the middle, from where copies of the run
are continued by 1, 3 and 4. Its float32 weights are compared with those of one process that nothing has interrupted. Then the same
updates are made in float64, by the program of the tests, and the sums of squares of all weights are compared.

    python benchmarks/rank_equality.py [--updates 24] [--families NAME ...] [--record ID]

prints one JSON object. The differences of float32 are those of sums in another order, which each update carries on.
"""

import argparse
import json
import os
import shutil
import subprocess
import sys
from pathlib import Path
from tempfile import TemporaryDirectory

from rank_kills import ROOT, start, write

from calque.ledger.entry import conditions, publish
from calque.run.tensors import read_tensors

NUMBERS = (1, 2, 3, 4)
TRANSFORMER = "encoder = pos -> repeat(2, tenc) -> norm\ndecoder = pos -> repeat(2, tdec) -> norm"
SGD: dict[str, str | float] = {"optimiser": "sgd", "lr": 0.1}
FAMILIES: dict[str, tuple[str, dict[str, str | float]]] = {
    "transformer": (TRANSFORMER, SGD),
    "transformer, Adam": (TRANSFORMER, {"optimiser": "adam", "lr": 0.002}),
    "transformer, Muon": (TRANSFORMER, {"optimiser": "muon", "lr": 0.002}),
    "average attention": (TRANSFORMER.replace("tdec", "tdec(average)"), SGD),
    "convolutions": (
        "encoder = pos -> repeat(2, res_d(cnn(glu)))\ndecoder = pos -> repeat(2, res(cnn(glu)) -> res(dot_src_att))",
        SGD,
    ),
    "LSTM with input feeding": (
        "encoder = dropout -> birnn\ndecoder = feed(dropout -> rnn -> concat(id, mlp_src_att) -> ff)",
        SGD,
    ),
}
"""Family -> the two chains, and keys of [train]."""


def train(processes: int, experiment: Path, run: Path) -> None:
    """A training that ends well, or the end of this program."""
    process = start(processes, experiment, run)
    _, err = process.communicate(timeout=600)
    if process.returncode:
        sys.exit(err)


def apart(run: Path, plain: Path) -> float:
    """The largest difference of a weight, as a share of the largest weight."""
    one, other = (read_tensors(folder / "model")[0] for folder in (run, plain))
    largest = max(float(value.abs().max()) for value in other.values())
    return max(float((one[key] - other[key]).abs().max()) for key in other) / largest


def compare(folder: Path, family: str, updates: int) -> dict[str, float]:
    """The figures of a family."""
    chains, keys = FAMILIES[family]
    folder.mkdir()
    whole = write(folder, updates)
    lines = ["d = 32", *(["heads = 2"] if "tenc" in chains else []), "p = 0.1", chains]
    text = whole.read_text()
    head, _, rest = text.partition('text = """')
    text = head + 'text = """\n' + "\n".join(lines) + '\n"""' + rest.partition('"""')[2]
    for name, value in {**keys, "accumulate": 4}.items():
        kept = [line for line in text.splitlines() if line.partition(" = ")[0] != name]
        text = "\n".join([*kept, f"{name} = {json.dumps(value)}", ""])
    whole.write_text(text)
    half = folder / "half.toml"
    half.write_text(text.replace(f"max_updates = {updates}", f"max_updates = {updates // 2}"))
    figures: dict[str, float] = {}
    for number in NUMBERS:
        train(number, whole, folder / f"by-{number}")
        if number > 1:
            figures[f"{family}: {number} processes"] = apart(folder / f"by-{number}", folder / "by-1")
    train(2, half, folder / "stopped")
    for number in (1, 3, 4):
        run = folder / f"continued-{number}"
        shutil.copytree(folder / "stopped", run)
        train(number, whole, run)
        figures[f"{family}: 2 processes, then {number}"] = apart(run, folder / "by-1")
    return figures


def in_float64() -> float:
    """The largest relative difference of the sums of squares of 2, 3 and 4 processes from that of one."""
    program = ROOT / "tests" / "end_to_end" / "float64_updates.py"
    paths = os.pathsep.join(map(str, (ROOT / "src", program.parent)))
    sums = []
    for number in NUMBERS:
        torchrun = [sys.executable, "-m", "torch.distributed.run", "--standalone", "--nproc-per-node", str(number)]
        environment = {**os.environ, "OMP_NUM_THREADS": "1", "PYTHONPATH": paths}
        done = subprocess.run([*torchrun, program], capture_output=True, text=True, check=True, env=environment)
        sums.append(float(done.stdout.splitlines()[-1]))
    return max(abs(one - sums[0]) / abs(sums[0]) for one in sums)


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--updates", type=int, default=24, help="of each training; half of them before a stop")
    parser.add_argument("--families", nargs="+", default=list(FAMILIES), choices=list(FAMILIES))
    parser.add_argument("--record", metavar="ID", help="write the figures to the ledger")
    given = parser.parse_args()
    figures: dict[str, float] = {}
    with TemporaryDirectory() as name:
        for k, family in enumerate(given.families):
            figures |= compare(Path(name) / str(k), family, given.updates)
    figures = {key: float(f"{value:.2g}") for key, value in figures.items()}
    figures["float64, 1 to 4 processes: relative difference"] = float(f"{in_float64():.2g}")
    where = {**conditions("float32"), "threads": 1, "updates": given.updates, "batches of an update": 4}
    if given.record:
        command = f"python benchmarks/rank_equality.py --updates {given.updates}"
        if given.families != list(FAMILIES):
            command += " --families " + " ".join(map(json.dumps, given.families))
        title = "One model for every number of processes, and a run that continues with another number"
        notes = "The largest difference of a weight from a training by one process, as a share of the largest weight."
        publish(ROOT / "docs" / "results", given.record, title, "robustness", command, figures, where, notes=notes)
    print(json.dumps({"conditions": where, "figures": figures}, indent=1))


if __name__ == "__main__":
    main()
