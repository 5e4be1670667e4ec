"""The experiment file: one TOML file is one complete run.

Every key is a typed field of a section in `keys`, with its unit in its name and its meaning beside it. An unknown key is an error
with a suggestion. The run folder contains the file with all values.
"""

from calque.experiment.decode_keys import DecodeSettings
from calque.experiment.keys import DataSettings, Experiment, ModelSettings, TrainSettings
from calque.experiment.load import load, override, setting_entry
from calque.experiment.rules import LIMITS, check
from calque.experiment.write import differences, digest, to_toml, write

__all__ = [
    "LIMITS",
    "DataSettings",
    "DecodeSettings",
    "Experiment",
    "ModelSettings",
    "TrainSettings",
    "check",
    "differences",
    "digest",
    "load",
    "override",
    "setting_entry",
    "to_toml",
    "write",
]
