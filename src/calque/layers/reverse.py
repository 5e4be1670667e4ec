from dataclasses import dataclass
from functools import partial

import torch
from jaxtyping import Bool, Float
from torch import Tensor

from calque.adl.signature import Body, arg
from calque.layers.contract import ENCODER, BodyArg, Context, Example, Layer, Point, Recorder, Site
from calque.layers.cost import BACKWARDS, Cost, Held, Products
from calque.layers.state import State
from calque.native.program import Program, Value


class Reverse(Layer):
    """reverse(l)(h_1 .. h_n) = backwards(l(h_n .. h_1)), n the number of real tokens; encoder only.

    Padding stays behind the sentence. Labels inside read in source order, and weights of attention inside are recorded so, so that
    what reads them outside cannot see that they were computed backwards.
    """

    name = "reverse"
    known_as = ("backward", "flip")
    sides = (ENCODER,)
    examples = (Example("reverse(rnn)", (ENCODER,)), Example("birnn", (ENCODER,)))

    @dataclass(frozen=True)
    class Args:
        body: BodyArg = arg(Body(), doc="the chain that reads the sentence backwards")

    @classmethod
    def infer(cls, args: Args, site: Site) -> int:
        return args.body.width

    @classmethod
    def cost(cls, args: Args, site: Site) -> Cost:
        return Cost(0, Products(), Held(), bodies=BACKWARDS)

    def forward(self, x: Float[Tensor, "B T D"], ctx: Context) -> Float[Tensor, "B T E"]:
        taps: dict[str, Point] = {}
        record = None if ctx.record is None else partial(_record, ctx.record, ctx.mask)
        y = self.part("body")(backwards(x, ctx.mask), ctx._replace(taps=taps, record=record))
        if ctx.taps is not None:
            for label, point in taps.items():
                ctx.taps[label] = point._replace(value=backwards(point.value, ctx.mask))
        return backwards(y, ctx.mask)

    def program(self, p: Program, x: Value, state: State | None) -> tuple[Value, State | None]:
        outside, p.labels = p.labels, {}
        y, _ = self.part("body").program(p, p.flip(x), None)
        p.labels = outside | {label: p.flip(value) for label, value in p.labels.items()}
        return p.flip(y), None

    def init_state(self, batch: int, capacity: int, ctx: Context) -> State:
        raise TypeError("`reverse` has no incremental form; the checker keeps it out of decoders")

    def step(self, x: Tensor, state: State, ctx: Context) -> tuple[Tensor, State]:
        raise TypeError("`reverse` has no incremental form; the checker keeps it out of decoders")


def _record(
    record: Recorder, mask: Bool[Tensor, "B T"] | None, path: str, weights: Float[Tensor, "B heads T T"]
) -> None:
    """Records weights between reversed positions as those between positions of the source."""
    record(path, backwards(backwards(weights, mask, 2), mask, 3))


def backwards(x: Float[Tensor, "B ..."], mask: Bool[Tensor, "B T"] | None, axis: int = 1) -> Float[Tensor, "B ..."]:
    """The real positions of every row, along an axis, in opposite order, padding where it was."""
    if mask is None:
        return x.flip(axis)
    t = torch.arange(x.shape[axis], device=x.device)
    length = mask.sum(1, keepdim=True)
    index = torch.where(t < length, length - 1 - t, t)
    shape = [len(index) if k == 0 else index.shape[1] if k == axis else 1 for k in range(x.dim())]
    return x.gather(axis, index.view(shape).expand_as(x))
