"""Sums over a window with a weight for each place in it: the product with a band of a matrix, without the matrix."""

from typing import Any

import torch
from jaxtyping import Float
from torch import Tensor

from calque.layers.state import accumulated


def banded(seen: Float[Tensor, "B W *D"], weights: Float[Tensor, "k ..."]) -> Float[Tensor, "B T *D"]:
    """y_t = sum_j weights_j seen_{t+j}, j = 0 .. k-1, for T = W - k + 1 positions: O(T k) work.

    weights_j has the shape of y, [B, T, *D], or is the same at every position, [*D]; an axis of 1 stands for all of it.

    Computed and returned in float32, in float64 where `seen` is float64. Differentiable once.
    """
    if seen.shape[1] == len(weights):  # one position, as in decoding: two calls
        here = weights if weights.dim() < seen.dim() else weights[:, :, 0].transpose(0, 1)
        return (seen * here).sum(1, keepdim=True)
    y: Tensor = _Banded.apply(seen.to(accumulated(seen.dtype)), weights)  # type: ignore[no-untyped-call]  # torch leaves it untyped
    return y


class _Banded(torch.autograd.Function):
    """Written out since the gradient of a slice, as torch makes it, is as large as the whole."""

    @staticmethod
    def forward(ctx: Any, seen: Tensor, weights: Tensor) -> Tensor:
        ctx.save_for_backward(weights, seen if ctx.needs_input_grad[1] else None)
        length = seen.shape[1] - len(weights) + 1
        y = seen[:, :length] * weights[0]
        for j in range(1, len(weights)):
            y.addcmul_(seen[:, j : j + length], weights[j])
        return y

    @staticmethod
    @torch.autograd.function.once_differentiable
    def backward(ctx: Any, g: Tensor) -> tuple[Tensor, Tensor | None]:
        weights, seen = ctx.saved_tensors
        length = g.shape[1]
        before = g.new_zeros(g.shape[0], length + len(weights) - 1, *g.shape[2:])
        for j in range(len(weights)):
            before[:, j : j + length].addcmul_(g, weights[j])
        if seen is None:
            return before, None
        of_places = [(g * seen[:, j : j + length]).sum_to_size(weights.shape[1:]) for j in range(len(weights))]
        return before, torch.stack(of_places)
