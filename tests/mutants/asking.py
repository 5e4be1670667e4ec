"""Layers that ask an accelerator for numbers, and layers that look as if they did."""

from collections.abc import Callable

import torch
from running_sum import Mean, Sum
from torch import Tensor, nn

from calque.layers.contract import Context, Layer
from calque.layers.state import State


def looking(look: Callable[[Tensor], object]) -> type[Layer]:
    """The same layer, which looks at how many positions there are."""

    class Looking(Mean):
        name = "mean"

        def step(self, x: Tensor, state: Sum, ctx: Context) -> tuple[Tensor, State]:
            look(state.count.long().flatten())
            return super().step(x, state, ctx)

    return Looking


ASKING: dict[str, Callable[[Tensor], object]] = {
    "int": lambda n: int(n.max()),
    "where": lambda n: torch.where(n > 2),
    "where by name": lambda n: torch.where(condition=n > 2),
    "where of a tensor": lambda n: n.where(n > 2, 0).nonzero(),
    "index": lambda n: n[n > 2],
    "repeats": lambda n: n.repeat_interleave(n),
    "repeats by name": lambda n: torch.repeat_interleave(n, repeats=n, output_size=None),
    "repeats alone": lambda n: torch.repeat_interleave(n),
    "classes": lambda n: nn.functional.one_hot(n),
}
LOOKING: dict[str, Callable[[Tensor], object]] = {
    "where": lambda n: torch.where(n > 2, n, 0),
    "where by name": lambda n: n.where(condition=n > 2, other=n),
    "repeats": lambda n: n.repeat_interleave(2),
    "repeats by name": lambda n: torch.repeat_interleave(n, repeats=2, dim=0),
    "repeats of a known sum": lambda n: n.repeat_interleave(torch.ones_like(n), output_size=len(n)),
    "classes": lambda n: nn.functional.one_hot(n, 1000),
}
