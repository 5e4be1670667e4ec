"""The numbers of a model's ONNX graphs: each matrix once for all graphs of a folder, in 8 bits where that is wanted."""

import hashlib
import itertools
import logging
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import IO, Any

import numpy as np

from calque.ground.diagnostics import error

NUMBERS = "weights.bin"
"""The file of all large numbers."""
LARGE = 1024
"""Bytes from which on numbers stand in this file; what onnxruntime has to know of shapes is in smaller ones."""
TABLE = 1 << 16
"""Numbers that a table has at least of which rows are taken in 8 bits: those of words, and not those of few positions."""
GRAIN = 64
"""Numbers begin at multiples of so many bytes."""


def share(rough: Path, folder: Path, names: Sequence[str]) -> None:
    """Writes the graphs of `rough` to a folder, their large numbers to `NUMBERS`, each once.

    A matrix that is another one transposed is made of that one.
    """
    import onnx

    with (folder / NUMBERS).open("wb") as file:
        numbers = _Numbers(file)
        for name in names:
            model = onnx.load(rough / name)
            for graph in _graphs(model.graph):
                numbers.move(graph)
                for one in (model, graph, *graph.node, *graph.value_info):
                    one.ClearField("metadata_props")  # places in the program that the exporter has read
            onnx.save(model, folder / name)


class _Numbers:
    """The numbers that were written to a file, by their content."""

    def __init__(self, file: IO[bytes]):
        self._file, self._at = file, 0
        self._places: dict[str, int] = {}

    def move(self, graph: Any) -> None:
        from onnx import numpy_helper

        transposed = []
        for tensor in graph.initializer:
            numbers = numpy_helper.to_array(tensor)
            if numbers.nbytes < LARGE:
                continue
            turned = numbers.T.copy() if numbers.ndim == 2 else numbers
            if _key(numbers) not in self._places and _key(turned) in self._places:
                transposed.append(_transposed(tensor))
                numbers = turned
            self._refer(tensor, numbers)
        nodes = [*transposed, *graph.node]  # what is read stands before what reads it
        del graph.node[:]
        graph.node.extend(nodes)

    def _refer(self, tensor: Any, numbers: Any) -> None:
        """Makes a tensor one of the file."""
        from onnx import TensorProto
        from onnx.external_data_helper import set_external_data

        key = _key(numbers)
        if key not in self._places:
            self._file.write(b"\0" * (-self._at % GRAIN))
            self._at += -self._at % GRAIN
            self._places[key] = self._at
            self._file.write(numbers.tobytes())
            self._at += numbers.nbytes
        del tensor.dims[:]
        tensor.dims.extend(numbers.shape)
        for field in ("float_data", "int32_data", "int64_data", "double_data", "uint64_data"):
            tensor.ClearField(field)
        tensor.raw_data = b""
        set_external_data(tensor, NUMBERS, self._places[key], numbers.nbytes)
        tensor.ClearField("raw_data")
        tensor.data_location = TensorProto.EXTERNAL


def _key(numbers: Any) -> str:
    return hashlib.sha256(numbers.tobytes()).hexdigest()


def _transposed(tensor: Any) -> Any:
    """The node that makes what a tensor was; the tensor gets another name."""
    from onnx import helper

    was, tensor.name = tensor.name, f"{tensor.name}.transposed"
    return helper.make_node("Transpose", [tensor.name], [was])


def without_constants(file: Path) -> set[str]:
    """Leaves out of a graph the outputs that are inputs as they came; returns the names of these outputs."""
    import onnx

    model = onnx.load(file, load_external_data=False)
    graph = model.graph
    inputs, outputs = {one.name for one in graph.input}, {one.name for one in graph.output}
    same = [n for n in graph.node if n.op_type == "Identity" and n.input[0] in inputs and n.output[0] in outputs]
    names = {node.output[0] for node in same}
    for node in same:
        graph.node.remove(node)
    for one in [one for one in graph.output if one.name in names]:
        graph.output.remove(one)
    onnx.save(model, file)
    return names


