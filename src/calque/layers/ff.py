from dataclasses import dataclass

from jaxtyping import Float
from torch import Tensor

from calque.adl.signature import Int, Real, Setting, arg
from calque.layers.contract import Context, Example, Parts, Site, Stateless
from calque.layers.cost import Cost, Products
from calque.layers.drop import relu_and_drop
from calque.layers.projections import Projection


class FeedForward(Stateless):
    """ff(h, n) = dropout(max(0, W h + b)), W: [n, d_in] (Domhan 2018, section 2.3).

    The dropout is the paper's; `ff(n, 0)` has none, as in You 2020.
    """

    name = "ff"
    known_as = ("fully_connected",)
    examples = (Example("ff"), Example("ff(12, 0)"))

    @dataclass(frozen=True)
    class Args:
        n: int = arg(Int(), Setting("d"), "width out", known_as=("width", "hidden", "units", "d_ff", "dim_feedforward"))
        dropout: float = arg(Real(0.0, 1.0, below=True), Setting("p"), "probability of a zero after the non-linearity")

    def __init__(self, args: Args, site: Site, parts: Parts):
        super().__init__(args, site, parts)
        self.project = Projection(site.width, args.n)
        self.dropout = args.dropout

    @classmethod
    def infer(cls, args: Args, site: Site) -> int:
        return args.n

    @classmethod
    def cost(cls, args: Args, site: Site) -> Cost:
        return Cost(args.n * (site.width + 1), Products(args.n * site.width))

    def forward(self, x: Float[Tensor, "B T D"], ctx: Context) -> Float[Tensor, "B T E"]:
        return relu_and_drop(self.project(x), self.dropout, self.training)
