from dataclasses import dataclass
from typing import cast

from jaxtyping import Float
from torch import Tensor

from calque.adl.signature import Flag, Int, Setting, arg
from calque.layers.contract import Context, Example, Parts, Site, Stateless
from calque.layers.cost import Cost, Products
from calque.layers.projections import Projection
from calque.layers.state import State
from calque.native.program import Program, Value


class Linear(Stateless):
    """linear(h, width) = W h + b, W: [width, d_in] (Domhan 2018, section 2.3)."""

    name = "linear"
    known_as = ("Projection(_, width)", "Dense(width)", "fc", "projection", "proj", "affine")
    examples = (Example("linear"), Example("linear(12)"), Example("linear(bias=no)"))

    @dataclass(frozen=True)
    class Args:
        width: int = arg(Int(), Setting("d"), "width out")
        bias: bool = arg(Flag(), True, "add b")

    def __init__(self, args: Args, site: Site, parts: Parts):
        super().__init__(args, site, parts)
        self.project = Projection(site.width, args.width, bias=args.bias)

    @classmethod
    def infer(cls, args: Args, site: Site) -> int:
        return args.width

    @classmethod
    def cost(cls, args: Args, site: Site) -> Cost:
        return Cost(args.width * (site.width + args.bias), Products(args.width * site.width))

    def forward(self, x: Float[Tensor, "B T D"], ctx: Context) -> Float[Tensor, "B T E"]:
        return cast("Tensor", self.project(x))

    def program(self, p: Program, x: Value, state: State | None) -> tuple[Value, State | None]:
        return p.linear(x, self.project), state
