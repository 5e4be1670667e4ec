"""Muon (Jordan et al. 2024): the mean gradient of a matrix, made nearly orthogonal."""

import math

import torch
from jaxtyping import Float
from torch import Tensor

from calque.native.build import available

MOMENTUM, NEWTON_SCHULZ, NEWTON_SCHULZ_STEPS = 0.95, (3.4445, -4.775, 2.0315), 5
"""The decay of the mean, and the polynomial, as their authors have them."""
EPSILON = 1e-7
"""What a norm is at least, before numbers are divided by it."""


def has_kernel() -> bool:
    """Whether this machine has, or can compile, a kernel for it. Without one, and without products in bfloat16, it takes most
    of an update."""
    return bool(available())


def muon_rate(lr: float, shape: torch.Size) -> float:
    """lr 0.2 sqrt(max(E, D)) for a matrix [E, D]: steps as large as Adam's (Liu et al. 2025, section 2.2)."""
    return lr * 0.2 * math.sqrt(max(shape[0], math.prod(shape[1:])))


def muon(
    weights: Float[Tensor, "E D"], gradient: Float[Tensor, "E D"], mean: Float[Tensor, "E D"], rate: float, kept: float
) -> None:
    """B = 0.95 B + 0.05 g; w = kept w - rate O, O near the orthogonal part of 0.05 g + 0.95 B. Changes w and B in place."""
    mean.lerp_(gradient, 1 - MOMENTUM)
    weights.mul_(kept).add_(orthogonal(gradient.lerp(mean, MOMENTUM)), alpha=-rate)


def muon_together(
    weights: list[Tensor], gradients: list[Tensor], means: list[Tensor], rate: float, kept: float
) -> None:
    """`muon` for matrices of one shape, in as many kernels as for one."""
    torch._foreach_lerp_(means, gradients, 1 - MOMENTUM)
    steps = orthogonal(torch.stack(torch._foreach_lerp(gradients, means, MOMENTUM)))
    torch._foreach_mul_(weights, kept)
    torch._foreach_add_(weights, steps.unbind(), alpha=-rate)


def orthogonal(x: Float[Tensor, "*N E D"]) -> Float[Tensor, "*N E D"]:
    """X / |X|, whose singular values five steps of X = a X + (b X X^T + c (X X^T)^2) X bring near one; of a matrix or of N.

    The authors compute in bfloat16, and so does this on an accelerator. On a processor it is float32: where vectors have less
    than 512 bits, torch multiplies bfloat16 number by number.
    """
    a, b, c = NEWTON_SCHULZ
    product = torch.addmm if x.dim() == 2 else torch.baddbmm
    tall = x.shape[-2] > x.shape[-1]
    y = x.mT if tall else x
    y = y / torch.linalg.matrix_norm(y, keepdim=True).clamp_(min=EPSILON)
    y = y if x.device.type == "cpu" else y.bfloat16()
    for _ in range(NEWTON_SCHULZ_STEPS):
        gram = y @ y.mT
        y = product(y, product(gram, gram, gram, beta=b, alpha=c), y, beta=a)
    return (y.mT if tall else y).to(x.dtype)
