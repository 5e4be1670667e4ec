"""Three tiny runs of different families on one corpus: attention everywhere, a fed recurrent network, and none that is recorded."""

from pathlib import Path

import pytest
from analysed import write

from calque.experiment import DataSettings, DecodeSettings, Experiment, ModelSettings, TrainSettings
from calque.train.loop import FinishedTraining
from calque.workflow.steps import run_training

FAMILIES = {
    "transformer": """\
d = 16
heads = 2
p = 0.0
encoder = pos -> repeat(1, tenc) -> norm
decoder = pos -> repeat(2, tdec) -> norm
""",
    "rnn-feed": "d = 16\nencoder = birnn\ndecoder = feed(rnn -> concat(id, mlp_src_att) -> ff)\n",
    "hard-coded": """\
d = 16
encoder = pos -> hc_self_att(-1, 1) -> norm
decoder = pos -> gate(average) -> norm
""",
}


@pytest.fixture(scope="session")
def corpus(tmp_path_factory: pytest.TempPathFactory) -> DataSettings:
    base = tmp_path_factory.mktemp("analysed")
    train, valid, test = (
        write(base, name, n, k) for k, (name, n) in enumerate({"train": 300, "valid": 20, "test": 24}.items())
    )
    return DataSettings(train, valid, test, subwords="words", vocabulary_size=0)


@pytest.fixture(scope="session")
def runs(tmp_path_factory: pytest.TempPathFactory, corpus: DataSettings) -> dict[str, Path]:
    """The folders of the three runs, by name; tests do not change them."""
    base = tmp_path_factory.mktemp("runs")
    for name, text in FAMILIES.items():
        experiment = Experiment(
            data=corpus,
            model=ModelSettings(text=text),
            train=TrainSettings(
                threads=1,
                device="cpu",
                precision="float32",
                batch_tokens=256,
                lr=0.01,
                warmup_updates=2,
                max_updates=6,
                validate_every_updates=2,
                log_every_updates=2,
            ),
            decode=DecodeSettings(beam=2, max_length_factor=1.5, max_length_offset=3),
        )
        assert isinstance(run_training(experiment, base / name), FinishedTraining)
    return {name: base / name for name in FAMILIES}
