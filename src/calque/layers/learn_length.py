from typing import cast

import torch
from jaxtyping import Float
from torch import Tensor

from calque.layers.contract import DECODER, Context, Example, Site
from calque.layers.cost import Cost, Held
from calque.layers.rows import LearnedRows
from calque.layers.state import Cell, State
from calque.native.program import Program, Value


class LearnedLength(LearnedRows):
    """learn_length(h_t) = h_t + l_m, l: [length, d] learned, m the number of source tokens (Gehring 2017, appendix A).

    The paper gives the decoder and its attention "a distributed representation of the input length" and does not say how, and
    the released code does not have it. Added to the embedding of the previous word it reaches both. The end symbol counts
    where sources are closed with it. Sentences longer than the table take its last row.
    """

    name = "learn_length"
    sides = (DECODER,)
    examples = (Example("learn_length", (DECODER,)), Example("learn_length(3)", (DECODER,)))

    @classmethod
    def cost(cls, args: LearnedRows.Args, site: Site) -> Cost:
        return super().cost(args, site)._replace(state=Held(row=site.width))

    def forward(self, x: Float[Tensor, "B T D"], ctx: Context) -> Float[Tensor, "B T D"]:
        return x + self._row(ctx)[:, None]

    def init_state(self, batch: int, capacity: int, ctx: Context) -> State:
        return Cell((self._row(ctx).repeat_interleave(ctx.beams, 0),))

    def step(self, x: Float[Tensor, "B n D"], state: State, ctx: Context) -> tuple[Tensor, State]:
        return x + cast("Cell", state).values[0][:, None], state

    def program(self, p: Program, x: Value, state: State | None) -> tuple[Value, State | None]:
        (row,) = cast("Cell", state).values
        before = p.read(row)
        return p.join(x, before), Cell((cast("Tensor", p.write(before, row)),))

    def _row(self, ctx: Context) -> Float[Tensor, "S D"]:
        source = ctx.sources["end"]
        if source.mask is None:
            m = source.value.new_full((source.value.shape[0],), source.value.shape[1], dtype=torch.int64)
        else:
            m = source.mask.sum(1)
        return self.row(m - 1)  # a blank sentence has no token at all: the first row
