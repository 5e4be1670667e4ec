"""Scores from sums of statistics, held against sacrebleu's own corpus scores."""

import random

import numpy as np
import pytest
from sacrebleu.metrics.bleu import BLEU
from sacrebleu.metrics.chrf import CHRF
from sacrebleu.metrics.ter import TER

from calque.evaluate import evaluate
from calque.evaluate.meteor_metric import Lists, MeteorSettings
from calque.evaluate.statistics import measure
from calque.ground.diagnostics import CalqueError

THEIRS = {"bleu": BLEU, "chrf": CHRF, "ter": TER}
METEOR = MeteorSettings("en", lists=Lists())


def text(rng: random.Random, count: int, words: int = 8) -> list[str]:
    return [
        " ".join(
            rng.choice(["the", "cat", "sat", "on", "a", "mat", ",", "here", "."]) for _ in range(rng.randint(0, words))
        )
        for _ in range(count)
    ]


@pytest.mark.medium
@pytest.mark.parametrize("several", [1, 3])
@pytest.mark.parametrize("name", sorted(THEIRS))
def test_scores_are_sacrebleus(name: str, several: int) -> None:
    rng = random.Random(1)
    metric = measure(name)
    # From long corpora to single empty sentences: orders without a match, without an n-gram, brevity.
    for count, words in [(50, 12), (3, 6), (2, 3), (1, 2), (1, 1)] * 8:
        hypotheses, *references = (text(rng, count, words) for _ in range(1 + several))
        theirs = THEIRS[name](**({"case_sensitive": True} if name == "ter" else {})).corpus_score(
            hypotheses, references
        )
        found = metric.score(metric.statistics(hypotheses, *references).sum(0))
        assert found == pytest.approx(theirs.score, abs=1e-9), (hypotheses, references)
        (ours,) = evaluate(hypotheses, references[0], [name], more=references[1:])
        assert found == pytest.approx(ours.value, abs=1e-9)
        assert metric.signature() == ours.signature


@pytest.mark.parametrize("name", [*THEIRS, "meteor"])
def test_many_sums_are_scored_at_once(name: str) -> None:
    rng = random.Random(2)
    metric = measure(name, meteor=METEOR)
    statistics = metric.statistics(text(rng, 12), text(rng, 12)).reshape(3, 4, -1)
    found = metric.score(statistics)
    assert found.shape == (3, 4)
    assert np.array_equal(found, [[metric.score(s) for s in row] for row in statistics])
    assert np.isfinite(found).all()
    assert metric.score(statistics[0, 0] * 0) == 0
    assert metric.higher_is_better == (name != "ter")


def test_settings_reach_the_metric() -> None:
    hypotheses, references = ["The cat sat on a mat ."], ["the cat sat on a mat ."]
    for name in (*THEIRS, "meteor"):
        plain, folded = (measure(name, tokenize="none", lowercase=x, meteor=METEOR) for x in (False, True))
        scores = [m.score(m.statistics(hypotheses, references).sum(0)) for m in (plain, folded)]
        assert scores[0] != scores[1], name
    bleu = measure("bleu", tokenize="none")
    bleu.statistics(["a"], ["a"])
    assert "tok:none" in bleu.signature()


def test_what_cannot_be_measured() -> None:
    with pytest.raises(CalqueError) as caught:
        measure("meteor")
    assert caught.value.diagnostics[0].code == "X322"
    with pytest.raises(ValueError, match="no such metric"):
        measure("rouge")
    for name in (*THEIRS, "meteor"):
        with pytest.raises(ValueError):
            measure(name, meteor=METEOR).statistics(["a"], ["a", "b"])
