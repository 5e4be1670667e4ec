"""Common parts of the searches: their settings, the score of a hypothesis, and their interface to the loop."""

from abc import ABC, abstractmethod
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any, NamedTuple, cast

from jaxtyping import Bool, Float, Int
from torch import Tensor

from calque.decode.required import Automata, Matched
from calque.layers.state import mapped
from calque.native.kernels import Best


@dataclass(frozen=True)
class Sampling:
    """How words are drawn; as in `calque.experiment.DecodeSettings`."""

    temperature: float = 1.0
    top_k: int = 0
    top_p: float = 1.0
    seed: int = 1
    epsilon: float = 0.0


@dataclass(frozen=True)
class SearchSettings:
    """How to search; `beam`, `normalise`, `alpha`, `stop` and `word_penalty` as in `calque.experiment.DecodeSettings`.

    n_best        hypotheses returned per sentence, at most `beam`
    exact_length  for benchmarks: every hypothesis has exactly so many words, end included; 0: the model ends it
    capacity      0, or the number of words for which states have room; finished sentences then stay in the batch, so that the
                  shapes of a step follow from those of the source and the prefixes alone
    sampling      None, or how to draw `beam` independent hypotheses
    scores        whether greedy search computes scores; else they are 0, and nan where the model computes no numbers
    given         of each prefix, so many first words cost nothing: see `Codec.begins`
    """

    beam: int = 5
    normalise: str = "length"
    alpha: float = 1.0
    n_best: int = 1
    exact_length: int = 0
    capacity: int = 0
    word_penalty: float = 0.0
    sampling: Sampling | None = None
    scores: bool = True
    given: int = 0
    stop: str = "best"

    def __post_init__(self) -> None:
        if self.n_best < 1:  # a caller may raise the beam to it, so that the beam is no bound to name
            raise ValueError(f"n_best must be at least 1, found {self.n_best}")
        if self.n_best > self.beam:
            raise ValueError(f"n_best must be at most beam = {self.beam}, found {self.n_best}")


class FinishedHypotheses(NamedTuple):
    """Finished hypotheses, the best first; a score of -inf is an empty slot."""

    score: Float[Tensor, "b K"]
    logp: Float[Tensor, "b K"]
    end: Int[Tensor, "b K"]
    """the step, from 1, that chose the end symbol"""
    slot: Int[Tensor, "b K"]
    """the live hypothesis, after the step before, that ended"""


class SearchStart(NamedTuple):
    """Where a search starts."""

    like: Tensor
    """an empty tensor of the scores' type, on their device"""
    limit: Int[Tensor, " b"]
    """the largest number of words of a hypothesis, with its prefix, without the end symbol"""
    lines: Int[Tensor, " b"]
    """the numbers from which samples are drawn"""
    prefix: Int[Tensor, " b"] | None = None
    """the number of words of the prefix; None: no sentence has a prefix"""
    logp: Float[Tensor, " b"] | None = None
    """their log-probability"""
    normalised: bool = False
    """the logits are log-probabilities already"""
    required: tuple[Automata, Matched] | None = None
    """what hypotheses must contain, and what the prefixes have of it; None: nothing"""


def penalty(settings: SearchSettings, length: float | Tensor) -> float | Tensor:
    """The divisor of the sum of a hypothesis of T words, end included.

    none    1: Luong 2015
    length  T^alpha: with alpha = 1, Domhan 2018 and Gehring 2017
    gnmt    ((5 + T)/6)^alpha: with alpha = 0.6, Zhang 2018 and You 2020
    """
    if settings.normalise == "none":
        return 1.0
    if settings.normalise == "gnmt":
        length = (5 + length) / 6
    return cast("float | Tensor", length**settings.alpha)


def score_of(settings: SearchSettings, logp: Float[Tensor, "..."], length: int | Tensor) -> Float[Tensor, "..."]:
    """(log p + w (T - 1)) / `penalty`: T words, end included, w the word penalty (Gehring 2017, section 4.4)."""
    if isinstance(length, Tensor):
        length = length.to(logp.dtype)
    if settings.word_penalty:
        logp = logp + settings.word_penalty * (length - 1)
    return logp / penalty(settings, length)


Step = int | Int[Tensor, ""]
"""The number of a step, from 1; where only the device knows it, a tensor."""
Looked = tuple[Tensor, ...]
"""The part of the logits of some rows that a rule needs; the first dimension of each tensor is that of rows."""


class Wanted(NamedTuple):
    """What a rule needs of each row: its n best words, where the end symbol counts as less by `reward`, and with `total` the
    logarithm of the sum of the exponentials of all logits.
    """

    n: int
    reward: float
    total: bool


class Onward(NamedTuple):
    """How the words of the next step follow from the best words alone, for sentences that are not done."""

    needed: Int[Tensor, " b"]
    """so many hypotheses of a sentence must end before it can be done; 0 where it may be done already"""
    live: Float[Tensor, "b K"] | None = None
    """beam search: the log-probabilities of live hypotheses; None: greedy search, which takes the best word"""


class Until(NamedTuple):
    """Where a call of several steps ends."""

    steps: int
    """at most so many"""
    done: int
    """behind the first step after which so many sentences may be done"""


class SearchRule(ABC):
    """Decides which hypotheses continue and which are finished. `done`: sentences that need no further step.

    A step looks at the logits of some sentences at a time, since all together they do not fit a processor's caches.
    """

    done: Bool[Tensor, " b"]
    any_ended: bool = True
    """whether a hypothesis may have ended; while none has, no sentence is done"""
    wanted: Wanted | None = None
    """what `choose` needs; None: the rule needs all logits"""

    def choose(self, best: Best, closing: Bool[Tensor, " b"] | None) -> Looked:
        """What `look` returns, of the best words of all rows."""
        raise NotImplementedError

    @abstractmethod
    def look(
        self, logits: Float[Tensor, "r V"], t: Step, first: int, closing: Bool[Tensor, " s"] | None, of: slice
    ) -> Looked:
        """The part of the logits of the sentences in `of` that step t, from 1, needs.

        Words with ids below `first` are left out; sentences in `closing` take the end symbol. May overwrite `logits`, which at
        the first step have one row a sentence.
        """

    @abstractmethod
    def advance(
        self, seen: Looked, t: Step, closing: Bool[Tensor, " b"] | None
    ) -> tuple[Int[Tensor, "b K"], Int[Tensor, "b K"] | None]:
        """Step t: the words of the live hypotheses, and the hypotheses that they extend; None: each itself.

        On an accelerator, where looking means waiting, it may be so with hypotheses as well.
        """

    def onward(self) -> Onward | None:
        """How the next words follow; None where only the rule can tell."""
        return None

    def values(self) -> dict[str, Any]:
        """What the rule knows of each sentence: every one of its attributes that is a tensor or is made of tensors."""
        made = Tensor | FinishedHypotheses | Automata | Matched
        return {name: value for name, value in vars(self).items() if isinstance(value, made)}

    def take(self, values: Mapping[str, Any]) -> None:
        """Goes on from these values."""
        vars(self).update(values)

    def keep(self, sentences: Int[Tensor, " c"]) -> None:
        """Removes all other sentences."""
        self.take({name: mapped(value, lambda x: x[sentences]) for name, value in self.values().items()})

    @abstractmethod
    def stored(self) -> FinishedHypotheses:
        """The finished hypotheses of the sentences present."""


def in_parts(sentences: int, size: int) -> Iterator[slice]:
    """`sentences` in parts of at most `size`."""
    for start in range(0, sentences, size):
        yield slice(start, min(sentences, start + size))
