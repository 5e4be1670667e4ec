from dataclasses import dataclass

from jaxtyping import Float
from torch import Tensor

from calque.adl.signature import Real, Setting, arg
from calque.layers.contract import Context, Example, Parts, Site, Stateless
from calque.layers.drop import drop
from calque.layers.state import State
from calque.native.program import Program, Value


class Dropout(Stateless):
    """dropout(h): in training each number is zero with probability p, else h / (1 - p); the identity otherwise.

    Domhan 2018, section 2.3.
    """

    name = "dropout"
    known_as = ("Dropout(p)", "drop")
    examples = (Example("dropout"), Example("dropout(0.3)"))

    @dataclass(frozen=True)
    class Args:
        p: float = arg(
            Real(0.0, 1.0, below=True),
            Setting("p"),
            "probability of a zero",
            known_as=("dropout", "rate", "prob", "probability"),
        )

    def __init__(self, args: Args, site: Site, parts: Parts):
        super().__init__(args, site, parts)
        self.p = args.p

    def forward(self, x: Float[Tensor, "B T D"], ctx: Context) -> Float[Tensor, "B T D"]:
        return drop(x, self.p, self.training)

    def program(self, p: Program, x: Value, state: State | None) -> tuple[Value, State | None]:
        return x, state
