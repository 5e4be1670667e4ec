"""Dropout as a function; the layers that drop share it."""

import numpy as np
import torch
from torch import Tensor
from torch.nn import functional as F

LEVELS = 2**16
MANY = 2**13
"""So many 64-bit draws and more are made by numpy's SFC64, in half the time; torch's generator gives its seed."""


def drop(x: Tensor, p: float, training: bool) -> Tensor:
    """In training each number is zero with probability p, else x / (1 - p); x itself otherwise.

    On a CPU torch draws Bernoulli numbers one by one, which took a sixth of an update. Here one 64-bit draw decides four
    numbers, so p is rounded to a multiple of 2^-16, and the scale is that of the rounded p.
    """
    if not training or not p:
        return x
    if x.device.type != "cpu":
        return F.dropout(x, p)
    dropped = min(round(p * LEVELS), LEVELS - 1)
    if not dropped:
        return x
    n, scale, first = x.numel(), LEVELS / (LEVELS - dropped), dropped - LEVELS // 2
    draws = _bits((n + 3) // 4).view(torch.int16)[:n].view(x.shape)
    # 1 where it is kept, 0 where not, by arithmetic on 16 bits: a comparison's booleans cost ten times more to convert.
    kept = draws.clamp_(first - 1, first).sub_(first - 1)
    if x.itemsize == 2:
        bits = int(torch.tensor(scale, dtype=x.dtype).view(torch.int16))
        return x * kept.mul_(bits).view(x.dtype)
    return x * kept.to(x.dtype).mul_(scale)


def _bits(count: int) -> Tensor:
    """So many random 64-bit numbers. They follow from the state of torch's generator alone."""
    if count < MANY:
        return torch.empty(count, dtype=torch.int64).random_(-(2**63), None)
    seed = int(torch.randint(2**63 - 1, ()))
    return torch.from_numpy(np.random.SFC64(seed).random_raw(count).view(np.int64))
