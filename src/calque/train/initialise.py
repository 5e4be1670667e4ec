"""Where weights start."""

import math
from collections.abc import Iterator
from itertools import chain

import torch
from torch import Tensor, nn

from calque.layers.contract import OWN_CELL, WHOLE_CELL, Layer
from calque.model import Model


def initialise(model: Model, scheme: str, scale: float, seed: int, joint: bool = False) -> None:
    """Draws every weight anew; the same for the same (architecture, scheme, scale, seed) on every device.

    glorot   W ~ U(-a, a), a = sqrt(6 / (fan_in + fan_out)); biases are 0 (Glorot and Bengio 2010). An embedding
             is a matrix [V, d] as any other; a filter [out, in, k] has fan_in = k in, fan_out = k out
    uniform  every number ~ U(-scale, scale), biases included
    t2t      glorot, but embeddings ~ N(0, 1/d)
    fan-in   uniform, but the output layer's bias is 0, and matrices and filters of the two chains, with their biases,
             ~ U(-a, a), a = 1 / sqrt(fan_in): all but embeddings and what a recurrent cell or a `feed` holds (Gehring 2017,
             the authors' code, whose conditional LSTM, W_d and b_d included, is one cell; the paper says U(-scale, scale)
             of all that is no filter)

    With `joint`, W_q, W_k and W_v of an attention that have one fan_in share the Glorot bound of the matrix of all their rows.
    What a layer declares as `undrawn` stays as it is, and under glorot so do vectors that are no biases. A
    matrix that several modules share is drawn once, by the first of them.
    """
    generator = torch.Generator().manual_seed(seed)
    rows = _joint_rows(model) if joint else {}
    by_fan_in = _by_fan_in(model) if scheme == "fan-in" else {}
    with torch.no_grad():
        for module, name, weight in _own_parameters(model):
            if isinstance(module, Layer) and name in module.undrawn:
                continue
            drawn = torch.empty(weight.shape)
            if scheme == "fan-in" and weight is model.output.bias:
                drawn.zero_()
            elif scheme in ("uniform", "fan-in"):
                bound = by_fan_in.get(module, scale)
                drawn.uniform_(-bound, bound, generator=generator)
            elif name == "bias":
                drawn.zero_()
            elif weight.dim() < 2:
                continue
            elif scheme == "t2t" and isinstance(module, nn.Embedding):
                drawn.normal_(0.0, weight.shape[1] ** -0.5, generator=generator)
            else:
                bound = glorot_bound(weight, rows.get(module))
                drawn.uniform_(-bound, bound, generator=generator)
            weight.copy_(drawn)


def glorot_bound(weight: Tensor, rows: int | None = None) -> float:
    """sqrt(6 / (fan_in + fan_out)) of a matrix [out, in] or a filter [out, in, k]; `rows` instead of its own."""
    field = math.prod(weight.shape[2:])
    return math.sqrt(6.0 / (field * ((rows or weight.shape[0]) + weight.shape[1])))


def _joint_rows(model: nn.Module) -> dict[nn.Module, int]:
    """The rows of all matrices that a layer declares as `joint`, for each of them, where all map the same width."""
    rows: dict[nn.Module, int] = {}
    for layer in _layers(model):
        parts = [layer.get_submodule(name) for name in layer.joint]
        linears = [part for part in parts if isinstance(part, nn.Linear)]
        if len(linears) == len(parts) and len({part.in_features for part in linears}) == 1:
            rows |= dict.fromkeys(linears, sum(part.out_features for part in linears))
    return rows


def _by_fan_in(model: Model) -> dict[nn.Module, float]:
    """1 / sqrt(fan_in) of each matrix and filter of the chains that belongs to no recurrent cell."""
    in_cells = {m for layer in _layers(model) if layer.cell == OWN_CELL for m in layer.children()}
    in_cells |= {m for layer in _layers(model) if layer.cell == WHOLE_CELL for m in layer.modules()}
    inner = chain(model.encoder.modules(), model.decoder.modules())
    return {m: m.weight[0].numel() ** -0.5 for m in inner if isinstance(m, nn.Linear | nn.Conv1d) and m not in in_cells}


def _layers(model: nn.Module) -> Iterator[Layer]:
    return (module for module in model.modules() if isinstance(module, Layer))


def _own_parameters(model: nn.Module) -> Iterator[tuple[nn.Module, str, nn.Parameter]]:
    """Every parameter once, with the first module that holds it and its name there."""
    seen: set[nn.Parameter] = set()
    for module in model.modules():
        for name, weight in module.named_parameters(recurse=False):
            if weight not in seen:
                seen.add(weight)
                yield module, name, weight
