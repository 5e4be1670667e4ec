"""Learning curves of several trainings in one picture, and as CSV: of run folders, or of entries of the ledger.

    python benchmarks/curves.py OUT.png NAME=RUN [NAME=RUN ...]
    python benchmarks/curves.py OUT.png NAME=docs/results/ID.json [NAME=...]

Of runs: validation perplexity and BLEU over training time; BLEU is that of greedy translations of the first validation sentences,
as the runs logged it. Of entries, each name as often as it has seeds: validation perplexity over epochs. OUT.csv has the points.
"""

import argparse
import csv
import json
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path

from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.figure import Figure

from calque.papers.learning import LearningCurves

COLUMNS, OF_ENTRIES = ("update", "seconds", "perplexity", "bleu"), ("update", "epoch", "perplexity")
Rows = Iterator[Mapping[str, object]]


def over_time(out: Path, runs: Sequence[tuple[str, Path]]) -> Rows:
    """Draws the logs of run folders; yields their points."""
    figure = Figure(figsize=(9, 3.8), layout="constrained")
    FigureCanvasAgg(figure)
    left, right = figure.subplots(1, 2)
    for (name, run), marker in zip(runs, "osD^v<>*pP", strict=False):
        log = (run / "log.jsonl").read_text(encoding="utf-8").split("\n")
        points = [line for line in map(json.loads, filter(None, log)) if line["kind"] == "valid"]
        minutes = [p["seconds"] / 60 for p in points]
        style = {"marker": marker, "markersize": 4, "linewidth": 1.4, "label": name}
        left.plot(minutes, [p["perplexity"] for p in points], **style)
        right.plot(minutes, [p["bleu"] for p in points], **style)
        yield from ({"run": name, **{c: p[c] for c in COLUMNS}} for p in points)
    left.set(xlabel="training time (minutes)", ylabel="validation perplexity", yscale="log")
    right.set(xlabel="training time (minutes)", ylabel="BLEU, greedy, 200 validation sentences")
    for axes in (left, right):
        axes.grid(alpha=0.3)
        axes.legend()
    figure.savefig(out, dpi=130)


def over_epochs(out: Path, entries: Sequence[tuple[str, Path]]) -> Rows:
    """Draws the validations of entries; yields their points."""
    curves: dict[str, list[list[list[float]]]] = {}
    for name, path in entries:
        validations = json.loads(path.read_text(encoding="utf-8")).get("validations", [])
        if not validations:
            raise SystemExit(f"{path} has no learning curve")
        curves.setdefault(name, []).append(validations)
        yield from ({"run": name, **dict(zip(OF_ENTRIES, point, strict=True))} for point in validations)
    out.write_bytes(LearningCurves(curves).picture())


def main() -> None:
    """Reads, draws, writes."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("out", type=Path)
    parser.add_argument("runs", nargs="+", metavar="NAME=RUN")
    given = parser.parse_args()
    named = [(name, Path(path)) for name, _, path in (one.partition("=") for one in given.runs)]
    entries = [path.suffix == ".json" for _, path in named]
    if any(entries) != all(entries):
        parser.error("expected run folders, or entries of the ledger, found both")
    rows = (over_epochs if all(entries) else over_time)(given.out, named)
    with open(given.out.with_suffix(".csv"), "w", newline="", encoding="utf-8") as file:
        writer = csv.DictWriter(file, ["run", *(OF_ENTRIES if all(entries) else COLUMNS)])
        writer.writeheader()
        writer.writerows(rows)


if __name__ == "__main__":
    main()
