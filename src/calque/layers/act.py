from dataclasses import dataclass

from jaxtyping import Float
from torch import Tensor

from calque.adl.signature import Word, arg
from calque.layers.activations import ACTIVATIONS
from calque.layers.contract import Context, Example, Fault, Parts, Site, Stateless


class Act(Stateless):
    """act(h, v) = v(h), element by element (Domhan 2018, section 2.3). [d] -> [d]; `glu`([a; b]) = a * sigmoid(b): [d] -> [d/2]."""

    name = "act"
    known_as = ("activation(v)", "nonlinearity(v)")
    examples = tuple(Example(f"act({v})") for v in ("relu", "tanh", "sigmoid", "gelu", "glu"))

    @dataclass(frozen=True)
    class Args:
        v: str = arg(
            Word(choices=("relu", "tanh", "sigmoid", "gelu", "glu")),
            doc="the non-linearity",
            known_as=("activation", "function", "name"),
        )

    def __init__(self, args: Args, site: Site, parts: Parts):
        super().__init__(args, site, parts)
        self.function = ACTIVATIONS[args.v]

    @classmethod
    def infer(cls, args: Args, site: Site) -> int:
        if args.v != "glu":
            return site.width
        if site.width % 2:
            raise Fault("C203", layer="act", what="two halves for `glu`", width=site.width)
        return site.width // 2

    def forward(self, x: Float[Tensor, "B T D"], ctx: Context) -> Float[Tensor, "B T E"]:
        return self.function(x)
