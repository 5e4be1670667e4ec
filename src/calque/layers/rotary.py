"""Rotary positions, as a function of queries and keys; the attention layers share it."""

import torch
from jaxtyping import Float, Int
from torch import Tensor

from calque.layers.history import Chunk
from calque.layers.state import accumulated


class Rotation:
    """R_t x: the pairs (x_i, x_{i + k/2}) of a head, k wide, turned by the angle t base^(-2i/k) (Su et al. 2021, equation 34).

    A query at t and a key at s then have a product that depends on t - s alone. The paper pairs neighbours, x_2i and x_{2i+1};
    halves are the same up to the order of the rows of W_q and W_k. Computed in float32 at least.
    """

    def __init__(self, base: float, width: int):
        self.base, self.width = base, width
        # Not a buffer: a cast of the module would round it.
        self._table = torch.empty(0, 2, width // 2)

    def __call__(self, x: Float[Tensor, "B n H K"], chunk: Chunk | None) -> Float[Tensor, "B n H K"]:
        """x, whose positions are those of the chunk, or 0, 1, ... in `forward`."""
        cos, sin = (part[..., None, :] for part in self._rows(x, chunk).unbind(-2))
        a, b = x.to(cos.dtype).chunk(2, -1)
        return torch.cat([a * cos - b * sin, b * cos + a * sin], -1).to(x.dtype)

    def rows(self, length: int) -> Float[Tensor, "T K"]:
        """Cosines and sines of `length` positions or more, side by side, in float32."""
        return self._upto(length, torch.empty(0)).flatten(1)

    def _rows(self, x: Tensor, chunk: Chunk | None) -> Float[Tensor, "*n 2 k"]:
        n = x.shape[1]
        if chunk is None:
            return self._upto(n, x)[:n]
        table, at = self._upto(chunk.visible + n, x), chunk.history.at
        return table[chunk.positions] if at is None else table[at : at + n]

    def _upto(self, length: int, like: Tensor) -> Tensor:
        kind = accumulated(like.dtype)
        if len(self._table) < length or self._table.dtype != kind or self._table.device != like.device:
            self._table = turns(torch.arange(max(64, 2 * length)), self.base, self.width).to(like.device, kind)
        return self._table


def turns(t: Int[Tensor, " T"], base: float, width: int) -> Float[Tensor, "T 2 k"]:
    """Cosine and sine of every angle at positions `t`, in float64."""
    rate = base ** -(2 * torch.arange(width // 2, dtype=torch.float64) / width)
    angle = t.double()[:, None] * rate
    return torch.stack([angle.cos(), angle.sin()], 1)
