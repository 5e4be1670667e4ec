"""ONNX graphs of any text decode as the run does, with the program of `examples/`."""

import importlib.util
import json
from collections.abc import Callable
from pathlib import Path
from types import ModuleType

import pytest
import torch
from small_runs import PRE, draw_lines, export_apart, make_run
from torch import Tensor

from calque.exchange import graphs
from calque.exchange.to_onnx import write_onnx
from calque.exchange.weights import open_exported
from calque.ground.diagnostics import CalqueError, Place
from calque.workflow.api import load

pytest.importorskip("onnxruntime", reason="the package onnxruntime is not installed")
pytest.importorskip("onnxscript", reason="the package onnxscript is not installed")

EXAMPLE = Path(__file__).parents[2] / "examples" / "onnx_greedy.py"
TENC = "d = 32\nheads = 4\nencoder = pos -> tenc -> norm\n"
FAMILIES = {
    "transformer": PRE,
    "convolutions": (
        "d = 32\nencoder = pos -> res(cnn(glu) -> dropout)\n"
        "decoder = pos -> res(dropout -> cnn(glu) -> dropout -> res(dot_src_att(s=1, project=none)))\n"
    ),
    "recurrent with input feeding": (
        "d = 32\nencoder = dropout -> birnn -> res_d(rnn)\n"
        "decoder = feed(dropout -> rnn -> dropout -> res_d(rnn) -> concat(id, mlp_src_att) -> ff)\n"
    ),
    "recurrent with states handed over": (
        "d = 32\nencoder = reverse(repeat(2, dropout -> rnn(bias=no, norm=yes) @ enc))\n"
        "decoder = feed(repeat(2, dropout -> rnn(bias=no, norm=yes, start=@enc[i]))"
        " -> concat(dot_src_att(project=q, s=1, window=10, center=predict), id) -> linear(bias=no) -> tanh)\n"
    ),
    "gated recurrent units": (
        "d = 32\nencoder = birnn(cell=gru) -> rnn(cell=tanh)\ndecoder = rnn(cell=gru) -> res(mlp_src_att) -> ff\n"
    ),
    "sources that are chains": (
        "d = 32\nencoder = pos -> linear @ b -> tenc -> norm\n"
        "decoder = rnn -> res(mh_dot_src_att(from=@b -> rnn)) -> res(mlp_src_att) -> ff\n"
    ),
    "average": f"{TENC}decoder = pos -> post(gate(average -> ffl)) -> post(mh_dot_src_att) -> post(ffl)\n",
    "ssru": f"{TENC}decoder = pos -> post(ssru) -> post(mh_dot_src_att) -> post(ffl)\n",
    "hard-coded": (
        "d = 32\nencoder = pos -> post(hc_self_att(-1, 1)) -> post(ffl)\n"
        "decoder = pos -> post(hc_self_att(-1, 0)) -> post(hc_src_att(-1, 0, 0, 1)) -> post(ffl)\n"
    ),
}


def example() -> ModuleType:
    spec = importlib.util.spec_from_file_location("onnx_greedy", EXAMPLE)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


@pytest.mark.slow
@pytest.mark.parametrize("family", FAMILIES)
def test_the_example_decodes_as_the_run_does(family: str, tmp_path: Path) -> None:
    make_run(tmp_path / "run", FAMILIES[family])
    export_apart(tmp_path / "run", tmp_path / "out", "onnx")
    about = json.loads((tmp_path / "out" / "model.json").read_text())
    assert all(state["name"].startswith("state.") for state in about["states"])
    loaded = load(tmp_path / "run", beam=1)
    lines = draw_lines(12)
    decode = example().decode
    expected = [list(one[0].ids) for one in loaded.candidates(lines)]
    assert len(set(map(tuple, expected))) > 3
    for ids, ours in zip(loaded.loaded.source.encode(lines), expected, strict=True):
        assert decode(tmp_path / "out", ids)[: len(ours)] == ours


@pytest.mark.slow
def test_a_large_model_leaves_no_numbers_beside_its_own(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The exporter writes numbers into files of their own where a model is large."""
    monkeypatch.setattr("torch.onnx._internal.exporter._onnx_program._LARGE_MODEL_THRESHOLD", 1)
    make_run(tmp_path / "run", PRE, updates=0)
    for precision in ("float32", "int8"):
        out = tmp_path / precision
        out.mkdir()
        graphs.write_graphs(open_exported(tmp_path / "run"), out, graphs.Search(2, 0.0), precision)
        assert {file.name for file in out.iterdir()} == {*graphs.GRAPHS, "weights.bin"}


def test_another_precision_is_refused(tmp_path: Path) -> None:
    make_run(tmp_path / "run", PRE, updates=0)
    with pytest.raises(CalqueError, match="X503"):
        write_onnx(open_exported(tmp_path / "run"), tmp_path, "int8")


@pytest.mark.medium
@pytest.mark.parametrize(
    ("broken", "reason"),
    [
        (
            lambda points: points if points[0].sum().item() > 3 else [],
            r"data-dependent expression .* > 3.*Caused by: .*test_to_onnx.py",
        ),
        (lambda points: [torch.special.i0(p) for p in points], r"No ONNX function found for .*bessel_i0"),
        (lambda points: points[len(points)], "IndexError: list index out of range"),
    ],
)
def test_a_graph_that_cannot_be_exported_says_why(
    broken: Callable[[list[Tensor]], list[Tensor]],
    reason: str,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capfd: pytest.CaptureFixture[str],
) -> None:
    make_run(tmp_path / "run", PRE, updates=0)
    forward = graphs._Encoder.forward
    monkeypatch.setattr(graphs._Encoder, "forward", lambda self, source, mask: broken(forward(self, source, mask)))
    with pytest.raises(CalqueError, match=reason) as caught:
        write_onnx(open_exported(tmp_path / "run"), tmp_path, "float32")
    (diagnostic,) = caught.value.diagnostics
    assert diagnostic.where == Place(str(tmp_path / "run"))
    assert (diagnostic.code, diagnostic.fields["graph"]) == ("X506", "encoder")
    told = str(diagnostic.fields["reason"])
    assert "\x1b" not in told
    assert len(told) <= graphs.REASON
    assert capfd.readouterr() == ("", "")


def test_the_example_is_short() -> None:
    assert len(EXAMPLE.read_text(encoding="utf-8").splitlines()) <= 46
