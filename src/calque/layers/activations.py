"""The non-linearities, by the word that names them. Functions only; the layers that use them import this table."""

from collections.abc import Callable

import torch
from torch import Tensor
from torch.nn import functional as F


def glu(x: Tensor) -> Tensor:
    """glu([a; b]) = a * sigmoid(b), half as wide (Dauphin et al. 2016; Domhan 2018, section 2.3)."""
    a, b = x.chunk(2, -1)
    return a * torch.sigmoid(b)


ACTIVATIONS: dict[str, Callable[[Tensor], Tensor]] = {
    "relu": torch.relu,
    "tanh": torch.tanh,
    "sigmoid": torch.sigmoid,
    "gelu": F.gelu,
    "glu": glu,
    "id": lambda x: x,
}
