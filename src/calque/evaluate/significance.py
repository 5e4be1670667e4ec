"""Whether one system is better than another by more than chance: paired bootstrap, approximate randomisation, verdicts.

Everything is computed from per-sentence sufficient statistics. A system may be several runs of one recipe (seeds); its score here
is that of all its runs as one corpus, as in MultEval (Clark et al. 2011).
"""

import math
import statistics
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from jaxtyping import Float

from calque.evaluate.statistics import CorpusScores, Measure, Sums

HOLDS, FAILS, UNDECIDED = "holds", "does not hold", "undecided"
RELATIONS = (">", "<", "~", ">=", "<=")
BLOCK = 1 << 22
"""So many random numbers are drawn at a time."""

Runs = Float[np.ndarray, "R N k"]


@dataclass(frozen=True, slots=True)
class Comparison:
    """System a against system b by one metric, in its own units."""

    metric: str
    signature: str
    higher_is_better: bool
    a: tuple[float, ...]
    """Scores of the runs of a."""
    b: tuple[float, ...]
    delta: float
    """The score of a minus that of b, the runs of each as one corpus."""
    p: float
    """Approximate randomisation, two-sided."""
    p_bootstrap: float
    """Paired bootstrap: how often the better system is not the better one, one-sided."""
    interval: tuple[float, float]
    """Of delta, by bootstrap."""
    level: float
    """The probability that `interval` misses the difference."""
    trials: int
    seed: int


def compare_rows(
    a: Sequence[Sequence[str]],
    b: Sequence[Sequence[str]],
    references: Sequence[str],
    metric: Measure,
    trials: int = 10_000,
    seed: int = 1,
    level: float = 0.05,
) -> Comparison:
    """Compares two systems, each a list of runs, each run a list of hypotheses in the order of `references`.

    Raises ValueError for lists of unequal length or without a sentence; files are checked before (D501, D502).
    """
    if not references or not a or not b:
        raise ValueError("expected at least one sentence, and one run of each system")
    statistics = [np.stack([metric.statistics(run, references) for run in system]) for system in (a, b)]
    return compare_statistics(metric, *statistics, trials=trials, seed=seed, level=level)


def compare_statistics(
    metric: Measure, a: Runs, b: Runs, *, trials: int = 10_000, seed: int = 1, level: float = 0.05, paired: bool = False
) -> Comparison:
    """`compare_rows` from statistics: runs by sentences by statistics.

    `paired`: each run of a is by the same model as that run of b, so that the spread between models is no part of the difference.
    """
    delta = _delta(metric, a.sum((0, 1)), b.sum((0, 1)))
    sign = np.sign(delta)
    resampled = bootstrap(metric, a, b, trials, np.random.default_rng([seed, 0]), paired)
    shuffled = (exchange if paired else shuffle)(metric, a, b, trials, np.random.default_rng([seed, 1]))
    low, high = np.quantile(resampled, [level / 2, 1 - level / 2])
    # A tie counts as chance: equal systems have p = 1. Rounding must not break one.
    reached = int((np.abs(shuffled) >= abs(delta) - 1e-9).sum())
    turned = int((sign * resampled <= 0).sum())
    return Comparison(
        metric.name,
        metric.signature(),
        metric.higher_is_better,
        tuple(metric.score(a.sum(1)).tolist()),
        tuple(metric.score(b.sum(1)).tolist()),
        float(delta),
        (reached + 1) / (trials + 1),
        (turned + 1) / (trials + 1),
        (float(low), float(high)),
        level,
        trials,
        seed,
    )


def bootstrap(
    metric: Measure, a: Runs, b: Runs, trials: int, rng: np.random.Generator, paired: bool = False
) -> Float[np.ndarray, " T"]:
    """Differences on resampled corpora (Koehn 2004): sentences are drawn with replacement, the same ones for both systems.

    The runs of a system are drawn with replacement too, independently for each system, so that the spread includes the effect of
    the seed. With few runs it underestimates that effect. If they are `paired`, the same ones are drawn for both.
    """
    sentences = a.shape[1]
    blocks = []
    for size in _blocks(trials, sentences):
        drawn = rng.multinomial(sentences, np.full(sentences, 1 / sentences), size=size).astype(np.float64)
        sums: list[Sums] = []
        for runs in (a, b):
            if not (paired and sums):
                weight = rng.multinomial(len(runs), np.full(len(runs), 1 / len(runs)), size=size)
            sums.append(np.einsum("tr,rtk->tk", weight, drawn @ runs))
        blocks.append(_delta(metric, *sums))
    return np.concatenate(blocks)


