"""Tests of significance, held against distributions counted out in full and against sacrebleu's."""

import itertools
import math
import random
from collections.abc import Sequence
from dataclasses import replace

import numpy as np
import pytest
from sacrebleu.metrics.bleu import BLEU
from sacrebleu.significance import PairedTest

from calque.evaluate.significance import (
    FAILS,
    HOLDS,
    RELATIONS,
    UNDECIDED,
    Comparison,
    bootstrap,
    compare_rows,
    compare_statistics,
    exchange,
    median_interval,
    shuffle,
    verdict,
)
from calque.evaluate.statistics import Measure, measure

# Right words of all words: a ratio, so that sums matter and not means.
RATIO = Measure("ratio", lambda h, r: np.zeros((0, 2)), lambda s: 100 * s[..., 0] / s[..., 1], lambda: "none")


def statistics(runs: int, sentences: int, seed: int) -> np.ndarray:
    rng = np.random.default_rng(seed)
    words = rng.integers(1, 9, (runs, sentences))
    return np.stack([rng.integers(0, words + 1), words], -1).astype(float)


@pytest.mark.parametrize(("runs_a", "runs_b", "sentences"), [(1, 1, 8), (2, 2, 3), (1, 2, 4), (3, 3, 2)])
def test_shuffles_are_all_deals_equally_likely(runs_a: int, runs_b: int, sentences: int) -> None:
    a, b = statistics(runs_a, sentences, 1), statistics(runs_b, sentences, 2)
    pool = np.concatenate([a, b])
    deals = []
    for chosen in itertools.product(itertools.combinations(range(len(pool)), runs_a), repeat=sentences):
        mine = sum(pool[list(c), k].sum(0) for k, c in enumerate(chosen))
        deals.append(RATIO.score(mine) - RATIO.score(pool.sum((0, 1)) - mine))
    exact = np.array(deals)
    found = shuffle(RATIO, a, b, 40_000, np.random.default_rng(3))
    for bound in np.quantile(np.abs(exact), [0.2, 0.5, 0.8, 0.95]):
        assert (np.abs(found) >= bound - 1e-9).mean() == pytest.approx(
            (np.abs(exact) >= bound - 1e-9).mean(), abs=0.015
        )
    compared = compare_statistics(RATIO, a, b, trials=40_000)
    assert compared.p == pytest.approx((np.abs(exact) >= abs(compared.delta) - 1e-9).mean(), abs=0.015)
    assert compared.delta == pytest.approx(RATIO.score(a.sum((0, 1))) - RATIO.score(b.sum((0, 1))))


def test_bootstraps_are_all_draws_equally_likely() -> None:
    a, b = statistics(2, 3, 4), statistics(1, 3, 5)
    draws = []
    for drawn in itertools.product(range(3), repeat=3):
        for runs in itertools.product(range(2), repeat=2):
            mine = a[np.array(runs)][:, np.array(drawn)].sum((0, 1))
            draws.append(RATIO.score(mine) - RATIO.score(b[0, np.array(drawn)].sum(0)))
    exact = np.array(draws)
    found = bootstrap(RATIO, a, b, 40_000, np.random.default_rng(6))
    assert found.mean() == pytest.approx(exact.mean(), abs=0.5)
    assert found.std() == pytest.approx(exact.std(), rel=0.03)
    for bound in np.quantile(exact, [0.1, 0.5, 0.9]):
        assert (found >= bound - 1e-9).mean() == pytest.approx((exact >= bound - 1e-9).mean(), abs=0.015)


def test_runs_of_the_same_models_are_drawn_and_swapped_together() -> None:
    a, b = statistics(2, 3, 4), statistics(2, 3, 5)
    swaps = []
    for chosen in itertools.product((False, True), repeat=6):
        mine = np.where(np.reshape(chosen, (2, 3, 1)), a, b).sum((0, 1))
        swaps.append(RATIO.score(mine) - RATIO.score((a + b).sum((0, 1)) - mine))
    draws = []
    for drawn in itertools.product(range(3), repeat=3):
        for runs in itertools.product(range(2), repeat=2):
            mine, theirs = (x[np.array(runs)][:, np.array(drawn)].sum((0, 1)) for x in (a, b))
            draws.append(RATIO.score(mine) - RATIO.score(theirs))
    swapped = exchange(RATIO, a, b, 40_000, np.random.default_rng(3))
    drawn_together = bootstrap(RATIO, a, b, 40_000, np.random.default_rng(6), paired=True)
    for exact, found in ((np.array(swaps), swapped), (np.array(draws), drawn_together)):
        for bound in np.quantile(exact, [0.1, 0.5, 0.9]):
            assert (found >= bound - 1e-9).mean() == pytest.approx((exact >= bound - 1e-9).mean(), abs=0.015)


