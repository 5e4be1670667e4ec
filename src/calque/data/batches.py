"""Batches: the pairs of each, and their padded tensors."""

from collections.abc import Callable
from typing import NamedTuple, Protocol

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from calque.data.corpus import Pairs
from calque.data.vocabulary import BOS, EOS

NOISE = 2.0
"""The largest random number of tokens that is added to source lengths before sorting, so that epochs have different batches."""


_PART = 1 << 20
"""Values that are compared at a time, so that no memory is used for the whole."""


class PairLengths(Protocol):
    """Sentence pairs of which only the lengths matter."""

    @property
    def source_lengths(self) -> NDArray[np.integer]: ...
    @property
    def target_lengths(self) -> NDArray[np.integer]: ...
    def __len__(self) -> int: ...


class Batch(NamedTuple):
    """Padded sentence pairs. B pairs, S and T the padded lengths; PAD is 0."""

    source: Tensor
    """[B, S] int64"""
    source_mask: Tensor
    """[B, S] bool, True where a token is"""
    target_in: Tensor
    """[B, T] int64: BOS, then the sentence"""
    target_out: Tensor
    """[B, T] int64: the sentence, then EOS"""
    target_mask: Tensor
    """[B, T] bool, of both"""
    index: Tensor  # type: ignore[assignment]  # a field shadows tuple.index, which nobody calls on a batch
    """[B] int64: which pairs of the split these are"""
    source_tokens: int
    """True cells of `source_mask`"""
    target_tokens: int
    """True cells of `target_mask`, end symbols included"""


def collate(pairs: Pairs, rows: NDArray[np.int64], source_end: bool, pad_multiple: int = 1) -> Batch:
    """The batch of these pairs; S and T are the longest lengths, rounded up to `pad_multiple`.

    `source_end` closes each source with EOS.
    """
    each = np.arange(len(rows))
    source_lengths, target_lengths = pairs.source_lengths[rows], pairs.target_lengths[rows]
    # A blank sentence without end symbol still takes one position: with none, what attends to it would see the padding of others.
    closed = np.maximum(source_lengths + source_end, 1)
    width = _round_up(int(closed.max()), pad_multiple)
    source = pairs.sources.padded(rows, width)
    if source_end:
        source[each, source_lengths] = EOS
    length = _round_up(int(target_lengths.max()) + 1, pad_multiple)
    target_out = pairs.targets.padded(rows, length)
    target_in = np.concatenate([np.full((len(rows), 1), BOS), target_out[:, :-1]], 1)
    target_out[each, target_lengths] = EOS
    source_mask = np.arange(width) < closed[:, None]
    target_mask = np.arange(length) < (target_lengths + 1)[:, None]
    return Batch(
        source=torch.from_numpy(source),
        source_mask=torch.from_numpy(source_mask),
        target_in=torch.from_numpy(target_in),
        target_out=torch.from_numpy(target_out),
        target_mask=torch.from_numpy(target_mask),
        index=torch.from_numpy(np.array(rows, np.int64)),
        source_tokens=int(source_mask.sum()),
        target_tokens=int(target_mask.sum()),
    )


