from dataclasses import dataclass

from jaxtyping import Float
from torch import Tensor

from calque.adl.signature import Flag, Int, Real, Setting, Word, arg
from calque.layers.activations import ACTIVATIONS, POINTWISE
from calque.layers.contract import Context, Example, Parts, Site, Stateless
from calque.layers.cost import Cost, Products
from calque.layers.drop import drop
from calque.layers.projections import Projection, relu_of
from calque.layers.state import State
from calque.native.program import Program, Value


class FeedForward(Stateless):
    """ff(h, n) = dropout(v(W h + b)), W: [n, d_in], v(x) = max(0, x) (Domhan 2018, section 2.3).

    The dropout is the paper's; `ff(n, 0)` has none, as in You 2020. Other non-linearities are those of `act`.
    """

    name = "ff"
    known_as = ("fully_connected",)
    examples = (Example("ff"), Example("ff(12, 0)"), Example("ff(5, v=silu, bias=no)"))

    @dataclass(frozen=True)
    class Args:
        n: int = arg(Int(), Setting("d"), "width out", known_as=("width", "hidden", "units", "d_ff", "dim_feedforward"))
        dropout: float = arg(Real(0.0, 1.0, below=True), Setting("p"), "probability of a zero after the non-linearity")
        v: str = arg(
            Word(choices=POINTWISE), "relu", "the non-linearity", known_as=("activation", "act_type"), later=True
        )
        bias: bool = arg(Flag(), True, "add b", later=True)

    def __init__(self, args: Args, site: Site, parts: Parts):
        super().__init__(args, site, parts)
        self.project = Projection(site.width, args.n, bias=args.bias)
        self.v, self.dropout = args.v, args.dropout

    @classmethod
    def infer(cls, args: Args, site: Site) -> int:
        return args.n

    @classmethod
    def cost(cls, args: Args, site: Site) -> Cost:
        return Cost(args.n * (site.width + args.bias), Products(args.n * site.width))

    def forward(self, x: Float[Tensor, "B T D"], ctx: Context) -> Float[Tensor, "B T E"]:
        if self.v == "relu":
            return relu_of(self.project, x, self.dropout, self.training)
        return drop(ACTIVATIONS[self.v](self.project(x)), self.dropout, self.training)

    def program(self, p: Program, x: Value, state: State | None) -> tuple[Value, State | None]:
        return p.act(p.linear(x, self.project), self.v), state
