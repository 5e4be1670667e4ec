from dataclasses import dataclass
from typing import cast

import torch
from jaxtyping import Bool, Float
from torch import Tensor
from torch.nn import functional as F

from calque.adl.signature import Flag, Int, Point, SourceDefault, arg
from calque.layers.contract import DECODER, Example, Fault, Parts, Site, SourceArg
from calque.layers.cost import HERE, Cost, Held, Products
from calque.layers.dot import normalised
from calque.layers.local import Near, WindowArgs
from calque.layers.projections import Projection, matmul
from calque.layers.source import SourceAttention, weigh
from calque.layers.state import Memory, State
from calque.native.program import Program, Value

LONGEST = 50


@dataclass(frozen=True)
class _LocationArgs:
    """The arguments beside those of the window."""

    slots: int | None = arg(
        Int(optional=True),
        None,
        f"rows of W_a; none: {LONGEST}, the longest sentences there, or those of the window",
    )
    from_: SourceArg = arg(Point(), SourceDefault("end"), "what the contexts are made of")


class LocationSourceAttention(SourceAttention):
    """location_src_att(H, U) = sum_s a_t(s) u_s, a_t = softmax(W_a h_t) (Luong 2015, equation 8): no source state takes part in
    its weight.

    W_a has a row for each of `slots` positions from the start of the sentence. The softmax is over all of them, and what falls
    behind the end of a shorter sentence is lost, as in the authors' code; footnote 6 can be read so too. `renorm` gives it to
    the words. Words past the last slot are not seen. No bias. The contexts have the width of the source.

    With a `window`, which is that of `mh_dot_src_att`, W_a has a row for each of its 2D + 1 positions, from the first one
    on, and those outside the sentence take no part in the softmax, as in the authors' code.
    """

    name = "location_src_att"
    examples = (
        Example("location_src_att", (DECODER,)),
        Example("location_src_att(3, renorm=yes, from=@e -> linear(6))", (DECODER,), "linear(4) @ e"),
        Example("location_src_att(window=1)", (DECODER,)),
        Example("location_src_att(window=2, center=predict, bounds=real)", (DECODER,)),
        Example("location_src_att(window=2, center=predict, gauss=scores)", (DECODER,)),
    )

    @dataclass(frozen=True)
    class Args(WindowArgs, _LocationArgs):
        renorm: bool = arg(
            Flag(), False, "make weights sum to one that do not: over slots, and behind the Gaussian of a window"
        )

    def __init__(self, args: Args, site: Site, parts: Parts):
        super().__init__(args, site, parts)
        self.score = Projection(site.width, _slots(args), bias=False)
        self.local, self.renorm = args.local(site.width), args.renorm

    @classmethod
    def infer(cls, args: Args, site: Site) -> int:
        args.check_window(cls.name, loses=True)
        if args.slots is not None and args.window is not None:
            raise Fault("C111", "slots", given=["slots"], others=["window"])
        return args.from_.width

    @classmethod
    def cost(cls, args: Args, site: Site) -> Cost:
        products = site.width * _slots(args) + args.window_products(site.width)
        value = args.from_.width
        return Cost(products, Products(products, source=value), Held(memory=value, masks=1), HERE)

    def remember(
        self, keys: Float[Tensor, "S N D"], values: Float[Tensor, "S N E"], mask: Bool[Tensor, "S N"] | None
    ) -> tuple[Tensor, Tensor]:
        return keys[:, :, :0], values

    def look(self, x: Float[Tensor, "S T D"], memory: Memory, near: Near | None) -> tuple[Tensor, Tensor]:
        slots = self.score(x)[:, None]
        length, last = memory.values.shape[1], slots.shape[-1] - 1
        if near is not None:
            at = torch.floor(near.offset + last // 2).long().clamp(0, last)
            weights = weigh(slots.gather(3, at.expand(*slots.shape[:3], length)), memory, near)
        elif self.renorm:
            behind = torch.finfo(slots.dtype).min
            weights = weigh(F.pad(slots, (0, length - last - 1), value=behind), memory, None)
        else:
            weights = F.pad(normalised(slots, None), (0, length - last - 1))
            if memory.blocked is not None:
                weights = weights.masked_fill(memory.blocked[:, None, None], 0.0)
        weights = weights.to(memory.values.dtype)
        return matmul(weights[:, 0], memory.values), weights

    def program(self, p: Program, x: Value, state: State | None) -> tuple[Value, State | None]:
        memory = cast("Memory", state)
        near = None if self.local is None else self.local.program(p, x)
        return p.attend_location(p.linear(x, self.score), memory.values, memory.blocked, near, self.renorm), state


def _slots(args: LocationSourceAttention.Args) -> int:
    if args.window is not None:
        return 2 * args.window + 1
    return LONGEST if args.slots is None else args.slots
