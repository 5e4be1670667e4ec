"""Which model and which schedule suit a corpus and a budget of time: rules, without a measurement of their own."""

import math
from collections.abc import Callable
from dataclasses import dataclass


@dataclass(frozen=True)
class Size:
    """A Transformer of so many blocks on each side."""

    width: int
    blocks: int
    pairs: int
    """The corpus, in pairs, from which it is proposed."""
    tokens: float
    """The target tokens, repeated ones included, that a budget must have room for before it is proposed."""
    lr: float

    @property
    def heads(self) -> int:
        return max(4, self.width // 64)

    @property
    def text(self) -> str:
        return f"{self.blocks} + {self.blocks} blocks of width {self.width}"


# From small to large; the largest is the base model of Vaswani et al. (2017). The numbers of tokens are a judgement. For the second
# size it rests on a training: 600 batches of Multi30k English-German, 0.55 million target tokens, gave BLEU 20.8 on test2016.
SIZES = (
    Size(128, 2, 0, 0, 0.003),
    Size(256, 2, 0, 3e5, 0.002),
    Size(256, 3, 20_000, 5e6, 0.002),
    Size(512, 6, 400_000, 100e6, 0.0007),
)
VOCABULARIES = ((10_000, 2_000), (50_000, 4_000), (400_000, 8_000), (2_000_000, 16_000), (math.inf, 32_000))
"""Entries for corpora of up to so many pairs."""
PASSES = ((50_000, 30), (400_000, 20), (2_000_000, 10), (math.inf, 5))
"""Passes over corpora of up to so many pairs, where no budget of time is given."""
MOST_PASSES = 100
"""More passes over a text only teach it by heart."""
UPDATES = 10_000
"""A batch grows as long as the budget still has so many updates."""
BATCHES = (1024, 2048, 4096, 8192)
TRAINING_SHARE = 0.9
"""Of a budget of time; the rest is for compiling the corpus, validations and the end."""
VALIDATION_SHARE = 0.06
"""Of the time of training, for validations; at least `VALIDATIONS[0]` of them are made."""
VALIDATIONS = 3, 20
"""At least, and at most."""
STEP = 4
"""The tokens that training does in the time of one greedy step for one sentence, on a processor, 200 sentences together."""

Pace = Callable[[Size, int], float]
"""Target tokens a second of a size, in batches of so many tokens."""


@dataclass(frozen=True)
class CorpusFigures:
    """What the rules read of a corpus."""

    pairs: int
    tokens: float
    """Target tokens of one pass, end symbols included."""
    valid: float
    """Target tokens of the validation text."""
    translated: float
    """Those of its sentences that each validation translates."""

    @property
    def validation(self) -> float:
        """What a validation costs, in target tokens of training: one pass forward, and a search step for each word."""
        return self.valid / 3 + STEP * self.translated


@dataclass(frozen=True)
class Choice:
    """Sizes and limits of an experiment, and what follows from them."""

    size: Size
    batch: int
    pace: float
    """Target tokens a second."""
    passes: float
    """Over the corpus, at this pace."""
    seconds: float
    """Of training, validations left out."""
    timed: bool
    """Ended by the clock, else after `passes`."""
    validations: int
    """As many as take a small share of the time."""
    larger: Size | None = None
    """What a longer budget would have allowed."""

    @property
    def dropout(self) -> float:
        return 0.1 if self.passes <= 10 else 0.2 if self.passes <= 30 else 0.3


def vocabulary(pairs: int) -> int:
    """Entries of a vocabulary for a corpus, before what its text allows."""
    wanted = next(entries for most, entries in VOCABULARIES if pairs <= most)
    return min(wanted, max(300, pairs // 2))


def choose(corpus: CorpusFigures, budget: float | None, pace: Pace) -> Choice:
    """The largest size that the corpus feeds and the budget, in seconds, trains; without a budget the largest for the corpus."""
    fed = [size for size in SIZES if size.pairs <= corpus.pairs]
    if budget is None:
        size = fed[-1]
        passes = float(next(n for most, n in PASSES if corpus.pairs <= most))
        batch = _batch(passes * corpus.tokens)
        speed = pace(size, batch)
        seconds = passes * corpus.tokens / speed
        return Choice(size, batch, speed, passes, seconds, False, _validations(corpus, speed * seconds))
    larger = None
    for size in reversed(fed):
        speed = pace(size, BATCHES[0])
        seconds = min(TRAINING_SHARE * budget, MOST_PASSES * corpus.tokens / speed)
        if speed * seconds >= min(size.tokens, MOST_PASSES * corpus.tokens):
            break
        larger = size
    if (batch := _batch(speed * seconds)) != BATCHES[0]:
        speed = pace(size, batch)
    seconds = min(TRAINING_SHARE * budget, MOST_PASSES * corpus.tokens / speed)
    timed = seconds == TRAINING_SHARE * budget
    tokens = speed * seconds
    return Choice(
        size, batch, speed, tokens / corpus.tokens, seconds, timed, _validations(corpus, tokens, seconds), larger
    )


def _validations(corpus: CorpusFigures, tokens: float, seconds: float = math.inf) -> int:
    """In a training on so many tokens: no more than one a minute of a budget."""
    least, most = VALIDATIONS
    return round(min(most, max(least, min(seconds / 60, VALIDATION_SHARE * tokens / corpus.validation))))


def _batch(tokens: float) -> int:
    return max([batch for batch in BATCHES if tokens / batch >= UPDATES], default=BATCHES[0])
