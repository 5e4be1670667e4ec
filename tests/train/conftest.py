"""A corpus of reversed letters, small enough to be learnt in seconds."""

import random
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from calque.adl.check import CheckedDefinition, check
from calque.data.compiled import prepare
from calque.data.corpus import PreparedCorpus
from calque.experiment import DataSettings, Experiment, ModelSettings, TrainSettings
from calque.ground.diagnostics import Text
from calque.layers.registry import builtin

ARCHITECTURE = """
d = 32
heads = 4
p = 0.1
encoder = pos -> repeat(1, tenc) -> norm
decoder = pos -> repeat(1, tdec) -> norm
"""


@pytest.fixture(scope="session")
def prepared(tmp_path_factory: pytest.TempPathFactory) -> PreparedCorpus:
    base = tmp_path_factory.mktemp("corpus")
    draw = random.Random(7)
    for split, count in (("train", 1500), ("valid", 40)):
        source = [[draw.choice("abcdefgh") for _ in range(draw.randint(1, 6))] for _ in range(count)]
        (base / f"{split}.source").write_text("".join(" ".join(words) + "\n" for words in source))
        (base / f"{split}.target").write_text("".join(" ".join(words[::-1]) + "\n" for words in source))
    return prepare(data(), base / "prepared", base)


def data() -> DataSettings:
    return DataSettings(
        ("train.source", "train.target"), ("valid.source", "valid.target"), subwords="words", vocabulary_size=0
    )


@pytest.fixture(scope="session")
def checked() -> CheckedDefinition:
    return check(Text("toy.adl", ARCHITECTURE), builtin())


@pytest.fixture
def experiment() -> Callable[..., Experiment]:
    """The toy's experiment, with other values of [train] where given."""
    plain = TrainSettings(
        threads=1,
        device="cpu",
        precision="float32",
        batch_tokens=256,
        warmup_updates=20,
        lr=0.01,
        max_updates=12,
        validate_every_updates=5,
        log_every_updates=4,
    )

    def make(**settings: Any) -> Experiment:
        return Experiment(data(), ModelSettings(text=ARCHITECTURE), replace(plain, **settings))

    return make


@pytest.fixture
def run(tmp_path: Path) -> Path:
    return tmp_path / "run"
