from typing import cast

import torch
from jaxtyping import Float
from torch import Tensor

from calque.layers.contract import Context, Example, Parts, Site
from calque.layers.gated_scan import GatedScan
from calque.layers.projections import Projection
from calque.layers.state import Scan, State, accumulated
from calque.layers.stepping import scanned
from calque.native.program import Kind, Program, Value


class SimplestRecurrent(GatedScan):
    """ssru(x_t) = max(0, c_t), c_t = f_t c_{t-1} + (1 - f_t) W x_t, f_t = sigmoid(W_f x_t + b_f), from left to right
    (the simpler simple recurrent unit of Kim et al. 2019, "From Research to Production and Back").

    W has no bias. The state is c_t, zero before the first position and float32 in every precision, and not the output. The
    residual sum and the norm of the paper's decoder stand around it: `post(ssru)`. A projection behind it, which some code
    offers, is `ssru -> linear`.
    """

    name = "ssru"
    known_as = ("sru",)
    examples = (Example("ssru"), Example("ssru(6)"))

    matrices = 2
    unbiased = 1

    def __init__(self, args: GatedScan.Args, site: Site, parts: Parts):
        super().__init__(args, site, parts)
        self.input = Projection(site.width, args.width, bias=False)
        self.forget = Projection(site.width, args.width)

    def drive(self, x: Float[Tensor, "B n D"]) -> tuple[Tensor, Tensor]:
        f, new = self._gated(x)
        return f, new - f * new

    def read(self, h: Float[Tensor, "B n E"], x: Float[Tensor, "B n D"]) -> Tensor:
        return torch.relu(h)

    def step(self, x: Float[Tensor, "B n D"], state: State, ctx: Context) -> tuple[Tensor, State]:
        if x.shape[1] > 1:
            return super().step(x, state, ctx)
        before = cast("Scan", state)
        f, new = self._gated(x)
        c = torch.lerp(new, before.h[:, None], f)  # one operation for a position
        return torch.relu(c).to(x.dtype), before.write(c, ctx.mask)

    def program(self, p: Program, x: Value, state: State | None) -> tuple[Value, State | None]:
        said = p.linear(x, self.forget), p.linear(x, self.input)
        return scanned(self, p, Kind.GATED, said, state, (0.0, 1.0), "relu")

    def _gated(self, x: Tensor) -> tuple[Tensor, Tensor]:
        """f and W x. A gate rounded to one in bfloat16 would never forget."""
        kind = accumulated(x.dtype)
        return torch.sigmoid(self.forget(x).to(kind)), self.input(x).to(kind)
