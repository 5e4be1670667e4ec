"""The experiment file: one TOML is one complete run."""

from calque.experiment.keys import DataSettings, DecodeSettings, ModelSettings, TrainSettings
from calque.experiment.load import LIMITS, Experiment, check, differences, digest, load, override, to_toml, write

__all__ = [
    "LIMITS",
    "DataSettings",
    "DecodeSettings",
    "Experiment",
    "ModelSettings",
    "TrainSettings",
    "check",
    "differences",
]
__all__ += ["digest", "load", "override", "to_toml", "write"]
