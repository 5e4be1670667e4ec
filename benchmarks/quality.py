"""Quality of a trained run on a test set: translates, scores, and says how the model came about.

    python benchmarks/quality.py RUN SOURCE REFERENCE [--tokenize none] [--record ID --title TITLE]

prints one JSON object; with --record it becomes a file of the ledger.
"""

import argparse
import json
import time
from pathlib import Path

import torch

import calque
from calque.data.corpus import open_corpus
from calque.data.lines import Lines
from calque.evaluate import TOKENISERS, bleu, chrf
from calque.ledger.entry import conditions, publish
from calque.papers.cells import validations
from calque.run.folder import CORPUS
from calque.run.model_file import load_model

LEDGER = Path(__file__).parent.parent / "docs" / "results"


def main() -> None:
    """Translate, score, print."""
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("run", type=Path)
    parser.add_argument("source", type=Path)
    parser.add_argument("reference", type=Path)
    parser.add_argument("--tokenize", default="13a", choices=TOKENISERS)
    parser.add_argument("--threads", type=int, default=0)
    parser.add_argument("--record", metavar="ID")
    parser.add_argument("--title", default="")
    parser.add_argument("--command", default="", help="what trained the run, for the ledger")
    parser.add_argument("--note", default="")
    given = parser.parse_args()
    if given.threads:
        torch.set_num_threads(given.threads)
    run, meta = calque.load(given.run), load_model(given.run).meta
    sources, references = list(Lines(given.source)), list(Lines(given.reference))
    began = time.perf_counter()
    found = run.translate(sources)
    seconds = time.perf_counter() - began
    score = bleu(found, references, tokenize=given.tokenize)
    brevity = score.detail["bp"]
    assert isinstance(brevity, float)
    lines = [json.loads(line) for line in (given.run / "log.jsonl").read_text(encoding="utf-8").split("\n") if line]
    speeds = sorted(line["target_tokens_per_second"] for line in lines if line["kind"] == "train")
    experiment = run.experiment
    figures = {
        "BLEU": round(score.value, 2),
        "brevity penalty": round(brevity, 3),
        "chrF": round(chrf(found, references).value, 2),
        "validation perplexity": round(meta["figures"]["perplexity"], 3),
        "updates": meta["figures"]["update"],
        "training seconds": round(meta["figures"]["seconds"], 1),
        "target tokens/s, median": speeds[len(speeds) // 2],
        "parameters": meta["figures"]["parameters"],
        "translation seconds": round(seconds, 1),
    }
    trained = {
        "threads": experiment.train.threads or torch.get_num_threads(),
        "batch tokens": experiment.train.batch_tokens,
    }
    where = {
        **conditions(experiment.train.precision),
        **trained,
        "beam": experiment.decode.beam,
        "signature": score.signature,
    }
    if given.record:
        publish(
            LEDGER,
            given.record,
            given.title or given.record,
            "quality",
            given.command,
            figures,
            where,
            architecture_hash=meta["architecture_hash"],
            data_hash=meta["data"],
            seed=experiment.train.seed,
            notes=given.note,
            validations=validations(given.run, open_corpus(given.run / CORPUS), experiment.train),
        )
    print(json.dumps({"figures": figures, "conditions": where}))


if __name__ == "__main__":
    main()