def noisy(reference: Sequence[str], share: float, seed: int) -> list[str]:
    rng = random.Random(seed)
    return [" ".join("x" if rng.random() < share else w for w in line.split()) for line in reference]


def corpus(lines: int = 200) -> list[str]:
    rng = random.Random(0)
    return [" ".join(rng.choice("abcdefghij") for _ in range(rng.randint(5, 20))) for _ in range(lines)]


@pytest.mark.parametrize("share", [0.11, 0.13, 0.2])
def test_single_systems_agree_with_sacrebleu(share: float) -> None:
    references = corpus()
    a, b = noisy(references, 0.1, 1), noisy(references, share, 2)
    metric = measure("bleu", tokenize="none")
    found = compare_rows([a], [b], references, metric, trials=4000)
    theirs = {}
    for kind, trials in (("ar", 4000), ("bs", 2000)):
        metrics = {"BLEU": BLEU(tokenize="none", force=True)}
        _, results = PairedTest([("a", a), ("b", b)], metrics, [references], kind, trials)()
        assert found.a[0] == pytest.approx(results["BLEU"][0].score, abs=1e-9)
        assert found.b[0] == pytest.approx(results["BLEU"][1].score, abs=1e-9)
        theirs[kind] = results["BLEU"][1].p_value
    assert found.p == pytest.approx(theirs["ar"], abs=0.03)
    # sacrebleu's p asks how often a resampled difference, taken absolutely and less its mean, exceeds the one observed.
    drawn = np.abs(
        bootstrap(metric, *(metric.statistics(x, references)[None] for x in (a, b)), 4000, np.random.default_rng(1))
    )
    assert (drawn - drawn.mean() > abs(found.delta)).mean() == pytest.approx(theirs["bs"], abs=0.03)
    if found.p < 0.3:  # away from 0, where taking them absolutely folds nothing, it is Koehn's
        assert found.p_bootstrap == pytest.approx(theirs["bs"], abs=0.04)


def test_a_comparison_of_runs() -> None:
    references = corpus(100)
    a = [noisy(references, 0.1, seed) for seed in range(3)]
    b = [noisy(references, 0.3, 10 + seed) for seed in range(3)]
    for name in ("bleu", "chrf", "ter"):
        metric = measure(name, tokenize="none")
        found = compare_rows(a, b, references, metric, trials=500)
        sign = 1 if metric.higher_is_better else -1
        assert sign * found.delta > 0
        assert found.interval[0] <= found.delta <= found.interval[1]
        assert found.p == found.p_bootstrap == 1 / 501
        assert (len(found.a), len(found.b)) == (3, 3)
        assert verdict(">", found) == HOLDS
        assert verdict("<", found) == FAILS
        other = compare_rows(b, a, references, metric, trials=500)
        assert other.delta == pytest.approx(-found.delta)
        assert other.signature == metric.signature() == found.signature
    # Seeds that differ more than the systems decide nothing.
    mixed = [noisy(references, 0.05, 5), noisy(references, 0.4, 6)]
    between = [noisy(references, 0.2, 7), noisy(references, 0.21, 8)]
    wide = compare_rows(mixed, between, references, measure("bleu", tokenize="none"), trials=500)
    assert wide.interval[0] < 0 < wide.interval[1]


