import torch
from jaxtyping import Float
from torch import Tensor

from calque.layers.contract import Context, Example
from calque.layers.rows import LearnedRows
from calque.layers.state import Empty, State
from calque.native.program import Program, Value


class LearnedPosition(LearnedRows):
    """learn_pos(h_t) = h_t + l_t, l: [length, d] learned, t from 0 (Gehring 2017, section 3.1).

    Positions past the table take its last row: a long sentence is translated, not refused. So `learn_pos(1)` adds one learned
    vector everywhere, which the prelude calls `bias`.
    """

    name = "learn_pos"
    known_as = ("learned_positional_embedding", "position_embedding", "positional_embedding", "learned_pos")
    examples = (Example("learn_pos"), Example("learn_pos(3)"), Example("learn_pos(1)"))

    def forward(self, x: Float[Tensor, "B T D"], ctx: Context) -> Float[Tensor, "B T D"]:
        return x + self.row(torch.arange(x.shape[1], device=x.device))

    def init_state(self, batch: int, capacity: int, ctx: Context) -> State:
        return Empty()

    def step(self, x: Float[Tensor, "B n D"], state: State, ctx: Context) -> tuple[Tensor, State]:
        return x + self.row(ctx.now.positions), state

    def program(self, p: Program, x: Value, state: State | None) -> tuple[Value, State | None]:
        return p.position(x, lambda length: self.table, last=len(self.table)), state
