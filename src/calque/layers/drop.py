"""Dropout as a function; the layers that drop share it."""

import torch
from torch import Tensor
from torch.nn import functional as F

LEVELS = 2**16


def drop(x: Tensor, p: float, training: bool) -> Tensor:
    """In training each number is zero with probability p, else x / (1 - p); x itself otherwise.

    On a CPU torch draws Bernoulli numbers one by one, which took a sixth of an update. Here one 64-bit draw decides four
    numbers, so p is rounded to a multiple of 2^-16, and the scale is that of the rounded p.
    """
    if not training or not p:
        return x
    if x.device.type != "cpu":
        return F.dropout(x, p)
    n = x.numel()
    dropped = round(p * LEVELS)
    draws = torch.empty((n + 3) // 4, dtype=torch.int64).random_(-(2**63), None).view(torch.int16)[:n].view(x.shape)
    mask = (draws >= dropped - LEVELS // 2).to(x.dtype).mul_(LEVELS / max(1, LEVELS - dropped))
    return x * mask
