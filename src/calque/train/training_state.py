"""The state of a training: all that an exact continuation needs, and the files that hold it."""

from collections.abc import Callable, Mapping
from typing import Any

import torch
from torch import Tensor

from calque.experiment import TrainSettings
from calque.ground.diagnostics import Place
from calque.model import Model
from calque.run.model_file import load_weights, weights_of
from calque.train.captured import updater_of
from calque.train.checkpoint import Checkpoints
from calque.train.standing import TrainingPosition, random_states, restore_random_states


class TrainingState:
    """Weights, optimiser, counters and random numbers. A new one seeds torch's generators with the seed of [train].

    `identity` names what cannot change when the training continues; `parent` describes the run that it started from.
    """

    def __init__(
        self,
        model: Model,
        settings: TrainSettings,
        checkpoints: Checkpoints,
        identity: Mapping[str, str],
        parent: Mapping[str, Any] | None,
        tell: Callable[[str], None],
    ):
        self.model, self.checkpoints, self.identity, self.parent = model, checkpoints, identity, parent
        self.precision = settings.precision
        self.updater = updater_of(model, settings, settings.precision, tell=tell)
        self.standing = TrainingPosition()
        torch.manual_seed(settings.seed)

    def resume(self, tensors: Mapping[str, Tensor], about: Mapping[str, Any]) -> None:
        """Continues from what `save` wrote."""
        kinds = ("weight/", "constant/")
        weights = {key.split("/", 1)[1]: t for key, t in tensors.items() if key.startswith(kinds)}
        load_weights(self.model, weights, Place(str(self.checkpoints.folder)))
        self.updater.load(tensors)
        self.standing = TrainingPosition.from_json(about["standing"])
        self.updater.skipped = self.standing.skipped
        restore_random_states(tensors, self.model.device)

    def _constants(self) -> dict[str, Tensor]:
        return {n: t for n, t in weights_of(self.model).items() if n not in self.updater.masters}

    def save_checkpoint(self, figures: Mapping[str, Any]) -> None:
        """Saves the weights with the figures of their validation. Raises K301."""
        weights = {**self.updater.masters, **self._constants()}
        self.checkpoints.save(weights, self.standing.update, figures)

    def save(self, checkpoint: Mapping[str, Any] | None = None) -> None:
        """Saves the state, with the figures of a checkpoint that is about to be saved. Raises K301."""
        constants = {f"constant/{n}": t for n, t in self._constants().items()}
        tensors = {**self.updater.state(), **constants, **random_states(self.model.device)}
        about = {
            "identity": self.identity,
            "precision": self.precision,
            "standing": self.standing.to_json(),
            "checkpoint": checkpoint,
            **self.origin(),
        }
        self.checkpoints.save_state(tensors, self.standing.update, about)

    def origin(self) -> dict[str, Any]:
        """The entry `parent` of a state and of a model file, where there is a parent."""
        return {"parent": self.parent} if self.parent else {}
