"""A layer of a user's own, kept right and broken: the mean of the inputs so far, by a running sum in the state."""

from typing import NamedTuple

import torch
from torch import Tensor

from calque.layers.contract import DECODER, Context, Example, Layer
from calque.layers.state import State


class Sum(NamedTuple):
    """The sum of the inputs so far and their number."""

    total: Tensor
    count: Tensor

    def select(self, rows: Tensor) -> "Sum":
        return Sum(self.total[rows], self.count[rows])

    def keep(self, rows: Tensor, sentences: Tensor) -> "Sum":
        return self.select(rows)

    def bytes(self) -> int:
        return self.total.numel() * self.total.element_size() + self.count.numel() * self.count.element_size()


class Mean(Layer):
    """mean(h)_t = (h_1 + ... + h_t) / t."""

    name = "mean"
    sides = (DECODER,)
    examples = (Example("mean", (DECODER,)), Example("repeat(2, mean -> linear)", (DECODER,)))
    kept_as = torch.float64

    def forward(self, x: Tensor, ctx: Context) -> Tensor:
        return self.step(x, self.init_state(x.shape[0], x.shape[1], ctx._replace(like=x.new_empty(0))), ctx)[0]

    def init_state(self, batch: int, capacity: int, ctx: Context) -> State:
        total = ctx.like.new_zeros(batch, 1).expand(batch, 8)
        return Sum(total.to(self.kept_as).clone(), torch.zeros(batch, dtype=torch.int64))

    def step(self, x: Tensor, state: Sum, ctx: Context) -> tuple[Tensor, State]:
        mask = x.new_ones(x.shape[:2]) if ctx.mask is None else ctx.mask.to(x.dtype)
        totals = state.total.to(x.dtype)[:, None] + (torch.where(mask[:, :, None] > 0, x, 0)).cumsum(1)
        counts = state.count[:, None] + mask.cumsum(1).long()
        y = totals / counts.clamp(min=1)[:, :, None]
        return y, Sum(totals[:, -1].to(self.kept_as), counts[:, -1])


class RoundedMean(Mean):
    """The same, its running sum in bfloat16."""

    name = "mean"
    kept_as = torch.bfloat16
