"""Gamma is measured on the training data, kept with the model, and what a loaded model translates by."""

import json
import random
from dataclasses import replace
from pathlib import Path

import pytest

from calque.data.corpus import open_corpus
from calque.demo import generator as embedded
from calque.experiment import DataSettings, DecodeSettings, Experiment, ModelSettings, TrainSettings
from calque.layers.hard_coded_source import HardCodedSourceAttention
from calque.run.folder import MODEL
from calque.run.tensors import read_about, rewrite_about
from calque.train.averaging import average_run
from calque.train.loop import FinishedTraining
from calque.workflow.api import load
from calque.workflow.steps import run_training

LETTERS = "abcdef"
EVERY_OTHER = "d = 32\nencoder = id\ndecoder = res(hc_src_att(0, form=index)) -> ff(64, dropout=0) -> linear\n"
HC_ALL = """
d = 32
p = 0.0
encoder = pos -> post(hc_self_att(-1, 1)) -> post(ffl(48, 0))
decoder = pos -> post(hc_self_att(-1, 0)) -> post(hc_src_att(-1, 0, 0, 1)) -> post(ffl(48, 0))
"""
TRAIN = TrainSettings(
    threads=1,
    precision="float32",
    batch_tokens=400,
    lr=0.01,
    warmup_updates=20,
    label_smoothing=0.0,
    max_updates=200,
    validate_every_updates=100,
    average="last",
    average_count=2,
)


def gammas(folder: Path) -> set[float]:
    layers = load(folder).model.modules()
    return {layer.gamma for layer in layers if isinstance(layer, HardCodedSourceAttention)}


@pytest.fixture(scope="module")
def halves(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A run on targets that are every other word of their sources: only who counts in twos finds the word to copy."""
    folder = tmp_path_factory.mktemp("halves")
    draw = random.Random(1)
    for name, count in (("train", 1500), ("valid", 40)):
        sentences = [[draw.choice(LETTERS) for _ in range(2 * draw.randint(1, 4))] for _ in range(count)]
        (folder / f"{name}.src").write_text("".join(" ".join(s) + "\n" for s in sentences))
        (folder / f"{name}.tgt").write_text("".join(" ".join(s[::2]) + "\n" for s in sentences))
    files = {n: (str(folder / f"{n}.src"), str(folder / f"{n}.tgt")) for n in ("train", "valid")}
    data = DataSettings(train=files["train"], valid=files["valid"], subwords="words", vocabulary_size=0)
    said: list[str] = []
    done = run_training(
        Experiment(data, ModelSettings(text=EVERY_OTHER), TRAIN, DecodeSettings(beam=3)),
        folder / "run",
        tell=said.append,
    )
    assert isinstance(done, FinishedTraining)
    assert any(line.endswith("gamma, is 2.0000") for line in said), said
    return folder


def translated(folder: Path, run: Path) -> float:
    """The share of validation sentences that come out as they should."""
    sources, targets = ((folder / f"valid.{side}").read_text().splitlines() for side in ("src", "tgt"))
    found = load(run).translate(sources)
    return sum(a == b for a, b in zip(found, targets, strict=True)) / len(targets)


@pytest.mark.medium
def test_a_model_reads_the_source_at_its_own_pace(halves: Path) -> None:
    assert gammas(halves / "run") == {2.0}
    assert translated(halves, halves / "run") > 0.9


def test_a_mean_of_checkpoints_keeps_it(halves: Path, tmp_path: Path) -> None:
    average_run(halves / "run", tmp_path / "mean", "last", 2)
    assert gammas(tmp_path / "mean") == {2.0}
    assert translated(halves, tmp_path / "mean") > 0.9


def test_a_model_file_without_gamma_has_one(halves: Path) -> None:
    """Files from before there was a gamma load; this one, which needs it, then translates no better than it should."""
    about = read_about(halves / "run" / MODEL)
    shape = {key: value for key, value in about["shape"].items() if key != "gamma"}
    rewrite_about(halves / "run" / MODEL, {**about, "shape": shape})
    try:
        assert gammas(halves / "run") == {1.0}
        assert translated(halves, halves / "run") < 0.5
    finally:
        rewrite_about(halves / "run" / MODEL, about)


@pytest.mark.medium
def test_the_embedded_corpus(tmp_path: Path) -> None:
    """HC-ALL on its first pairs: the loaded model scores by the ratio that preparation told."""
    corpus = embedded.generate()
    few = replace(corpus, train=corpus.train[:300], valid=corpus.valid[:20], test=corpus.test[:5])
    embedded.write(tmp_path, few)
    files = {n: (str(tmp_path / f"{n}.en"), str(tmp_path / f"{n}.de")) for n in ("train", "valid")}
    data = DataSettings(train=files["train"], valid=files["valid"], vocabulary_size=300)
    train = replace(TRAIN, max_updates=4, validate_every_updates=2)
    assert isinstance(
        run_training(Experiment(data, ModelSettings(text=HC_ALL), train), tmp_path / "run"), FinishedTraining
    )
    gamma = open_corpus(tmp_path / "run" / "data").gamma
    assert gamma != 1
    assert gammas(tmp_path / "run") == {gamma}
    assert json.loads((tmp_path / "run" / "model.json").read_text())["shape"]["gamma"] == gamma
    pairs = [(s, t) for s, t in zip(*[Path(f).read_text().splitlines() for f in files["valid"]], strict=True)]
    run = load(tmp_path / "run")
    scores = run.score(pairs)
    assert run.score(pairs[:5]) == pytest.approx(scores[:5], abs=1e-4)
    for layer in run.model.modules():
        if isinstance(layer, HardCodedSourceAttention):
            layer.gamma = 1.0
    assert max(abs(a - b) for a, b in zip(run.score(pairs), scores, strict=True)) > 1e-4
