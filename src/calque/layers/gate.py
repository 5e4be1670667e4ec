from dataclasses import dataclass

import torch
from torch import Tensor, nn

from calque.adl.signature import Body, arg
from calque.layers.contract import BodyArg, Example, Fault, Merge, Parts, Site
from calque.layers.cost import HERE, Cost, Products


class Gate(Merge):
    """gate(l)(h) = i * h + f * l(h), [i; f] = sigmoid(W [h; l(h)] + b), W: [2d, 2d] (Zhang 2018, equations 2 and 3).

    The two gates are independent: they need not sum to one. The order (i, f) and the bias are those of the authors' code.
    """

    name = "gate"
    known_as = ("gated", "gating")
    examples = (Example("gate(linear)"), Example("gate(norm -> ff)"))

    @dataclass(frozen=True)
    class Args:
        body: BodyArg = arg(Body(), doc="the chain whose output is gated with the input")

    def __init__(self, args: Args, site: Site, parts: Parts):
        super().__init__(args, site, parts)
        self.gates = nn.Linear(2 * site.width, 2 * site.width)

    @classmethod
    def infer(cls, args: Args, site: Site) -> int:
        if args.body.width != site.width:
            raise Fault("C202", layer="gate", expected=site.width, found=args.body.width)
        return site.width

    @classmethod
    def cost(cls, args: Args, site: Site) -> Cost:
        size = 2 * site.width
        return Cost(size * (size + 1), Products(size * size), reach=HERE)

    def merge(self, x: Tensor, outputs: list[Tensor]) -> Tensor:
        (y,) = outputs
        i, f = torch.sigmoid(self.gates(torch.cat([x, y], -1))).chunk(2, -1)
        return i * x + f * y
