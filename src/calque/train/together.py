"""Many weights at a time, as accelerators want them: a kernel for each takes longer to start than to run."""

import math
from collections.abc import Iterator, Mapping

import torch
from torch import Tensor

TOGETHER = 1 << 25
"""Numbers of matrices of one shape that are updated at a time on an accelerator, each of which takes some 20 bytes meanwhile."""


def norm_together(gradients: list[Tensor]) -> float:
    """The norm of all numbers, at least one, summed in float32 at least."""
    norms = torch._foreach_norm(gradients, 2, dtype=torch.promote_types(gradients[0].dtype, torch.float32))
    return float(torch.linalg.vector_norm(torch.stack(norms)))


def widened(gradients: Mapping[str, Tensor], masters: Mapping[str, Tensor]) -> dict[str, Tensor]:
    """The gradients, each in the type of its weight."""
    wide = {name: torch.empty_like(masters[name]) for name, g in gradients.items() if g.dtype != masters[name].dtype}
    if wide:
        torch._foreach_copy_(list(wide.values()), [gradients[name] for name in wide])
    return {name: wide[name] if name in wide else g.contiguous() for name, g in gradients.items()}


def of_one_shape(matrices: Mapping[str, Tensor]) -> Iterator[list[str]]:
    """The names of matrices of one shape, of at most `TOGETHER` numbers unless one alone has more."""
    by_shape: dict[torch.Size, list[str]] = {}
    for name, matrix in matrices.items():
        by_shape.setdefault(matrix.shape, []).append(name)
    for shape, names in by_shape.items():
        most = max(1, TOGETHER // math.prod(shape))
        yield from (names[k : k + most] for k in range(0, len(names), most))
