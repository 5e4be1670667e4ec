"""What the sides of pairs say about each other, against the formulas word by word."""

import math
from collections import Counter, defaultdict

import numpy as np
import pytest

from calque.align import mutual
from calque.align.mutual import ANY, NULL, SAME, Mutual, Pair, words_of


def expected(pairs: list[list[list[str]]], rounds: int = 5) -> dict[tuple[str, str], float]:
    """theta of IBM model 1 for pairs (f, e) of words; the null word is empty."""
    words = {word for _, e in pairs for word in e}
    theta: dict[tuple[str, str], float] = defaultdict(lambda: 1 / len(words))
    for _ in range(rounds):
        theta = normalised(counted(pairs, theta))
    return theta


def posterior(f: list[str], e: list[str], theta: dict[tuple[str, str], float]) -> Counter[tuple[str, str]]:
    """The expected counts of one pair."""
    found: Counter[tuple[str, str]] = Counter()
    for target in e:
        cells = [("", NULL), *((source, (1 - NULL) / len(f)) for source in f)]
        each = [(source, theta[source, target] * prior) for source, prior in cells]
        total = sum(p for _, p in each)
        for source, p in each:
            found[source, target] += p / total if total else 0  # type: ignore[assignment]
    return found


def counted(pairs: list[list[list[str]]], theta: dict[tuple[str, str], float]) -> Counter[tuple[str, str]]:
    found: Counter[tuple[str, str]] = Counter()
    for f, e in pairs:
        found.update(posterior(f, e, theta))
    return found


def normalised(counts: Counter[tuple[str, str]]) -> dict[tuple[str, str], float]:
    total: Counter[str] = Counter()
    for (source, _), count in counts.items():
        total[source] += count
    return defaultdict(float, {key: count / total[key[0]] for key, count in counts.items()})


def gain(learned: list[list[list[str]]], f: list[str], e: list[str]) -> float:
    """gain(e | f), as the module's formulas have it."""
    theta = expected(learned)
    counts = counted(learned, theta)
    if [f, e] in learned:
        counts.subtract(posterior(f, e, theta))
    of_source: Counter[str] = Counter()
    for (source, _), count in counts.items():
        of_source[source] += count
    seen = Counter(word for _, some in learned for word in some)
    vocabulary = {word for pair in learned for some in pair for word in some}
    both = {w for some, _ in learned for w in some} & {w for _, some in learned for w in some}
    share = {word: (seen[word] + 0.5) / (sum(seen.values()) + (len(vocabulary) + 1) / 2) for word in [*vocabulary, *e]}
    total = 0.0
    for target in e:
        p = NULL * share[target]
        for source in f:
            own = counts[source, target] + ANY * share[target] + SAME * (source == target)
            p += (1 - NULL) / len(f) * own / (of_source[source] + ANY + SAME * (source in both))
        total += math.log(p / share[target])
    return total / len(e)


LEARNED: list[Pair] = [
    ("a dog runs", "ein hund rennt"),
    ("a cat", "eine katze"),
    ("a dog", "ein hund"),
    ("A dog", " ein Hund"),
    ("the dog and the cat of 1987", "der hund und die katze von 1987"),
    ("a dog", "ein hund"),  # once more
    ("runs", ""),
]
OTHERS: list[Pair] = [
    ("a cat runs", "eine katze rennt"),
    ("a cat", "ein hund"),
    ("unseen 1999", "neu 1999 , neu"),
    ("", "a"),
    ("dog dog", "hund"),
]


def test_scores_are_those_of_the_formulas(monkeypatch: pytest.MonkeyPatch) -> None:
    sides = [
        [words_of(one), words_of(other)] for one, other in dict.fromkeys((a.strip(), b.strip()) for a, b in LEARNED)
    ]
    usable = [pair for pair in sides if all(pair)]
    wanted = []
    for pair in LEARNED + OTHERS:
        f, e = map(words_of, pair)
        turned = [[b, a] for a, b in usable]
        wanted.append(min(gain(usable, f, e), gain(turned, e, f)) if f and e else -math.inf)
    for cells in (1_000_000, 1):  # all together, and each alone
        monkeypatch.setattr(mutual, "CELLS", cells)
        np.testing.assert_allclose(Mutual(LEARNED).scores(LEARNED + OTHERS), wanted, rtol=1e-9)


def test_a_pair_does_not_explain_itself() -> None:
    """Words that are nowhere else say nothing of each other, unless they are the same."""
    learned = [*LEARNED, ("xyz uvw", "qrs klm"), ("xyz 1789", "xyz 1789")]
    apart, same = Mutual(learned).scores(learned[-2:])
    assert apart < 0 < same


def test_words() -> None:
    assert words_of("The women's houses, 12.50 €_x") == [
        "the",
        "women",
        "'",
        "s",
        "house",
        ",",
        "12",
        ".",
        "50",
        "€",
        "x",
    ]
    assert words_of("漢字かな ไทย") == [*"漢字かなไทย"]
    assert words_of("हिन्दी நூல்") == ["हिन्द", "நூல்"]  # with the signs of their vowels
    assert words_of("كِتَابٌ") == words_of("كتاب")  # without them
    assert words_of("Größe") == words_of("Gro\u0308ße") == ["größe"]
    assert len(words_of("a " * 1000)) == mutual.LONGEST