def test_equal_systems_are_not_told_apart() -> None:
    references = corpus(50)
    runs = [noisy(references, 0.1, 1), noisy(references, 0.1, 2)]
    for system in (runs[:1], runs):
        found = compare_rows(system, list(system), references, measure("chrf"), trials=300)
        assert (found.delta, found.p) == (0, 1)
        assert found.p_bootstrap == 1
        assert verdict(">", found) == verdict("<", found) == UNDECIDED
    one = compare_rows(runs[:1], runs[:1], references, measure("chrf"), trials=300)
    assert one.interval == (0, 0)
    assert verdict("~", one) == HOLDS


def test_the_seed_decides_and_blocks_do_not(monkeypatch: pytest.MonkeyPatch) -> None:
    a, b = statistics(2, 40, 1), statistics(2, 40, 2)
    first = compare_statistics(RATIO, a, b, trials=1000, seed=1)
    assert first == compare_statistics(RATIO, a, b, trials=1000, seed=1)
    assert first.interval != compare_statistics(RATIO, a, b, trials=1000, seed=2).interval
    monkeypatch.setattr("calque.evaluate.significance.BLOCK", 1000)
    assert len(shuffle(RATIO, a, b, 1001, np.random.default_rng(1))) == 1001


def test_what_cannot_be_compared() -> None:
    metric = measure("bleu")
    with pytest.raises(ValueError, match="at least one"):
        compare_rows([], [["a"]], ["a"], metric)
    with pytest.raises(ValueError, match="at least one"):
        compare_rows([[]], [[]], [], metric)
    with pytest.raises(ValueError, match="as many"):
        compare_rows([["a"]], [["a", "b"]], ["a"], metric)


def compared(delta: float, p: float, low: float, high: float, higher: bool = True) -> Comparison:
    found = Comparison("BLEU", "", higher, (0.0,), (0.0,), delta, p, p, (low, high), 0.05, 100, 1)
    return found if higher else replace(found, delta=-delta, interval=(-high, -low))


@pytest.mark.parametrize("higher", [True, False])
@pytest.mark.parametrize(
    ("delta", "p", "low", "high", "expected"),
    [
        (1.0, 0.01, 0.6, 1.4, (HOLDS, FAILS, FAILS, HOLDS, FAILS)),
        (-1.0, 0.01, -1.4, -0.6, (FAILS, HOLDS, FAILS, FAILS, HOLDS)),
        (0.1, 0.6, -0.2, 0.4, (UNDECIDED, UNDECIDED, HOLDS, HOLDS, HOLDS)),
        (0.3, 0.02, 0.1, 0.45, (HOLDS, FAILS, HOLDS, HOLDS, HOLDS)),
        (0.5, 0.2, -0.3, 1.3, (UNDECIDED, UNDECIDED, UNDECIDED, HOLDS, UNDECIDED)),
        (0.8, 0.01, -0.3, 1.9, (UNDECIDED, UNDECIDED, UNDECIDED, HOLDS, UNDECIDED)),
        (0.0, 1.0, -2.0, 2.0, (UNDECIDED,) * 5),
    ],
)
def test_verdicts(higher: bool, delta: float, p: float, low: float, high: float, expected: tuple[str, ...]) -> None:
    found = compared(delta, p, low, high, higher)
    assert tuple(verdict(relation, found) for relation in RELATIONS) == expected


def test_the_margin_and_the_relation_are_the_callers() -> None:
    found = compared(0.1, 0.6, -0.2, 0.4)
    assert verdict("~", found, margin=0.3) == UNDECIDED
    with pytest.raises(ValueError, match="expected one of"):
        verdict("=", found)


@pytest.mark.parametrize(
    ("count", "low", "high"),
    [(1, 1, 1), (2, 1, 2), (5, 1, 5), (6, 1, 6), (8, 1, 8), (9, 2, 8), (12, 3, 10), (30, 10, 21)],
)
def test_the_interval_of_a_median_is_that_of_the_sign_test(count: int, low: int, high: int) -> None:
    values = [float(x) for x in range(count, 0, -1)]
    assert median_interval(values) == (low, (count + 1) / 2, high)


def test_the_interval_encloses_the_median_as_often_as_it_says() -> None:
    drawn = np.random.default_rng(7).exponential(size=(4000, 12))
    hit = [low <= math.log(2) <= high for low, _, high in map(median_interval, drawn.tolist())]
    assert 0.95 < sum(hit) / len(hit) < 0.98
