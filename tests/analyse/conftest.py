"""Three tiny runs of different families on one corpus: attention everywhere, a fed recurrent network, and none that is recorded."""

from collections.abc import Iterator
from pathlib import Path

import jaxtyping
import pytest
from analysed import write

from calque.experiment import Data, Decode, Experiment, Model, Train
from calque.train.loop import Finished
from calque.workflow import run_training

FAMILIES = {
    "transformer": "encoder = pos -> repeat(1, tenc) -> norm\ndecoder = pos -> repeat(2, tdec) -> norm\n",
    "rnn-feed": "encoder = birnn\ndecoder = feed(rnn -> concat(id, mlp_src_att) -> ff)\n",
    "hard-coded": "encoder = pos -> hc_self_att(-1, 1) -> norm\ndecoder = pos -> gate(average) -> hc_src_att(-1, 0) -> norm\n",
}


@pytest.fixture(scope="session")
def corpus(tmp_path_factory: pytest.TempPathFactory) -> Data:
    base = tmp_path_factory.mktemp("analysed")
    train, valid, test = (
        write(base, name, n, k) for k, (name, n) in enumerate({"train": 300, "valid": 20, "test": 24}.items())
    )
    return Data(train, valid, test, subwords="words", vocabulary_size=0)


@pytest.fixture(scope="session")
def runs(tmp_path_factory: pytest.TempPathFactory, corpus: Data) -> dict[str, Path]:
    """The folders of the three runs, by name; tests do not change them."""
    base = tmp_path_factory.mktemp("runs")
    for name, text in FAMILIES.items():
        heads = "heads = 2\n" if "tenc" in text or "hc_" in text else ""
        experiment = Experiment(
            data=corpus,
            model=Model(text=f"d = 16\n{heads}p = 0.0\n{text}" if "tenc" in text else f"d = 16\n{heads}{text}"),
            train=Train(
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
            decode=Decode(beam=2, max_length_factor=1.5, max_length_offset=3),
        )
        assert isinstance(run_training(experiment, base / name), Finished)
    return {name: base / name for name in FAMILIES}


@pytest.fixture(autouse=True)
def shapes_unchecked() -> Iterator[None]:
    """The layers' shapes are checked in their own tests."""
    jaxtyping.config.update("jaxtyping_disable", True)
    yield
    jaxtyping.config.update("jaxtyping_disable", False)
