from dataclasses import dataclass

import torch
from torch import Tensor

from calque.adl.signature import Body, arg
from calque.layers.contract import BodyArg, Example, Merge, Site
from calque.native.program import Program, Value


class Concat(Merge):
    """concat(l_1, ..., l_p)(h) = [l_1(h); ...; l_p(h)] (Domhan 2018, section 2.3)."""

    name = "concat"
    known_as = ("cat", "concatenate", "parallel", "join", "merge")
    examples = (Example("concat(id, linear(4))"), Example("concat(norm, id, ff(6))"))

    @dataclass(frozen=True)
    class Args:
        bodies: tuple[BodyArg, ...] = arg(Body(many=True), doc="two or more chains")

    @classmethod
    def infer(cls, args: Args, site: Site) -> int:
        return sum(b.width for b in args.bodies)

    def merge(self, x: Tensor, outputs: list[Tensor]) -> Tensor:
        return torch.cat(outputs, -1)

    def merged(self, p: Program, x: Value, outputs: list[Value]) -> Value:
        return p.concat(outputs)
