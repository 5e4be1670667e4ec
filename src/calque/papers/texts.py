"""What is computed from translations: the metrics, how each is taken, and where its texts stand."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from calque.data.lines import Lines
from calque.evaluate import bleu, meteor
from calque.evaluate.meteor_metric import MeteorSettings, read_lists
from calque.evaluate.statistics import Measure, measure
from calque.ground.diagnostics import CalqueError
from calque.papers.corpora import TrainingCorpus
from calque.papers.plan import DETOKENISED, HYPOTHESES, PLAIN_REFERENCE, REFERENCE, REPLACED

METEOR_VERSION = "1.4"
"""MultEval's, which the paper scored with."""
LEFT_OUT = "METEOR is left out: its word lists or its stemmer were not there."
MTEVAL = "13a"
"""The tokenisation of mteval-v13a."""


@dataclass(frozen=True)
class TextMetric:
    """A metric of translations: what cells call its figure, and the folder and the reference of the texts it is taken from."""

    figure: str
    folder: str = HYPOTHESES
    reference: str = REFERENCE

    def file(self, out: Path, row: str, seed: int) -> Path:
        """The translations of a cell."""
        return out / self.folder / row / f"{seed}.txt"


TEXTS: Mapping[str, TextMetric] = {
    "bleu": TextMetric("BLEU"),
    "uncased-bleu": TextMetric("uncased BLEU"),
    "unk-bleu": TextMetric("BLEU, unknown words replaced", REPLACED),
    "nist-bleu": TextMetric("NIST BLEU", DETOKENISED, PLAIN_REFERENCE),
    "meteor": TextMetric("METEOR"),
}


def measure_of(metric: str, corpus: TrainingCorpus, root: Path, out: Path) -> Measure:
    """How a metric of `TEXTS` is taken; NIST BLEU without case where the corpus has none. Raises what `meteor_settings` raises."""
    if metric == "meteor":
        return measure("meteor", tokenize=corpus.tokenize, meteor=meteor_settings(corpus, root))
    if metric == "nist-bleu":
        return measure("bleu", tokenize=MTEVAL, lowercase=not has_case(list(Lines(out / REFERENCE))))
    return measure("bleu", tokenize=corpus.tokenize, lowercase=metric == "uncased-bleu")


def has_case(lines: Sequence[str]) -> bool:
    """Whether a text has capitals."""
    return any(line != line.lower() for line in lines)


def meteor_settings(corpus: TrainingCorpus, root: Path) -> MeteorSettings:
    """METEOR as MultEval runs it. Raises D520 where the data root has no word lists, X301 without a stemmer."""
    normalise = "none" if corpus.tokenize == "none" else "norm"
    lists = read_lists(corpus.language, root / "meteor", version=METEOR_VERSION, normalise=normalise)
    made = MeteorSettings(corpus.language, METEOR_VERSION, lists)
    made.make(corpus.tokenize)
    return made


def scores(corpus: TrainingCorpus, root: Path, hypotheses: list[str], references: list[str]) -> dict[str, Any]:
    """Figures of every cell, their signatures, and what there is to say of them."""
    found = bleu(hypotheses, references, tokenize=corpus.tokenize)
    figures, signatures, notes = {"BLEU": round(found.value, 3)}, {"BLEU signature": found.signature}, ""
    try:
        score = meteor(hypotheses, references, meteor_settings(corpus, root), tokenize=corpus.tokenize)
    except CalqueError as fault:
        if {d.code for d in fault.diagnostics} - {"D520", "X301"}:
            raise
        notes = LEFT_OUT
    else:
        figures["METEOR"], signatures["METEOR signature"] = round(score.value, 3), score.signature
    return {"figures": figures, "signatures": signatures, "notes": notes}


def as_lines(lines: Sequence[str]) -> bytes:
    """Lines as a file holds them."""
    return "".join(f"{line}\n" for line in lines).encode()
