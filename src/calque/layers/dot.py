"""Dot-product attention over heads, as a function; the attention layers share it."""

import math

import torch
from jaxtyping import Bool, Float
from torch import Tensor

from calque.layers.drop import drop


def split(x: Float[Tensor, "B T D"], heads: int) -> Float[Tensor, "B H T K"]:
    """Cut the width into heads."""
    return x.view(x.shape[0], x.shape[1], heads, -1).transpose(1, 2)


def join(x: Float[Tensor, "B H T K"]) -> Float[Tensor, "B T D"]:
    """Lay the heads side by side again."""
    return x.transpose(1, 2).flatten(2)


def attend(
    q: Float[Tensor, "B H T K"],
    k: Float[Tensor, "B H S K"],
    v: Float[Tensor, "B H S V"],
    blocked: Bool[Tensor, "..."] | None,
    scale: float,
    dropout: float = 0.0,
) -> tuple[Float[Tensor, "B H T V"], Float[Tensor, "B H T S"]]:
    """softmax(q k^T / scale) v where `blocked` (broadcast to [B, H, T, S]) does not hold, and the weights.

    The softmax is computed in float32. A query that may look nowhere takes the mean; no such query is real.
    """
    scores = torch.matmul(q * (1.0 / scale), k.transpose(2, 3))
    return average(scores, v, blocked, dropout)


def average(
    scores: Float[Tensor, "B H T S"],
    v: Float[Tensor, "B H S V"],
    blocked: Bool[Tensor, "..."] | None,
    dropout: float = 0.0,
) -> tuple[Float[Tensor, "B H T V"], Float[Tensor, "B H T S"]]:
    """softmax(scores) v where `blocked` does not hold, and the weights."""
    if blocked is not None:
        scores = scores.masked_fill(blocked, torch.finfo(scores.dtype).min)
    kind = torch.float32 if scores.dtype in (torch.bfloat16, torch.float16) else scores.dtype
    weights = torch.softmax(scores, -1, dtype=kind).to(v.dtype)
    used = drop(weights, dropout, training=True)
    return torch.matmul(used, v), weights


def head_scale(s: int | None, width: int) -> float:
    """sqrt(s); of the width of a head where s is not given."""
    return math.sqrt(width if s is None else s)
