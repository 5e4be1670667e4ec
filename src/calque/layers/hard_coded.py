from typing import cast

import torch
from jaxtyping import Bool, Float
from jaxtyping import Int as Whole
from torch import Tensor
from torch.nn import functional as F

from calque.layers.banded import banded
from calque.layers.contract import DECODER, ENCODER, Context, Example, Parts, Site
from calque.layers.cost import Cost, Held, Products, Reach
from calque.layers.fixed import FixedArgs, FixedAttention, inverse
from calque.layers.state import State, Window, accumulated
from calque.native.program import Band, NoProgram, Program, Value


class HardCodedSelfAttention(FixedAttention):
    """hc_self_att(H) = [C_1; ...; C_h] W_o, C_k,i = sum_j w(j - i - o_k) H_j W_v,k: one head per offset o_k, nothing learned
    but the projections (You 2020, equation 2).

    gauss  w(x) = exp(-x^2 / (2 sigma^2)) / (sigma sqrt(2 pi)), the density, which equation 2 gives a standard deviation
           named sigma^2; 0 for |x| >= 9 sigma: for sigma = 1 the window is 8 positions on either side of a centre
    conv   the same weights for |x| <= `reach` alone (section 6.3; reach 1 is its window of 3)
    index  w(0) = 1 alone: the head copies the value at its offset (section 6.3)

    What falls on positions outside the sentence, on padding, or in the decoder on later positions, is lost (footnote 5; the
    authors' code does the same with the future). With `renorm` it is given to the others, w(x) / sum_j w(j - i - o_k), j over
    those positions that i can use: a head that can use none is 0 in both cases. In the decoder positions are those of its
    input, so offset 0 sees the newest word. Without `project` the values are slices of H itself (footnote 6). No weight
    depends on the input.
    """

    name = "hc_self_att"
    known_as = ("hard_coded_attention", "hc_att", "hard_coded_self_attention")
    examples = (
        Example("hc_self_att(-1, 1)", (ENCODER,)),
        Example("hc_self_att(-1, 0)", (DECODER,)),
        Example("hc_self_att(-1, 0, 2, width=6, out=no)"),
        Example("hc_self_att(1, -3, form=conv, project=no)"),
        Example("hc_self_att(-1, 0, form=index)"),
        Example("hc_self_att(0, sigma=0.4, project=no, width=6)"),
        Example("hc_self_att(-2, 1, renorm=yes)"),
    )

    Args = FixedArgs

    def __init__(self, args: FixedArgs, site: Site, parts: Parts):
        super().__init__(args, site, parts, site.width)
        values = args.value_width(site.width)
        self.before = max(0, args.furthest - min(args.offsets))
        self.after = 0 if site.side == DECODER else max(0, args.furthest + max(args.offsets))
        # Not a buffer: a cast of the module would round it.
        self.table = _weights(args, torch.arange(-self.before, self.after + 1), values)
        # Of each position the inverse of what is left of a weight of one: in the decoder the beginning alone is special.
        self.left = inverse(self.table.flip(0).cumsum(0)) if args.renorm and site.side == DECODER else None
        self.values = values
        self.args, self.causal = args, site.side == DECODER

    @classmethod
    def infer(cls, args: FixedArgs, site: Site) -> int:
        return args.width_out(site.width)

    @classmethod
    def cost(cls, args: FixedArgs, site: Site) -> Cost:
        products = sum(args.projections(site.width))
        first, last = min(args.offsets) - args.furthest, max(args.offsets) + args.furthest
        reach = Reach(min(first, 0), min(last, 0)) if site.side == DECODER else Reach(first, last)
        return Cost(products, Products(products), Held(row=max(0, -first) * args.value_width(site.width)), reach)

    def forward(self, x: Float[Tensor, "B T D"], ctx: Context) -> Float[Tensor, "B T E"]:
        v = self.v(x)
        if ctx.mask is not None and self.after:  # padding is behind a sentence: who does not look ahead sees none
            v = v * ctx.mask[:, :, None].to(v.dtype)
        if ctx.record is not None:
            ctx.record(self.path, self._recorded(_places(x, ctx), x.shape[1], x, ctx.mask))
        return self._attend(F.pad(v, (0, 0, self.before, self.after)), x, ctx)

    def init_state(self, batch: int, capacity: int, ctx: Context) -> State:
        return Window.new(batch, self.before, ctx.like, self.values)

    def step(self, x: Float[Tensor, "B n D"], state: State, ctx: Context) -> tuple[Tensor, State]:
        seen, after = cast("Window", state).write(self.v(x), ctx.mask)
        if ctx.record is not None:
            ctx.record(self.path, self._recorded(ctx.now.positions, ctx.now.visible, x, None))
        return self._attend(seen, x, ctx), after

    def program(self, p: Program, x: Value, state: State | None) -> tuple[Value, State | None]:
        v, weights = p.linear(x, self.v), Band.same(self.table.float())
        if state is None:
            if self.args.renorm:  # divided by what depends on the length of the sentence
                raise NoProgram(self.name)
            return p.linear(p.band_self(v, self.before, self.after, weights), self.out), None
        y, after = p.band(v, cast("Window", state).last, weights)
        if self.left is not None:
            left = self.left.to(p.dtype)
            y = p.multiply(y, p.position(y, lambda length: left, 0.0, last=len(left)))
        return p.linear(y, self.out), Window(cast("Tensor", after))

    def _attend(self, seen: Float[Tensor, "B W D"], x: Float[Tensor, "B T C"], ctx: Context) -> Float[Tensor, "B T E"]:
        """The output at the positions of x, which see these values."""
        self.table = table = _like(self.table, seen)
        y = banded(seen, table)
        if self.left is not None:
            self.left = left = _like(self.left, seen)
            y = y * left[_places(x, ctx).clamp(max=len(left) - 1)]
        elif self.args.renorm:
            real = table.new_ones(1, x.shape[1]) if ctx.mask is None else ctx.mask.to(table.dtype)
            real = F.pad(real, (self.before, self.after))[:, :, None].expand(-1, -1, table.shape[1])
            y = y * inverse(banded(real, table))
        return cast("Tensor", self.out(y.to(seen.dtype)))

    def _recorded(
        self, at: Whole[Tensor, "#B T"], length: int, like: Float[Tensor, "B T D"], mask: Bool[Tensor, "B T"] | None
    ) -> Float[Tensor, "B H T S"]:
        """The weight of each of `length` positions for the queries at these places."""
        seen, queries = torch.arange(length, device=at.device), at[:, None, :, None]
        away = (seen - queries - torch.tensor(self.args.offsets, device=at.device)[:, None, None]).double()
        weights = self.args.weights(away)
        if self.causal:
            weights = weights * (seen <= queries)
        elif mask is not None:
            weights = weights * mask[:, None, None]
        if self.args.renorm:
            weights = weights * inverse(weights.sum(-1, keepdim=True))
        return weights.to(like.dtype).expand(len(like), -1, -1, -1)


def _places(x: Float[Tensor, "B T C"], ctx: Context) -> Whole[Tensor, "#B T"]:
    return torch.arange(x.shape[1], device=x.device)[None] if ctx.chunk is None else ctx.now.positions


def _like(table: Tensor, seen: Tensor) -> Tensor:
    """A table where, and in the type in which, sums over these values are computed."""
    kind = accumulated(seen.dtype)
    if table.dtype == kind and table.device == seen.device:
        return table
    with torch.inference_mode(False):  # else it could not take part in training afterwards
        return table.to(seen.device, kind)


def _weights(args: FixedArgs, at: Tensor, width: int) -> Float[Tensor, "k D"]:
    """The weight of the value at each relative position, for every number of the width, in float64."""
    x = (at[:, None] - torch.tensor(args.offsets)).double()
    w = args.weights(x)
    return w.repeat_interleave(width // len(args.offsets), 1)
