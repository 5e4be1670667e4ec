"""What a run folder is about: the things that cannot change when its training continues."""

from collections.abc import Mapping
from dataclasses import asdict
from pathlib import Path
from typing import Any

from calque.adl.check import CheckedDefinition
from calque.experiment import Experiment
from calque.ground.diagnostics import Place, error
from calque.model import Shape
from calque.run.own_layers import layers_digest

LAYERS = "set of plugins"
"""What K201 calls the files with layers of the user."""


def written(shape: Shape) -> str:
    """Without gamma, which follows from the corpus: older states do not name it."""
    return str({key: value for key, value in asdict(shape).items() if key != "gamma"})


def identity(experiment: Experiment, checked: CheckedDefinition) -> dict[str, str]:
    """What a run folder is about, as far as it is known before the corpus is prepared."""
    known = {"architecture": checked.hash, "optimiser": experiment.train.optimiser}
    layers = layers_digest(experiment)
    return known if layers is None else {**known, LAYERS: layers}


def refuse_another(folder: Path, state: Mapping[str, Any], wanted: Mapping[str, str]) -> None:
    """Raises K201 where the state in a folder is of another run than the one wanted."""
    for what, expected in state.get("identity", {}).items():
        if wanted.get(what, expected) != expected:
            raise error("K201", Place(str(folder)), what=what, expected=expected, found=wanted[what], run=folder)
