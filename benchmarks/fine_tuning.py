"""What fine-tuning gives and costs: BLEU of several runs on a text of the own domain and on general text.

    python benchmarks/fine_tuning.py --runs general tuned mixed scratch --own SOURCE REFERENCE --general SOURCE REFERENCE

Each run translates both texts with its own settings. Prints one JSON object; with --record it becomes a file of the ledger.
`docs/fine-tuning.md` says how the runs are trained.
"""

import argparse
import json
from datetime import date
from pathlib import Path

import torch

import calque
from calque.data.lines import Lines
from calque.evaluate import bleu, chrf
from calque.ledger.entry import Entry, conditions, record
from calque.run.model_file import load_model

LEDGER = Path(__file__).parent.parent / "docs" / "results"


def measured(run: Path, texts: dict[str, tuple[Path, Path]]) -> dict[str, int | float]:
    """Scores of a run on each text, and what its training took."""
    figures: dict[str, int | float] = {}
    loaded, trained = calque.load(run), load_model(run).meta.get("figures", {})
    for name, (source, reference) in texts.items():
        references = list(Lines(reference))
        found = loaded.translate(list(Lines(source)))
        figures[f"BLEU, {name}"] = round(bleu(found, references).value, 1)
        figures[f"chrF, {name}"] = round(chrf(found, references).value, 1)
    if "update" in trained:
        figures["updates"] = trained["update"]
        figures["training seconds"] = round(trained["seconds"])
    return {f"{run.name}: {name}": value for name, value in figures.items()}


def main() -> None:
    """Translate, score, print."""
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--runs", type=Path, nargs="+", required=True)
    parser.add_argument("--own", type=Path, nargs=2, required=True, help="source and reference of the own domain")
    parser.add_argument("--general", type=Path, nargs=2, required=True, help="source and reference of general text")
    parser.add_argument("--record", metavar="ID", help="write the figures to the ledger")
    parser.add_argument("--ledger", type=Path, default=LEDGER)
    parser.add_argument(
        "--title", default="Fine-tuning a general model on 2,000 pairs of another domain", help="of the entry"
    )
    parser.add_argument("--note", default="")
    given = parser.parse_args()
    torch.set_num_threads(1)
    texts = {"own domain": tuple(given.own), "general": tuple(given.general)}
    figures: dict[str, int | float] = {}
    for run in given.runs:
        figures |= measured(run, texts)
    where = {**conditions(), "own domain": given.own[0].name, "general": given.general[0].name}
    if given.record:
        names = " ".join(run.name for run in given.runs)
        command = f"python benchmarks/fine_tuning.py --runs {names} --own SOURCE REFERENCE --general SOURCE REFERENCE"
        entry = Entry(
            *(given.record, given.title, "quality", command, date.today().isoformat(), where, figures),
            seed=1,
            notes=given.note,
        )
        record(given.ledger, entry)
    print(json.dumps({"figures": figures, "conditions": where}))


if __name__ == "__main__":
    main()
