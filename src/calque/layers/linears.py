"""Linear maps made of others: what layers fuse their products with. The results have no gradients."""

import torch
from torch import Tensor, nn


def linear_of(weight: Tensor, bias: Tensor | None) -> nn.Linear:
    """The map W x + b."""
    made = nn.Linear(weight.shape[1], weight.shape[0], bias is not None, device="meta")
    made.weight = nn.Parameter(weight.detach(), requires_grad=False)
    if bias is not None:
        made.bias = nn.Parameter(bias.detach(), requires_grad=False)
    return made


def scaled(linear: nn.Linear, factor: float) -> nn.Linear:
    """factor * (W x + b) as one product."""
    return linear_of(linear.weight * factor, None if linear.bias is None else linear.bias * factor)


def stacked(*linears: nn.Linear) -> nn.Linear:
    """[W_1 x + b_1; ...; W_p x + b_p] as one product. All of them have a bias, or none."""
    weights: list[Tensor] = [linear.weight for linear in linears]
    biases: list[Tensor] = [linear.bias for linear in linears if linear.bias is not None]
    return linear_of(torch.cat(weights), torch.cat(biases) if biases else None)
