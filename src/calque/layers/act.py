from dataclasses import dataclass

from jaxtyping import Float
from torch import Tensor

from calque.adl.signature import Word, arg
from calque.layers.activations import ACTIVATIONS, POINTWISE
from calque.layers.contract import Context, Example, Fault, Parts, Site, Stateless
from calque.layers.state import State
from calque.native.program import Program, Value


class Act(Stateless):
    """act(h, v) = v(h), element by element (Domhan 2018, section 2.3). [d] -> [d]; `glu`([a; b]) = a * sigmoid(b): [d] -> [d/2].

    gelu       x Phi(x), Phi the normal distribution (Hendrycks and Gimpel 2016)
    gelu_tanh  x/2 (1 + tanh(sqrt(2/pi) (x + 0.044715 x^3))), their approximation of it
    silu       x sigmoid(x), also called swish (Elfwing et al. 2017, Ramachandran et al. 2017)
    relu2      max(0, x)^2 (So et al. 2021, "Primer")
    """

    name = "act"
    known_as = ("activation(v)", "nonlinearity(v)")
    examples = tuple(Example(f"act({v})") for v in (*POINTWISE, "glu"))

    @dataclass(frozen=True)
    class Args:
        v: str = arg(
            Word(choices=(*POINTWISE, "glu")),
            doc="the non-linearity",
            known_as=("activation", "function", "name"),
        )

    def __init__(self, args: Args, site: Site, parts: Parts):
        super().__init__(args, site, parts)
        self.v, self.function = args.v, ACTIVATIONS[args.v]

    @classmethod
    def infer(cls, args: Args, site: Site) -> int:
        if args.v != "glu":
            return site.width
        if site.width % 2:
            raise Fault("C203", layer="act", what="two halves for `glu`", width=site.width)
        return site.width // 2

    def forward(self, x: Float[Tensor, "B T D"], ctx: Context) -> Float[Tensor, "B T E"]:
        return self.function(x)

    def program(self, p: Program, x: Value, state: State | None) -> tuple[Value, State | None]:
        return p.act(x, self.v), state
