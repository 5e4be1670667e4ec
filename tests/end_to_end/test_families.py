"""Learnability: each standard architecture of the papers, small, learns to write sentences backwards."""

import random
from pathlib import Path

import pytest

from calque.experiment import DataSettings, DecodeSettings, Experiment, ModelSettings, TrainSettings
from calque.train.loop import FinishedTraining
from calque.workflow.api import load
from calque.workflow.steps import run_training
from parts import some

LETTERS = "abcdef"
FAMILIES = {
    "transformer": "encoder = pos -> repeat(2, tenc) -> norm\ndecoder = pos -> repeat(2, tdec) -> norm\n",
    "rnmt-feed": "encoder = birnn -> repeat(1, res_d(rnn))\ndecoder = feed(rnn -> res_d(rnn) -> concat(id, mlp_src_att) -> ff)\n",
    "convs2s": (
        "encoder = pos -> repeat(3, res(cnn(glu)))\n"
        "decoder = pos -> repeat(3, res(cnn(glu) -> res(dot_src_att(s=1, project=none))))\n"
    ),
    "gehring": (
        "h = 2*d\n"
        "encoder = learn_pos(16) -> concat(linear(h) -> res(cnn(id, width=h)) -> tanh -> cnn(tanh, width=h) -> linear @ a,"
        " cnn(tanh) @ c)\n"
        "decoder = feed(concat(take(h, d), add(take(0, h) -> linear, take(h, d))"
        " -> dot_src_att(keys=@a, values=@c, s=1, project=none)) -> rnn(h, bias=no), width=h) -> linear\n"
    ),
    "luong-local-p": (
        "encoder = reverse(repeat(2, rnn(bias=no) @ enc))\n"
        "decoder = feed(repeat(2, rnn(bias=no, start=@enc[i]))"
        " -> concat(dot_src_att(project=q, s=1, window=2, center=predict), id) -> linear(bias=no) -> tanh)\n"
    ),
}

TODAY = {
    "transformer-2026": (
        "att = mh_dot_self_att(heads=4, rope=10000, kv_heads=2, qk_norm=yes)\n"
        "block(b) = res(rms_norm -> b)\n"
        "encoder = repeat(2, block(att) -> block(swiglu(64, 0))) -> rms_norm\n"
        "decoder = repeat(2, block(att) -> block(mh_dot_src_att(4)) -> block(swiglu(64, 0))) -> rms_norm\n"
    ),
    "retention": "encoder = pos(0) -> repeat(2, tenc) -> norm\ndecoder = repeat(2, tdec(retention)) -> norm\n",
    "gated-scan": "encoder = pos(0) -> repeat(2, tenc) -> norm\ndecoder = repeat(2, tdec(rg_lru)) -> norm\n",
}


def write(folder: Path, name: str, seed: int, lines: int) -> tuple[str, str]:
    draw = random.Random(seed)
    sentences = [[draw.choice(LETTERS) for _ in range(draw.randint(2, 4))] for _ in range(lines)]
    for side, text in (("src", sentences), ("tgt", [s[::-1] for s in sentences])):
        (folder / f"{name}.{side}").write_text("".join(" ".join(s) + "\n" for s in text))
    return str(folder / f"{name}.src"), str(folder / f"{name}.tgt")


@pytest.mark.medium
@pytest.mark.parametrize(
    "family", [*some([*FAMILIES]), *(pytest.param(name, marks=pytest.mark.slow) for name in TODAY)]
)
def test_a_family_learns_to_write_backwards(family: str, tmp_path: Path) -> None:
    text = (FAMILIES | TODAY)[family]
    heads = "heads = 4\n" if "tenc" in text else ""
    dropout = "p = 0.0\n" if "tenc" in text or "res_d" in text else ""
    updates = 400 if family in TODAY else 250
    experiment = Experiment(
        data=DataSettings(
            train=write(tmp_path, "train", 1, 2000), valid=write(tmp_path, "valid", 2, 100), subwords="words"
        ),
        model=ModelSettings(text=f"d = 32\n{dropout}{heads}{text}"),
        train=TrainSettings(
            threads=1,
            precision="float32",
            batch_tokens=400,
            lr=0.004,
            warmup_updates=40,
            clip_norm=1.0,
            label_smoothing=0.0,
            max_updates=updates,
            validate_every_updates=updates,
        ),
        decode=DecodeSettings(beam=2),
    )
    result = run_training(experiment, tmp_path / "run")
    assert isinstance(result, FinishedTraining)
    lines = (tmp_path / "valid.src").read_text().split("\n")[:-1]
    expected = [" ".join(reversed(line.split())) for line in lines]
    found = load(tmp_path / "run").translate(lines)
    assert sum(a == b for a, b in zip(found, expected, strict=True)) >= 90, (family, result.perplexity)
