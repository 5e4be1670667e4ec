"""Dropout as a function; the layers that drop share it."""

from typing import Any, cast

import numpy as np
import torch
from torch import Tensor
from torch.autograd.function import once_differentiable
from torch.nn import functional as F

from calque.native.training import training_kernels_for

LEVELS = 2**16
MANY = 2**13
"""So many 64-bit draws and more are made by numpy's SFC64, in half the time; torch's generator gives its seed."""


def drop(x: Tensor, p: float, training: bool) -> Tensor:
    """In training each number is zero with probability p, else x / (1 - p); x itself otherwise.

    On a CPU torch draws Bernoulli numbers one by one, which took a sixth of an update. Kernels draw one number and hash it with
    the place of each other one; without them a draw of 64 bits decides four numbers. So p is rounded to a multiple of 2^-16, and
    the scale is that of the rounded p.
    """
    if not training or not p:
        return x
    if x.device.type != "cpu":
        return F.dropout(x, p)
    if (kernels := training_kernels_for(x)) is not None:
        return kernels.drop(x, p)
    kept, scale = _kept(x, p)
    return x if kept is None else x * _factors(kept, scale, x.dtype)


def relu_and_drop(x: Tensor, p: float, training: bool) -> Tensor:
    """drop(max(0, x)), in place: nothing else may need x. Its gradient is read from the result, so no mask is kept."""
    if not training or not p or x.device.type != "cpu" or not torch.is_grad_enabled():
        return drop(x.relu_(), p, training)
    if (kernels := training_kernels_for(x)) is not None and x.is_contiguous():
        return kernels.drop(x, p, relu=True)
    return cast("Tensor", _ReluAndDrop.apply(x, p))  # type: ignore[no-untyped-call]  # torch leaves it untyped


class _ReluAndDrop(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, x: Tensor, p: float) -> Tensor:
        ctx.mark_dirty(x)
        x.clamp_min_(0)
        kept, ctx.scale = _kept(x, p)
        if kept is not None:
            x.mul_(_factors(kept, ctx.scale, x.dtype))
        ctx.save_for_backward(x)
        return x

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, g: Tensor) -> tuple[Tensor, None]:
        (y,) = ctx.saved_tensors  # positive where x is and where it was kept
        return torch.ops.aten.threshold_backward(g, y, 0).mul_(ctx.scale), None


def _kept(x: Tensor, p: float) -> tuple[Tensor | None, float]:
    """1 for each number that is kept, 0 for the others, in 16 bits, and the factor of those kept; None where all are."""
    dropped = min(round(p * LEVELS), LEVELS - 1)
    if not dropped:
        return None, 1.0
    n, first = x.numel(), dropped - LEVELS // 2
    draws = _bits((n + 3) // 4).view(torch.int16)[:n].view(x.shape)
    # By arithmetic on 16 bits: a comparison's booleans cost ten times more to convert.
    return draws.clamp_(first - 1, first).sub_(first - 1), LEVELS / (LEVELS - dropped)


def _factors(kept: Tensor, scale: float, dtype: torch.dtype) -> Tensor:
    """`scale` where a number is kept, 0 elsewhere. Changes `kept`."""
    if dtype.itemsize == 2:
        bits = int(torch.tensor(scale, dtype=dtype).view(torch.int16))
        return kept.mul_(bits).view(dtype)
    return kept.to(dtype).mul_(scale)


def _bits(count: int) -> Tensor:
    """So many random 64-bit numbers. They follow from the state of torch's generator alone."""
    if count < MANY:
        return torch.empty(count, dtype=torch.int64).random_(-(2**63), None)
    seed = int(torch.randint(2**63 - 1, ()))
    return torch.from_numpy(np.random.SFC64(seed).random_raw(count).view(np.int64))
