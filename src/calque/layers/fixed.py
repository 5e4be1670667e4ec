"""The fixed weights of You 2020: what a position weighs at some distance from where a head looks."""

import math

import torch
from jaxtyping import Float
from torch import Tensor

FORMS = ("gauss", "conv", "index")
DEVIATIONS = 9
"""Weights this many deviations from their centre, and further ones, are left out: none exceeds 1.1e-18 / sigma."""


def furthest(form: str, sigma: float, reach: int) -> int:
    """The largest whole distance with a weight."""
    if form == "gauss":
        return math.ceil(DEVIATIONS * sigma) - 1
    return reach if form == "conv" else 0


def weigh(x: Float[Tensor, "*n"], form: str, sigma: float, reach: int) -> Float[Tensor, "*n"]:
    """w(x), in the type of x.

    gauss  w(x) = exp(-x^2 / (2 sigma^2)) / (sigma sqrt(2 pi)), the density, which equation 2 gives a standard deviation named
           sigma^2
    conv   the same weights for |x| <= reach alone (section 6.3; reach 1 is its window of 3)
    index  w(0) = 1 alone (section 6.3)
    """
    if form == "index":
        return (x == 0).to(x.dtype)
    w = torch.exp(-(x**2) / (2 * sigma**2)) / (sigma * math.sqrt(2 * math.pi))
    return w * (x.abs() <= reach if form == "conv" else x.abs() < DEVIATIONS * sigma)
