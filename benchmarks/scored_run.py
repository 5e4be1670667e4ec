"""What the programs share that score the translations of a run: arguments, texts, and the entry of the ledger."""

import argparse
import gzip
import json
from collections.abc import Mapping
from pathlib import Path

import torch

from calque.decode.translate import Translator
from calque.ground.allocation import keep_freed_memory
from calque.ledger.entry import conditions, publish

LEDGER = Path(__file__).resolve().parents[1] / "docs" / "results"


def arguments(about: str | None, title: str, *more: str) -> argparse.ArgumentParser:
    """A run, a source, its reference and `more` files; threads, and what an entry needs."""
    parser = argparse.ArgumentParser(description=(about or "").split("\n")[0])
    for name in ("run", "source", "reference", *more):
        parser.add_argument(name, type=Path)
    parser.add_argument("--threads", type=int, default=1)
    parser.add_argument("--record", metavar="ID", help="write an entry of the ledger")
    parser.add_argument("--title", default=title, help="of the entry")
    parser.add_argument("--note", default="", help="what the run is, for the ledger")
    return parser


def read(parser: argparse.ArgumentParser) -> argparse.Namespace:
    """The arguments, and torch as they say."""
    given = parser.parse_args()
    torch.set_num_threads(given.threads)
    keep_freed_memory()
    return given


def lines_of(path: Path) -> list[str]:
    """The lines of a file, which may be packed by gzip."""
    with gzip.open(path, "rt", encoding="utf-8") if path.suffix == ".gz" else path.open(encoding="utf-8") as file:
        return file.read().splitlines()


def finish(
    given: argparse.Namespace, command: str, figures: Mapping[str, float], loaded: Translator, lines: int
) -> None:
    """Prints the figures, and writes the entry that was asked for; `command` but for the number of threads."""
    where = {**conditions(loaded.decode.precision), "beam": loaded.decode.beam, "lines": lines}
    if given.record:
        command = f"{command} --threads {given.threads}"
        publish(LEDGER, given.record, given.title, "quality", command, figures, where, notes=given.note)
    print(json.dumps({"figures": figures, "conditions": where}, indent=1))
