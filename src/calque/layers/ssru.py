from dataclasses import dataclass
from typing import cast

import torch
from jaxtyping import Float
from torch import Tensor

from calque.adl.signature import Int, Setting, arg
from calque.layers.contract import Context, Example, Layer, Parts, Site
from calque.layers.cost import BEFORE, Cost, Held, Products
from calque.layers.projections import Projection
from calque.layers.scan import scan
from calque.layers.state import Scan, State, accumulated
from calque.native.program import Kind, NoProgram, Program, Value


class SimplestRecurrent(Layer):
    """ssru(x_t) = max(0, c_t), c_t = f_t c_{t-1} + (1 - f_t) W x_t, f_t = sigmoid(W_f x_t + b_f), from left to right
    (the simpler simple recurrent unit of Kim et al. 2019, "From Research to Production and Back").

    W has no bias. The state is c_t, zero before the first position and float32 in every precision, and not the output. The
    residual sum and the norm of the paper's decoder stand around it: `post(ssru)`. A projection behind it, which some code
    offers, is `ssru -> linear`.
    """

    name = "ssru"
    known_as = ("sru",)
    examples = (Example("ssru"), Example("ssru(6)"))

    @dataclass(frozen=True)
    class Args:
        width: int = arg(Int(), Setting("d"), "width of the state, and out")

    def __init__(self, args: Args, site: Site, parts: Parts):
        super().__init__(args, site, parts)
        self.input = Projection(site.width, args.width, bias=False)
        self.forget = Projection(site.width, args.width)
        self.width = args.width

    @classmethod
    def infer(cls, args: Args, site: Site) -> int:
        return args.width

    @classmethod
    def cost(cls, args: Args, site: Site) -> Cost:
        return Cost(
            args.width * (2 * site.width + 1),
            Products(2 * args.width * site.width),
            Held(exact=args.width),
            BEFORE._replace(sequential="log n", path="n"),
        )

    def forward(self, x: Float[Tensor, "B T D"], ctx: Context) -> Float[Tensor, "B T E"]:
        f, new = self._driven(x)
        return torch.relu(scan(new - f * new, f)).to(x.dtype)

    def init_state(self, batch: int, capacity: int, ctx: Context) -> State:
        return Scan.new(batch, ctx.like, self.width)

    def step(self, x: Float[Tensor, "B n D"], state: State, ctx: Context) -> tuple[Tensor, State]:
        before = cast("Scan", state)
        f, new = self._driven(x)
        one = x.shape[1] == 1
        c = torch.lerp(new, before.h[:, None], f) if one else scan(new - f * new, f, before.h)
        return torch.relu(c).to(x.dtype), before.write(c, ctx.mask)

    def program(self, p: Program, x: Value, state: State | None) -> tuple[Value, State | None]:
        if state is None:
            raise NoProgram(self.name)
        said = p.linear(x, self.forget), p.linear(x, self.input)
        y, c = p.scan(Kind.SIMPLE_RECURRENT, said, cast("Scan", state).h)
        return y, Scan(cast("Tensor", c))

    def _driven(self, x: Tensor) -> tuple[Tensor, Tensor]:
        """f and W x. A gate rounded to one in bfloat16 would never forget."""
        kind = accumulated(x.dtype)
        return torch.sigmoid(self.forget(x).to(kind)), self.input(x).to(kind)
