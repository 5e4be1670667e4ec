"""The n-grams that several texts have in common, each with each: the statistics of BLEU and chrF of all pairs at once."""

from collections import Counter
from collections.abc import Hashable, Sequence
from itertools import chain

import numpy as np
from jaxtyping import Int


def common_ngrams(
    texts: Sequence[Sequence[Hashable]], orders: int
) -> tuple[Int[np.ndarray, "n orders"], Int[np.ndarray, "n n orders"]]:
    """Of texts of words, or of characters: the n-grams of each, and those of each pair, n = 1..orders.

    An n-gram counts in a pair as often as it is in both texts.
    """
    lengths = np.array([len(text) for text in texts])
    of_each = np.maximum(0, lengths[:, None] - np.arange(orders))
    of_pairs = np.stack([_common(texts, n) for n in range(1, orders + 1)], axis=-1)
    return of_each, of_pairs


def _common(texts: Sequence[Sequence[Hashable]], n: int) -> Int[np.ndarray, "n n"]:
    grams = [Counter(text[i : i + n] for i in range(len(text) - n + 1)) for text in texts]
    having = Counter(chain.from_iterable(grams))  # texts
    # Most n-grams are in one text alone: they need no column.
    column = {gram: k for k, gram in enumerate(gram for gram, count in having.items() if count > 1)}
    counts = np.zeros((len(texts), len(column)), dtype=np.int32)
    for row, own in zip(counts, grams, strict=True):
        for gram, count in own.items():
            if (k := column.get(gram)) is not None:
                row[k] = count
    common = np.empty((len(texts), len(texts)), dtype=np.int64)
    for row, found in zip(counts, common, strict=True):
        (has,) = row.nonzero()  # few of all: the n-grams of one text
        found[:] = np.minimum(row[has], counts[:, has]).sum(1)
    np.fill_diagonal(common, [own.total() for own in grams])
    return common
