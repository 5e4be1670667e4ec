import torch
from torch import Tensor

from calque.layers.contract import Example, Parts, Site
from calque.layers.gated import Gated
from calque.layers.projections import Projection
from calque.native.program import Program, Value


class Gate(Gated):
    """gate(l)(h) = i * h + f * l(h), [i; f] = sigmoid(W [h; l(h)] + b), W: [2d, 2d] (Zhang 2018, equation 2).

    The two gates are independent: they need not sum to one. The order (i, f) and the bias are those of the authors' code.
    """

    name = "gate"
    known_as = ("gated", "gating")
    examples = (Example("gate(linear)"), Example("gate(norm -> ff)"))
    count = 2

    def __init__(self, args: Gated.Args, site: Site, parts: Parts):
        super().__init__(args, site, parts)
        self.gates = Projection(2 * site.width, 2 * site.width)

    def merge(self, x: Tensor, outputs: list[Tensor]) -> Tensor:
        (y,) = outputs
        i, f = torch.sigmoid(self.gates(torch.cat([x, y], -1))).chunk(2, -1)
        return i * x + f * y

    def merged(self, p: Program, x: Value, outputs: list[Value]) -> Value:
        (y,) = outputs
        i, f = p.act(p.linear(p.concat((x, y)), self.gates), "sigmoid").chunk(2)
        return p.join(p.multiply(i, x), p.multiply(f, y))
