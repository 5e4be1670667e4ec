"""Scores of given translations, by teacher forcing."""

from collections.abc import Iterable, Sequence
from itertools import accumulate
from typing import NamedTuple

import numpy as np
import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor
from torch.nn import functional as F

from calque.data.batches import Batch, collate, decode_plan
from calque.data.corpus import Pairs
from calque.layers.contract import Point
from calque.model import Model

AT_ONCE = 256
"""Rows of logits that a processor computes together: few enough for its caches."""
BATCH_TOKENS = 3000
"""Most tokens of sources and translations in a batch on a processor, for the same reason."""
Ids = Sequence[int]
Numbers = np.ndarray[tuple[int], np.dtype[np.int64]]


class Scores(NamedTuple):
    """Scores of pairs, in the order of their numbers."""

    logp: Float[Tensor, " N"]
    """log p(target | source), natural, end symbol included"""
    tokens: Int[Tensor, " N"]
    """target words, end symbol included"""


def score(model: Model, batches: Iterable[Batch], given: int = 0) -> Scores:
    """log p of every pair: the sum of log softmax(W_o z_t + b_o)[y_t] over its words and the end symbol, so many `given` first
    words left out, which cost nothing in a search either.

    The logits are computed in the model's type, the rest in float32 (float64 for a float64 model). The model should be
    in evaluation mode. The results are on the CPU.
    """
    index, logps, tokens = [], [], []
    with torch.inference_mode():
        for batch in batches:
            logps.append(_logp(model, batch, given).cpu())
            index.append(batch.index)
            tokens.append(batch.target_mask.sum(1))
        if not index:
            return Scores(torch.empty(0), torch.empty(0, dtype=torch.int64))
        order = torch.cat(index).argsort()
        return Scores(torch.cat(logps)[order], torch.cat(tokens)[order])


def _logp(model: Model, batch: Batch, given: int) -> Float[Tensor, " B"]:
    moved = [x.to(model.device) for x in batch[:5]]
    source, source_mask, target_in, target_out, mask = moved
    z = model.decode(target_in, model.encode(source, source_mask), mask)
    return -_loss(model, z, target_out, _behind(mask, given)).sum(1)


def _behind(mask: Bool[Tensor, "B T"], given: int) -> Bool[Tensor, "B T"]:
    """The real positions without the given ones."""
    counted = mask.clone()
    counted[:, :given] = False
    return counted


def _loss(
    model: Model, z: Float[Tensor, "B T D"], target: Int[Tensor, "B T"], where: Bool[Tensor, "B T"]
) -> Float[Tensor, "B T"]:
    """The cross-entropy at the positions of `where`, 0 elsewhere, in parts: logits are the largest tensor of all."""
    rows, words = z[where], target[where]
    size = AT_ONCE if rows.device.type == "cpu" else max(1, len(rows))
    parts = []
    for some, references in zip(torch.split(rows, size), torch.split(words, size), strict=True):
        logits = model.logits(some)
        logits = logits.to(torch.promote_types(logits.dtype, torch.float32))
        parts.append(F.cross_entropy(logits, references, reduction="none"))
    loss = torch.cat(parts)
    return loss.new_zeros(where.shape).masked_scatter(where, loss)


def score_versions(
    model: Model,
    sources: Sequence[Ids],
    versions: Sequence[Sequence[Ids]],
    source_end: bool = True,
    batch_tokens: int = 4096,
    given: int = 0,
) -> list[Scores]:
    """`score` of several translations of each source. Common parts are computed once: the encoder reads a source once, and the
    output layer reads z once for the words with which a translation begins like the first one.
    """
    if not sources:
        return []
    if model.device.type == "cpu":
        batch_tokens = min(batch_tokens, BATCH_TOKENS)
    alone = Pairs.of(sources, [[]] * len(sources))
    flat = [ids for some in versions for ids in some]
    targets = Pairs.of([[]] * len(flat), flat)
    begins = [0, *accumulate(map(len, versions))]
    tokens = [len(ids) + source_end for ids in sources]
    lengths = [n + sum(len(ids) + 1 for ids in some) for n, some in zip(tokens, versions, strict=True)]
    logps, index = [torch.zeros(0)], [torch.zeros(0, dtype=torch.long)]
    with torch.inference_mode():
        for planned in decode_plan(np.array(lengths, np.int64), batch_tokens):
            rows = np.array([i for i in planned if versions[i]], np.int64)
            if not len(rows):
                continue
            groups = [np.arange(begins[i], begins[i + 1]) for i in rows]
            logp, numbers = _logp_of_versions(model, collate(alone, rows, source_end), groups, targets, flat, given)
            logps.append(logp)
            index.append(numbers)
    order, counts = torch.cat(index).argsort(), torch.from_numpy(targets.target_lengths + 1).long()
    cuts = list(map(len, versions))
    both = zip(torch.split(torch.cat(logps)[order], cuts), torch.split(counts, cuts), strict=True)
    return [Scores(*one) for one in both]


def _logp_of_versions(
    model: Model, read: Batch, groups: Sequence[Numbers], targets: Pairs, flat: Sequence[Ids], given: int
) -> tuple[Float[Tensor, " N"], Int[Tensor, " N"]]:
    """log p of all translations of a batch of sources, and their numbers. A group holds the numbers of one source."""
    points = model.encode(read.source.to(model.device), read.source_mask.to(model.device))
    owner = torch.tensor([k for k, some in enumerate(groups) for _ in some], device=model.device)
    wide = {name: _repeated(point, owner) for name, point in points.items()}
    batch = collate(targets, np.concatenate(groups), False)
    target_in, target_out, mask = (x.to(model.device) for x in batch[2:5])
    z = model.decode(target_in, wide, mask)
    # After the tokens that a translation has in common with the first one of its source, its z differs.
    shared = [(first, n, _common(flat[first], flat[n])) for some in groups for first, n in _after(some)]
    fresh, at = _behind(mask, given), {int(n): k for k, n in enumerate(batch.index.tolist())}
    for _, n, count in shared:
        fresh[at[n], :count] = False
    loss = _loss(model, z, target_out, fresh)
    for first, n, count in shared:
        loss[at[n], :count] = loss[at[first], :count]
    return -loss.sum(1).cpu(), batch.index


def _after(numbers: Numbers) -> list[tuple[int, int]]:
    """The first number paired with each of the others."""
    first, *others = numbers.tolist()
    return [(first, n) for n in others]


def _common(one: Ids, other: Ids) -> int:
    """The number of tokens that both begin with."""
    return next((k for k, (a, b) in enumerate(zip(one, other, strict=False)) if a != b), min(len(one), len(other)))


def _repeated(point: Point, rows: Int[Tensor, " R"]) -> Point:
    mask = None if point.mask is None else point.mask[rows]
    return Point(point.value[rows], mask, None if point.state is None else tuple(s[rows] for s in point.state))
