from dataclasses import dataclass

import torch
from torch import Tensor, nn

from calque.adl.signature import Body, arg
from calque.layers.contract import BodyArg, Example, Fault, Merge, Parts, Site
from calque.layers.cost import HERE, Cost, Products


class Highway(Merge):
    """highway(l)(h) = s * h + (1 - s) * l(h), s = sigmoid(W h + b), W: [d, d] (Srivastava et al. 2015).

    The form of the 2018 research code: the gate sees the input alone and multiplies it.
    """

    name = "highway"
    known_as = ("highway_network",)
    examples = (Example("highway(linear)"), Example("highway(ff -> norm)"))

    @dataclass(frozen=True)
    class Args:
        body: BodyArg = arg(Body(), doc="the chain that the gate chooses between with the input")

    def __init__(self, args: Args, site: Site, parts: Parts):
        super().__init__(args, site, parts)
        self.gate = nn.Linear(site.width, site.width)

    @classmethod
    def infer(cls, args: Args, site: Site) -> int:
        if args.body.width != site.width:
            raise Fault("C202", layer="highway", expected=site.width, found=args.body.width)
        return site.width

    @classmethod
    def cost(cls, args: Args, site: Site) -> Cost:
        return Cost(site.width * (site.width + 1), Products(site.width**2), reach=HERE)

    def merge(self, x: Tensor, outputs: list[Tensor]) -> Tensor:
        return outputs[0] + torch.sigmoid(self.gate(x)) * (x - outputs[0])
