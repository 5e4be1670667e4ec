"""What every importer does with a text that it wrote: it is checked, its parts are recognised, each takes its tensors."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import NamedTuple

import torch
from torch import Tensor

from calque.adl.check import check
from calque.adl.tree import Node
from calque.data.vocabulary import BOS
from calque.exchange.hf_folder import Tensors
from calque.exchange.network import FEED, Side, recognise
from calque.exchange.weights import NEVER
from calque.ground.diagnostics import Place, Text, error
from calque.layers.registry import builtin
from calque.model import Model, Shape
from calque.run.model_file import load_weights


class Matrices(NamedTuple):
    """Embeddings, output matrix and output bias, their rows in the order of the other tool."""

    source: Tensor
    target: Tensor
    output: Tensor
    bias: Tensor


@dataclass
class Filling:
    """The weights of a model by our paths, each taken from the tensors of a file."""

    tensors: Tensors
    weights: dict[str, Tensor] = field(default_factory=dict)

    def put(self, ours: str, theirs: str, turn: Callable[[Tensor], Tensor] = lambda t: t, dims: int = 0) -> None:
        """One parameter, as `turn` changes it. Raises X513, X518."""
        self.weights[ours] = turn(self.tensors.take(theirs, dims))

    def linear(self, node: Node, part: str, theirs: str, bias: bool = True) -> None:
        """A map whose tensors are called `.weight` and `.bias`."""
        for name in ("weight", "bias")[: 2 if bias else 1]:
            self.put(f"{node.path}.{part}.{name}", f"{theirs}.{name}")

    def norm(self, node: Node, theirs: str, shift: bool = True) -> None:
        """A norm, of the same names."""
        self.put(f"{node.path}.gain", f"{theirs}.weight")
        if shift:
            self.put(f"{node.path}.shift", f"{theirs}.bias")

    def feed_forward(self, nodes: Sequence[Node | None], theirs: Sequence[str], bias: bool = True) -> None:
        """The maps of a feed-forward network."""
        for node, name in zip(nodes, theirs, strict=True):
            assert node is not None
            self.linear(node, "project", name, bias)


def assemble(
    text: str,
    matrices: Matrices,
    rows: tuple[Sequence[int], Sequence[int]],
    tensors: Tensors,
    read: Callable[[Filling, Side], None],
    place: Place,
) -> Model:
    """The model of a text. `rows`: for each of our words its row in their matrices; `read` fills a side.

    Raises X513, X514 (a tensor is missing, or was not used), X518.
    """
    _check_rows(matrices, rows, place)
    source_rows, target_rows = (torch.tensor(side) for side in rows)
    source, target, output = matrices.source[source_rows], matrices.target[target_rows], matrices.output[target_rows]
    bias = matrices.bias[target_rows].clone()
    bias[BOS] = NEVER  # a row that their model has once
    checked = check(Text("imported", text), builtin())
    model = Model(checked, Shape(len(source), len(target), tying_of(source, target, output)))
    filling = Filling(tensors)
    names = ("source_embedding.weight", "target_embedding.weight", "output.weight", "output.bias")
    filling.weights |= zip(names, (source, target, output, bias), strict=True)
    network = recognise(checked, "import")
    for side in (network.encoder, network.decoder):
        read(filling, side)
    tensors.finish()
    own = dict(model.named_parameters())
    load_weights(model, {name: t for name, t in filling.weights.items() if name in own}, place)
    return model.eval()


def _check_rows(matrices: Matrices, rows: tuple[Sequence[int], Sequence[int]], place: Place) -> None:
    """Raises X518 for a matrix that ends before the row of a word."""
    names = ("source embedding", "target embedding", "output matrix", "output bias")
    for name, side, matrix in zip(names, (rows[0], *[rows[1]] * 3), matrices, strict=True):
        if len(matrix) <= max(side):
            expected = f"at least {max(side) + 1} rows"
            raise error("X518", place, name=name, expected=expected, found=list(matrix.shape))


def tying_of(source: Tensor, target: Tensor, output: Tensor) -> str:
    """Which matrices are one, decided by their values."""
    if target.shape != output.shape or not torch.equal(target, output):
        return "none"
    return "three-way" if source.shape == target.shape and torch.equal(source, target) else "target"


def kinds_of(side: Side, second: str) -> tuple[str, ...]:
    """The blocks of a layer: the first one of the side, what reads the source (`second`) in a decoder, a feed-forward network."""
    first = side.blocks[0].kind
    return (first, FEED) if side.name == "encoder" else (first, second, FEED)


def definition(width: int, encoder: str, decoder: str) -> str:
    """A text of two sides."""
    return f"adl = 0\nd = {width}\nencoder = {encoder}\ndecoder = {decoder}\n"


def residual(norm: str, body: str, p: float, pre: bool) -> str:
    """A block: its norm before the body, or behind the sum."""
    if pre:
        return f"add(id, {norm} -> {body} -> dropout({p}))"
    return f"add(id, {body} -> dropout({p})) -> {norm}"
