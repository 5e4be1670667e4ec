"""BLEU, chrF and TER of a whole corpus, computed by sacrebleu.

A score without its settings cannot be compared with another, so each carries sacrebleu's signature.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from calque.data.text import Lines
from calque.diagnostics import Place, error

METRICS = ("bleu", "chrf", "ter")
TOKENISERS = ("13a", "intl", "none")


@dataclass(frozen=True, slots=True)
class Score:
    """A figure from 0 to 100 (TER may exceed 100, and less is better), the settings it stands for, and its parts."""

    name: str
    value: float
    signature: str
    detail: Mapping[str, Any]

    def __str__(self) -> str:
        return f"{self.name} {self.value:.2f} {self.signature}"


def bleu(
    hypotheses: Sequence[str], references: Sequence[str], *, tokenize: str = "13a", lowercase: bool = False
) -> Score:
    """BLEU = 100 bp exp(mean over n = 1..4 of ln p_n), bp = min(1, exp(1 - r/h)) (Papineni et al. 2002).

    p_n is the share of the hypotheses' n-grams that the reference of the same sentence holds, each counted at most as
    often as there; h and r are the corpus lengths in tokens. Where no n-gram matches, p_n is halved from one order to
    the next (sacrebleu's `exp`). `tokenize` is "13a" (as in WMT), "intl", or "none": split at white space alone, which
    on tokenised text is the BLEU of multi-bleu.

    `detail`: precisions (of n = 1..4, in per cent), bp, ratio (h/r), hypothesis_length, reference_length.
    """
    from sacrebleu.metrics.bleu import BLEU

    # Forced: text that looks tokenised is what the caller says it is.
    metric = BLEU(tokenize=tokenize, lowercase=lowercase, force=tokenize == "none")
    return _score(metric, hypotheses, references)


def chrf(hypotheses: Sequence[str], references: Sequence[str], *, lowercase: bool = False) -> Score:
    """chrF2: 100 (1 + 4) P R / (4 P + R) over character n-grams, n = 1..6, white space left out (Popović 2015)."""
    from sacrebleu.metrics.chrf import CHRF

    return _score(CHRF(lowercase=lowercase), hypotheses, references)


def ter(hypotheses: Sequence[str], references: Sequence[str], *, lowercase: bool = False) -> Score:
    """TER: 100 times insertions, deletions, substitutions and shifts of words, per word of the reference (Snover 2006).

    `detail`: edits, reference_length.
    """
    from sacrebleu.metrics.ter import TER

    return _score(TER(case_sensitive=not lowercase), hypotheses, references)


def evaluate(
    hypotheses: Sequence[str],
    references: Sequence[str],
    metrics: Sequence[str] = ("bleu",),
    *,
    tokenize: str = "13a",
    lowercase: bool = False,
) -> list[Score]:
    """The scores named by `metrics` (of `METRICS`), in that order; `tokenize` concerns BLEU only."""
    made = {
        "bleu": lambda: bleu(hypotheses, references, tokenize=tokenize, lowercase=lowercase),
        "chrf": lambda: chrf(hypotheses, references, lowercase=lowercase),
        "ter": lambda: ter(hypotheses, references, lowercase=lowercase),
    }
    return [made[name]() for name in metrics]


def evaluate_files(
    hypotheses: Path,
    references: Path,
    metrics: Sequence[str] = ("bleu",),
    *,
    tokenize: str = "13a",
    lowercase: bool = False,
) -> list[Score]:
    """`evaluate` on two files, plain or gzip, one sentence per line.

    Raises D501 where their numbers of lines differ, D502 where there are none, and D1 for what cannot be read.
    """
    hypothesis_lines, reference_lines = list(Lines(hypotheses)), list(Lines(references))
    if len(hypothesis_lines) != len(reference_lines):
        place = Place(str(hypotheses), min(len(hypothesis_lines), len(reference_lines)) + 1)
        expected, found = len(reference_lines), len(hypothesis_lines)
        raise error("D501", place, expected=expected, found=found, reference=references)
    if not reference_lines:
        raise error("D502", Place(str(references)))
    return evaluate(hypothesis_lines, reference_lines, metrics, tokenize=tokenize, lowercase=lowercase)


def _score(metric: Any, hypotheses: Sequence[str], references: Sequence[str]) -> Score:
    if not hypotheses or len(hypotheses) != len(references):
        # sacrebleu would score the shorter of the two without a word.
        raise ValueError(
            f"expected as many hypotheses as references, and one at least: {len(hypotheses)} and {len(references)}"
        )
    found = metric.corpus_score(list(hypotheses), [list(references)])
    detail: dict[str, Any] = {}
    if found.name == "BLEU":
        detail = {
            "precisions": tuple(found.precisions),
            "bp": found.bp,
            "ratio": found.ratio,
            "hypothesis_length": found.sys_len,
            "reference_length": found.ref_len,
        }
    if found.name == "TER":
        detail = {"edits": found.num_edits, "reference_length": found.ref_length}
    return Score(found.name, float(found.score), metric.get_signature().format(), detail)
