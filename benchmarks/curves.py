"""Learning curves of several runs: validation perplexity and BLEU over training time, as a picture and as CSV.

    python benchmarks/curves.py OUT.png NAME=RUN [NAME=RUN ...]

writes OUT.png and OUT.csv. BLEU is that of greedy translations of the first validation sentences, as the runs logged it.
"""

import argparse
import csv
import json
from pathlib import Path

from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.figure import Figure

COLUMNS = ("update", "seconds", "perplexity", "bleu")


def main() -> None:
    """Read, draw, write."""
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("out", type=Path)
    parser.add_argument("runs", nargs="+", metavar="NAME=RUN")
    given = parser.parse_args()
    figure = Figure(figsize=(9, 3.8), layout="constrained")
    FigureCanvasAgg(figure)
    left, right = figure.subplots(1, 2)
    rows: list[dict[str, object]] = []
    for named, marker in zip(given.runs, "osD^v<>", strict=False):
        name, _, run = named.partition("=")
        log = (Path(run) / "log.jsonl").read_text(encoding="utf-8").split("\n")
        points = [line for line in map(json.loads, filter(None, log)) if line["kind"] == "valid"]
        minutes = [p["seconds"] / 60 for p in points]
        style = {"marker": marker, "markersize": 4, "linewidth": 1.4, "label": name}
        left.plot(minutes, [p["perplexity"] for p in points], **style)
        right.plot(minutes, [p["bleu"] for p in points], **style)
        rows += [{"run": name, **{c: p[c] for c in COLUMNS}} for p in points]
    left.set(xlabel="training time (minutes)", ylabel="validation perplexity", yscale="log")
    right.set(xlabel="training time (minutes)", ylabel="BLEU, greedy, 200 validation sentences")
    for axes in (left, right):
        axes.grid(alpha=0.3)
        axes.legend()
    figure.savefig(given.out, dpi=130)
    with open(given.out.with_suffix(".csv"), "w", newline="", encoding="utf-8") as file:
        writer = csv.DictWriter(file, ["run", *COLUMNS])
        writer.writeheader()
        writer.writerows(rows)


if __name__ == "__main__":
    main()
