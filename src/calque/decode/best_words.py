"""The best words of a step."""

import torch
from jaxtyping import Float, Int
from torch import Tensor

CHUNK = 64
"""Words of a chunk, whose maximum is computed first; near sqrt(V / n) for the usual V and n."""


def best_words(logits: Float[Tensor, "R V"], n: int, first: int) -> tuple[Float[Tensor, "R m"], Int[Tensor, "R m"]]:
    """The n best words of each row among those from id `first` on, the best first, equals in the order of ids.

    `topk` does not define which of several equal values it returns, and in bfloat16 equal values are common. Therefore: the n
    chunks with the highest maxima, equals by position, contain the n best words; their members are sorted stably. Where there are
    fewer than n words, the rest is -inf, or only m < n columns are returned.
    """
    x = logits[:, first:]
    highest, size = _chunk_maxima(x)
    chunks = first_of_best(highest, n)[1].sort(1).values
    index = (chunks[:, :, None] * CHUNK + torch.arange(CHUNK, device=x.device)).flatten(1)
    inside = index.clamp(max=size - 1)
    values, order = first_of_best(x.gather(1, inside).masked_fill_(index >= size, -torch.inf), n)
    return values, inside.gather(1, order) + first


def first_of_best(x: Float[Tensor, "R m"], n: int) -> tuple[Float[Tensor, "R k"], Int[Tensor, "R k"]]:
    """The k = min(n, m) largest numbers of each row, the largest first, and their places; of equals the first places.

    Each float32 number becomes an integer of the same order, with its place as the lower digits. Then no two are equal, and `topk`,
    which is faster than sorting, gives a defined result.
    """
    n = min(n, x.shape[1])
    if x.dtype != torch.float32:
        ordered = x.sort(stable=True, dim=1, descending=True)
        return ordered.values[:, :n], ordered.indices[:, :n]
    bits = (x + 0.0).view(torch.int32)  # -0.0 and 0.0 are equal
    integers = torch.where(bits < 0, bits ^ 0x7FFFFFFF, bits).long()
    keys = (integers << 32) | torch.arange(x.shape[1] - 1, -1, -1, device=x.device)
    places = (x.shape[1] - 1) - (keys.topk(n, 1).values & 0xFFFFFFFF)
    return x.gather(1, places), places


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
