"""Where weights start."""

import math
from collections.abc import Iterator

import torch
from torch import Tensor, nn

KEPT = ("gain", "shift")
"""Names of the parameters of normalisation layers, which start as 1 and 0 under every scheme."""


def initialise(model: nn.Module, scheme: str, scale: float, seed: int) -> None:
    """Draws every weight anew; the same for the same (architecture, scheme, scale, seed) on every device.

    glorot   W ~ U(-a, a), a = sqrt(6 / (fan_in + fan_out)); biases are 0 (Glorot and Bengio 2010). An embedding
             is a matrix [V, d] as any other; a filter [out, in, k] has fan_in = k in, fan_out = k out
    uniform  every number ~ U(-scale, scale), biases included
    t2t      glorot, but embeddings ~ N(0, 1/d)

    `gain` and `shift` of normalisation layers stay as they are, and under glorot so do vectors that are no biases. A
    matrix that several modules share is drawn once, by the first of them.
    """
    generator = torch.Generator().manual_seed(seed)
    with torch.no_grad():
        for module, name, weight in _own_parameters(model):
            if name in KEPT:
                continue
            drawn = torch.empty(weight.shape)
            if scheme == "uniform":
                drawn.uniform_(-scale, scale, generator=generator)
            elif name == "bias":
                drawn.zero_()
            elif weight.dim() < 2:
                continue
            elif scheme == "t2t" and isinstance(module, nn.Embedding):
                drawn.normal_(0.0, weight.shape[1] ** -0.5, generator=generator)
            else:
                bound = glorot_bound(weight)
                drawn.uniform_(-bound, bound, generator=generator)
            weight.copy_(drawn)


def glorot_bound(weight: Tensor) -> float:
    """sqrt(6 / (fan_in + fan_out)) of a matrix [out, in] or a filter [out, in, k]."""
    field = math.prod(weight.shape[2:])
    return math.sqrt(6.0 / (field * (weight.shape[0] + weight.shape[1])))


def _own_parameters(model: nn.Module) -> Iterator[tuple[nn.Module, str, nn.Parameter]]:
    """Every parameter once, with the first module that holds it and its name there."""
    seen: set[nn.Parameter] = set()
    for module in model.modules():
        for name, weight in module.named_parameters(recurse=False):
            if weight not in seen:
                seen.add(weight)
                yield module, name, weight
