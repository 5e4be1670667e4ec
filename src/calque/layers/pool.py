from dataclasses import dataclass
from typing import cast

import torch
from jaxtyping import Float
from torch import Tensor
from torch.nn import functional as F

from calque.adl.signature import Int, arg
from calque.layers.contract import DECODER, ENCODER, Context, Example, Fault, Layer, Parts, Site
from calque.layers.cost import Cost, Held, Products, Reach
from calque.layers.state import State, Window
from calque.native.program import Band, Program, Value


class Pool(Layer):
    """pool(H, k)_t = 1/k (h_{t - floor(k/2)} + ... + h_{t + floor(k/2)}) in the encoder (Gehring 2017, section 3.1),
    1/k (h_{t-k+1} + ... + h_t) in the decoder, where the paper has none.

    Zeros stand outside the sentence, padding included, and the divisor is k everywhere: means at the borders are smaller, as in
    the authors' code. The paper does not say by what it divides there. Nothing is learned.
    """

    name = "pool"
    known_as = ("AvgPool1d(kernel)", "avg_pool", "mean_pool")
    examples = (Example("pool"), Example("pool(1)"), Example("pool(7)"), Example("pool(4)", (DECODER,)))

    @dataclass(frozen=True)
    class Args:
        kernel: int = arg(Int(1, 1023), 5, "inputs under the mean; odd in the encoder")

    def __init__(self, args: Args, site: Site, parts: Parts):
        super().__init__(args, site, parts)
        self.kernel, self.width, self.causal = args.kernel, site.width, site.side == DECODER

    @classmethod
    def infer(cls, args: Args, site: Site) -> int:
        if site.side == ENCODER and args.kernel % 2 == 0:
            raise Fault("C305", "kernel", kernel=args.kernel)
        return site.width

    @classmethod
    def cost(cls, args: Args, site: Site) -> Cost:
        field, half = args.kernel - 1, args.kernel // 2
        reach = Reach(-field, 0) if site.side == DECODER else Reach(-half, half)
        return Cost(0, Products(), Held(row=field * site.width), reach)

    def forward(self, x: Float[Tensor, "B T D"], ctx: Context) -> Float[Tensor, "B T D"]:
        if self.causal:  # padding is behind a sentence: who does not look ahead sees none
            return self._mean(F.pad(x, (0, 0, self.kernel - 1, 0)))
        if ctx.mask is not None:
            x = x * ctx.mask[:, :, None].to(x.dtype)
        return self._mean(F.pad(x, (0, 0, self.kernel // 2, self.kernel // 2)))

    def init_state(self, batch: int, capacity: int, ctx: Context) -> State:
        return Window.new(batch, self.kernel - 1, ctx.like, self.width)

    def step(self, x: Float[Tensor, "B n D"], state: State, ctx: Context) -> tuple[Tensor, State]:
        seen, after = cast("Window", state).write(x, ctx.mask)
        return self._mean(seen), after

    def program(self, p: Program, x: Value, state: State | None) -> tuple[Value, State | None]:
        weights = Band.same(torch.full((self.kernel, self.width), 1 / self.kernel))
        if state is None:
            return p.band_self(x, self.kernel // 2, self.kernel // 2, weights), None
        y, last = p.band(x, cast("Window", state).last, weights)
        return y, Window(cast("Tensor", last))

    def _mean(self, seen: Float[Tensor, "B W D"]) -> Float[Tensor, "B T D"]:
        return F.avg_pool1d(seen.transpose(1, 2), self.kernel, 1).transpose(1, 2)
