"""The experiment file: one TOML is one complete run."""

from calque.experiment.keys import Data, Decode, Model, Train
from calque.experiment.load import LIMITS, Experiment, check, differences, digest, load, override, to_toml, write

__all__ = ["LIMITS", "Data", "Decode", "Experiment", "Model", "Train", "check", "differences"]
__all__ += ["digest", "load", "override", "to_toml", "write"]
