"""Bounds of rounding errors, from the type, the length of a sum and the sizes of its terms (Higham 2002, chapters 2 and 3).

They hold for every order of summation, with fused multiplication and addition or without, and so on every processor.
"""

import math

import torch
from torch import Tensor
from torch.nn import functional as F

INT8_LEVELS = 127
"""An int8 number is rounded to a multiple of the largest of its row, divided by this."""


def unit(dtype: torch.dtype) -> float:
    """The unit roundoff: the largest relative error of rounding one number to `dtype`."""
    return torch.finfo(dtype).eps / 2


def gamma(n: int, dtype: torch.dtype) -> float:
    """The largest relative error of `n` roundings in a row, n u / (1 - n u)."""
    return n * unit(dtype) / (1 - n * unit(dtype))


def product_bound(x: Tensor, w: Tensor, b: Tensor | None = None, result: torch.dtype = torch.float32) -> Tensor:
    """How far W x + b may be from its exact value if its sums are made in float32 and rounded once to `result`.

    |error| <= gamma_{n+1} (|W| |x| + |b|) for a sum of n products and a bias; the last rounding is relative to the result.
    """
    sizes = F.linear(x.double().abs(), w.double().abs(), None if b is None else b.double().abs())
    bound = gamma(x.shape[-1] + (b is not None), torch.float32) * sizes
    if result == torch.float32:
        return bound
    return bound + unit(result) * (exact_product(x, w, b).abs() + bound)


def exact_product(x: Tensor, w: Tensor, b: Tensor | None = None) -> Tensor:
    return F.linear(x.double(), w.double(), None if b is None else b.double())


def network_bound(roundings: int, relative: float) -> float:
    """The largest error of an output of a network, relative to the root mean square of all outputs.

    `roundings` independent errors of this relative size add in squares; no output is expected beyond 4 deviations.
    """
    return 4 * math.sqrt(roundings) * relative


def narrow(t: Tensor, bits: int) -> Tensor:
    """`t` rounded to so many significant bits."""
    mantissa, exponent = torch.frexp(t.double())
    return torch.ldexp((mantissa * 2**bits).round() / 2**bits, exponent).to(t.dtype)
