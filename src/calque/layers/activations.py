"""The non-linearities, by the word that names them. Functions only; the layers that use them import this table."""

from collections.abc import Callable

import torch
from torch import Tensor
from torch.nn import functional as F


def glu(x: Tensor) -> Tensor:
    """glu([a; b]) = a * sigmoid(b), half as wide (Dauphin et al. 2016; Domhan 2018, section 2.3)."""
    a, b = x.chunk(2, -1)
    return a * torch.sigmoid(b)


POINTWISE = ("relu", "tanh", "sigmoid", "gelu", "gelu_tanh", "silu", "relu2")
"""Those that keep the width: numbers in, as many numbers out."""

ACTIVATIONS: dict[str, Callable[[Tensor], Tensor]] = {
    "relu": torch.relu,
    "tanh": torch.tanh,
    "sigmoid": torch.sigmoid,
    "gelu": F.gelu,
    "gelu_tanh": lambda x: F.gelu(x, approximate="tanh"),
    "silu": F.silu,
    "relu2": lambda x: torch.relu(x).square(),
    "glu": glu,
    "id": lambda x: x,
}
