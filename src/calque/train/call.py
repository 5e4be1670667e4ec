"""What holds for one call of a training, and is no part of the run's own experiment."""

from collections.abc import Callable
from dataclasses import dataclass, field

from calque.train.standing import TrainingPosition


@dataclass(frozen=True)
class ReplayPlan:
    """A part of a training that is repeated: where the first one validated, and after which update it went over to the next part.

    What decides there by time, by validations or by a call's own limit decides here by its update.
    """

    validations: frozenset[int]
    """The updates that were validated, up to `recorded`."""
    recorded: int
    """The last update of the record; from there on the experiment decides."""
    until: int | None
    """The update after which this part ends; None where the experiment's own limits end it."""
    limit: str = ""
    """What ended the first training there; empty where another part follows and no model is made."""

    def due(self, standing: TrainingPosition) -> bool:
        """Whether a validation is; asked up to `recorded`."""
        return standing.update in self.validations and standing.validated != standing.update


@dataclass(frozen=True)
class TrainingCall:
    """The rest of what a call of `train` says."""

    limits: frozenset[str] = frozenset()
    """Keys of [train] that limit this call alone, where it continues a run: the run's own limits stay."""
    plan: ReplayPlan | None = None
    tell: Callable[[str], None] = field(default=lambda line: None)
    """Hears what changes in a run that is continued, and what is taken over from a parent."""
