from dataclasses import dataclass
from functools import reduce

import torch
from torch import Tensor

from calque.adl.signature import Body, arg
from calque.layers.contract import BodyArg, Example, Fault, Merge, Site
from calque.native.program import Program, Value


class Multiply(Merge):
    """mul(l_1, ..., l_p)(h) = l_1(h) * ... * l_p(h), element by element.

    What gates are made of: `mul(linear(n) -> silu, linear(n))` is the hidden layer of SwiGLU (Shazeer 2020, equation 5).
    """

    name = "mul"
    known_as = ("multiply", "times", "prod", "product")
    examples = (Example("mul(id, linear)"), Example("mul(linear(6) -> silu, norm -> linear(6), ff(6))"))

    @dataclass(frozen=True)
    class Args:
        bodies: tuple[BodyArg, ...] = arg(Body(many=True), doc="two or more chains of the same width out")

    @classmethod
    def infer(cls, args: Args, site: Site) -> int:
        widths = [b.width for b in args.bodies]
        if len(set(widths)) > 1:
            raise Fault("C201", layer="mul", widths=widths)
        return widths[0]

    def merge(self, x: Tensor, outputs: list[Tensor]) -> Tensor:
        return reduce(torch.mul, outputs)

    def merged(self, p: Program, x: Value, outputs: list[Value]) -> Value:
        return reduce(p.multiply, outputs)
