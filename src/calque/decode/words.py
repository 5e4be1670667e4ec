"""The best words of a step."""

import torch
from jaxtyping import Float, Int
from torch import Tensor

CHUNK = 64
"""Words whose maximum is looked at first; near sqrt(V / n) for the usual V and n."""


def best_words(logits: Float[Tensor, "R V"], n: int, first: int) -> tuple[Float[Tensor, "R m"], Int[Tensor, "R m"]]:
    """The n best words of each row among those from id `first` on, the best first, equals in the order of ids.

    `topk` leaves open which of equal values it returns, and in bfloat16 equals are common. So: the n chunks with the
    highest maxima, equals by position, hold the n best words; their members are sorted stably. Where there are fewer
    than n words, the rest is -inf, or m < n columns come back.
    """
    x = logits[:, first:]
    highest, size = _chunk_maxima(x)
    chunks = highest.sort(stable=True, dim=1, descending=True).indices[:, :n].sort(1).values
    index = (chunks[:, :, None] * CHUNK + torch.arange(CHUNK, device=x.device)).flatten(1)
    inside = index.clamp(max=size - 1)
    values, order = x.gather(1, inside).masked_fill(index >= size, -torch.inf).sort(stable=True, dim=1, descending=True)
    return values[:, :n], inside.gather(1, order[:, :n]) + first


def best_word(logits: Float[Tensor, "R V"], first: int) -> Int[Tensor, " R"]:
    """The best word of each row among those from id `first` on, of equals the one with the lowest id.

    The first of the best chunks, then the first of the best in it: `max` with its index takes ten times as long over all.
    """
    highest, size = _chunk_maxima(logits[:, first:])
    chunk = highest.max(1).indices  # of equals the first
    index = (chunk[:, None] * CHUNK + torch.arange(CHUNK, device=logits.device)).clamp_(max=size - 1)
    inside = logits[:, first:].gather(1, index).max(1).indices
    return index.gather(1, inside[:, None])[:, 0] + first


def _chunk_maxima(x: Float[Tensor, "R V"]) -> tuple[Float[Tensor, "R c"], int]:
    size = x.shape[1]
    whole = size // CHUNK * CHUNK
    highest = x[:, :whole].view(len(x), -1, CHUNK).amax(2) if whole else x[:, :0]
    if whole < size:
        highest = torch.cat([highest, x[:, whole:].amax(1, keepdim=True)], 1)
    return highest, size
