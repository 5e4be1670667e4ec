"""The fixed weights of You 2020, and what the layers share that attend with them."""

import math
from dataclasses import dataclass
from typing import ClassVar

import torch
from jaxtyping import Float
from torch import Tensor, nn

from calque.adl.signature import Flag, Int, Real, Setting, Word, arg
from calque.layers.contract import Fault, Layer, Parts, Site
from calque.layers.projections import Projection

FORMS = ("gauss", "conv", "index")
DEVIATIONS = 9
"""Weights this many deviations from their centre, and further ones, are left out: none exceeds 1.1e-18 / sigma."""


def weigh(x: Float[Tensor, "*n"], form: str, sigma: float, reach: int) -> Float[Tensor, "*n"]:
    """w(x), the weight at a distance of x positions from where a head looks, in the type of x.

    gauss  w(x) = exp(-x^2 / (2 sigma^2)) / (sigma sqrt(2 pi)), the density, which equation 2 gives a standard deviation named
           sigma^2; 0 for |x| >= 9 sigma
    conv   the same weights for |x| <= reach alone (section 6.3; reach 1 is its window of 3)
    index  w(0) = 1 alone (section 6.3)
    """
    if form == "index":
        return (x == 0).to(x.dtype)
    w = torch.exp(-(x**2) / (2 * sigma**2)) / (sigma * math.sqrt(2 * math.pi))
    return w * (x.abs() <= reach if form == "conv" else x.abs() < DEVIATIONS * sigma)


def inverse(mass: Float[Tensor, "*n"]) -> Float[Tensor, "*n"]:
    """What weights of this sum are multiplied with, so that they sum to one; 0 where there are none."""
    return torch.where(mass > 0, 1 / mass, 0.0)


@dataclass(frozen=True)
class FixedArgs:
    """The arguments of every attention with fixed weights; they come first."""

    offsets: tuple[int, ...] = arg(
        Int(-1023, 1023, many=True),
        doc="where each head looks, relative to its centre: its position, over the source gamma i; one or more",
        known_as=("centers", "positions"),
    )
    width: int = arg(Int(), Setting("d"), "width of the projected values of all heads together, and of W_o's output")
    form: str = arg(Word(choices=FORMS), "gauss", "what the weights are")
    sigma: float = arg(
        Real(0.1, 100.0),
        1.0,
        "gauss and conv: the deviation, in positions",
        known_as=("std",),
        only=("form", ("gauss", "conv")),
    )
    reach: int = arg(
        Int(0, 1023), 1, "conv: how far from a centre there are weights, in positions", only=("form", ("conv",))
    )
    project: bool = arg(Flag(), True, "project the values with W_v; otherwise they are the input")
    out: bool = arg(Flag(), True, "project the contexts with W_o")
    renorm: bool = arg(
        Flag(),
        False,
        "make the weights that a position can use sum to one",
        later=True,
        only=("form", ("gauss", "conv")),
    )

    @property
    def furthest(self) -> int:
        """The largest whole distance with a weight."""
        if self.form == "gauss":
            return math.ceil(DEVIATIONS * self.sigma) - 1
        return self.reach if self.form == "conv" else 0

    def weights(self, distance: Float[Tensor, "*n"]) -> Float[Tensor, "*n"]:
        """The weights at these distances from where the heads look."""
        return weigh(distance, self.form, self.sigma, self.reach)

    def value_width(self, read: int) -> int:
        """The width of the values of all heads together, made of what is `read` wide."""
        return self.width if self.project else read

    def projections(self, read: int) -> tuple[int, int]:
        """The sizes of W_v and W_o, 0 where there is none."""
        values = self.value_width(read)
        return read * values * self.project, values * self.width * self.out

    def width_out(self, read: int) -> int:
        """The width of what the heads give. Raises `Fault` C205 where they do not divide the width of the values."""
        values = self.value_width(read)
        if values % len(self.offsets):
            raise Fault("C205", "offsets", heads=len(self.offsets), width=values)
        return self.width if self.out else values


class FixedAttention(Layer):
    """An attention with weights that follow from positions alone, over what is `read` wide: W_v, W_o and their widths."""

    fixed: ClassVar[bool] = True

    def __init__(self, args: FixedArgs, site: Site, parts: Parts, read: int):
        super().__init__(args, site, parts)
        values = args.value_width(read)
        self.v = Projection(read, values, bias=False) if args.project else nn.Identity()
        self.out = Projection(values, args.width, bias=False) if args.out else nn.Identity()
