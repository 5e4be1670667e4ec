"""A run to translate with translates as the run does, and holds nothing else."""

import shutil
from dataclasses import replace
from pathlib import Path

import pytest
import torch
from safetensors.torch import load_file
from small_runs import PRE, WORDS, draw_lines, make_run

from calque.adl.check import check
from calque.data.codecs import WordCodec
from calque.data.vocabulary import Vocabulary
from calque.exchange.export import export
from calque.experiment import DataSettings, DecodeSettings, Experiment, ModelSettings, TrainSettings, write
from calque.experiment import load as load_experiment
from calque.experiment.training_text import TrainingText
from calque.ground.diagnostics import CalqueError, Text
from calque.model import Model, Shape
from calque.native.packed import quantised
from calque.run.folder import start_run
from calque.run.model_file import load_model, read_model, save_model, weights_of
from calque.run.stored import restored, stored
from calque.train.parent import start_from
from calque.workflow.api import load
from calque.workflow.plugins import registry_of, registry_of_run

FILES = {"README.md", "architecture.adl", "codecs", "experiment.toml", "model.json", "model.safetensors"}
MIXED = "d = 32\nencoder = birnn -> res(cnn(glu, kernel=3))\n" + (
    "decoder = feed(rnn -> concat(id, mlp_src_att) -> ff(128) -> linear(32))\n"
)


def to_calque(run: Path, precision: str = "float32") -> Path:
    return export(run, "calque", None, precision, (), print, registry=registry_of_run(run))


@pytest.mark.medium
@pytest.mark.parametrize("text", [PRE, MIXED])
@pytest.mark.parametrize("precision", ["float32", "bfloat16", "int8"])
def test_it_translates_as_the_run_does(text: str, precision: str, tmp_path: Path) -> None:
    make_run(tmp_path / "run", text)
    out = to_calque(tmp_path / "run", precision)
    assert out == tmp_path / "run-calque"
    assert {path.name for path in out.iterdir()} == FILES
    lines = draw_lines(40)
    for way in ("float32", "int8") if precision == "float32" else ("float32",):
        want, got = (load(folder, precision=way).translate(lines) for folder in (tmp_path / "run", out))
        same = sum(one == other for one, other in zip(want, got, strict=True))
        assert same == 40 if precision == "float32" else same >= 36


def test_numbers_take_fewer_bytes(tmp_path: Path) -> None:
    model = make_run(tmp_path / "run", PRE.replace("32", "64"), updates=0)
    sizes = {}
    for precision, most in (("float32", 0.0), ("bfloat16", 2**-8), ("int8", 0.5 / 127)):
        out = to_calque(tmp_path / "run", precision)
        sizes[precision] = (out / "model.safetensors").stat().st_size
        weights, about = read_model(out)
        assert about["stored"] == precision
        for name, p in model.named_parameters():
            largest = p.detach().abs().flatten(1).amax(1) if p.ndim > 1 else p.detach().abs()
            error = (weights[name] - p.detach()).abs()
            assert (error.flatten(1).amax(1) if p.ndim > 1 else error).le(most * largest * 1.001).all(), name
        for path in sorted(out.rglob("*"), reverse=True):
            path.rmdir() if path.is_dir() else path.unlink()
    assert sizes["bfloat16"] < 0.56 * sizes["float32"]
    assert sizes["int8"] < 0.34 * sizes["float32"]


def test_products_in_int8_have_the_same_numbers() -> None:
    torch.manual_seed(1)
    w = torch.randn(300, 64) * torch.randn(300, 1).exp()
    w[7] = 0
    again = restored(stored({"w": w}, {"w"}, "int8"))["w"]
    for one, other in zip(quantised(w, False), quantised(again, False), strict=True):
        torch.testing.assert_close(one, other, rtol=1e-6, atol=0)
    assert (again[7] == 0).all()


