"""Windows that move along: the inputs under a filter, and attention whose queries each have keys and values of their own."""

from typing import Any, cast

import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor
from torch.autograd.function import once_differentiable

from calque.layers.projections import matmul


class _Neighbours(torch.autograd.Function):
    """Its gradient adds up the windows place by place; that of `unfold` goes number by number and takes ten times as long."""

    @staticmethod
    def forward(ctx: Any, seen: Tensor, kernel: int, dilation: int) -> Tensor:
        ctx.shape, ctx.kernel, ctx.dilation = seen.shape, kernel, dilation
        near = seen.unfold(1, (kernel - 1) * dilation + 1, 1)[..., ::dilation]
        return near.transpose(2, 3).flatten(2)

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, g: Tensor) -> tuple[Tensor, None, None]:
        # All sizes are given: of a batch without rows torch cannot infer one.
        places = g.reshape(*g.shape[:2], ctx.kernel, ctx.shape[2]).unbind(2)
        d_seen = g.new_zeros(ctx.shape)
        for k, place in enumerate(places):
            d_seen[:, k * ctx.dilation : k * ctx.dilation + g.shape[1]] += place
        return d_seen, None, None


def neighbours(seen: Float[Tensor, "B W D"], kernel: int, dilation: int) -> Float[Tensor, "B n K"]:
    """Of each of n = W - (k-1) dilation positions the k inputs under a filter, one after the other: [h_1; ...; h_k]."""
    return cast("Tensor", _Neighbours.apply(seen, kernel, dilation))  # type: ignore[no-untyped-call]  # torch's own


def windows(seen: Float[Tensor, "B W D"], heads: int, length: int) -> Float[Tensor, "B G n K L"]:
    """Of each of n = W - L + 1 positions the L inputs that it sees, by head."""
    near = seen.unfold(1, length, 1)
    return near.reshape(*near.shape[:2], heads, -1, length).transpose(1, 2)


def compare_near(q: Float[Tensor, "B H n K"], keys: Float[Tensor, "B G n K L"]) -> Float[Tensor, "B H n L"]:
    """The products of each query with its own keys; as many heads in a row share one of the G."""
    together = q.reshape(len(q), keys.shape[1], -1, *q.shape[2:]).transpose(2, 3)
    return matmul(together, keys).transpose(2, 3).flatten(1, 2)


def read_near(weights: Float[Tensor, "B H n L"], values: Float[Tensor, "B G n K L"]) -> Float[Tensor, "B H n K"]:
    """The sums of each position's own values."""
    together = weights.reshape(len(weights), values.shape[1], -1, *weights.shape[2:]).transpose(2, 3)
    return matmul(together, values.transpose(3, 4)).transpose(2, 3).flatten(1, 2)


def among_all(
    weights: Float[Tensor, "B H n L"], positions: Int[Tensor, "#B n"], before: int, total: int
) -> Float[Tensor, "B H n T"]:
    """The weights at their positions among `total` ones; a window begins `before` positions ahead of its own."""
    length = weights.shape[3]
    index = positions[:, None, :, None] + torch.arange(length, device=weights.device)
    wide = weights.new_zeros(*weights.shape[:3], total + weights.shape[2] + length)
    return wide.scatter(3, index.expand(weights.shape), weights)[..., before : before + total]


def outside(real: Bool[Tensor, "B W"], length: int) -> Bool[Tensor, "B 1 n L"]:
    """Which positions under each window are not real."""
    return ~real.unfold(1, length, 1)[:, None]
