"""Logits that lean on pairs of a translation memory: nearest neighbours among the decoder's outputs of their targets."""

from collections.abc import Sequence
from typing import NamedTuple, cast

import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor
from torch.nn import functional as F

from calque.decode.rule import Onward, Until, Wanted
from calque.decode.scorer import ALL, Candidates, Hidden, Models, SourceBatch
from calque.layers.state import State, States, size
from calque.native.kernels import Best

NEAREST = 16
"""Neighbours of a step, at most."""
FAR = 9.0
"""Further than any two vectors, whose distance is 2 at most."""
_NEARLY_ONE = 1 - 1e-6


class Way(NamedTuple):
    """How a model leans on neighbours: see `WithMemory`."""

    temperature: float
    reach: float
    share: float


class Remembered(NamedTuple):
    """The words of pairs: for each model the decoder's output that predicts them, of length 1, and the words."""

    keys: tuple[Float[Tensor, "n D"], ...]
    words: Int[Tensor, " n"]


class Neighbours(NamedTuple):
    """The words of the pairs of each sentence. Its hypotheses share them, as they share memories of the source."""

    keys: tuple[Float[Tensor, "S n D"], ...]
    words: Int[Tensor, "S n"]
    real: Bool[Tensor, "S n"]

    def select(self, rows: Tensor) -> "Neighbours":
        return self

    def keep(self, rows: Tensor, sentences: Tensor) -> "Neighbours":
        keys = tuple(keys[sentences] for keys in self.keys)
        return Neighbours(keys, self.words[sentences], self.real[sentences])

    def bytes(self) -> int:
        return size(*self.keys, self.words, self.real)


