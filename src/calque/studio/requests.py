"""What the page sends: texts and the conditions under which they are priced, with their bounds."""

from typing import Annotated, Literal

from pydantic import BaseModel, BeforeValidator, Field

from calque.adl.limits import MAX_CHARACTERS, MAX_NODES
from calque.explain import Surroundings
from calque.studio.offsets import without_lone_surrogates

LONGEST_LINE = 2_000
"""Characters of a sentence to translate."""
LONGEST_PLAY = 1_800
"""Seconds of a training."""


def _clean(given: object) -> object:
    return without_lone_surrogates(given) if isinstance(given, str) else given


CleanText = Annotated[str, Field(max_length=2 * MAX_CHARACTERS), BeforeValidator(_clean)]
Sentence = Annotated[str, Field(max_length=LONGEST_LINE), BeforeValidator(_clean)]
Length = Annotated[int, Field(ge=1, le=1_000)]


class Conditions(BaseModel):
    """Lengths, sizes of vocabularies and the type of numbers, on which costs depend."""

    length: Length = 25
    source_length: Length = 25
    vocabulary: Annotated[int, Field(ge=1, le=10_000_000)] | None = None
    precision: Literal["float32", "bfloat16"] = "float32"

    @property
    def around(self) -> Surroundings:
        """The matrices around the architecture; one vocabulary for both sides."""
        return Surroundings(self.vocabulary, self.vocabulary)


class TextToCheck(Conditions):
    """A text, and the paths of the repetitions that are folded in its picture."""

    text: CleanText
    folded: Annotated[list[str], Field(max_length=MAX_NODES)] = []


class TextsToCompare(Conditions):
    """Two texts."""

    a: CleanText
    b: CleanText


class TextToProve(BaseModel):
    """A text, and the width at which its laws are tested; None for its own."""

    text: CleanText
    width: Annotated[int, Field(ge=1, le=4096)] | None = None


class TextToPlay(BaseModel):
    """A text to train, for so many seconds."""

    text: CleanText
    seconds: Annotated[float, Field(ge=5, le=LONGEST_PLAY)] = 120


class PlayToResume(BaseModel):
    """A training to go on with, for so many seconds in all."""

    seconds: Annotated[float, Field(ge=5, le=LONGEST_PLAY)] = 120


class RunsToAnalyse(BaseModel):
    """Names of runs, and how many lines of their text are translated."""

    runs: Annotated[list[str], Field(min_length=1, max_length=6)]
    lines: Annotated[int, Field(ge=1, le=10_000)] = 200


class SentenceToTranslate(BaseModel):
    """A sentence for a run. `chosen` is the hypothesis, from 0, whose attention is asked for."""

    sentence: Sentence
    beam: Annotated[int, Field(ge=1, le=32)] = 4
    chosen: Annotated[int, Field(ge=0, le=31)] = 0