def plan(
    pairs: PairLengths,
    batch_tokens: int,
    batch_sentences: int,
    seed: int,
    epoch: int,
    pad_multiple: int = 1,
    sort_batches: int = 0,
) -> list[NDArray[np.int64]]:
    """The batches of one epoch, every pair in exactly one of them; the same for the same (seed, epoch).

    A batch of n pairs has n * T <= `batch_tokens` and n * S <= `batch_tokens`, S and T its longest source and target,
    one end symbol each and rounded up to `pad_multiple`; and n <= `batch_sentences`. 0 is no bound. A pair that is too
    long is a batch of its own. Pairs are sorted by target length, then by source length with random `NOISE`; the batches are
    shuffled. With `sort_batches`, the pairs are shuffled first, and each run of `sort_batches * batch_sentences` pairs is sorted
    and shuffled separately.
    """
    random = np.random.Generator(np.random.PCG64([seed, epoch]))
    source = random.uniform(-NOISE, NOISE, len(pairs))
    source += pairs.source_lengths
    most = min(bound for bound in (batch_tokens, batch_sentences, len(pairs)) if bound) if len(pairs) else 0

    def batches(order: NDArray[np.int64]) -> list[NDArray[np.int64]]:
        widths = [_width(side, order, pad_multiple) for side in (pairs.source_lengths, pairs.target_lengths)]
        cut = _cut(order, _fitting(widths[0], widths[1], batch_tokens, most))
        return [cut[i] for i in random.permutation(len(cut))]

    run = sort_batches * batch_sentences
    if not run:
        order = _sorted(source, pairs.target_lengths)
        del source  # the plan of a large text takes most of its memory here
        return batches(order)
    shuffled = random.permutation(len(pairs))
    runs = (shuffled[at : at + run] for at in range(0, len(pairs), run))
    return [batch for rows in runs for batch in batches(rows[_sorted(source[rows], pairs.target_lengths[rows])])]


def _sorted(source: NDArray[np.float64], target: NDArray[np.integer]) -> NDArray[np.int64]:
    """The order by target and, where that is the same, by source: `np.lexsort((source, target))`, faster for short lengths."""
    if not len(target) or int(target.max()) >= 1 << 16:
        return np.lexsort((source, target))
    order = np.argsort(source)  # several times as fast as a stable sort, and the same where no two are equal
    if _any_equal(source, order):
        order = np.argsort(source, kind="stable")
    # Numbers of 16 bits are sorted by counting.
    return order[np.argsort(target.astype(np.uint16)[order], kind="stable")]


def _any_equal(values: NDArray[np.float64], order: NDArray[np.int64]) -> bool:
    """Whether two of the values, which are sorted in this order, are equal."""
    parts = (values[order[at : at + _PART + 1]] for at in range(0, len(order), _PART))
    return any(bool((part[1:] == part[:-1]).any()) for part in parts)


def _width(lengths: NDArray[np.integer], order: NDArray[np.int64], multiple: int) -> NDArray[np.int32]:
    """The padded lengths with an end symbol, in this order."""
    width = lengths.astype(np.int32)[order]
    width += 1
    if multiple > 1:
        width += -width % multiple
    return width


def _fitting(
    sources: NDArray[np.int32], targets: NDArray[np.int32], batch_tokens: int, most: int
) -> Callable[[int], int]:
    """A function for the number of pairs of these lengths, from a given one on, that fit in a batch; at most `most`."""
    counts = np.arange(1, most + 1)

    def fits(start: int) -> int:
        # At most as many pairs as the first of them allows: the window stays as small as the batch.
        window = min(most, batch_tokens // int(targets[start])) if batch_tokens else most
        stop = start + max(1, window)
        longest = np.maximum.accumulate(np.maximum(sources[start:stop], targets[start:stop]))
        return int((longest * counts[: len(longest)] <= batch_tokens).sum()) if batch_tokens else len(longest)

    return fits


def decode_plan(lengths: NDArray[np.int64], batch_tokens: int) -> list[NDArray[np.int64]]:
    """Batches of sentence numbers for translating, the longest first.

    A batch of n sentences has n * max(length) <= `batch_tokens`; lengths are counted as given, at least 1. A longer
    sentence is a batch of one.
    """
    order = np.argsort(-np.asarray(lengths), kind="stable")
    return _cut(order, lambda start: batch_tokens // max(1, int(lengths[order[start]])))


def _cut(order: NDArray[np.int64], fits: Callable[[int], int]) -> list[NDArray[np.int64]]:
    """Cuts `order` into runs of `fits(start)` items, at least one."""
    batches = []
    start = 0
    while start < len(order):
        stop = start + max(1, fits(start))
        batches.append(order[start:stop])
        start = stop
    return batches


def _round_up(length: int, multiple: int) -> int:
    return -(-length // multiple) * multiple
