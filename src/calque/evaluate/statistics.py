"""Scores from sums of per-sentence statistics, for many sums at once, as resampling needs them.

Statistics are sacrebleu's for BLEU, chrF and TER and our own for METEOR. The score of a corpus follows from the sum over its
sentences, so a resampled corpus costs one product of matrices. The formulas are sacrebleu's, over arrays; tests compare them with
sacrebleu's own results.
"""

import logging
from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np
from jaxtyping import Float

from calque.evaluate.common_ngrams import common_ngrams
from calque.evaluate.meteor_metric import MeteorSettings
from calque.evaluate.scores import sacrebleu_metric
from calque.ground.diagnostics import error

Sums = Float[np.ndarray, "*B k"]
CorpusScores = Float[np.ndarray, "*B"]
ORDERS = 4
"""BLEU's n-grams."""
CHARACTER_ORDERS = 6
"""chrF's."""


@dataclass(frozen=True)
class Measure:
    """A metric as statistics and a function of their sums."""

    name: str
    statistics: Callable[..., Float[np.ndarray, "N k"]]
    """Of hypotheses, references, and further references of the same sentences."""
    score: Callable[[Sums], CorpusScores]
    """From sums of statistics to scores, 0 to 100."""
    signature: Callable[[], str]
    """The settings; complete after the first statistics."""
    higher_is_better: bool = True
    by_itself: Callable[[Sums], CorpusScores] | None = None
    """The score of a single sentence, where that is another function; see `sentence`."""
    of_pairs: Callable[[Sequence[str]], Float[np.ndarray, "n n k"]] | None = None
    """The same as `among`, faster."""

    def sentence(self, statistics: Sums) -> CorpusScores:
        """Scores of single sentences, as sacrebleu's `sentence_score`: BLEU leaves out the orders without n-grams."""
        return (self.by_itself or self.score)(statistics)

    def among(self, texts: Sequence[str]) -> Float[np.ndarray, "n n k"]:
        """The statistics of each text, of the first dimension, with each as its reference."""
        if self.of_pairs:
            return self.of_pairs(texts)
        n = len(texts)
        return self.statistics([text for text in texts for _ in texts], [*texts] * n).reshape(n, n, -1)


def measure(
    metric: str, *, tokenize: str = "13a", lowercase: bool = False, meteor: MeteorSettings | None = None
) -> Measure:
    """The measure named `metric` (of `METRICS`), with the settings of `evaluate`.

    Raises X322 (METEOR without a language) and what `MeteorSettings.make` does.
    """
    if metric == "meteor":
        if meteor is None:
            raise error("X322")
        made = meteor.make(tokenize, lowercase)
        return Measure("METEOR", made.statistics, made.score, lambda: made.signature)
    scorer = sacrebleu_metric(metric, tokenize, lowercase)
    name, score, by_itself = _FORMULAS[metric]

    def statistics(hypotheses: Sequence[str], *references: Sequence[str]) -> Float[np.ndarray, "N k"]:
        for each in references:
            if len(hypotheses) != len(each):  # sacrebleu would silently take the shorter of the two
                raise ValueError(f"expected as many hypotheses as references: {len(hypotheses)} and {len(each)}")
        log = logging.getLogger("sacrebleu")
        level = log.level
        log.setLevel(logging.ERROR)  # `evaluate` gives its advice about tokenisation once
        try:
            extracted = scorer._extract_corpus_statistics(list(hypotheses), list(map(list, references)))
        finally:
            log.setLevel(level)
        return np.asarray(extracted, dtype=np.float64)

    def of_pairs(texts: Sequence[str]) -> Float[np.ndarray, "n n k"]:
        return _PAIRS[metric]([scorer._preprocess_segment(text) for text in texts])

    signature = scorer.get_signature
    faster = of_pairs if metric in _PAIRS else None
    return Measure(name, statistics, score, lambda: str(signature().format()), metric != "ter", by_itself, faster)


def _bleu(sums: Sums) -> CorpusScores:
    """Sums: tokens of hypothesis and reference; matching n-grams, n = 1..4; n-grams of the hypothesis."""
    return np.where((sums[..., 2 + ORDERS :] > 0).all(-1), _sentence_bleu(sums), 0.0)


def _sentence_bleu(sums: Sums) -> CorpusScores:
    """The same over the orders for which the hypothesis has n-grams."""
    hypothesis, reference = sums[..., 0], sums[..., 1]
    correct, total = sums[..., 2 : 2 + ORDERS], sums[..., 2 + ORDERS :]
    used = total > 0
    with np.errstate(divide="ignore", invalid="ignore"):
        # Each order without a match counts half a match, the next a quarter, and so on.
        halved = 0.5 ** np.cumsum(correct == 0, axis=-1)
        precision = np.where(correct == 0, halved, correct) / total
        brevity = np.where(hypothesis < reference, np.exp(1 - reference / hypothesis), 1.0)
        score = 100 * brevity * np.exp(np.where(used, np.log(precision), 0).sum(-1) / used.sum(-1))
    return np.where(correct.any(-1), score, 0.0)


def _chrf(sums: Sums) -> CorpusScores:
    """Sums: for each order of character n-grams those of the hypothesis, of the reference, and the matching ones."""
    hypothesis, reference, match = (sums[..., part::3] for part in range(3))
    used = (hypothesis > 0) & (reference > 0)
    orders = np.maximum(used.sum(-1), 1)
    with np.errstate(divide="ignore", invalid="ignore"):
        precision = np.where(used, match / hypothesis, 0).sum(-1) / orders
        recall = np.where(used, match / reference, 0).sum(-1) / orders
        score = 100 * 5 * precision * recall / (4 * precision + recall)
    return np.where(precision + recall > 0, score, 0.0)


def _ter(sums: Sums) -> CorpusScores:
    """Sums: edits, and words of the reference."""
    edits, length = sums[..., 0], sums[..., 1]
    with np.errstate(divide="ignore", invalid="ignore"):
        return np.where(length > 0, 100 * edits / length, np.where(edits > 0, 100.0, 0.0))


_FORMULAS: dict[str, tuple[str, Callable[[Sums], CorpusScores], Callable[[Sums], CorpusScores] | None]] = {
    "bleu": ("BLEU", _bleu, _sentence_bleu),
    "chrf": ("chrF2", _chrf, None),
    "ter": ("TER", _ter, None),
}
"""By metric: the name, the score from sums of statistics, and the score of a single sentence where that is another one."""


def _bleu_of_pairs(texts: Sequence[str]) -> Float[np.ndarray, "n n k"]:
    """The sums of `_bleu`, of tokenised texts."""
    total, correct = common_ngrams([tuple(text.split()) for text in texts], ORDERS)
    hypothesis, reference = np.broadcast_arrays(total[:, None], total)
    return np.concatenate([hypothesis[..., :1], reference[..., :1], correct, hypothesis], axis=-1).astype(np.float64)


def _chrf_of_pairs(texts: Sequence[str]) -> Float[np.ndarray, "n n k"]:
    """The sums of `_chrf`."""
    total, match = common_ngrams(["".join(text.split()) for text in texts], CHARACTER_ORDERS)
    hypothesis, reference = np.broadcast_arrays(total[:, None], total)
    return np.stack([hypothesis, reference, match], axis=-1).reshape(*match.shape[:2], -1).astype(np.float64)


_PAIRS = {"bleu": _bleu_of_pairs, "chrf": _chrf_of_pairs}
