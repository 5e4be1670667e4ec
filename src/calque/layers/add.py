from dataclasses import dataclass
from functools import reduce

import torch
from torch import Tensor

from calque.adl.signature import Body, arg
from calque.layers.contract import BodyArg, Example, Fault, Merge, Site
from calque.layers.cost import SUM, Cost
from calque.native.program import Program, Value


class Add(Merge):
    """add(l_1, ..., l_p)(h) = l_1(h) + ... + l_p(h). `res(l) = add(id, l)` is Domhan 2018's residual layer (section 2.3)."""

    name = "add"
    known_as = ("sum", "plus")
    examples = (Example("add(id, linear)"), Example("add(norm, ff -> linear, id)"), Example("res(norm -> ff)"))

    @dataclass(frozen=True)
    class Args:
        bodies: tuple[BodyArg, ...] = arg(Body(many=True), doc="two or more chains of the same width out")

    @classmethod
    def infer(cls, args: Args, site: Site) -> int:
        widths = [b.width for b in args.bodies]
        if len(set(widths)) > 1:
            raise Fault("C201", layer="add", widths=widths)
        return widths[0]

    @classmethod
    def cost(cls, args: Args, site: Site) -> Cost:
        return super().cost(args, site)._replace(output=SUM)

    def merge(self, x: Tensor, outputs: list[Tensor]) -> Tensor:
        return reduce(torch.add, outputs)

    def merged(self, p: Program, x: Value, outputs: list[Value]) -> Value:
        return reduce(p.join, outputs)
