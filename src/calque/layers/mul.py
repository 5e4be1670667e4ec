from functools import reduce

import torch
from torch import Tensor

from calque.layers.contract import Example
from calque.layers.elementwise import Elementwise
from calque.native.program import Program, Value


class Multiply(Elementwise):
    """mul(l_1, ..., l_p)(h) = l_1(h) * ... * l_p(h), element by element.

    What gates are made of: `mul(linear(n) -> silu, linear(n))` is the hidden layer of SwiGLU (Shazeer 2020, equation 5).
    """

    name = "mul"
    known_as = ("multiply", "times", "prod", "product")
    examples = (Example("mul(id, linear)"), Example("mul(linear(6) -> silu, norm -> linear(6), ff(6))"))

    def merge(self, x: Tensor, outputs: list[Tensor]) -> Tensor:
        return reduce(torch.mul, outputs)

    def merged(self, p: Program, x: Value, outputs: list[Value]) -> Value:
        return reduce(p.multiply, outputs)
