"""The loss of a training in one expression, which the product computes a few rows at a time."""

import torch
from torch import Tensor


def cross_entropy(logits: Tensor, target: Tensor, smoothing: float) -> tuple[Tensor, Tensor]:
    """The summed smoothed loss to train on and the summed negative log-likelihood to report, from all logits at once.

    The smoothed loss gives the reference 1 - smoothing and shares the rest equally among the other V - 1 words
    (Domhan 2018, section 4.1, whose code also excludes the reference).
    """
    logp = torch.log_softmax(logits, -1)
    nll = -logp.gather(-1, target[:, None]).sum()
    if not smoothing:
        return nll, nll.detach()
    others = -logp.sum() - nll
    return (1 - smoothing) * nll + smoothing / (logits.shape[-1] - 1) * others, nll.detach()
