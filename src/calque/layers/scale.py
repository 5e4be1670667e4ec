from dataclasses import dataclass

import torch
from jaxtyping import Float
from torch import Tensor, nn

from calque.adl.signature import Real, Word, arg
from calque.layers.contract import Context, Example, Parts, Site, Stateless
from calque.layers.cost import Cost, Products
from calque.layers.state import State
from calque.native.program import Program, Value


class Scale(Stateless):
    """scale(h) = a h: a constant, one learned number, or one for each of the width, which start at `by`.

    `scale(0.7071)` behind a residual sum keeps its variance (Gehring et al. 2017); `add(scale(a), b)` is DeepNorm's sum (Wang et
    al. 2022); `res(b -> scale(0, learn=one))` is ReZero (Bachlechner et al. 2020), `res(b -> scale(0.0001, learn=each))` LayerScale
    (Touvron et al. 2021).
    """

    name = "scale"
    known_as = ("rescale", "layer_scale", "rezero")
    examples = (
        Example("scale(0.5)"),
        Example("scale(-2, learn=one)"),
        Example("res(linear -> scale(0.1, learn=each))"),
    )
    undrawn = ("factor",)

    @dataclass(frozen=True)
    class Args:
        by: float = arg(Real(-65536.0, 65536.0), doc="a, or where it starts", known_as=("factor", "init"))
        learn: str = arg(
            Word(choices=("none", "one", "each")), "none", "learn nothing, one number, or one for each of the width"
        )

    def __init__(self, args: Args, site: Site, parts: Parts):
        super().__init__(args, site, parts)
        self.by = args.by
        count = {"none": 0, "one": 1, "each": site.width}[args.learn]
        self.factor = nn.Parameter(torch.full((count,), args.by)) if count else None

    @classmethod
    def cost(cls, args: Args, site: Site) -> Cost:
        return Cost({"none": 0, "one": 1, "each": site.width}[args.learn], Products())

    def forward(self, x: Float[Tensor, "B T D"], ctx: Context) -> Float[Tensor, "B T D"]:
        return x * (self.by if self.factor is None else self.factor)

    def program(self, p: Program, x: Value, state: State | None) -> tuple[Value, State | None]:
        factor = self.by if self.factor is None else self.factor.detach().expand(x.width).contiguous()
        return p.scale(x, factor), state
