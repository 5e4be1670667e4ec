from dataclasses import dataclass
from typing import cast

import torch
from jaxtyping import Float
from torch import Tensor

from calque.adl.signature import Flag, Point, Real, SourceDefault, arg
from calque.layers.contract import DECODER, Context, Example, Fault, Parts, Site, SourceArg
from calque.layers.cost import HERE, Cost, Held, Products
from calque.layers.fixed import FixedArgs, FixedAttention, inverse
from calque.layers.state import Foreseen, State, accumulated
from calque.native.kernels import kernels_for
from calque.native.program import Program, Value


class HardCodedSourceAttention(FixedAttention):
    """hc_src_att(H, U) = [C_1; ...; C_h] W_o, C_k,i = sum_j w(j - floor(gamma i) - o_k) U_j W_v,k: one head per offset o_k,
    nothing learned but the projections (You 2020, section 3.2).

    i = 0, 1, ... is the position of the decoder's input, gamma the mean length of sources divided by that of targets: the
    one given, or measured on the training data and kept with the model, 1 where there is no model file. Without `floor` centres
    are gamma i + o_k as in the authors' code, where gamma is 1 by mistake (`gamma=1`). The weights w are those of `hc_self_att`.

    What falls outside the sentence or on padding is lost, and a target much longer than gamma predicts sees nothing; with
    `renorm` the weights of a head inside the sentence sum to one, unless there are none. With `clamp` gamma i is at most the
    sentence's last position. The paper centres on -1, 0 and 1, three heads that divide neither 4 nor 8; -1, 0, 0, 1 do.

    No output depends on the decoder's words, so all of them are computed once per sentence, W_o included, up to the state's
    capacity; a step reads one.
    """

    name = "hc_src_att"
    known_as = ("hard_coded_source_attention", "hard_coded_cross_attention")
    sides = (DECODER,)
    examples = (
        Example("res(hc_src_att(-1, 0, 0, 1))", (DECODER,)),
        Example("hc_src_att(0, 1, -2, width=6, floor=no, out=no)", (DECODER,)),
        Example(
            "hc_src_att(-1, 1, form=conv, reach=2, sigma=2.0, clamp=yes, from=@e[2] -> norm)",
            (DECODER,),
            "repeat(2, linear @ e)",
        ),
        Example("hc_src_att(1, 0, form=index, project=no)", (DECODER,), "linear(6)"),
        Example("res(hc_src_att(-1, 0, floor=no, clamp=yes, form=conv, project=no, out=no))", (DECODER,)),
        Example("hc_src_att(-1, 1, renorm=yes, gamma=1.5)", (DECODER,)),
    )

    @dataclass(frozen=True)
    class Args(FixedArgs):
        floor: bool = arg(Flag(), True, "centres are whole; otherwise real")
        clamp: bool = arg(Flag(), False, "let no gamma i lie behind the sentence")
        from_: SourceArg = arg(Point(), SourceDefault("end"), "what values are made of")
        gamma: float | None = arg(
            Real(0.01, 100.0, optional=True),
            None,
            "source positions for each target position; none: measured on the training data",
            later=True,
        )

    def __init__(self, args: Args, site: Site, parts: Parts):
        super().__init__(args, site, parts, args.from_.width)
        self.args, self.gamma = args, site.gamma if args.gamma is None else args.gamma
        self._offsets = torch.tensor(args.offsets)

    @classmethod
    def infer(cls, args: Args, site: Site) -> int:
        width = args.width_out(args.from_.width)
        if args.form == "index" and not args.floor:
            raise Fault("C216", "form", layer=cls.name)
        return width

    @classmethod
    def cost(cls, args: Args, site: Site) -> Cost:
        read = args.from_.width
        projected, out = args.projections(read)
        products = Products(memory=projected, ahead=out, across=args.value_width(read))
        return Cost(projected + out, products, Held(ahead=args.width_out(read)), HERE)

    def forward(self, x: Float[Tensor, "B T D"], ctx: Context) -> Float[Tensor, "B T E"]:
        ahead = self._foresee(x.shape[1], ctx)
        if ctx.record is not None and ahead.weights is not None:
            ctx.record(self.path, ahead.weights)
        return ahead.values

    def init_state(self, batch: int, capacity: int, ctx: Context) -> State:
        return self._foresee(capacity, ctx)

    def step(self, x: Float[Tensor, "B n D"], state: State, ctx: Context) -> tuple[Tensor, State]:
        (outputs, weights), chunk = cast("Foreseen", state), ctx.now
        if ctx.record is not None and weights is not None:
            rows = torch.arange(len(x), device=x.device) // ctx.beams
            places = chunk.positions.clamp(max=outputs.shape[1] - 1)
            ctx.record(self.path, weights[rows[:, None], :, places].transpose(1, 2))
        if (at := chunk.history.at) is not None:
            y = outputs[:, at : at + x.shape[1]]
            return y if ctx.beams == 1 else y.repeat_interleave(ctx.beams, 0), state
        sentence = torch.arange(len(x), device=x.device)[:, None] // ctx.beams
        # Idle positions may count past the capacity; nobody reads their output.
        return outputs[sentence, chunk.positions.clamp(max=outputs.shape[1] - 1)], state

    def program(self, p: Program, x: Value, state: State | None) -> tuple[Value, State | None]:
        return p.foreseen(cast("Foreseen", state).values), state

    def _foresee(self, places: int, ctx: Context) -> Foreseen:
        """The outputs at the first `places` positions of every sentence, and with a recorder the weights."""
        point, heads = ctx.sources[self.args.from_.key], len(self.args.offsets)
        v = self.v(self.part("from")(point.value, Context(mask=point.mask, like=ctx.like, record=ctx.record)))
        lengths = None if point.mask is None else point.mask.sum(1)
        weights = self._weights(places, v.shape[1], lengths, v.device)
        if (kernels := kernels_for(v)) is not None:
            contexts = kernels.weigh(weights, v, lengths)
        else:
            if point.mask is not None:
                v = v * point.mask[:, :, None].to(v.dtype)
            apart = v.to(accumulated(v.dtype)).unflatten(2, (heads, -1)).transpose(1, 2)
            summed = torch.matmul(weights.to(apart.dtype), apart).transpose(1, 2).flatten(2)
            contexts = summed.to(v.dtype).contiguous()  # heads of one number are a view
        recorded = None
        if ctx.record is not None:
            seen = 1 if point.mask is None else point.mask[:, None, None].to(v.dtype)
            recorded = weights.to(v.dtype).expand(len(v), -1, -1, -1) * seen
        return Foreseen(self.out(contexts), recorded)

    def _weights(
        self, places: int, source: int, lengths: Tensor | None, device: torch.device
    ) -> Float[Tensor, "S H C N"]:
        """Of each source position at each position, in float64; of one sentence where all have the same."""
        centres = self.gamma * torch.arange(places, dtype=torch.float64, device=device)[None, None, :, None]
        if self.args.clamp:
            last = torch.tensor([source], device=device) if lengths is None else lengths
            centres = torch.minimum(centres, (last - 1).clamp(min=0)[:, None, None, None].double())
        if self.args.floor:
            centres = centres.floor()
        if self._offsets.device != device:
            with torch.inference_mode(False):  # else they could not take part in training afterwards
                self._offsets = self._offsets.to(device)
        offsets = self._offsets[None, :, None, None]
        j = torch.arange(source, dtype=torch.float64, device=device)
        weights = self.args.weights(j - centres - offsets)
        if not self.args.renorm:
            return weights
        if lengths is not None:
            weights = weights * (j < lengths[:, None, None, None])
        # Running sums add up one after the other, so that zeros behind a sentence change nothing.
        return weights * inverse(weights.cumsum(-1)[..., -1:])
