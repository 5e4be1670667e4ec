"""IBM models 1 and 2 against loops written from the equations of Dyer, Chahuneau and Smith 2013."""

import itertools
import math
import random
from collections import defaultdict
from dataclasses import replace

import pytest
from scipy.optimize import minimize_scalar
from scipy.special import digamma

import calque.align.ibm as ibm
from calque.align.ibm import AlignerSettings, align, align_text

SETTINGS = AlignerSettings(model1=2, model2=3)


def corpus(seed: int, pairs: int = 25) -> tuple[list[list[int]], list[list[int]]]:
    """Sentences of a made-up pair of languages: word w is 2w or 2w + 1, neighbours are swapped now and then."""
    draw = random.Random(seed)
    source = [[draw.randrange(9) for _ in range(draw.randint(1, 6))] for _ in range(pairs)]
    target = [[2 * w + draw.randrange(2) for w in words if draw.random() < 0.9] for words in source]
    for words in target:
        if len(words) > 2 and draw.random() < 0.3:
            words[0], words[1] = words[1], words[0]
    return source, target


def delta(j: int, i: int, m: int, n: int, tension: float, null: float) -> float:
    if j == 0:
        return null
    z = sum(math.exp(-tension * abs(i / m - k / n)) for k in range(1, n + 1))
    return (1 - null) * math.exp(-tension * abs(i / m - j / n)) / z


def naive(source, target, settings: AlignerSettings):
    """Theta, lambda and log-likelihoods, one loop per equation."""
    pairs = [([None, *f], e) for f, e in zip(source, target, strict=True) if f and e]
    types = {w for _, e in pairs for w in e}
    occurs = defaultdict(set)
    for f, e in pairs:
        for s in f:
            occurs[s] |= set(e)
    theta = {(s, t): 1 / len(types) for s in occurs for t in occurs[s]}
    tension, logps = 0.0, []
    for iteration in range(settings.model1 + settings.model2):
        if iteration == settings.model1:
            tension = settings.tension
        counts, gammas, logp = defaultdict(float), [], 0.0
        for f, e in pairs:
            m, n = len(e), len(f) - 1
            for i, t in enumerate(e, 1):
                joint = [theta[s, t] * delta(j, i, m, n, tension, settings.null) for j, s in enumerate(f)]
                logp += math.log(sum(joint))
                for j, s in enumerate(f):
                    counts[s, t] += joint[j] / sum(joint)
                    gammas.append((joint[j] / sum(joint), j, i, m, n))
        logps.append(logp)
        for s in occurs:
            total = sum(counts[s, t] + settings.alpha for t in occurs[s])
            for t in occurs[s]:
                c = counts[s, t] + settings.alpha
                theta[s, t] = math.exp(digamma(c) - digamma(total)) if settings.alpha else c / total
        if iteration >= settings.model1:

            def lost(tension: float, gammas=gammas) -> float:
                return -sum(g * math.log(delta(*at, tension, settings.null)) for g, *at in gammas)

            tension = minimize_scalar(lost, bounds=(0, 100), method="bounded", options={"xatol": 1e-8}).x
    best = []
    for words, e in zip(source, target, strict=True):
        f, row = [None, *words], []
        for i, t in enumerate(e, 1):
            scores = [theta[s, t] * delta(j, i, len(e), len(words), tension, settings.null) for j, s in enumerate(f)]
            row.append(max(range(len(f)), key=lambda j: scores[j]) - 1 if words else -1)
        best.append(row)
    return best, tension, logps


@pytest.mark.parametrize("alpha", [0.0, 0.01])
def test_the_vectorised_model_is_the_loops(alpha: float) -> None:
    source, target = corpus(1)
    source += [[], [1, 2], [3]]
    target += [[4], [], [6]]
    settings = replace(SETTINGS, alpha=alpha)
    best, tension, logps = naive(source, target, settings)
    found = align(source, target, settings)
    assert found.sources == best
    assert found.tension == pytest.approx(tension, abs=1e-4)
    assert found.logp == pytest.approx(logps, rel=1e-6)


def test_blocks_change_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    source, target = corpus(2)
    whole = align(source, target, SETTINGS)
    monkeypatch.setattr(ibm, "BLOCK", 40)
    parts = align(source, target, SETTINGS)
    assert parts.sources == whole.sources
    assert parts.tension == pytest.approx(whole.tension)


def test_likelihood_never_falls() -> None:
    source, target = corpus(3, 200)
    logp = align(source, target, AlignerSettings(alpha=0.0)).logp
    assert all(b >= a - 1e-9 for a, b in itertools.pairwise(logp[:5]))
    assert all(b >= a - 1e-9 for a, b in itertools.pairwise(logp[5:]))


def test_words_of_a_dictionary_are_found() -> None:
    source, target = corpus(4, 300)
    forward, backward = align_text(
        [[f"s{w}" for w in words] for words in source], [[f"t{w}" for w in words] for words in target]
    )
    for links, least in ((forward, 0.95), (backward, 0.85)):
        pairs = [(source[k][s], target[k][t] // 2) for k, some in enumerate(links) for s, t in some]
        assert sum(a == b for a, b in pairs) / len(pairs) > least
    assert all(len({t for _, t in some}) == len(some) for some in forward)
    assert all(len({s for s, _ in some}) == len(some) for some in backward)


def test_nothing_to_learn_from() -> None:
    assert align([[], []], [[1], []]).links() == [frozenset(), frozenset()]
    assert align_text([], []) == ([], [])
