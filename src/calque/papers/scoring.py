"""How translations are scored: the settings of each metric of text."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path

from calque.data.lines import Lines
from calque.evaluate import bleu, meteor
from calque.evaluate.meteor_metric import MeteorSettings, read_lists
from calque.evaluate.statistics import Measure, measure
from calque.ground.diagnostics import CalqueError
from calque.ground.files import write_whole
from calque.papers.corpora import TrainingCorpus
from calque.papers.layout import REFERENCE
from calque.papers.metrics import METRICS
from calque.run.tensors import writing

METEOR_VERSION = "1.4"
"""MultEval's, which the paper scored with."""
LEFT_OUT = "METEOR is left out: its word lists or its stemmer were not there."
MTEVAL = "13a"
"""The tokenisation of mteval-v13a."""


def translations(metric: str, out: Path, row: str, seed: int) -> Path:
    """The file of a cell's translations that a metric scores."""
    return out / METRICS[metric].folder / row / f"{seed}.txt"


def measure_of(metric: str, corpus: TrainingCorpus, root: Path, out: Path) -> Measure:
    """A metric of translations; NIST BLEU without case where the corpus has none. Raises what `meteor_settings` raises."""
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


@dataclass(frozen=True)
class CellScores:
    """Scores of a cell's translations by name, their signatures, and a note where one is missing."""

    figures: dict[str, float]
    signatures: dict[str, str]
    notes: str = ""


def scores(corpus: TrainingCorpus, root: Path, hypotheses: list[str], references: list[str]) -> CellScores:
    """BLEU, and METEOR where its word lists and its stemmer are installed."""
    score = bleu(hypotheses, references, tokenize=corpus.tokenize)
    figures, signatures = {"BLEU": round(score.value, 3)}, {"BLEU signature": score.signature}
    try:
        score = meteor(hypotheses, references, meteor_settings(corpus, root), tokenize=corpus.tokenize)
    except CalqueError as fault:
        if {d.code for d in fault.diagnostics} - {"D520", "X301"}:
            raise
        return CellScores(figures, signatures, LEFT_OUT)
    figures["METEOR"], signatures["METEOR signature"] = round(score.value, 3), score.signature
    return CellScores(figures, signatures)


def write_lines(path: Path, lines: Iterable[str]) -> None:
    """Writes lines into a file, whole or not at all; its folder is made where it is missing. Raises K301 where it cannot."""
    with writing(path):
        path.parent.mkdir(parents=True, exist_ok=True)
        write_whole(path, "".join(f"{line}\n" for line in lines).encode())
