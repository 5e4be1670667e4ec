from dataclasses import dataclass

import torch
from jaxtyping import Bool, Float
from torch import Tensor

from calque.adl.signature import Body, arg
from calque.layers.contract import ENCODER, BodyArg, Context, Example, Layer, Parts, Point, Site
from calque.layers.cost import BACKWARDS, Cost, Held, Products
from calque.layers.state import State


class Reverse(Layer):
    """reverse(l)(h_1 .. h_n) = backwards(l(h_n .. h_1)), n the number of real tokens; encoder only.

    Padding stays behind the sentence. Labels inside read in source order, so that what reads a point outside cannot see
    that it was computed backwards.
    """

    name = "reverse"
    known_as = ("backward", "flip")
    sides = (ENCODER,)
    examples = (Example("reverse(rnn)", (ENCODER,)), Example("birnn", (ENCODER,)))

    @dataclass(frozen=True)
    class Args:
        body: BodyArg = arg(Body(), doc="the chain that reads the sentence backwards")

    def __init__(self, args: Args, site: Site, parts: Parts):
        super().__init__(args, site, parts)

    @classmethod
    def infer(cls, args: Args, site: Site) -> int:
        return args.body.width

    @classmethod
    def cost(cls, args: Args, site: Site) -> Cost:
        return Cost(0, Products(), Held(), bodies=BACKWARDS)

    def forward(self, x: Float[Tensor, "B T D"], ctx: Context) -> Float[Tensor, "B T E"]:
        taps: dict[str, Point] = {}
        y = self.part("body")(backwards(x, ctx.mask), ctx._replace(taps=taps))
        if ctx.taps is not None:
            for label, point in taps.items():
                ctx.taps[label] = point._replace(value=backwards(point.value, ctx.mask))
        return backwards(y, ctx.mask)

    def init_state(self, batch: int, capacity: int, ctx: Context) -> State:
        raise TypeError("`reverse` has no incremental form; the checker keeps it out of decoders")

    def step(self, x: Tensor, state: State, ctx: Context) -> tuple[Tensor, State]:
        raise TypeError("`reverse` has no incremental form; the checker keeps it out of decoders")


def backwards(x: Float[Tensor, "B T D"], mask: Bool[Tensor, "B T"] | None) -> Float[Tensor, "B T D"]:
    """The real positions of every row in opposite order, padding where it was."""
    if mask is None:
        return x.flip(1)
    t = torch.arange(x.shape[1], device=x.device)
    length = mask.sum(1, keepdim=True)
    index = torch.where(t < length, length - 1 - t, t)
    return x.gather(1, index[:, :, None].expand_as(x))
