"""Small translators on one core: words a second and quality of trained runs, in int8, greedy, with and without a lexical table.

    python benchmarks/students.py SOURCE REFERENCE --run NAME=FOLDER[:TABLE]... [--beam 1] [--copies 5] [--rounds 3]
        [--tokenize none] [--record ID]

Every run translates the whole file, `--copies` times over, at natural lengths on one thread. What is timed is `Run.translate`:
subwords, batches, encoder, search, and the text that comes out; neither imports nor loading. TABLE is what `calque lexicon` has
printed: with it the search chooses among the words that the table offers. Runs take turns; of the rounds the fastest counts, since
other work on the machine only takes time.
"""

import argparse
import json
import time
from collections.abc import Mapping
from pathlib import Path
from shlex import quote

import torch

import calque
from calque.data.lines import Lines
from calque.evaluate import TOKENISERS, bleu, chrf
from calque.ledger.entry import conditions, publish
from calque.native.kernels import kernels
from calque.run.model_file import load_model
from calque.workflow.api import Run

LEDGER = Path(__file__).parent.parent / "docs" / "results"


def named(text: str) -> tuple[str, Path, Path | None]:
    """NAME=FOLDER or NAME=FOLDER:TABLE."""
    name, _, places = text.rpartition("=")
    folder, _, table = places.partition(":")
    if not name or not folder:
        raise argparse.ArgumentTypeError(f"expected NAME=FOLDER[:TABLE], found {text}")
    return name, Path(folder), Path(table) if table else None


def main() -> None:
    """Translate in turns, score, print or record."""
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("source", type=Path)
    parser.add_argument("reference", type=Path)
    parser.add_argument("--run", type=named, action="append", required=True, metavar="NAME=FOLDER[:TABLE]")
    parser.add_argument("--beam", type=int, default=1)
    parser.add_argument("--precision", default="int8")
    parser.add_argument("--copies", type=int, default=5)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--tokenize", default="13a", choices=TOKENISERS)
    parser.add_argument("--record", metavar="ID", help="write an entry of the ledger")
    parser.add_argument("--note", default="", help="what the runs are, for the ledger")
    given = parser.parse_args()
    torch.set_num_threads(1)
    sources, references = list(Lines(given.source)), list(Lines(given.reference))
    runs: dict[str, Run] = {}
    figures: dict[str, int | float] = {"lines": len(sources) * given.copies}
    for name, folder, table in given.run:
        settings = {"precision": given.precision, "beam": given.beam}
        runs[name] = calque.load(folder, **settings)
        figures[f"{name}: parameters"] = load_model(folder).meta["figures"]["parameters"]
        if table is not None:
            runs[f"{name}, shortlist"] = calque.load(folder, select=table, **settings)
    figures |= measured(runs, sources, references, given.copies, given.rounds, given.tokenize)
    own = kernels()
    where = {
        **conditions(given.precision),
        "kernels": None if own is None else own.instructions,
        "beam": given.beam,
        "copies": given.copies,
        "rounds": given.rounds,
    }
    if given.record:
        shown = " ".join(
            f"--run {quote(name + '=RUN' + ':TABLE' * (table is not None))}" for name, _, table in given.run
        )
        command = (
            f"python benchmarks/students.py {given.source.name} {given.reference.name} {shown} --beam {given.beam}"
        )
        command += f" --copies {given.copies} --rounds {given.rounds} --tokenize {given.tokenize}"
        title = f"Small translators on one core, {given.precision}, beam {given.beam}"
        publish(LEDGER, given.record, title, "speed", command, figures, where, notes=given.note)
    print(json.dumps({"figures": figures, "conditions": where}, indent=1))


def measured(
    runs: Mapping[str, Run], sources: list[str], references: list[str], copies: int, rounds: int, tokenize: str
) -> dict[str, int | float]:
    """Quality, and words a second of the fastest round, of each run."""
    figures: dict[str, int | float] = {}
    for name, run in runs.items():
        found = run.translate(sources)
        figures[f"{name}: BLEU"] = round(bleu(found, references, tokenize=tokenize).value, 2)
        figures[f"{name}: chrF"] = round(chrf(found, references).value, 2)
    speeds: dict[str, list[float]] = {name: [] for name in runs}
    for _ in range(rounds):
        for name, run in runs.items():
            began = time.perf_counter()
            found = run.translate(sources * copies)
            seconds = time.perf_counter() - began
            speeds[name].append(sum(len(line.split()) for line in found) / seconds)
    return figures | {f"{name}: target words/s": round(max(each)) for name, each in speeds.items()}


if __name__ == "__main__":
    main()
