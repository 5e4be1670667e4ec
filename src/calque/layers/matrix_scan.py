"""The scan of a matrix, S_t = D_t S_{t-1} + k_t u_t^T with y_t = S_t^T q_t: linear attention and its successors.

The loop over positions, `one_position`, is the definition. `chunked` takes a chunk of positions together, by products among them
and with the matrix before them: O(T C) work in T / C sequential steps. Decays come as logarithms that are at most zero, and
only differences of sums in the direction of time are raised, so nothing overflows; none may be so low that others vanish beside
it. All of it is computed in float32, in float64 under float64.
"""

from typing import NamedTuple

import torch
from jaxtyping import Float
from torch import Tensor

CHUNK, FEW = 64, 16
"""Positions taken together; fewer where each channel decays by itself, since scores take a product for each of them."""


class Driven(NamedTuple):
    """What moves the matrix at each position: queries, keys, values, the logarithm of the decay, the strength of the delta rule.

    `decay` has one number for each head or one for each channel of the keys, in the last place. With `beta` the value that a key
    finds in the matrix is taken away before the new one is added: u = beta (v - D S^T k).
    """

    q: Float[Tensor, "B H T K"]
    k: Float[Tensor, "B H T K"]
    v: Float[Tensor, "B H T V"]
    decay: Float[Tensor, "#B #H T d"] | None
    beta: Float[Tensor, "B H T 1"] | None

    def part(self, start: int, stop: int) -> "Driven":
        """The positions from `start` up to `stop`."""
        decay = None if self.decay is None else self.decay[:, :, start:stop]
        beta = None if self.beta is None else self.beta[:, :, start:stop]
        return Driven(self.q[:, :, start:stop], self.k[:, :, start:stop], self.v[:, :, start:stop], decay, beta)


def one_position(
    drive: Driven, s: Float[Tensor, "B H K V"]
) -> tuple[Float[Tensor, "B H 1 V"], Float[Tensor, "B H K V"]]:
    """The output at a single position and the matrix behind it."""
    if drive.decay is not None:
        s = drive.decay.exp().transpose(2, 3) * s
    u = drive.v if drive.beta is None else drive.beta * (drive.v - torch.matmul(drive.k, s))
    s = s + torch.matmul(drive.k.transpose(2, 3), u)
    return torch.matmul(drive.q, s), s


def chunked(drive: Driven, s: Float[Tensor, "B H K V"]) -> Float[Tensor, "B H T V"]:
    """The outputs at all positions; `s` is the matrix before the first."""
    size = FEW if drive.decay is not None and drive.decay.shape[3] > 1 else CHUNK
    outputs = []
    for start in range(0, drive.q.shape[2], size):
        y, s = _chunk(drive.part(start, start + size), s)
        outputs.append(y)
    return torch.cat(outputs, 2)


def _chunk(drive: Driven, s: Tensor) -> tuple[Tensor, Tensor]:
    q, k, u, decay, beta = drive
    later = torch.ones(q.shape[2], q.shape[2], dtype=torch.bool, device=q.device).triu(1)
    if decay is None:
        near, seen, kept, last = _scores(q, k), q, k, torch.ones_like(s[..., :1])
    else:
        since = decay.cumsum(2)
        seen, last = q * since.exp(), since[:, :, -1:].exp().transpose(2, 3)
        kept = k * (since[:, :, -1:] - since).exp()
        between = (since[:, :, :, None] - since[:, :, None]).masked_fill(later[..., None], -torch.inf).exp()
        near = _decayed(q, k, between)
    if beta is not None:
        among = _scores(k, k) if decay is None else _decayed(k, k, between)
        found = torch.matmul(k if decay is None else k * since.exp(), s)
        u = torch.linalg.solve_triangular(beta * among.tril(-1), beta * (u - found), upper=False, unitriangular=True)
    y = torch.matmul(seen, s) + torch.matmul(near.masked_fill(later, 0.0), u)
    return y, last * s + torch.matmul(kept.transpose(2, 3), u)


def _scores(q: Tensor, k: Tensor) -> Tensor:
    return torch.matmul(q, k.transpose(2, 3))


def _decayed(q: Tensor, k: Tensor, between: Float[Tensor, "B H t s d"]) -> Tensor:
    """sum_c q_tc k_sc D_tsc."""
    if between.shape[4] == 1:
        return _scores(q, k) * between[..., 0]
    return (q[:, :, :, None] * k[:, :, None] * between).sum(4)
