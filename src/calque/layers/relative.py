"""What attention scores gain from how far a key is from its query. A distance is the key's position minus the query's."""

import math
from abc import ABC, abstractmethod

import torch
from jaxtyping import Float, Int
from torch import Tensor, nn

from calque.layers.projections import matmul
from calque.layers.state import accumulated
from calque.native.program import NoProgram

FORMS = ("none", "alibi", "t5", "shaw")


class Relative(nn.Module, ABC):
    """A term of the scores that depends on distances, and of the contexts where there is one."""

    @abstractmethod
    def score(self, q: Float[Tensor, "S H q K"], distance: Int[Tensor, "#S 1 #q V"]) -> Float[Tensor, "#S H #q V"]:
        """What is added to the scores; `q` is divided by their scale already."""

    def gain(self, count: int) -> Float[Tensor, "n 2 H"]:
        """What is added for distances below `count`, before the query and behind it, where that follows from the distance alone.

        Raises NoProgram where it does not.
        """
        away = torch.arange(count)[:, None, None, None]
        sides = [self.score(torch.empty(0), side * away)[:, :, 0, 0] for side in (-1, 1)]
        return torch.stack(sides, 1).float()

    def context(self, weights: Float[Tensor, "S H q V"], distance: Int[Tensor, "#S 1 #q V"]) -> Tensor | None:
        """What is added to the contexts [S, H, q, K]."""
        return None


class Alibi(Relative):
    """-m_h |s - t|, m_h = 2^(-8 h / H), h = 1 .. H (Press et al. 2021, section 3). Nothing is learned.

    The paper's code interpolates where H is no power of two; the formula needs no such case. The paper has decoders only; in
    the encoder both directions count alike.
    """

    def __init__(self, heads: int):
        super().__init__()
        self.heads = heads

    def score(self, q: Tensor, distance: Tensor) -> Tensor:
        h = torch.arange(1, self.heads + 1, device=q.device, dtype=accumulated(q.dtype))[:, None, None]
        return distance.abs() * -(2.0 ** (-8.0 * h / self.heads))


class Buckets(Relative):
    """b_h[bucket(s - t)] (Raffel et al. 2020, section 2.1). One number for each head and bucket.

    In the encoder one half of the buckets is for keys behind the query. Of the buckets of a direction, the first half are single
    distances, the others grow with the logarithm up to `reach`, and the last has everything further away. The paper shares
    the numbers among layers; here each layer has its own.
    """

    def __init__(self, heads: int, buckets: int, reach: int, both: bool):
        super().__init__()
        self.table = nn.Parameter(torch.zeros(buckets, heads))
        self.both, self.one_side = both, buckets // 2
        number = bucket_numbers(self.one_side if both else buckets, reach)
        self.register_buffer("number", number, persistent=False)

    def score(self, q: Tensor, distance: Tensor) -> Tensor:
        number = self.get_buffer("number")
        away = distance.abs() if self.both else -distance
        bucket = number[away.clamp(0, len(number) - 1)]
        if self.both:
            bucket = bucket + self.one_side * (distance > 0)
        return self.table[bucket[:, 0]].permute(0, 3, 1, 2)


def bucket_numbers(buckets: int, reach: int) -> Int[Tensor, " R"]:
    """The bucket of each distance from 0 to `reach`, of one direction; in float32, as the paper's code rounds it."""
    exact = buckets // 2
    away = torch.arange(reach + 1)
    log = torch.log(away.clamp(min=1).float() / max(1, exact)) / math.log(max(2, reach, exact + 1) / max(1, exact))
    far = (exact + (log * (buckets - exact)).long()).clamp(max=buckets - 1)
    return torch.where(away < exact, away, far)


class Clipped(Relative):
    """q . a^K[s - t] / sqrt(s) in the scores and sum_s w_s a^V[s - t] in the contexts, distances clipped to `reach` (Shaw et al.
    2018, equations 3 to 5). The vectors are shared by the heads; in the decoder there are none for later keys.
    """

    def __init__(self, width: int, reach: int, both: bool):
        super().__init__()
        self.low, self.high = -reach, reach if both else 0
        self.keys = nn.Parameter(torch.randn(rows(reach, both), width) * 0.05)
        self.values = nn.Parameter(torch.randn(rows(reach, both), width) * 0.05)

    def score(self, q: Tensor, distance: Tensor) -> Tensor:
        each = matmul(q, self.keys.t())
        return each.gather(-1, self._index(distance, each, distance.shape[-1]))

    def gain(self, count: int) -> Tensor:
        raise NoProgram("scores of queries and distances")

    def context(self, weights: Tensor, distance: Tensor) -> Tensor:
        index = self._index(distance, weights, weights.shape[-1])
        each = weights.new_zeros(*weights.shape[:-1], len(self.values)).scatter_add(-1, index, weights)
        return matmul(each, self.values.to(weights.dtype))

    def _index(self, distance: Tensor, like: Tensor, length: int) -> Tensor:
        return (distance.clamp(self.low, self.high) - self.low).expand(*like.shape[:-1], length)


def rows(reach: int, both: bool) -> int:
    """How many distances there are after clipping."""
    return 2 * reach + 1 if both else reach + 1


class TalkingHeads(nn.Module):
    """Scores of all heads mixed by one matrix before the softmax, weights by another one after it (Shazeer et al. 2020)."""

    def __init__(self, heads: int):
        super().__init__()
        self.before = nn.Parameter(torch.eye(heads))
        self.after = nn.Parameter(torch.eye(heads))

    def mix(self, matrix: Float[Tensor, "H H"], x: Float[Tensor, "S H q V"]) -> Float[Tensor, "S H q V"]:
        """sum_h' M[h, h'] x_h'."""
        return matmul(matrix.to(x.dtype), x.flatten(2)).view(x.shape)


def relative(form: str, heads: int, width: int, buckets: int, reach: int, both: bool) -> Relative | None:
    """The term of a form, of heads that are `width` wide; `both`: later keys are seen too."""
    if form == "alibi":
        return Alibi(heads)
    if form == "t5":
        return Buckets(heads, buckets, reach, both)
    return Clipped(width, reach, both) if form == "shaw" else None


def distance_rows(form: str, reach: int, both: bool) -> int:
    """How many vectors there are for distances, in scores as in contexts."""
    return rows(reach, both) if form == "shaw" else 0
