from typing import cast

import torch
from jaxtyping import Float
from torch import Tensor

from calque.layers.contract import Context, Example, Layer, NoArgs, Parts, Site
from calque.layers.cost import BEFORE, Cost, Held, Products
from calque.layers.scan import scan
from calque.layers.state import Scan, State, accumulated
from calque.layers.stepping import scanned
from calque.native.program import Kind, Program, Value


class Average(Layer):
    """average(h)_j = 1/j (h_1 + ... + h_j), from left to right (Zhang 2018, equations 1, 5 and 6 without FFN).

    j counts from 1 and the first input of a decoder counts. The whole layer of the paper is `gate(average -> ffl)`, without its
    feed-forward network `gate(average)`, without its gate `average -> ffl`; that network has neither residual sum nor norm of
    its own. Training sums up once where the paper multiplies with a matrix of 1/j; decoding keeps the sum (equation 5),
    in float32 in every precision. On the encoder's side, where the paper has none, it averages what came before as well.
    """

    name = "average"
    known_as = ("average_attention", "aan", "cumulative_average", "average_att")
    examples = (Example("average"), Example("gate(average)"), Example("average -> ffl(6, 0)"))

    def __init__(self, args: NoArgs, site: Site, parts: Parts):
        super().__init__(args, site, parts)
        self.width = site.width

    @classmethod
    def cost(cls, args: NoArgs, site: Site) -> Cost:
        return Cost(0, Products(), Held(exact=site.width), BEFORE._replace(sequential="log n"))

    def forward(self, x: Float[Tensor, "B T D"], ctx: Context) -> Float[Tensor, "B T D"]:
        j = torch.arange(1, x.shape[1] + 1, device=x.device, dtype=accumulated(x.dtype))
        return (scan(x) / j[:, None]).to(x.dtype)

    def init_state(self, batch: int, capacity: int, ctx: Context) -> State:
        return Scan.new(batch, ctx.like, self.width)

    def step(self, x: Float[Tensor, "B n D"], state: State, ctx: Context) -> tuple[Tensor, State]:
        before, at = cast("Scan", state), ctx.now.history.at
        sums = scan(x, start=before.h)
        j = ctx.now.positions[:, :, None] + 1 if at is None or x.shape[1] > 1 else at + 1
        return (sums / j).to(x.dtype), before.write(sums, ctx.mask)

    def program(self, p: Program, x: Value, state: State | None) -> tuple[Value, State | None]:
        return scanned(self, p, Kind.AVERAGE, (x,), state)
