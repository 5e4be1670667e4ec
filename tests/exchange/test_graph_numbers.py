"""The numbers of graphs: each once, in 8 bits where wanted, and the same results."""

from pathlib import Path
from typing import Any

import numpy as np
import pytest

from calque.exchange.graph_numbers import NUMBERS, quantise, share, without_constants

onnx = pytest.importorskip("onnx", reason="the package onnx is not installed")
onnxruntime = pytest.importorskip("onnxruntime", reason="the package onnxruntime is not installed")

WORDS, WIDTH = 1200, 64
TABLE = np.random.default_rng(1).normal(size=(WORDS, WIDTH)).astype(np.float32)
OTHER = np.random.default_rng(2).normal(size=(WIDTH, WIDTH)).astype(np.float32)
BOTH = ("encoder.onnx", "step.onnx")
GIVEN = {"word": np.array([[3], [1199], [0]]), "kept": np.ones((2, 2), np.float32)}


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """A folder `rough` with two graphs: one looks words up and multiplies them in a loop; of the other one the output layer is the
    same table, too.
    """
    rough = tmp_path / "rough"
    rough.mkdir()
    node, info, kind = onnx.helper.make_node, onnx.helper.make_tensor_value_info, onnx.TensorProto
    word = info("word", kind.INT64, [3, 1])
    kept = info("kept", kind.FLOAT, [2, 2])
    body = onnx.helper.make_graph(
        [node("MatMul", ["h", "other"], ["m"]), node("Add", ["m", "now"], ["g"]), node("Identity", ["g"], ["y"])],
        "body",
        [info("h", kind.FLOAT, [1, WIDTH]), info("now", kind.FLOAT, [1, WIDTH])],
        [info("g", kind.FLOAT, [1, WIDTH]), info("y", kind.FLOAT, [1, WIDTH])],
    )
    loop = node("Scan", ["start", "x"], ["last", "out"], num_scan_inputs=1, body=body)
    encoder = [node("Gather", ["table", "word"], ["x"]), loop]
    step = [
        node("Gather", ["words", "word"], ["x"]),
        node("MatMul", ["x", "columns"], ["out"]),
        node("Identity", ["kept"], ["next.kept"]),
    ]
    start = np.zeros((1, WIDTH), np.float32)
    values = {"encoder": {"table": TABLE, "other": OTHER, "start": start}, "step": {"words": TABLE, "columns": TABLE.T}}
    outputs = {
        "encoder": [info("out", kind.FLOAT, [3, 1, WIDTH])],
        "step": [info("out", kind.FLOAT, [3, 1, WORDS])],
    }
    outputs["step"].append(info("next.kept", kind.FLOAT, [2, 2]))
    for name, nodes in (("encoder", encoder), ("step", step)):
        tensors = [onnx.numpy_helper.from_array(np.ascontiguousarray(x), key) for key, x in values[name].items()]
        inputs = [word] if name == "encoder" else [word, kept]
        graph = onnx.helper.make_graph(nodes, name, inputs, outputs[name], tensors)
        model = onnx.helper.make_model(graph, opset_imports=[onnx.helper.make_opsetid("", 18)], ir_version=10)
        onnx.checker.check_model(model)
        onnx.save(model, rough / f"{name}.onnx")
    return tmp_path


def results(folder: Path) -> list[Any]:
    """What both graphs compute."""
    found = []
    for name in BOTH:
        session = onnxruntime.InferenceSession(folder / name)
        found.append(session.run(["out"], {one.name: GIVEN[one.name] for one in session.get_inputs()})[0])
    return found


def test_a_table_of_two_graphs_and_of_the_output_layer_is_written_once(folder: Path) -> None:
    before = results(folder / "rough")
    share(folder / "rough", folder, BOTH)
    assert (folder / NUMBERS).stat().st_size == TABLE.nbytes + OTHER.nbytes
    assert all((folder / name).stat().st_size < 2000 for name in BOTH)
    for a, b in zip(before, results(folder), strict=True):
        assert np.array_equal(a, b)


def test_it_is_written_once_in_8_bits(folder: Path) -> None:
    before = results(folder / "rough")
    share(quantise(folder / "rough", BOTH), folder, BOTH)
    scales, zeros = 4 * WORDS, WORDS
    assert 0 <= (folder / NUMBERS).stat().st_size - (TABLE.size + OTHER.size + scales + zeros) < 400
    for a, b in zip(before, results(folder), strict=True):
        assert not np.array_equal(a, b)
        assert np.square(a - b).mean() < 0.15**2 * np.square(a).mean()  # with AVX2 alone sums of 16 bits are cut off


def test_rows_have_scales_of_their_own(folder: Path) -> None:
    model = onnx.load(folder / "rough" / BOTH[0])
    (table,) = (one for one in model.graph.initializer if one.name == "table")
    table.CopyFrom(
        onnx.numpy_helper.from_array(TABLE * np.geomspace(1e-6, 1e6, WORDS, dtype=np.float32)[:, None], "table")
    )
    onnx.save(model, folder / "rough" / BOTH[0])
    before = np.geomspace(1e-6, 1e6, WORDS)[3] * TABLE[3]
    after = results(quantise(folder / "rough", BOTH))[0][0]  # the first word, to which nothing is added yet
    assert 0 < np.abs(before - after).max() < 0.006 * np.abs(before).max()


def test_what_a_step_does_not_change_is_no_output(folder: Path) -> None:
    rough = folder / "rough"
    assert without_constants(rough / BOTH[1]) == {"next.kept"}
    assert [one.name for one in onnxruntime.InferenceSession(rough / BOTH[1]).get_outputs()] == ["out"]
    assert without_constants(rough / BOTH[0]) == set()
    results(rough)
