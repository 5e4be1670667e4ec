from dataclasses import dataclass

import torch
from jaxtyping import Float
from torch import Tensor, nn

from calque.adl.signature import Int, arg
from calque.layers.contract import Context, Example, Layer, Parts, Site
from calque.layers.cost import HERE, Cost, Held, Products
from calque.layers.state import Empty, State


class LearnedPosition(Layer):
    """learn_pos(h_t) = h_t + l_t, l a table of `length` learned rows, t from 0 (Gehring 2017, section 3.1).

    Positions past the table take its last row: a long sentence is translated, not refused. So `learn_pos(1)` adds one learned
    vector everywhere, which the prelude calls `bias`.
    """

    name = "learn_pos"
    known_as = ("learned_positional_embedding", "position_embedding", "positional_embedding", "learned_pos")
    examples = (Example("learn_pos"), Example("learn_pos(3)"), Example("learn_pos(1)"))

    @dataclass(frozen=True)
    class Args:
        length: int = arg(Int(), 1024, "rows of the table", known_as=("max_len", "max_length", "max_seq_len"))

    def __init__(self, args: Args, site: Site, parts: Parts):
        super().__init__(args, site, parts)
        self.table = nn.Parameter(torch.randn(args.length, site.width) * 0.05)

    @classmethod
    def cost(cls, args: Args, site: Site) -> Cost:
        return Cost(args.length * site.width, Products(), Held(), HERE)

    def forward(self, x: Float[Tensor, "B T D"], ctx: Context) -> Float[Tensor, "B T D"]:
        return x + self._rows(torch.arange(x.shape[1], device=x.device))

    def init_state(self, batch: int, capacity: int, ctx: Context) -> State:
        return Empty()

    def step(self, x: Float[Tensor, "B n D"], state: State, ctx: Context) -> tuple[Tensor, State]:
        return x + self._rows(ctx.now.positions), state

    def _rows(self, positions: Tensor) -> Tensor:
        return self.table[positions.clamp(max=self.table.shape[0] - 1)]
