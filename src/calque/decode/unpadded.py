"""Sentences of a batch one after the other, without padding: the rows of an encoder's program."""

from collections.abc import Iterator

import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor

GROUP_ROWS = 512
"""Tokens that are encoded together: enough for products, few enough for a processor's caches."""


class Unpadded:
    """The tokens of a batch, sentence by sentence, and the way back."""

    words: Int[Tensor, " R"]
    starts: Int[Tensor, " B1"]
    """where each sentence begins among them, with their number behind"""
    positions: Int[Tensor, " R"]
    """of each in its sentence"""

    def __init__(self, source: Int[Tensor, "B S"], mask: Bool[Tensor, "B S"] | None, sort: bool):
        """`sort`: longer sentences first."""
        self._shape = source.shape
        self.mask = None if mask is None or bool(mask.all()) else mask
        self._order: Tensor | None = None
        """the number of each sentence in the batch; None: as it is there"""
        self._places: Tensor | None = None
        """of each token in the batch"""
        if self.mask is None:
            lengths, self.words = torch.full((len(source),), source.shape[1]), source.reshape(-1)
        else:
            lengths, real = self.mask.sum(1), self.mask
            if sort:
                self._order = lengths.argsort(descending=True, stable=True)
                lengths, real = lengths[self._order], real[self._order]
            sentence, column = real.nonzero(as_tuple=True)
            self._places = (sentence if self._order is None else self._order[sentence]) * source.shape[1] + column
            self.words = source.reshape(-1)[self._places]
        self.words = self.words.long().contiguous()
        self.starts = torch.zeros(len(lengths) + 1, dtype=torch.int64)
        torch.cumsum(lengths, 0, out=self.starts[1:])
        self.positions = torch.arange(len(self.words)) - torch.repeat_interleave(self.starts[:-1], lengths)

    def groups(self) -> Iterator[tuple[int, int]]:
        """The first sentence of each group that is encoded together, and the one behind its last."""
        first, count = 0, len(self.starts) - 1
        while first < count:
            limit = int(self.starts[first]) + GROUP_ROWS
            last = max(first + 1, int(torch.searchsorted(self.starts, limit, right=True)) - 1)
            yield first, min(last, count)
            first = last

    def padded(self, value: Float[Tensor, "R D"]) -> Float[Tensor, "B S D"]:
        """What tokens have become, as a padded batch."""
        if self._places is None:
            return value.view(*self._shape, -1)
        padded = value.new_zeros(self._shape.numel(), value.shape[1])
        return padded.index_copy_(0, self._places, value).view(*self._shape, -1)

    def of_sentences(self, value: Float[Tensor, "B D"]) -> Float[Tensor, "B D"]:
        """What sentences have become, as they are in the batch."""
        return value if self._order is None else torch.empty_like(value).index_copy_(0, self._order, value)
