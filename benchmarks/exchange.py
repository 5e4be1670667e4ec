"""Do models that come in and go out compute the same? Equality with transformers and CTranslate2.

    python benchmarks/exchange.py --runs RUN... --source FILE [--record ID]

Export: each run goes to CTranslate2 and to transformers, and the lines of FILE are translated by both and by Calque, greedily and
with beam 4. Import: random small models of every type of transformers that can be read, 200 sentences each. Prints one JSON object:
the sentences that differ and the largest differences of logits.
"""

import argparse
import json
import os
import sys
import tempfile
from datetime import date
from pathlib import Path
from typing import Any

import torch

os.environ.setdefault("HF_HUB_OFFLINE", "1")
ROOT = Path(__file__).parent.parent
sys.path.insert(0, str(ROOT / "tests" / "exchange"))

from comparisons import CASES, build, compare  # noqa: E402

from calque.data.vocabulary import EOS, PAD  # noqa: E402
from calque.exchange.export import export  # noqa: E402
from calque.ledger.entry import Entry, conditions, record  # noqa: E402
from calque.workflow.api import Run, load  # noqa: E402

LIMIT = 100
"""Words of a translation, end symbol left out; what is longer is cut differently everywhere."""
BATCH = 50


def silent(line: str) -> None:
    """Says nothing."""


def ours(run: Path, lines: list[str], beam: int) -> list[tuple[int, ...]]:
    """Our translations as ids."""
    loaded = load(
        run, beam=beam, normalise="length", alpha=1.0, stop="full", max_length_factor=0.0, max_length_offset=LIMIT
    )
    return [one[0].ids for one in loaded.candidates(lines)]


def by_ctranslate2(folder: Path, loaded: Run, lines: list[str], beam: int) -> list[tuple[int, ...]]:
    """The same by CTranslate2."""
    import ctranslate2

    source, target = loaded.loaded.source, loaded.loaded.target
    ids = {token: k for k, token in enumerate(target.tokens(range(target.size)))}
    translator = ctranslate2.Translator(str(folder), intra_threads=1, compute_type="float32")
    pieces = [source.tokens(row) for row in source.encode(lines)]
    options: dict[str, Any] = {"min_decoding_length": 0, "return_end_token": True, "max_decoding_length": LIMIT + 1}
    results = translator.translate_batch(pieces, beam_size=beam, length_penalty=1.0, **options)
    return [tuple(i for i in (ids[token] for token in one.hypotheses[0]) if i != EOS) for one in results]


def by_transformers(folder: Path, loaded: Run, lines: list[str], beam: int) -> list[tuple[int, ...]]:
    """The same by transformers."""
    import transformers

    model = transformers.AutoModelForSeq2SeqLM.from_pretrained(folder).eval()
    written: list[tuple[int, ...]] = []
    for start in range(0, len(lines), BATCH):
        batch, mask = padded(loaded, lines[start : start + BATCH])
        options = {"num_beams": beam, "early_stopping": beam > 1, "max_length": LIMIT + 2, "length_penalty": 1.0}
        rows = model.generate(input_ids=batch, attention_mask=mask.long(), **options).tolist()
        written += [tuple(i for i in row[1:] if i not in (PAD, EOS)) for row in rows]
    return written


def padded(loaded: Run, lines: list[str]) -> tuple[torch.Tensor, torch.Tensor]:
    """Sources and their mask."""
    rows = [[*ids, EOS] for ids in loaded.loaded.source.encode(lines)]
    longest = max(map(len, rows))
    batch = torch.tensor([row + [PAD] * (longest - len(row)) for row in rows])
    return batch, batch != PAD


def exported(run: Path, lines: list[str], figures: dict[str, int | float]) -> None:
    """Adds the differences of one run."""
    with tempfile.TemporaryDirectory() as made:
        for to, other in (("ctranslate2", by_ctranslate2), ("hf", by_transformers)):
            folder = export(run, to, Path(made, to), "float32", (), silent)
            for beam in (1, 4):
                pairs = zip(ours(run, lines, beam), other(folder, load(run), lines, beam), strict=True)
                compared = [pair for pair in pairs if len(pair[0]) < LIMIT]
                print(run.name, to, beam, len(compared), file=sys.stderr, flush=True)
                name = f"{run.name} to {to}, beam {beam}: "
                figures[name + "sentences compared"] = len(compared)
                figures[name + "sentences that differ"] = sum(a != b for a, b in compared)


def imported(count: int, figures: dict[str, int | float]) -> None:
    """Adds the differences of every type that can be read."""
    for name, (kind, settings, asked) in CASES.items():
        with tempfile.TemporaryDirectory() as made:
            folder = Path(made, "hf")
            compared = compare(folder, build(kind, folder, **settings), Path(made), asked, count)
        figures[f"{name} imported: largest difference of logits"] = float(f"{compared.apart:.2e}")
        for beam, (sentences, differ) in compared.sentences.items():
            figures[f"{name} imported, beam {beam}: sentences compared"] = sentences
            figures[f"{name} imported, beam {beam}: sentences that differ"] = differ


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--runs", type=Path, nargs="*", default=[], help="runs to export")
    parser.add_argument("--source", type=Path, help="the text that they translate")
    parser.add_argument("--sentences", type=int, default=200, help="made-up sentences for each imported model")
    parser.add_argument("--record", metavar="ID", help="write the figures to the ledger")
    given = parser.parse_args()
    torch.set_num_threads(1)
    figures: dict[str, int | float] = {}
    lines = given.source.read_text(encoding="utf-8").splitlines() if given.source else []
    for run in given.runs:
        exported(run, lines, figures)
    imported(given.sentences, figures)
    where = {**conditions(), "sentences of an imported model": given.sentences, "lines": len(lines)}
    if given.record:
        entry = Entry(
            given.record,
            "Models in and out: differences from transformers and CTranslate2",
            "robustness",
            f"python benchmarks/exchange.py --runs {' '.join(run.name for run in given.runs)} --source "
            f"{given.source.name if given.source else ''}",
            date.today().isoformat(),
            where,
            figures,
            seed=1,
            notes="Exported runs are short trainings; imported models are random. Sentences that no search ends are left out.",
        )
        record(ROOT / "docs" / "results", entry)
    print(json.dumps({"figures": figures, "conditions": where}))


if __name__ == "__main__":
    main()
