"""The rules by which a model and a schedule are chosen for a corpus and a budget of time."""

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace

ATTENTION = {
    "plain": "",
    "relative": ", self-attention with relative positions",
    "hard-coded": ", hard-coded self-attention",
}
"""Kinds of self-attention, and what is said of them."""


@dataclass(frozen=True)
class Size:
    """A Transformer of so many blocks on each side."""

    width: int
    blocks: int
    pairs: int
    """The smallest corpus, in pairs, for which it is proposed."""
    tokens: float
    """The smallest number of target tokens, repeated ones included, for which a budget must have room."""
    lr: float
    most: float = math.inf
    """The largest corpus, in pairs, for which it is proposed."""
    passes: int = 0
    """The smallest number of passes over the corpus for which a budget must have room."""
    inner: int = 0
    """The width inside its feed-forward blocks; 0: four times the width."""
    batch: int = 0
    """Target tokens in a batch; 0: as many as `UPDATES` allows, but at least `least`."""
    least: int = 1024
    optimiser: str = "adam"
    adam: float = 0.0
    """The rate of Adam where Muon is slow; 0: Adam is proposed anyway."""
    attention: str = "plain"
    """Self-attention, of `ATTENTION`."""
    entries: int = 0
    """Of the vocabulary; 0: as many as `VOCABULARIES` has for the corpus."""
    r_drop: float = 0.0
    """The weight of R-Drop."""

    def plain(self) -> "Size":
        """The same with Adam, for a machine on which Muon is slow: without kernels it takes most of an update."""
        if self.optimiser == "adam":
            return self
        return replace(self, optimiser="adam", lr=self.adam, least=BATCHES[0])

    def suits(self, pairs: int) -> bool:
        """Whether it is one for a corpus of so many pairs."""
        return self.pairs <= pairs <= self.most

    def needs(self, tokens: float) -> float:
        """The target tokens, repeated ones included, for which a budget must have room, of a corpus of so many."""
        return min(max(self.tokens, self.passes * tokens), MOST_PASSES * tokens)

    @property
    def heads(self) -> int:
        """Attention heads of a width of 64, at least 4 of them."""
        return max(4, self.width // 64)

    @property
    def text(self) -> str:
        """The size in words."""
        return f"{self.blocks} + {self.blocks} blocks of width {self.width}{' with R-Drop' * bool(self.r_drop)}"


# From those that little time trains well to those that want more; the largest is the base model of Vaswani et al. (2017). The
# numbers of tokens are estimates; in the time of 0.7 million tokens of the second the first learns far more (decision 57).
# The narrow one is that of examples/multi30k-tiny.toml: of a small corpus many passes teach it more than they teach a wider
# one (docs/decisions/0050-recipes-of-other-families.md). Muon and relative positions teach more in as much time as Adam and
# plain ones (docs/decisions/0057-what-a-quarter-of-an-hour-teaches.md). Few pairs want small batches and, from many passes, R-Drop
# (docs/decisions/0066-r-drop-for-few-pairs.md).
SIZES = (
    Size(128, 2, 0, 0, 0.004, optimiser="muon", adam=0.003, attention="relative"),
    Size(128, 2, 0, 0, 0.004, 10_000, 30, optimiser="muon", adam=0.003, attention="relative", r_drop=1.0),
    Size(256, 2, 10_000, 2e6, 0.004, least=2048, optimiser="muon", adam=0.002, attention="relative"),
    Size(256, 3, 20_000, 5e6, 0.004, least=2048, optimiser="muon", adam=0.002, attention="relative"),
    Size(
        *(128, 4, 20_000, 0, 0.005, 50_000, 50, 256, 4096),
        optimiser="muon",
        adam=0.005,
        attention="relative",
        entries=10_000,
    ),
    Size(512, 6, 400_000, 100e6, 0.0007),
)
VOCABULARIES = ((10_000, 2_000), (50_000, 4_000), (400_000, 8_000), (2_000_000, 16_000), (math.inf, 32_000))
"""(pairs, entries): the vocabulary for corpora of up to so many pairs."""
PASSES = ((50_000, 30), (400_000, 20), (2_000_000, 10), (math.inf, 5))
"""(pairs, passes): passes over corpora of up to so many pairs, where no budget of time is given."""
MOST_PASSES = 100
"""With more passes a model only memorises the text."""
UPDATES = 10_000
"""The batch is the largest with which the budget has so many updates."""
BATCHES = (1024, 2048, 4096, 8192)
TRAINING_SHARE = 0.9
"""The share of a budget of time for training; the rest is for compiling the corpus, validations and the end."""
VALIDATION_SHARE = 0.06
"""The share of the training time for validations; there are at least `VALIDATIONS[0]`."""
VALIDATIONS = 3, 20
"""The smallest and the largest number of validations."""
STEP = 4
"""Tokens trained on in the time of one greedy step for one sentence, on a processor, with 200 sentences in a batch."""

Pace = Callable[[Size, int], float]
"""Target tokens a second of a size, in batches of so many tokens."""


@dataclass(frozen=True)
class CorpusFigures:
    """The figures of a corpus that the rules need."""

    pairs: int
    tokens: float
    """Target tokens of one pass, end symbols included."""
    valid: float
    """Target tokens of the validation text."""
    translated: float
    """Target tokens of the sentences that each validation translates."""

    @property
    def validation(self) -> float:
        """The cost of a validation, in target tokens of training: one forward pass, and a search step for each word."""
        return self.valid / 3 + STEP * self.translated


@dataclass(frozen=True)
class Choice:
    """Sizes and limits of an experiment, with the figures that follow from them."""

    size: Size
    batch: int
    pace: float
    """Target tokens a second."""
    passes: float
    """Over the corpus, at this pace."""
    seconds: float
    """Of training, without validations."""
    timed: bool
    """Whether the clock ends it; else it ends after `passes`."""
    validations: int
    """The number of validations, which take a small share of the time."""
    larger: Size | None = None
    """The next size, which a longer budget would allow."""

    @property
    def dropout(self) -> float:
        """More dropout for more passes over the corpus, but for R-Drop, which is more of it itself."""
        if self.size.r_drop:
            return 0.2
        return 0.1 if self.passes <= 10 else 0.2 if self.passes < 30 else 0.3


def vocabulary(pairs: int) -> int:
    """Entries of the vocabulary for a corpus of so many pairs; its text may allow fewer or need more."""
    wanted = next(entries for most, entries in VOCABULARIES if pairs <= most)
    return min(wanted, max(300, pairs // 2))


def choose(corpus: CorpusFigures, budget: float | None, pace: Pace, sizes: Sequence[Size] = SIZES) -> Choice:
    """The last size for which the corpus and the budget, in seconds, are enough; without a budget, the corpus alone decides."""
    fed = [size for size in sizes if size.suits(corpus.pairs)]
    if budget is None:
        size = fed[-1]
        passes = float(max(size.passes, next(n for most, n in PASSES if corpus.pairs <= most)))
        batch = size.batch or _batch(passes * corpus.tokens, size.least)
        speed = pace(size, batch)
        seconds = passes * corpus.tokens / speed
        return Choice(size, batch, speed, passes, seconds, False, _validations(corpus, speed * seconds))
    larger = None
    for size in reversed(fed):
        speed = pace(size, size.least)
        seconds = min(TRAINING_SHARE * budget, MOST_PASSES * corpus.tokens / speed)
        if speed * seconds >= size.needs(corpus.tokens):
            break
        larger = size
    if (batch := size.batch or _batch(speed * seconds, size.least)) != size.least:
        speed = pace(size, batch)
    seconds = min(TRAINING_SHARE * budget, MOST_PASSES * corpus.tokens / speed)
    timed = seconds == TRAINING_SHARE * budget
    tokens = speed * seconds
    return Choice(
        size, batch, speed, tokens / corpus.tokens, seconds, timed, _validations(corpus, tokens, seconds), larger
    )


def _validations(corpus: CorpusFigures, tokens: float, seconds: float = math.inf) -> int:
    """The number of validations in a training on so many tokens: at most one per minute of a budget."""
    least, most = VALIDATIONS
    return round(min(most, max(least, min(seconds / 60, VALIDATION_SHARE * tokens / corpus.validation))))


def _batch(tokens: float, least: int) -> int:
    return max([batch for batch in BATCHES if tokens / batch >= UPDATES and batch > least], default=least)
