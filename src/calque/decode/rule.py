"""What the two searches share: their settings, the score of a hypothesis, and their interface to the loop."""

from abc import ABC, abstractmethod
from dataclasses import dataclass
from typing import NamedTuple, cast

from jaxtyping import Bool, Float, Int
from torch import Tensor


@dataclass(frozen=True)
class SearchSettings:
    """How to search; `beam`, `normalise` and `alpha` as in `calque.experiment.Decode`.

    n_best        hypotheses returned per sentence, at most `beam`
    exact_length  for benchmarks: every hypothesis has exactly so many words, end included; 0: as the model likes
    capacity      0, or the words that states are made for, and finished sentences stay in the batch: then the shapes of a
                  step follow from those of the source alone
    """

    beam: int = 5
    normalise: str = "length"
    alpha: float = 1.0
    n_best: int = 1
    exact_length: int = 0
    capacity: int = 0

    def __post_init__(self) -> None:
        if not 1 <= self.n_best <= self.beam:
            raise ValueError(f"n_best must lie between 1 and beam = {self.beam}, found {self.n_best}")


class Stored(NamedTuple):
    """Finished hypotheses, the best first; a score of -inf is an empty slot."""

    score: Float[Tensor, "b K"]
    logp: Float[Tensor, "b K"]
    end: Int[Tensor, "b K"]
    """the step, from 1, that chose the end symbol: T, the number of words, end included"""
    slot: Int[Tensor, "b K"]
    """the live hypothesis, after step T - 1, that ended"""


def penalty(settings: SearchSettings, length: float | Tensor) -> float | Tensor:
    """What the log-probability of T words, end included, is divided by.

    1 (none), T^alpha (length), ((5 + T)/6)^alpha (gnmt).
    """
    if settings.normalise == "none":
        return 1.0
    if settings.normalise == "gnmt":
        length = (5 + length) / 6
    return cast("float | Tensor", length**settings.alpha)


class Rule(ABC):
    """Which hypotheses go on and which are finished. `done`: sentences that need no further step."""

    done: Bool[Tensor, " b"]

    @abstractmethod
    def advance(
        self, logits: Float[Tensor, "R V"], t: int, first: int, closing: Bool[Tensor, " b"] | None
    ) -> tuple[Int[Tensor, "b K"], Int[Tensor, "b K"] | None]:
        """Step t, from 1: the words of the live hypotheses and which ones they extend (None: themselves).

        Words below `first` are left out; sentences in `closing` take the end symbol. Overwrites `logits`.
        """

    @abstractmethod
    def keep(self, sentences: Int[Tensor, " c"]) -> None:
        """Only these sentences from here on."""

    @abstractmethod
    def stored(self) -> Stored:
        """The finished hypotheses of the sentences present."""