def shuffle(metric: Measure, a: Runs, b: Runs, trials: int, rng: np.random.Generator) -> Float[np.ndarray, " T"]:
    """Differences if chance had assigned the hypotheses (Noreen 1989; Riezler and Maxwell 2005).

    If both systems were one, either could have written each hypothesis. So all runs of both are shuffled for each sentence, and a
    gets as many as it has runs, b the rest. With one run each, that is a swap with probability 1/2.

    MultEval (Clark et al. 2011) also shuffles within a sentence, but draws for b independently of a, so that both can get the same
    hypothesis; here b gets exactly the hypotheses that a does not get.
    """
    pool = np.concatenate([a, b])
    everything = pool.sum((0, 1))
    runs, sentences, k = pool.shape
    flat = pool.transpose(1, 0, 2).reshape(sentences * runs, k)
    blocks = []
    for size in _blocks(trials, sentences * runs):
        keys = rng.random((size, sentences, runs), dtype=np.float32)
        ours = keys.argsort(-1) < len(a)  # a random rank for each run; the first ones go to a
        mine = ours.reshape(size, -1).astype(np.float64) @ flat
        blocks.append(_delta(metric, mine, everything - mine))
    return np.concatenate(blocks)


def exchange(metric: Measure, a: Runs, b: Runs, trials: int, rng: np.random.Generator) -> Float[np.ndarray, " T"]:
    """`shuffle` of paired runs: what a model wrote for a sentence in both systems is swapped with probability 1/2."""
    runs, sentences, k = a.shape
    ours, theirs = (x.reshape(runs * sentences, k) for x in (a, b))
    everything = (ours + theirs).sum(0)
    blocks = []
    for size in _blocks(trials, sentences * runs):
        kept = rng.random((size, sentences * runs), dtype=np.float32) < 0.5
        mine = kept.astype(np.float64) @ (ours - theirs) + theirs.sum(0)
        blocks.append(_delta(metric, mine, everything - mine))
    return np.concatenate(blocks)


def _blocks(trials: int, width: int) -> list[int]:
    """Trials in portions that fit in memory."""
    most = max(1, BLOCK // width)
    return [min(most, trials - done) for done in range(0, trials, most)]


def _delta(metric: Measure, a: Sums, b: Sums) -> CorpusScores:
    difference: CorpusScores = metric.score(a) - metric.score(b)
    return difference


def verdict(relation: str, comparison: Comparison, *, margin: float = 0.5) -> str:
    """The verdict of a comparison on the claim "a RELATION b": `holds`, `does not hold` or `undecided`.

    Relations are about quality, also where a lower score is better.

        a > b   holds where p < level and the whole interval is in favour of a, does not hold where p < level and all of it is in
                favour of b; `<` the other way round. Shuffling takes runs for sentences; the interval knows how runs differ
        a ~ b   holds where the whole interval is within the margin, does not hold where all of it is outside
        a >= b  (not worse) holds where the interval is above -margin, does not hold where it is below -margin
        a <= b  (no gain) the other way round

    A large p alone never shows that there is no difference: then the claim is `undecided`, unless the interval is short enough.
    """
    if relation not in RELATIONS:
        raise ValueError(f"expected one of {RELATIONS}, found {relation}")
    low, high = comparison.interval
    # From here on positive means: in favour of the claim. Lower scores and the relations < and <= each turn the sign.
    if comparison.higher_is_better == relation.startswith("<"):
        low, high = -high, -low
    if relation in (">", "<"):
        chance = comparison.p >= comparison.level
        return UNDECIDED if chance else HOLDS if low > 0 else FAILS if high < 0 else UNDECIDED
    holds, fails = low > -margin, high < -margin
    if relation == "~":
        holds, fails = holds and high < margin, fails or low > margin
    return HOLDS if holds else FAILS if fails else UNDECIDED


def median_interval(values: Sequence[float], level: float = 0.05) -> tuple[float, float, float]:
    """The median of values, between the nearest two of them that enclose the true one with probability 1 - level or more.

    With n values the k-th smallest and the k-th largest enclose it with probability 1 - 2 P(X < k), X binomial of n and 1/2,
    whatever the distribution. Less than six values enclose it less surely: then it is their whole range.
    """
    ordered, count, k = sorted(values), len(values), 1
    while 2 * sum(math.comb(count, i) for i in range(k + 1)) <= level * 2**count:
        k += 1
    return ordered[k - 1], statistics.median(ordered), ordered[count - k]
