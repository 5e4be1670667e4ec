"""Making a trained model ready to decode."""

from typing import TypeVar

import torch
from torch import nn

M = TypeVar("M", bound=nn.Module)


def prepare_for_decoding(module: M, precision: str = "float32") -> M:
    """`module` itself, its weights cast once to `precision`, in evaluation mode, without gradients.

    It cannot be trained further: who needs the master weights keeps a copy.
    """
    kinds = {"float32": torch.float32, "bfloat16": torch.bfloat16}
    return module.to(kinds[precision]).eval().requires_grad_(False)
