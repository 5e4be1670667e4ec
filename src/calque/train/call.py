"""What a call of training is given, besides what the run folder holds."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path

from calque.adl.check import CheckedDefinition
from calque.data.corpus import PreparedCorpus
from calque.experiment import Experiment
from calque.layers.contract import Registry
from calque.model import Model, Shape
from calque.train.log import Translated, Watcher
from calque.train.ranks import ALONE, Ranks
from calque.train.standing import TrainingPosition


@dataclass(frozen=True)
class ReplayPlan:
    """A part of a training that is repeated: the updates after which the first training validated and ended the part.

    What time, validations or the limit of a call decided in the first training, its update decides in the repetition.
    """

    validations: frozenset[int]
    """The updates after which the first training validated, up to `recorded`."""
    recorded: int
    """The last update of the record; from there on the experiment decides."""
    until: int | None
    """The update after which this part ends; None where the experiment's own limits end it."""
    limit: str = ""
    """What ended the first training there; empty where another part follows and no model is made."""
    rates: Mapping[int, float] = field(default_factory=dict)
    """The learning rate of each update, where it followed the clock."""

    def due(self, standing: TrainingPosition) -> bool:
        """Whether a validation follows the last update; valid up to `recorded`."""
        return standing.update in self.validations and standing.validated != standing.update


@dataclass(frozen=True)
class TrainingCall:
    """What holds for one call of `train` and is no part of the run's own experiment."""

    limits: frozenset[str] = frozenset()
    """Keys of [train] that limit this call alone, where it continues a run: the run's own limits stay."""
    plan: ReplayPlan | None = None
    ranks: Ranks = ALONE
    """The processes that train together, of which this one leads."""
    tell: Callable[[str], None] = field(default=lambda line: None)
    """Called with a line for each change in a run that is continued, and for what is taken over from a parent."""


def shape_of(experiment: Experiment, corpus: PreparedCorpus) -> Shape:
    """The matrices around the architecture of a training."""
    source, target = (codec.size for codec in corpus.codecs)
    return Shape(source, target, experiment.model.tying, experiment.model.output_bias, corpus.gamma)


@dataclass(frozen=True)
class TrainingTask:
    """The arguments of `train`."""

    experiment: Experiment
    folder: Path
    prepared: PreparedCorpus
    checked: CheckedDefinition
    registry: Registry | None = None
    watcher: Watcher | None = None
    translate: Callable[[Model], Translated] | None = None
    call: TrainingCall = TrainingCall()