def test_what_is_no_large_matrix_stays_as_it_is() -> None:
    weights = {
        "bias": torch.randn(9000),
        "small": torch.randn(16, 16),
        "constant": torch.randn(100, 100),
        "kernel": torch.randn(64, 32, 3),
        "kernel.step": torch.randn(3),
    }
    for precision in ("float32", "bfloat16", "int8"):
        again = restored(stored(weights, set(weights) - {"constant"}, precision))
        assert again.keys() == weights.keys()
        assert again["kernel"].shape == (64, 32, 3)
        for name in weights:
            assert torch.equal(again[name], weights[name]) == (name != "kernel" or precision == "float32")


def test_folders_of_the_machine_stay_there(tmp_path: Path) -> None:
    make_run(tmp_path / "run", PRE, updates=0)
    held = load_experiment(file := tmp_path / "run" / "experiment.toml")
    text = TrainingText(
        str(tmp_path / "a.en"), str(tmp_path / "a.de"), 2.0, (str(tmp_path / "v.en"), str(tmp_path / "v.de"))
    )
    data = replace(held.data, train=(text,), valid=(str(tmp_path / "val.en"), str(tmp_path / "val.de")))
    write(replace(held, data=data), file)
    out = to_calque(tmp_path / "run")
    for path in out.rglob("*"):
        assert path.is_dir() or str(tmp_path).encode() not in path.read_bytes(), path
    kept = load_experiment(out / "experiment.toml").data
    assert [(Path(t.source).name, t.weight, Path(t.valid[1]).name) for t in kept.texts] == [("a.en", 2.0, "v.de")]


def test_layers_of_ones_own_go_with_it(tmp_path: Path) -> None:
    layer = (
        "from torch import Tensor\nfrom calque.layers.contract import Context, Example, Stateless\n\n\n"
        'class Square(Stateless):\n    """square(h) = h * h."""\n\n    name = "square"\n    examples = (Example("square"),)\n\n'
        "    def forward(self, x: Tensor, ctx: Context) -> Tensor:\n        return x * x\n"
    )
    (tmp_path / "square.py").write_text(layer)
    run, codec, plugins = tmp_path / "run", WordCodec(Vocabulary(WORDS)), (str(tmp_path / "square.py"),)
    registry = registry_of(ModelSettings(plugins=plugins))
    torch.manual_seed(1)
    text = Text("model.adl", "d = 32\nencoder = res(square)\ndecoder = rnn -> res(mlp_src_att) -> res(square)\n")
    checked = check(text, registry)
    model = Model(checked, Shape(codec.size, codec.size), registry)
    held = DataSettings(train=("source", "target"), valid=("source", "target"), subwords="words")
    settings = ModelSettings(text=checked.text, plugins=plugins), TrainSettings(max_updates=1), DecodeSettings()
    experiment = Experiment(held, *settings)
    start_run(run, experiment, checked, (codec, codec))
    save_model(run, model, weights_of(model), experiment, "none", {})
    want = load(run).translate(lines := draw_lines(9))
    out = to_calque(run)
    (tmp_path / "square.py").unlink()
    shutil.rmtree(run)
    assert (out / "plugins" / "square.py").read_text() == layer
    assert load(out).translate(lines) == want
    assert any(want)


def test_a_training_can_start_from_it(tmp_path: Path) -> None:
    model = make_run(tmp_path / "run", PRE, updates=0)
    out = to_calque(tmp_path / "run", "int8")
    codec = WordCodec(Vocabulary(WORDS))
    with torch.no_grad():
        for p in model.parameters():
            p.zero_()
    matched = start_from(model, (codec, codec), out)
    assert not matched.others
    assert all(torch.equal(p, q) for p, q in zip(model.parameters(), load_model(out).model.parameters(), strict=True))


def test_other_numbers_and_full_folders_are_refused(tmp_path: Path) -> None:
    make_run(tmp_path / "run", PRE, updates=0)
    with pytest.raises(CalqueError) as fault:
        to_calque(tmp_path / "run", "float16")
    assert [d.code for d in fault.value.diagnostics] == ["X503"]
    assert not (tmp_path / "run-calque").exists()
    to_calque(tmp_path / "run", "int8")
    with pytest.raises(CalqueError) as fault:
        to_calque(tmp_path / "run")
    assert [d.code for d in fault.value.diagnostics] == ["X405"]
    assert load_file(tmp_path / "run-calque" / "model.safetensors")
