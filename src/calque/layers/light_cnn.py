from dataclasses import dataclass
from typing import cast

import torch
from jaxtyping import Float
from torch import Tensor, nn
from torch.nn import functional as F

from calque.adl.signature import Flag, Int, Setting, arg
from calque.layers.banded import banded
from calque.layers.contract import DECODER, ENCODER, Context, Example, Fault, Layer, Parts, Site
from calque.layers.cost import Cost, Held, Products, Reach
from calque.layers.projections import Projection
from calque.layers.state import State, Window, accumulated
from calque.native.program import Band, Program, Value


class LightConvolution(Layer):
    """light_cnn(H)_t,c = sum_j softmax(W_h)_j h_{t - floor(k/2) + j, c}, c a channel of head h (Wu et al. 2019, "Pay Less
    Attention", equation 4). In the decoder the k inputs end with h_t.

    The weights of a head are shared by all its channels. With `dynamic` they follow from the position, W_h h_t, W_h: [k, d]
    (equation 5). With one channel for each head, without `softmax`, it is a depthwise convolution. Zeros stand outside the
    sentence, padding included. The paper's block is `linear(2*d) -> glu -> light_cnn -> linear`; it drops weights, this does not.
    """

    name = "light_cnn"
    known_as = ("light_conv", "lightweight_conv", "dynamic_conv -> dynamic=yes", "depthwise_conv", "dwconv")
    examples = (
        Example("light_cnn(heads=2)"),
        Example("light_cnn(5, heads=4, dynamic=yes)"),
        Example("light_cnn(heads=8, softmax=no)"),
        Example("light_cnn(4, heads=2, dynamic=yes)", (DECODER,)),
    )

    @dataclass(frozen=True)
    class Args:
        kernel: int = arg(Int(1, 1023), 3, "inputs under the filter; odd in the encoder")
        heads: int = arg(Int(1, 65536), Setting("heads"), "number of heads; divides the width")
        dynamic: bool = arg(Flag(), False, "compute the weights from each position")
        softmax: bool = arg(Flag(), True, "let the weights of a head be positive and sum to one")

    def __init__(self, args: Args, site: Site, parts: Parts):
        super().__init__(args, site, parts)
        self.args, self.width, self.causal = args, site.width, site.side == DECODER
        self.weigh: nn.Module | None = None
        if args.dynamic:
            self.weigh = Projection(site.width, args.heads * args.kernel, bias=False)
        else:
            self.filter = nn.Parameter(torch.randn(args.heads, args.kernel) * 0.1)

    @classmethod
    def infer(cls, args: Args, site: Site) -> int:
        if site.width % args.heads:
            raise Fault("C205", "heads", heads=args.heads, width=site.width)
        if site.side == ENCODER and args.kernel % 2 == 0:
            raise Fault("C305", "kernel", kernel=args.kernel)
        return site.width

    @classmethod
    def cost(cls, args: Args, site: Site) -> Cost:
        weights = args.heads * args.kernel * (site.width if args.dynamic else 1)
        field = args.kernel - 1
        reach = Reach(-field, 0) if site.side == DECODER else Reach(-(field // 2), field - field // 2)
        return Cost(weights, Products(weights * args.dynamic), Held(row=field * site.width), reach)

    def forward(self, x: Float[Tensor, "B T D"], ctx: Context) -> Float[Tensor, "B T D"]:
        seen = x if ctx.mask is None else x * ctx.mask[:, :, None].to(x.dtype)
        field = self.args.kernel - 1
        before = field if self.causal else field // 2
        return self._convolve(F.pad(seen, (0, 0, before, field - before)), x)

    def init_state(self, batch: int, capacity: int, ctx: Context) -> State:
        return Window.new(batch, self.args.kernel - 1, ctx.like, self.width)

    def step(self, x: Float[Tensor, "B n D"], state: State, ctx: Context) -> tuple[Tensor, State]:
        seen, after = cast("Window", state).write(x, ctx.mask)
        return self._convolve(seen, x), after

    def program(self, p: Program, x: Value, state: State | None) -> tuple[Value, State | None]:
        if self.weigh is None:
            weights = Band.same(self._fixed(p.dtype).detach())
        else:
            weights = Band(p.linear(x, self.weigh), (self.args.heads, self.args.softmax))
        if state is None:
            field = self.args.kernel - 1
            return p.band_self(x, field // 2, field - field // 2, weights), None
        y, after = p.band(x, cast("Window", state).last, weights)
        return y, Window(cast("Tensor", after))

    def _convolve(self, seen: Float[Tensor, "B W D"], x: Float[Tensor, "B n D"]) -> Float[Tensor, "B n D"]:
        if self.weigh is None:
            return banded(seen, self._fixed(x.dtype)).to(x.dtype)
        heads, kernel = self.args.heads, self.args.kernel
        weights = self.weigh(x).view(*x.shape[:2], heads, kernel).to(accumulated(x.dtype))
        if self.args.softmax:
            weights = torch.softmax(weights, -1)
        by_head = seen.view(*seen.shape[:2], heads, self.width // heads)
        return banded(by_head, weights.movedim(3, 0)[..., None]).flatten(2).to(x.dtype)

    def _fixed(self, dtype: torch.dtype) -> Float[Tensor, "k D"]:
        """The weights of each input for every number of the width, in the type of sums."""
        weights = self.filter.to(accumulated(dtype))
        if self.args.softmax:
            weights = torch.softmax(weights, -1)
        return weights.t().repeat_interleave(self.width // self.args.heads, 1)