def quantise(rough: Path, names: Sequence[str]) -> Path:
    """Weights of the graphs in a folder as whole numbers of 8 bits: those of products by the library, a scale for each column, with
    inputs in 8 bits as well; tables of words by row, so that a table which is also the output layer stays the same numbers. Returns
    the folder of the new graphs, inside the other one.

    Raises X301.
    """
    small, tables = rough / "small", rough / "tables"
    small.mkdir()
    tables.mkdir()
    try:
        from onnxruntime.quantization import QuantType, quantize_dynamic
    except ImportError:
        raise error("X301", extra="onnx", package="onnxruntime") from None
    disabled = logging.root.manager.disable
    logging.disable(logging.WARNING)  # it advises to prepare the graphs first, which they are
    try:
        for name in names:
            _quantise_tables(rough / name, tables / name)
            quantize_dynamic(
                tables / name,
                small / name,
                ["MatMul", "Gemm"],
                per_channel=True,
                weight_type=QuantType.QInt8,
                use_external_data_format=True,  # one file holds two gigabytes at most
                extra_options={"EnableSubgraph": True},  # bodies of loops
            )
    finally:
        logging.disable(disabled)
    return small


def _quantise_tables(file: Path, to: Path) -> None:
    """Writes a graph anew; tables whose rows it takes by number have rows of 8 bits, each with a scale."""
    import onnx
    from onnx import numpy_helper

    model = onnx.load(file)
    graph = model.graph
    tables = _tables(graph)
    for name in tables:
        numbers, scales = _rows_in_8_bits(numpy_helper.to_array(tables[name]))
        graph.initializer.append(numpy_helper.from_array(numbers, f"{name}.rows"))
        graph.initializer.append(numpy_helper.from_array(scales, f"{name}.scales"))
    nodes = [_wide_rows(node) if _takes_rows(node) and node.input[0] in tables else [node] for node in graph.node]
    del graph.node[:]
    graph.node.extend(itertools.chain.from_iterable(nodes))
    read = {name for part in _graphs(graph) for node in part.node for name in node.input}
    for name in tables.keys() - read:
        graph.initializer.remove(tables[name])
    onnx.save(model, to, save_as_external_data=True, location=f"{to.name}.data")


def _tables(graph: Any) -> dict[str, Any]:
    """The tables whose rows a graph takes, by name."""
    large = {one.name: one for one in graph.initializer if len(one.dims) == 2 and np.prod(one.dims) >= TABLE}
    return {node.input[0]: large[node.input[0]] for node in graph.node if _takes_rows(node) and node.input[0] in large}


def _takes_rows(node: Any) -> bool:
    return node.op_type == "Gather" and not any(one.name == "axis" and one.i for one in node.attribute)


def _wide_rows(node: Any) -> list[Any]:
    """What takes rows of 8 bits in place of a node that takes rows."""
    from onnx import TensorProto, helper

    (table, numbers), (name,) = node.input, node.output
    return [
        helper.make_node("Gather", [f"{table}.rows", numbers], [f"{name}.row"]),
        helper.make_node("Gather", [f"{table}.scales", numbers], [f"{name}.scale"]),
        helper.make_node("Cast", [f"{name}.row"], [f"{name}.wide"], to=TensorProto.FLOAT),
        helper.make_node("Mul", [f"{name}.wide", f"{name}.scale"], [name]),
    ]


def _rows_in_8_bits(table: Any) -> tuple[Any, Any]:
    """Rows as whole numbers up to 127, and the scale of each, [n, 1]; rounded as the library rounds the columns of a product."""
    scales = (np.abs(table).max(1, keepdims=True).astype(np.float64) / 127).astype(np.float32)
    scales[scales < np.finfo(np.float32).tiny] = 1
    return np.clip(np.round(table / scales), -127, 127).astype(np.int8), scales


def _graphs(graph: Any) -> Iterator[Any]:
    """A graph and those inside it."""
    yield graph
    for node in graph.node:
        for attribute in node.attribute:
            if attribute.HasField("g"):
                yield from _graphs(attribute.g)
