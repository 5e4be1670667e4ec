"""What training makes small, and the passes over a batch that it takes."""

from typing import Any, NamedTuple, TypeVar

import torch
from torch import Tensor

from calque.experiment import TrainSettings


class Objective(NamedTuple):
    """What is made small: [train] `label_smoothing` and `r_drop`."""

    smoothing: float
    r_drop: float = 0.0

    @classmethod
    def of(cls, settings: TrainSettings) -> "Objective":
        """That of an experiment."""
        return cls(settings.label_smoothing, settings.r_drop)


LIKELIHOOD = Objective(0.0)
"""The negative log-likelihood alone."""


Passes = TypeVar("Passes", bound=tuple[Any, ...])


def passes(batch: Passes, objective: Objective) -> Passes:
    """The tensors of a batch, with `r_drop` of both passes, the second behind the first."""
    if not objective.r_drop:
        return batch
    return type(batch)(*(torch.cat([x, x]) if isinstance(x, Tensor) else 2 * x for x in batch))
