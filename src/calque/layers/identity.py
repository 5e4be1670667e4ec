from jaxtyping import Float
from torch import Tensor

from calque.layers.contract import Context, Example, NoArgs, Site, Stateless
from calque.layers.cost import INPUT, Cost
from calque.layers.state import State
from calque.native.program import Program, Value


class Identity(Stateless):
    """id(h) = h (Domhan 2018, section 2.3)."""

    name = "id"
    known_as = ("identity", "noop", "skip_connection", "embedding", "embed")
    examples = (Example("id"),)

    @classmethod
    def cost(cls, args: NoArgs, site: Site) -> Cost:
        return super().cost(args, site)._replace(output=INPUT)

    def forward(self, x: Float[Tensor, "B T D"], ctx: Context) -> Float[Tensor, "B T D"]:
        return x

    def program(self, p: Program, x: Value, state: State | None) -> tuple[Value, State | None]:
        return x, state
