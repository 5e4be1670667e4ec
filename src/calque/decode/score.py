"""Scores of given translations, by teacher forcing."""

from collections.abc import Iterable
from typing import NamedTuple

import torch
from jaxtyping import Float, Int
from torch import Tensor
from torch.nn import functional as F

from calque.data.batches import Batch
from calque.model import Model


class Scores(NamedTuple):
    """Of pairs, in the order of their numbers."""

    logp: Float[Tensor, " N"]
    """log p(target | source), natural, end symbol included"""
    tokens: Int[Tensor, " N"]
    """target words, end symbol included"""


def score(model: Model, batches: Iterable[Batch]) -> Scores:
    """log p of every pair: the sum of log softmax(W_o z_t + b_o)[y_t] over its words and the end symbol.

    The logits are computed in the model's type, the rest in float32 (float64 for a float64 model). The model should be
    in evaluation mode. The results lie on the CPU.
    """
    index, logps, tokens = [], [], []
    with torch.inference_mode():
        for batch in batches:
            logps.append(_logp(model, batch).cpu())
            index.append(batch.index)
            tokens.append(batch.target_mask.sum(1))
        if not index:
            return Scores(torch.empty(0), torch.empty(0, dtype=torch.int64))
        order = torch.cat(index).argsort()
        return Scores(torch.cat(logps)[order], torch.cat(tokens)[order])


def _logp(model: Model, batch: Batch) -> Float[Tensor, " B"]:
    moved = [x.to(model.device) for x in batch[:5]]
    source, source_mask, target_in, target_out, mask = moved
    z = model.decode(target_in, model.encode(source, source_mask), mask)
    logits = model.logits(z[mask])  # real positions alone: logits are the largest tensor there is
    logits = logits.to(torch.promote_types(logits.dtype, torch.float32))
    lost = F.cross_entropy(logits, target_out[mask], reduction="none")
    return -lost.new_zeros(mask.shape).masked_scatter(mask, lost).sum(1)
