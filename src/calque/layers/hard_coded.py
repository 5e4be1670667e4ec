from typing import cast

import torch
from jaxtyping import Float
from jaxtyping import Int as Whole
from torch import Tensor
from torch.nn import functional as F

from calque.layers.banded import banded
from calque.layers.contract import DECODER, ENCODER, Context, Example, Parts, Site
from calque.layers.cost import Cost, Held, Products, Reach
from calque.layers.fixed import FixedArgs, FixedAttention
from calque.layers.state import State, Window, accumulated
from calque.native.program import Band, Program, Value


class HardCodedSelfAttention(FixedAttention):
    """hc_self_att(H) = [C_1; ...; C_h] W_o, C_k,i = sum_j w(j - i - o_k) H_j W_v,k: one head per offset o_k, nothing learned
    but the projections (You 2020, equation 2).

    gauss  w(x) = exp(-x^2 / (2 sigma^2)) / (sigma sqrt(2 pi)), the density, which equation 2 gives a standard deviation
           named sigma^2; for sigma = 1 the window is 8 positions on either side of a centre
    conv   the same weights for |x| <= `reach` alone (section 6.3; reach 1 is its window of 3)
    index  w(0) = 1 alone: the head copies the value at its offset (section 6.3)

    Weights are never made to sum to one: what falls on positions outside the sentence, on padding, or in the decoder on
    later positions, is lost (footnote 5; the authors' code does the same with the future). In the decoder positions are those
    of its input, so offset 0 sees the newest word. Without `project` the values are slices of H itself (footnote 6). No
    weight depends on the input.
    """

    name = "hc_self_att"
    known_as = ("hard_coded_attention", "hc_att", "hard_coded_self_attention")
    examples = (
        Example("hc_self_att(-1, 1)", (ENCODER,)),
        Example("hc_self_att(-1, 0)", (DECODER,)),
        Example("hc_self_att(-1, 0, 2, width=6, out=no)"),
        Example("hc_self_att(1, -3, form=conv, project=no)"),
        Example("hc_self_att(-1, 0, form=index, sigma=2.0)"),
        Example("hc_self_att(0, sigma=0.4, project=no, width=6)"),
    )

    Args = FixedArgs

    def __init__(self, args: FixedArgs, site: Site, parts: Parts):
        super().__init__(args, site, parts, site.width)
        values = args.value_width(site.width)
        self.before = max(0, args.furthest - min(args.offsets))
        self.after = 0 if site.side == DECODER else max(0, args.furthest + max(args.offsets))
        # Not a buffer: a cast of the module would round it.
        self.table = _weights(args, torch.arange(-self.before, self.after + 1), values)
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
            weights = self._recorded(torch.arange(x.shape[1], device=x.device)[None], x.shape[1], x)
            ctx.record(self.path, weights if ctx.mask is None else weights * ctx.mask[:, None, None].to(x.dtype))
        return self._attend(F.pad(v, (0, 0, self.before, self.after)))

    def init_state(self, batch: int, capacity: int, ctx: Context) -> State:
        return Window.new(batch, self.before, ctx.like, self.values)

    def step(self, x: Float[Tensor, "B n D"], state: State, ctx: Context) -> tuple[Tensor, State]:
        seen, after = cast("Window", state).write(self.v(x), ctx.mask)
        if ctx.record is not None:
            ctx.record(self.path, self._recorded(ctx.now.positions, ctx.now.visible, x))
        return self._attend(seen), after

    def program(self, p: Program, x: Value, state: State | None) -> tuple[Value, State | None]:
        v, weights = p.linear(x, self.v), Band.same(self.table.float())
        if state is None:
            return p.linear(p.band_self(v, self.before, self.after, weights), self.out), None
        y, after = p.band(v, cast("Window", state).last, weights)
        return p.linear(y, self.out), Window(cast("Tensor", after))

    def _attend(self, seen: Float[Tensor, "B W D"]) -> Float[Tensor, "B T E"]:
        kind = accumulated(seen.dtype)
        if self.table.dtype != kind or self.table.device != seen.device:
            with torch.inference_mode(False):  # else it could not take part in training afterwards
                self.table = self.table.to(seen.device, kind)
        return cast("Tensor", self.out(banded(seen, self.table).to(seen.dtype)))

    def _recorded(
        self, at: Whole[Tensor, "#B T"], length: int, like: Float[Tensor, "B T D"]
    ) -> Float[Tensor, "B H T S"]:
        """The weight of each of `length` positions for the queries at these places."""
        seen, queries = torch.arange(length, device=at.device), at[:, None, :, None]
        away = (seen - queries - torch.tensor(self.args.offsets, device=at.device)[:, None, None]).double()
        weights = self.args.weights(away)
        if self.causal:
            weights = weights * (seen <= queries)
        return weights.to(like.dtype).expand(len(like), -1, -1, -1)


def _weights(args: FixedArgs, at: Tensor, width: int) -> Float[Tensor, "k D"]:
    """The weight of the value at each relative position, for every number of the width, in float64."""
    x = (at[:, None] - torch.tensor(args.offsets)).double()
    w = args.weights(x)
    return w.repeat_interleave(width // len(args.offsets), 1)
