from functools import reduce

import torch
from torch import Tensor

from calque.layers.contract import Example, Site
from calque.layers.cost import SUM, Cost
from calque.layers.elementwise import Elementwise
from calque.native.program import Program, Value


class Add(Elementwise):
    """add(l_1, ..., l_p)(h) = l_1(h) + ... + l_p(h). `res(l) = add(id, l)` is Domhan 2018's residual layer (section 2.3)."""

    name = "add"
    known_as = ("sum", "plus")
    examples = (Example("add(id, linear)"), Example("add(norm, ff -> linear, id)"), Example("res(norm -> ff)"))

    @classmethod
    def cost(cls, args: Elementwise.Args, site: Site) -> Cost:
        return super().cost(args, site)._replace(output=SUM)

    def merge(self, x: Tensor, outputs: list[Tensor]) -> Tensor:
        return reduce(torch.add, outputs)

    def merged(self, p: Program, x: Value, outputs: list[Value]) -> Value:
        return reduce(p.join, outputs)
