from dataclasses import dataclass

import torch
from jaxtyping import Float
from torch import Tensor, nn

from calque.adl.signature import Flag, Int, Real, arg
from calque.layers.contract import Context, Example, Fault, Parts, Site, Stateless
from calque.layers.cost import Cost, Products
from calque.layers.state import State, accumulated
from calque.native.program import Program, Value


class RootMeanSquareNorm(Stateless):
    """rms_norm(h) = g * h / sqrt(mean(h^2) + eps), over the width (Zhang and Sennrich 2019, equation 4).

    No mean is taken away and nothing is added. With `groups`, such as the heads of an attention, the mean is over each of so many
    equal parts of the width. `eps` keeps a row of zeros finite; the paper has none. Computed in float32 in every precision.
    """

    name = "rms_norm"
    known_as = ("rms", "RMSNorm", "t5_layer_norm")
    examples = (Example("rms_norm"), Example("rms_norm(1e-5, groups=4, gain=no)"))
    undrawn = ("gain",)

    @dataclass(frozen=True)
    class Args:
        eps: float = arg(Real(1e-12, 1.0), 1e-6, "added to the mean of the squares", known_as=("epsilon",))
        groups: int = arg(Int(1, 1024), 1, "parts of the width, each with a mean of its own; divides the width")
        gain: bool = arg(Flag(), True, "multiply by g, learned, one number for each of the width")

    def __init__(self, args: Args, site: Site, parts: Parts):
        super().__init__(args, site, parts)
        self.eps, self.groups = args.eps, args.groups
        self.gain = nn.Parameter(torch.ones(site.width)) if args.gain else None

    @classmethod
    def infer(cls, args: Args, site: Site) -> int:
        if site.width % args.groups:
            raise Fault("C212", "groups", layer=cls.name, groups=args.groups, width=site.width)
        return site.width

    @classmethod
    def cost(cls, args: Args, site: Site) -> Cost:
        return Cost(site.width * args.gain, Products())

    def forward(self, x: Float[Tensor, "B T D"], ctx: Context) -> Float[Tensor, "B T D"]:
        apart = x.to(accumulated(x.dtype)).reshape(*x.shape[:-1], self.groups, -1)
        y = (apart * torch.rsqrt(apart.square().mean(-1, keepdim=True) + self.eps)).view(x.shape).to(x.dtype)
        return y if self.gain is None else y * self.gain

    def program(self, p: Program, x: Value, state: State | None) -> tuple[Value, State | None]:
        return p.root_norm(x, self.gain, x.width // self.groups, self.eps), state
