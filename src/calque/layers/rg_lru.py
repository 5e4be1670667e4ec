import torch
from jaxtyping import Float
from torch import Tensor, nn
from torch.nn import functional as F

from calque.layers.contract import Example, Parts, Site
from calque.layers.cost import Cost
from calque.layers.gated_scan import GatedScan
from calque.layers.projections import Projection
from calque.layers.state import State, accumulated
from calque.layers.stepping import scanned
from calque.native.program import Kind, Program, Value

POWER = 8.0
TINY = 1e-6


class RealGatedLinear(GatedScan):
    """rg_lru(x_t) = h_t, h_t = a_t h_{t-1} + sqrt(1 - a_t^2) i_t u_t, a_t = exp(-8 softplus(L) r_t),
    r_t = sigmoid(W_a x_t + b_a), i_t = sigmoid(W_x x_t + b_x), from left to right (De et al. 2024, "Griffin", equations 1 to 4).

    L is learned for each number of the width. The paper's unit keeps its width, u = x, and its gates are block-diagonal; here
    u = W x + b and all matrices are full. Its
    block is `mul(linear -> gelu, linear -> light_cnn(4, heads=d, softmax=no) -> rg_lru) -> linear`.
    """

    name = "rg_lru"
    known_as = ("rglru", "RGLRU", "griffin", "hawk", "lru")
    examples = (Example("rg_lru"), Example("rg_lru(6)"))
    matrices = 3
    undrawn = ("decay",)

    def __init__(self, args: GatedScan.Args, site: Site, parts: Parts):
        super().__init__(args, site, parts)
        self.input = Projection(site.width, args.width)
        self.forget = Projection(site.width, args.width)
        self.gate = Projection(site.width, args.width)
        # a^8 between 0.9 and 0.999 at the start where r = 1 (section 2.4).
        start = torch.linspace(0.9, 0.999, args.width)
        self.decay = nn.Parameter((-start.log() / POWER).expm1().log())

    @classmethod
    def cost(cls, args: GatedScan.Args, site: Site) -> Cost:
        cost = super().cost(args, site)
        return cost._replace(parameters=cost.parameters + args.width)

    def drive(self, x: Float[Tensor, "B n D"]) -> tuple[Tensor, Tensor]:
        kind = accumulated(x.dtype)
        r = torch.sigmoid(self.forget(x).to(kind))
        log_a = -POWER * F.softplus(self.decay.to(kind)) * r
        kept = torch.sqrt(-torch.expm1(2 * log_a) + TINY**2)
        return log_a.exp(), kept * torch.sigmoid(self.gate(x).to(kind)) * self.input(x).to(kind)

    def program(self, p: Program, x: Value, state: State | None) -> tuple[Value, State | None]:
        said = p.linear(x, self.forget), p.linear(x, self.gate), p.linear(x, self.input)
        rate = -POWER * F.softplus(self.decay.detach().float())
        return scanned(self, p, Kind.REAL_GATED, said, state, (TINY**2,), weights=(rate,))
