from dataclasses import dataclass

import torch
from jaxtyping import Float
from torch import Tensor, nn
from torch.nn import functional as F

from calque.adl.signature import Real, arg
from calque.layers.contract import Context, Example, Parts, Site, Stateless
from calque.layers.cost import Cost, Products
from calque.layers.state import State
from calque.native.kernels import kernels_for
from calque.native.program import Program, Value
from calque.native.training import training_kernels_for


class Norm(Stateless):
    """norm(h) = g / sqrt(var(h) + eps) * (h - mean(h)) + b, over the width (Domhan 2018, section 2.3; Ba et al. 2016).

    The paper divides by the deviation alone; `eps` keeps a constant row finite, with the value of the original code.
    """

    name = "norm"
    known_as = ("layer_norm", "ln", "normalise", "normalize")
    examples = (Example("norm"),)
    undrawn = ("gain", "shift")

    @dataclass(frozen=True)
    class Args:
        eps: float = arg(Real(1e-12, 1.0), 1e-6, "added to the variance", known_as=("epsilon",))

    def __init__(self, args: Args, site: Site, parts: Parts):
        super().__init__(args, site, parts)
        self.eps = args.eps
        self.gain = nn.Parameter(torch.ones(site.width))
        self.shift = nn.Parameter(torch.zeros(site.width))

    @classmethod
    def cost(cls, args: Args, site: Site) -> Cost:
        return Cost(2 * site.width, Products())

    def forward(self, x: Float[Tensor, "B T D"], ctx: Context) -> Float[Tensor, "B T D"]:
        if (kernels := kernels_for(x)) is not None and self.gain.dtype == x.dtype:
            return kernels.norm(x, self.gain, self.shift, self.eps)
        if (training := training_kernels_for(x, self.gain, self.shift)) is not None:
            return training.norm(x, self.gain, self.shift, self.eps)
        return F.layer_norm(x, x.shape[-1:], self.gain, self.shift, self.eps)

    def program(self, p: Program, x: Value, state: State | None) -> tuple[Value, State | None]:
        return p.norm(x, self.gain, self.shift, self.eps), state
