"""The words and n-grams of the references that hypotheses have: by order, by frequency, and one by one."""

from bisect import bisect_right
from collections import Counter
from collections.abc import Callable, Hashable, Iterable, Mapping, Sequence
from dataclasses import dataclass

from calque.evaluate.scores import sacrebleu_metric

Sentence = tuple[str, ...]
Gram = tuple[str, ...]


def tokeniser(tokenize: str = "13a", lowercase: bool = False) -> Callable[[str], Sentence]:
    """The function by which BLEU cuts a line into words."""
    metric = sacrebleu_metric("bleu", tokenize, lowercase)
    return lambda line: tuple(metric._preprocess_segment(line).split())


def grams(words: Sentence, n: int) -> Counter[Gram]:
    """The n-grams of a sentence, with their counts."""
    return Counter(words[k : k + n] for k in range(len(words) - n + 1))


@dataclass(frozen=True)
class Overlap:
    """Counts of n-grams: of hypotheses, of references, and matched; a match counts as often as both have it."""

    matched: int = 0
    hypothesis: int = 0
    reference: int = 0

    @property
    def precision(self) -> float | None:
        """Per cent of the hypotheses' n-grams; None where there are none."""
        return 100 * self.matched / self.hypothesis if self.hypothesis else None

    @property
    def recall(self) -> float | None:
        """Per cent of the references' n-grams; None where there are none."""
        return 100 * self.matched / self.reference if self.reference else None

    @property
    def f1(self) -> float | None:
        """2 P R / (P + R), in per cent: twice the matches over the n-grams of both; None where there are none."""
        both = self.hypothesis + self.reference
        return 200 * self.matched / both if both else None


def overlaps(
    pairs: Iterable[tuple[Sentence, Sentence]], n: int, group: Callable[[Gram], Hashable]
) -> dict[Hashable, Overlap]:
    """The overlap of hypotheses with references, sentence by sentence, for each group of n-grams."""
    counts: dict[Hashable, list[int]] = {}
    for hypothesis, reference in pairs:
        ours, theirs = grams(hypothesis, n), grams(reference, n)
        for k, counter in enumerate((ours & theirs, ours, theirs)):
            for gram, count in counter.items():
                counts.setdefault(group(gram), [0, 0, 0])[k] += count
    return {key: Overlap(*three) for key, three in counts.items()}


FREQUENCIES = (1, 2, 3, 4, 5, 10, 100, 1000)
"""The lower ends of buckets of frequency; before them is the bucket of unseen words."""


def frequency_bucket(count: int) -> int:
    """The bucket of a word that was seen `count` times."""
    return bisect_right(FREQUENCIES, count)


def bucket_name(starts: Sequence[int], k: int) -> str:
    """`0`, `1`, `5-9`, `1000+`: the k-th bucket of whole numbers, from 0, cut at `starts`."""
    first = starts[k - 1] if k else 0
    if k == len(starts):
        return f"{first}+"
    last = starts[k] - 1
    return str(first) if first == last else f"{first}-{last}"


def count_words(lines: Iterable[Sentence]) -> Counter[str]:
    """The counts of the words of a text."""
    return Counter(word for words in lines for word in words)


@dataclass(frozen=True)
class Salient:
    """An n-gram, and how often each system's hypotheses match it in a reference, as a mean over runs.

    `share` is (a + 1) / (a + b + 2): a's share of the matches, smoothed by one for each.
    """

    gram: Gram
    a: float
    b: float

    @property
    def share(self) -> float:
        """More than 1/2 where a matches it more often."""
        return (self.a + 1) / (self.a + self.b + 2)


def matches(runs: Sequence[Sequence[Sentence]], references: Sequence[Sentence], orders: int) -> Mapping[Gram, float]:
    """How often each n-gram, n up to `orders`, is matched, per run."""
    counts: Counter[Gram] = Counter()
    for run in runs:
        for hypothesis, reference in zip(run, references, strict=True):
            for n in range(1, orders + 1):
                counts.update(grams(hypothesis, n) & grams(reference, n))
    return {gram: count / len(runs) for gram, count in counts.items()}


def salient(a: Mapping[Gram, float], b: Mapping[Gram, float], most: int) -> tuple[list[Salient], list[Salient]]:
    """The n-grams that a matches more than b, and those that b matches more than a, by `share`; of equal ones the longer first."""
    every = [Salient(gram, a.get(gram, 0.0), b.get(gram, 0.0)) for gram in {**a, **b}]
    ours = sorted((s for s in every if s.a > s.b), key=lambda s: (-s.share, -len(s.gram), s.gram))
    theirs = sorted((s for s in every if s.b > s.a), key=lambda s: (s.share, -len(s.gram), s.gram))
    return ours[:most], theirs[:most]
