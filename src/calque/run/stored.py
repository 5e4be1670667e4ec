"""The weights of a run in fewer bytes: what a run folder to translate with may hold in place of numbers in float32."""

from collections.abc import Collection, Mapping

import torch
from torch import Tensor

from calque.native.packed import quantised

PRECISIONS = ("float32", "bfloat16", "int8")
STEP = ":step"
"""Behind the name of a matrix in int8: the size of a step, for each of its rows. No attribute can be named so."""
LEAST = 4096
"""Numbers of the smallest matrix that is stored in fewer bytes: others are few bytes, and their numbers matter more."""


def stored(weights: Mapping[str, Tensor], matrices: Collection[str], precision: str) -> dict[str, Tensor]:
    """The weights by name, `matrices` in so many bytes, if they have rows and are large enough.

    int8: w_ij is stored as the nearest of -127 to 127 steps of its row, of max|w_i| / 127 each. Products in int8 use the same
    numbers (`calque.decode.prepare`), so that only what is no product, embeddings above all, is rounded for them here.
    """
    found: dict[str, Tensor] = {}
    for name, t in weights.items():
        t = t.detach()
        if precision == "float32" or name not in matrices or t.ndim < 2 or t.numel() < LEAST:
            found[name] = t
        elif precision == "bfloat16":
            found[name] = t.to(torch.bfloat16)
        else:
            levels, steps = quantised(t.flatten(1), short_sums=False)
            found[name], found[name + STEP] = levels.view(t.shape), steps[: len(t)].clone()
    return found


def restored(weights: Mapping[str, Tensor]) -> dict[str, Tensor]:
    """The weights by name as a model has them, of what `stored` gave; those in float32 as they are."""
    found: dict[str, Tensor] = {}
    for name, t in weights.items():
        if (steps := weights.get(name + STEP)) is not None:
            found[name] = (t.flatten(1) * steps[:, None]).view(t.shape)
        elif not name.endswith(STEP):
            found[name] = t.float() if t.dtype == torch.bfloat16 else t
    return found