class WithMemory(Models):
    """Models whose distributions lean on a translation memory (Khandelwal et al. 2021; Dai et al. 2023).

    A step with the decoder's output z is compared with the outputs k_i that predict the words w_i of pairs whose sources are like
    the sentence, d_i = 1 - cos(z, k_i). Of the `NEAREST` ones, the first at the distance d_1:

        p(w) = (1 - r) p_model(w) + r sum_i softmax_i(-d_i / temperature) [w_i = w],   r = share * max(0, 1 - d_1 / reach)

    In an ensemble r and the sum are means over the models, each with its own outputs and its own `Way`. Khandelwal et al. keep all
    words of a corpus and a fixed r; Dai et al. those of similar pairs and r by the distance. Both have squared Euclidean distances;
    the cosine makes numbers of the same size for models of every width and norm.
    """

    def __init__(
        self,
        sourced: Sequence[SourceBatch],
        combine: str,
        candidates: Candidates | None,
        whole: bool,
        remembered: Sequence[Remembered],
        ways: Sequence[Way],
    ) -> None:
        """`remembered`: by sentence. All of its words are among the candidates. `whole`: each sentence is computed by itself."""
        super().__init__(sourced, combine, candidates, whole)
        self._needs_norm = not self.normalised
        self.normalised = True
        self.remembered, self.ways = remembered, ways

    @property
    def shared(self) -> None:
        return None

    @property
    def makes_several(self) -> bool:
        return False

    def several(
        self, words: Tensor, state: State, first: int, wanted: Wanted, onward: Onward, until: Until
    ) -> tuple[list[Best], State] | None:
        return None

    def best(self, hidden: Hidden, state: State, first: int, wanted: Wanted) -> Best | None:
        return None

    def start(self, capacity: int) -> State:
        before = cast("States", super().start(capacity))
        return States((*before.parts, self._neighbours()))

    def _neighbours(self) -> Neighbours:
        longest = max(NEAREST, max(len(one.words) for one in self.remembered))
        device, count = self.like.device, len(self.remembered)
        real = torch.zeros(count, longest, dtype=torch.bool, device=device)
        words = torch.zeros(count, longest, dtype=torch.long, device=device)
        widths = [keys.shape[1] for keys in self.remembered[0].keys]
        keys = tuple(torch.zeros(count, longest, width, dtype=self.like.dtype, device=device) for width in widths)
        for row, one in enumerate(self.remembered):
            n = len(one.words)
            real[row, :n] = True
            words[row, :n] = self.candidates.places(one.words.to(device))
            for padded, own in zip(keys, one.keys, strict=True):
                padded[row, :n] = own
        return Neighbours(keys, words, real)

    def read(self, words: Tensor, state: State, visible: int, beams: int, mask: Tensor | None) -> tuple[Hidden, State]:
        *parts, neighbours = cast("States", state).parts
        hidden, after = super().read(words, States(tuple(parts)), visible, beams, mask)
        return hidden, States((*cast("States", after).parts, neighbours))

    def logits(self, hidden: Hidden, state: State, beams: int, of: slice = ALL) -> Tensor:
        *parts, neighbours = cast("States", state).parts
        found = super().logits(hidden, States(tuple(parts)), beams, of)
        logp = found.log_softmax(1) if self._needs_norm else found
        near = cast("Neighbours", neighbours)
        if of != ALL:
            hidden = tuple(z[of.start * beams : of.stop * beams] for z in hidden)
            near = Neighbours(tuple(keys[of] for keys in near.keys), near.words[of], near.real[of])
        words, shares = self._words(hidden, near, beams)
        left = torch.log1p(-shares.sum(1, keepdim=True).clamp(max=_NEARLY_ONE))
        # Several neighbours may have the same word: each of them gets the share of all. As a product of matrices it could round
        # otherwise beside other rows.
        same = words[:, :, None] == words[:, None]
        of_word = (same * shares[:, None]).sum(2)
        own = logp.gather(1, words) + left
        # No logaddexp, which rounds in vectors otherwise than in what is left of them.
        leaning = torch.where(of_word > 0, (own.exp() + of_word).log(), own)
        return logp.add_(left).scatter_(1, words, leaning)

    def _words(self, hidden: Hidden, near: Neighbours, beams: int) -> tuple[Int[Tensor, "R n"], Float[Tensor, "R n"]]:
        """The words of the nearest neighbours of each row by each model, and r times their probabilities."""
        words, shares = [], []
        for z, keys, way in zip(hidden, near.keys, self.ways, strict=True):
            query = F.normalize(z.to(self.like.dtype), dim=1).view(len(keys), beams, -1)
            distances = (1 - self._cosines(query, keys, near.real)).masked_fill_(~near.real[:, None], FAR)
            places = nearest(distances.nan_to_num_(FAR))
            own, share = shares_of(distances.gather(2, places), way)
            shares.append((own * share[..., None] / len(hidden)).flatten(0, 1))
            words.append(near.words[:, None].expand(-1, beams, -1).gather(2, places).flatten(0, 1))
        return torch.cat(words, 1), torch.cat(shares, 1)

    def _cosines(self, query: Tensor, keys: Tensor, real: Tensor) -> Float[Tensor, "S b n"]:
        if not self.whole:
            return torch.bmm(query, keys.transpose(1, 2))
        # As many columns as the sentence has itself, so that the others do not decide how products are computed.
        cosines = query.new_zeros(*query.shape[:2], keys.shape[1])
        for row, n in enumerate(real.sum(1).tolist()):
            cosines[row, :, :n] = query[row] @ keys[row, :n].T
        return cosines


def nearest(distances: Float[Tensor, "S b n"]) -> Int[Tensor, "S b k"]:
    """The places of the `NEAREST` least of at least as many distances, in their order; of equal ones the first."""
    last = distances.topk(NEAREST, largest=False).values[..., -1:]
    below, equal = distances < last, distances == last
    chosen = below | (equal & (equal.cumsum(2) <= NEAREST - below.sum(2, keepdim=True)))
    return chosen.nonzero()[:, 2].view(*distances.shape[:2], NEAREST)


def shares_of(distances: Float[Tensor, "... n"], way: Way) -> tuple[Float[Tensor, "... n"], Float[Tensor, "..."]]:
    """The probabilities of neighbours by their distances, and r."""
    share = (way.share * (1 - distances.min(-1).values / way.reach)).clamp(min=0)
    return (-distances / way.temperature).softmax(-1), share
