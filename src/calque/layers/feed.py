from dataclasses import dataclass
from typing import cast

import torch
from jaxtyping import Float
from torch import Tensor

from calque.adl.signature import Body, Int, Setting, arg
from calque.layers.contract import DECODER, WHOLE_CELL, BodyArg, Context, Example, Layer, Parts, Site
from calque.layers.cost import FED, Cost, Held, Products
from calque.layers.gated import check_body
from calque.layers.projections import loop
from calque.layers.state import Cell, State, States, columns
from calque.layers.stepping import begin, proceed
from calque.native.program import Program, Value


class Feed(Layer):
    """Input feeding: y_t = l([y_{t-1}; x_t]), y_0 = 0 (Luong 2015, section 3.3; Domhan 2018, section 2.4).

    The body sees its own last output, `width` wide, before the input. Its `forward` is the loop over `step`: O(T) sequential
    steps. It works around any body, since every layer steps.
    """

    name = "feed"
    known_as = ("input_feeding", "input_feed")
    sides = (DECODER,)
    cell = WHOLE_CELL
    examples = (
        Example("feed(ff)", (DECODER,)),
        Example("feed(rnn -> concat(id, mlp_src_att) -> ff)", (DECODER,)),
        Example("feed(linear(6) -> mh_dot_self_att(heads=2, width=6), width=6)", (DECODER,)),
    )

    @dataclass(frozen=True)
    class Args:
        body: BodyArg = arg(Body(), doc="a chain that returns `width`")
        width: int = arg(Int(), Setting("d"), "the width of what is fed back")

    def __init__(self, args: Args, site: Site, parts: Parts):
        super().__init__(args, site, parts)
        self.width = args.width

    @classmethod
    def body_width(cls, args: Args, site: Site) -> int:
        return args.width + site.width

    @classmethod
    def infer(cls, args: Args, site: Site) -> int:
        return check_body(cls.name, args.body, args.width)

    @classmethod
    def cost(cls, args: Args, site: Site) -> Cost:
        return Cost(0, Products(), Held(row=args.width), bodies=FED)

    def forward(self, x: Float[Tensor, "B T D"], ctx: Context) -> Float[Tensor, "B T E"]:
        ctx = ctx._replace(like=x.new_empty(0))
        return proceed(self, x, begin(self, x.shape[0], x.shape[1], ctx), ctx, ctx.mask, x.shape[1])[0]

    def init_state(self, batch: int, capacity: int, ctx: Context) -> State:
        fed = Cell((ctx.like.new_zeros(batch, self.width),))
        return States((fed, self.part("body").init_state(batch, capacity, ctx)))

    def step(self, x: Float[Tensor, "B n D"], state: State, ctx: Context) -> tuple[Tensor, State]:
        fed, inner = cast("tuple[Cell, State]", cast("States", state).parts)
        outputs = []
        with loop():
            real = columns(ctx.mask, x.shape[1])
            for t, now in enumerate(torch.split(x, 1, 1)):  # indexing would cost O(T^2) in the gradient
                valid = real[t]
                mask = None if valid is None else valid[:, None]
                seen = torch.cat([fed.values[0][:, None], now], -1)
                y, inner = self.part("body").step(seen, inner, ctx._replace(mask=mask, chunk=ctx.now.single(t)))
                fed = fed.write((y[:, 0],), valid)
                outputs.append(y)
        return torch.cat(outputs, 1), States((fed, inner))

    def program(self, p: Program, x: Value, state: State | None) -> tuple[Value, State | None]:
        fed, inner = cast("tuple[Cell, State]", cast("States", state).parts)
        y, after = self.part("body").program(p, p.concat((p.read(fed.values[0]), x)), inner)
        now = Cell(cast("tuple[Tensor, ...]", (p.write(y, fed.values[0]),)))
        return y, States((now, cast("State", after)))
