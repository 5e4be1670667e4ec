"""Dot-product attention over heads, as a function; the attention layers share it."""

import math

import torch
from jaxtyping import Bool, Float
from torch import Tensor
from torch.nn import functional as F

from calque.layers.projections import matmul


def split(x: Float[Tensor, "B T D"], heads: int) -> Float[Tensor, "B H T K"]:
    """Cut the width into heads."""
    return x.view(x.shape[0], x.shape[1], heads, -1).transpose(1, 2)


def join(x: Float[Tensor, "B H T K"]) -> Float[Tensor, "B T D"]:
    """Lay the heads side by side again."""
    return x.transpose(1, 2).flatten(2)


def compare(q: Float[Tensor, "B H T K"], k: Float[Tensor, "B G K S"], scale: float) -> Float[Tensor, "B H T S"]:
    """The scores q k / scale."""
    return grouped(q if scale == 1 else q * (1.0 / scale), k)


def grouped(a: Float[Tensor, "B H T K"], b: Float[Tensor, "B G K S"]) -> Float[Tensor, "B H T S"]:
    """The products a_h b_g, of H heads that share G matrices: as many heads in a row have one."""
    heads, shared = a.shape[1], b.shape[1]
    if heads == shared:
        return matmul(a, b)
    together = a.reshape(len(a), shared, -1, a.shape[3])
    return matmul(together, b).view(len(a), heads, a.shape[2], -1)


SHORT, MANY = 16, 4096
"""On a processor torch's softmax over fewer numbers than `SHORT` takes five times as long as over this many; of a tensor of
more than `MANY` numbers it is worth the copy."""


def normalised(scores: Float[Tensor, "... S"], blocked: Bool[Tensor, "..."] | None) -> Float[Tensor, "... S"]:
    """softmax(scores) where `blocked` does not hold, in float32 at least."""
    if blocked is not None:
        scores = scores.masked_fill(blocked, torch.finfo(scores.dtype).min)
    kind = torch.float32 if scores.dtype in (torch.bfloat16, torch.float16) else scores.dtype
    length = scores.shape[-1]
    if length < SHORT and scores.numel() > MANY and scores.device.type == "cpu":
        return torch.softmax(F.pad(scores, (0, SHORT - length), value=-torch.inf), -1, dtype=kind)[..., :length]
    return torch.softmax(scores, -1, dtype=kind)


def head_scale(s: int | None, width: int) -> float:
    """sqrt(s); of the width of a head where s is not given."""
    return math.sqrt(width if s is None else s)
