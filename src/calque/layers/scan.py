"""The scan h_t = a_t h_{t-1} + b_t, element by element: what average attention and gated sums are made of.

The loop over positions is the definition. Long sequences are cut into pieces that run side by side and are joined one after
the other: O(T) work in O(sqrt(T)) calls. Only products of the a_t are formed, nothing is divided by one, so factors
within [-1, 1] are safe at every length.
"""

import math
from typing import Any

import torch
from jaxtyping import Float
from torch import Tensor
from torch.nn import functional as F

from calque.layers.state import accumulated

SHORT = 128
"""Up to so many positions the plain loop is faster on a processor: it forms no products, and its calls are cheap there."""


def scan(
    b: Float[Tensor, "B T D"], a: Float[Tensor, "B T D"] | None = None, start: Float[Tensor, "B D"] | None = None
) -> Float[Tensor, "B T D"]:
    """h_t = a_t h_{t-1} + b_t for t = 1 .. T, h_0 = `start`; factors of one and a start of zero where not given.

    Computed and returned in float32, in float64 where `b` is float64. Differentiable once.
    """
    kind = accumulated(b.dtype)
    b, a = b.to(kind), None if a is None else a.to(kind)
    if start is not None:
        carried = start if a is None else a[:, 0] * start
        if b.shape[1] == 1:
            return b + carried[:, None]
        b = torch.cat([(b[:, 0] + carried)[:, None], b[:, 1:]], 1)
    h: Tensor = _Scan.apply(b, a)  # type: ignore[no-untyped-call]  # torch leaves it untyped
    return h


class _Scan(torch.autograd.Function):
    """The gradient of a scan is the scan of the gradients backwards: u_t = g_t + a_{t+1} u_{t+1}."""

    @staticmethod
    def forward(ctx: Any, b: Tensor, a: Tensor | None) -> Tensor:
        h = _run(b, a)
        if a is not None:
            ctx.save_for_backward(a, h)
        return h

    @staticmethod
    @torch.autograd.function.once_differentiable
    def backward(ctx: Any, g: Tensor) -> tuple[Tensor, Tensor | None]:
        a, h = ctx.saved_tensors or (None, None)
        u = _run(g.flip(1), None if a is None else a.roll(-1, 1).flip(1)).flip(1)
        if a is None or h is None or not ctx.needs_input_grad[1]:
            return u, None
        return u, torch.cat([torch.zeros_like(h[:, :1]), h[:, :-1]], 1).mul_(u)


def _run(b: Float[Tensor, "B T D"], a: Float[Tensor, "B T D"] | None) -> Float[Tensor, "B T D"]:
    batch, length, width = b.shape
    piece = length if length <= SHORT and b.device.type == "cpu" else math.isqrt(max(0, length - 1)) + 1
    pieces = -(-length // max(1, piece))
    shape, missing = (batch, pieces, piece, width), (0, 0, 0, pieces * piece - length)
    h = F.pad(b, missing).view(shape) if missing[-1] else b.clone(memory_format=torch.contiguous_format).view(shape)
    if a is not None:
        a = F.pad(a, missing).view(shape) if missing[-1] else a.reshape(shape)
    for t in range(1, piece):
        _carry(h[:, :, t], None if a is None else a[:, :, t], h[:, :, t - 1])
    if pieces > 1:
        if a is not None:
            a = a.cumprod(2)
        for k in range(1, pieces):
            _carry(h[:, k], None if a is None else a[:, k], h[:, k - 1, -1:])
    return h.view(batch, -1, width)[:, :length]


def _carry(to: Tensor, a: Tensor | None, before: Tensor) -> None:
    if a is None:
        to.add_(before)
    else:
        to.addcmul_(a, before)
