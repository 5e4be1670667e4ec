"""A translation model: embeddings, an encoder, a decoder and an output layer, some of which share a matrix."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Protocol, cast

import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor, nn

from calque.adl.check import CheckedDefinition
from calque.ground.diagnostics import error
from calque.layers.build import build
from calque.layers.contract import Context, Point, Recorder, Registry
from calque.layers.projections import Embedding
from calque.layers.registry import builtin
from calque.layers.source import SourceAttention
from calque.layers.state import State
from calque.layers.stepping import begin, proceed

Sources = dict[str, Point]


class Programs(Protocol):
    """The two sides of a model as programs of kernel calls; None where layers have to run one by one."""

    def encode(self, source: Tensor, mask: Tensor | None) -> Sources | None:
        """As `Model.encode`."""
        ...

    def step(self, words: Tensor, state: State, beams: int) -> tuple[Tensor, State] | None:
        """As `Model.step`, where all positions are real."""
        ...


@dataclass(frozen=True)
class Shape:
    """The matrices around an architecture: vocabulary sizes, tying and bias, and `gamma`, a constant of the data.

    gamma is the mean length of training sources, in subwords, divided by that of targets (You 2020, section 3.2).
    """

    source_size: int
    target_size: int
    tying: str = "three-way"
    output_bias: bool = True
    gamma: float = 1.0


class Model(nn.Module):
    """p(y_t | y_<t, x) = softmax(W_o z_t + b_o) (Domhan 2018, equation 1).

    Embeddings have width `d` and enter the two chains unchanged; scaling and dropout are part of the definition. With the tying
    `three-way`, the source embedding, the target embedding and W_o are one matrix; with `target`, the last two.
    """

    def __init__(self, checked: CheckedDefinition, shape: Shape, registry: Registry | None = None):
        super().__init__()
        registry = registry or builtin()
        self.programs: Programs | None = None
        self.checked, self.shape = checked, shape
        check_shape(checked, shape)
        self.source_embedding = Embedding(shape.source_size, checked.width)
        self.target_embedding = Embedding(shape.target_size, checked.width)
        self.encoder = build(checked.encoder, registry, shape.gamma)
        self.decoder = build(checked.decoder, registry, shape.gamma)
        self.output = nn.Linear(checked.decoder.width_out, shape.target_size, bias=shape.output_bias)
        if shape.tying != "none":
            self.output.weight = self.target_embedding.weight
        if shape.tying == "three-way":
            self.source_embedding.weight = self.target_embedding.weight

    def encode(
        self, source: Int[Tensor, "B S"], mask: Bool[Tensor, "B S"] | None = None, record: Recorder | None = None
    ) -> Sources:
        """Every labelled point of the encoder and its `end`, which the decoder reads. `mask`: True at real tokens."""
        if self.programs is not None and record is None and (read := self.programs.encode(source, mask)) is not None:
            return read
        taps: Sources = {}
        x = self.source_embedding(source)
        end = self.encoder(x, Context(mask=mask, taps=taps, record=record, like=x.new_empty(0)))
        taps["end"] = Point(end, mask)
        return taps

    def decode(
        self,
        target_in: Int[Tensor, "B T"],
        sources: Sources,
        mask: Bool[Tensor, "B T"] | None = None,
        record: Recorder | None = None,
    ) -> Float[Tensor, "B T D"]:
        """z of all positions at once: `target_in` starts with the begin symbol."""
        x = self.target_embedding(target_in)
        ctx = Context(mask=mask, sources=sources, record=record, like=x.new_empty(0))
        return cast("Tensor", self.decoder(x, ctx))

    def source_attentions(self) -> list[str]:
        """The paths of the layers that attend to the source, in order."""
        return [layer.path for layer in self.decoder.modules() if isinstance(layer, SourceAttention)]

    def _apply(self, fn: Callable[[Tensor], Tensor], recurse: bool = True) -> "Model":
        """Moves or casts as of any module. Programs read weights by their addresses, and do not outlive a change of them."""
        before = self._kinds()
        super()._apply(fn, recurse)  # type: ignore[no-untyped-call]  # torch leaves it untyped
        if self._kinds() != before:
            self.programs = None
        return self

    def _kinds(self) -> list[tuple[torch.dtype, torch.device]]:
        return [(x.dtype, x.device) for x in (*self.parameters(), *self.buffers())]

    def logits(self, z: Float[Tensor, "... D"]) -> Float[Tensor, "... V"]:
        """W_o z + b_o."""
        return cast("Tensor", self.output(z))

    def forward(
        self,
        source: Int[Tensor, "B S"],
        target_in: Int[Tensor, "B T"],
        source_mask: Bool[Tensor, "B S"] | None = None,
        target_mask: Bool[Tensor, "B T"] | None = None,
    ) -> Float[Tensor, "B T V"]:
        """The logits of all positions at once."""
        return self.logits(self.decode(target_in, self.encode(source, source_mask), target_mask))

    def init_state(self, sources: Sources, capacity: int, beams: int = 1, record: Recorder | None = None) -> State:
        """The state before the first word, for `beams` rows per sentence that will hold at most `capacity` positions."""
        end = sources["end"].value
        ctx = Context(beams=beams, sources=sources, record=record, like=end.new_empty(0))
        return begin(self.decoder, end.shape[0] * beams, capacity, ctx)

    def step(
        self,
        words: Int[Tensor, "R n"],
        state: State,
        visible: int,
        beams: int = 1,
        mask: Bool[Tensor, "R n"] | None = None,
        record: Recorder | None = None,
    ) -> tuple[Float[Tensor, "R n D"], State]:
        """z of the next n positions of every row, and the state after them. Consumes `state`.

        `visible`: no row holds more positions than this after the call.
        """
        alone = self.programs is not None and mask is None and record is None
        if alone and self.programs is not None and (after := self.programs.step(words, state, beams)) is not None:
            return after
        x = self.target_embedding(words)
        return proceed(self.decoder, x, state, Context(beams=beams, record=record, like=x.new_empty(0)), mask, visible)

    @property
    def device(self) -> torch.device:
        """Where the weights are."""
        return self.target_embedding.weight.device


def check_shape(checked: CheckedDefinition, shape: Shape) -> None:
    """Raises X210 or X211 where the matrices cannot be shared as the tying requires."""
    if shape.tying == "three-way" and shape.source_size != shape.target_size:
        raise error("X210", source=shape.source_size, target=shape.target_size)
    if shape.tying != "none" and checked.decoder.width_out != checked.width:
        raise error("X211", tying=shape.tying, width=checked.width, found=checked.decoder.width_out)
