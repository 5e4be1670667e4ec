import torch
from torch import Tensor

from calque.layers.contract import Example, Parts, Site
from calque.layers.gated import Gated
from calque.layers.projections import Projection
from calque.native.program import Program, Value


class Highway(Gated):
    """highway(l)(h) = s * h + (1 - s) * l(h), s = sigmoid(W h + b), W: [d, d] (Srivastava et al. 2015, equation 3).

    The form of the 2018 research code: the gate sees the input alone and multiplies it, where the paper's gate multiplies l(h).
    """

    name = "highway"
    known_as = ("highway_network",)
    examples = (Example("highway(linear)"), Example("highway(ff -> norm)"))
    count = 1

    def __init__(self, args: Gated.Args, site: Site, parts: Parts):
        super().__init__(args, site, parts)
        self.gate = Projection(site.width, site.width)

    def merge(self, x: Tensor, outputs: list[Tensor]) -> Tensor:
        return outputs[0] + torch.sigmoid(self.gate(x)) * (x - outputs[0])

    def merged(self, p: Program, x: Value, outputs: list[Value]) -> Value:
        return p.mix(p.act(p.linear(x, self.gate), "sigmoid"), x, outputs[0])
