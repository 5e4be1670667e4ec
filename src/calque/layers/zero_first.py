import torch
from jaxtyping import Float
from torch import Tensor

from calque.layers.contract import DECODER, Context, Example, Layer, NoArgs, Site
from calque.layers.cost import HERE, Cost, Held, Products
from calque.layers.state import Empty, State
from calque.native.program import Kind, Program, Value


class ZeroFirst(Layer):
    """zero_first(h)_1 = 0, zero_first(h)_t = h_t: the first input of a decoder is the zero vector (Zhang 2018, the authors' code).

    Their decoder reads the target shifted by one place and has no begin symbol; the zeros get positions, and count in the
    average, as any input. The paper does not say so, and without this layer a decoder begins with the learned embedding of
    the begin symbol, which here goes unused. In front of `pos` it is theirs.
    """

    name = "zero_first"
    sides = (DECODER,)
    examples = (Example("zero_first", (DECODER,)), Example("zero_first -> pos -> gate(average)", (DECODER,)))

    @classmethod
    def cost(cls, args: NoArgs, site: Site) -> Cost:
        return Cost(0, Products(), Held(), HERE)

    def forward(self, x: Float[Tensor, "B T D"], ctx: Context) -> Float[Tensor, "B T D"]:
        return torch.cat([torch.zeros_like(x[:, :1]), x[:, 1:]], 1)

    def init_state(self, batch: int, capacity: int, ctx: Context) -> State:
        return Empty()

    def step(self, x: Float[Tensor, "B n D"], state: State, ctx: Context) -> tuple[Tensor, State]:
        if ctx.now.history.at:  # none of these is a first one
            return x, state
        return x.masked_fill(ctx.now.positions[:, :, None] == 0, 0.0), state

    def program(self, p: Program, x: Value, state: State | None) -> tuple[Value, State | None]:
        return p.add(Kind.NOT_FIRST, (x,), x.width), state
