"""Weights in the order in which the kernels read them, and what finds the best of their rows by few exact products."""

import ctypes
import math
from collections.abc import Iterator
from ctypes import c_float, c_int64, c_void_p
from typing import NamedTuple, Self

import torch
from jaxtyping import Float, Int8, Int64
from torch import Tensor
from torch.nn import functional as F

from calque.native.training_calls import address

STRIP = 16
"""What the numbers of scales and sums are a multiple of: those of the widest vector."""
LEVELS = 127
"""Steps of an int8 number on each side of zero."""
FOUR_LEVELS = 126
"""What the sizes of four weights of int8 come to at most where their products are added up in 16 bits, before they are rounded:
255 (126 + 4/2) < 2^15."""
TINY = 1e-30
"""The least scale of a row, so that one of zeros has one."""
_LINE, _PAGE = 64, 4096
"""What packed weights begin at multiples of: those of int8 at a page, since one strip of 512 numbers is as long."""
WIDEST = 2**31 // LEVELS**2
TYPES = {torch.float32: 4, torch.bfloat16: 2}
"""Of inputs and outputs, with the bytes of a number."""
_AT_A_TIME = 1 << 17
"""Numbers of a weight that are computed together."""


def beginning(item: int) -> int:
    """What the address of packed weights with so many bytes each is a multiple of."""
    return _PAGE if item == 1 else _LINE


def _in_parts(weight: Float[Tensor, "E D"]) -> Iterator[tuple[slice, Float[Tensor, "e D"]]]:
    """Some rows at a time, in float32: so few that what is computed of them stays in a cache."""
    some = max(1, _AT_A_TIME // max(1, weight.shape[1]))
    for first in range(0, len(weight), some):
        rows = slice(first, first + some)
        yield rows, weight[rows].float()


def quantised(weight: Float[Tensor, "E D"], short_sums: bool) -> tuple[Int8[Tensor, "E D"], Float[Tensor, " F"]]:
    """The weights in int8, and the scale of each row, max|w_j| / 127: as many as whole strips have.

    With `short_sums`, a row has a larger scale if some four of its weights are too large together.
    """
    levels = torch.empty(weight.shape, dtype=torch.int8)
    scales = torch.zeros(-(-len(weight) // STRIP) * STRIP, dtype=torch.float32)
    for rows, part in _in_parts(weight):
        sizes = part.abs()
        scale = sizes.amax(1).clamp_(min=TINY) / LEVELS
        if short_sums:
            # The pairs of every two times four neighbours: of 8 j to 8 j + 7 those at 0, 1, 4 and 5, and at 2, 3, 6 and 7.
            fours = F.pad(sizes, (0, -sizes.shape[1] % 8)).view(len(sizes), -1, 2, 2, 2).sum((2, 4))
            scale = torch.maximum(scale, fours.amax((1, 2)) / FOUR_LEVELS)
        scales[: len(weight)][rows] = scale
        levels[rows] = (part / scale[:, None]).round_()
    return levels, scales


class PackedWeight(NamedTuple):
    """Weights [E, D] in the order in which the kernels read them; int8 ones with a scale for each row."""

    data: Tensor
    scale: Tensor | None
    sums: Tensor | None
    out: int
    width: int
    item: int
    screen: "Screen | None" = None

    @property
    def addresses(self) -> tuple[int, int, int | None, int | None]:
        return self.data.data_ptr(), self.item, address(self.scale), address(self.sums)

    def fitting(self, x: Tensor, bias: Tensor | None) -> tuple[Tensor, Tensor | None]:
        """Rows and bias side by side, in types that the kernels multiply with these weights: they see addresses alone.

        A model may have been moved to another type, or run within `torch.autocast`. Raises `ValueError` for other sizes.
        """
        if x.shape[-1] != self.width:
            raise ValueError(f"rows of {x.shape[-1]} numbers, a matrix for {self.width}")
        if bias is not None and bias.numel() != self.out:
            raise ValueError(f"a bias of {bias.numel()} numbers, a matrix of {self.out} rows")
        narrow = x.dtype not in TYPES or (self.item == 4 and x.dtype != torch.float32)
        return (x.float() if narrow else x).contiguous(), None if bias is None else bias.float().contiguous()


class SeenScreen(ctypes.Structure):
    """A `Screen` as the kernels see it, while its tensors are kept."""

    _fields_ = (
        *((name, c_void_p) for name in ("data", "scale", "sums", "terms")),
        ("line", c_int64),
        ("words", c_void_p),
        ("tally", c_void_p),
        ("largest", c_float * 3),
    )


class Screen(NamedTuple):
    """Bounds of the exact products of a weight by those in int8, which leave few words that may be the best: see `screened.h`.

    For w = w' + e, of which int8 holds w', the lines of `terms` have |w'|, |e| and 2^-21 |b| of each word. What sums in float32
    round is counted as a part of |e|: at most (D + 32) 2^-23 |w|, twice what D sums of ordinary products can. Where AMX splits
    float32, five of the six products of a term are small, and so is what their sums round.
    """

    rough: PackedWeight
    exact: Float[Tensor, "E D"]
    terms: Float[Tensor, "3 F"]
    largest: tuple[float, ...]
    """of each line"""
    tally: Int64[Tensor, "3"]
    """rows so far, those that were multiplied with all words, and how many words were left to the others"""

    @classmethod
    def of(
        cls,
        rough: PackedWeight,
        levels: Int8[Tensor, "E D"],
        exact: Float[Tensor, "E D"],
        bias: Float[Tensor, " E"] | None,
    ) -> Self | None:
        """Of a weight as it is multiplied exactly, and of the same in int8; None where some numbers are not finite."""
        assert rough.scale is not None
        out, width = exact.shape
        terms = torch.zeros(3, len(rough.scale), dtype=torch.float32)
        for rows, weight in _in_parts(exact):
            held = levels[rows] * rough.scale[:out][rows, None]
            # Squares of small numbers are smaller than float32 has.
            size, lost, whole = (x.norm(dim=1, dtype=torch.float64) for x in (held, weight - held, weight))
            terms[0, :out][rows], terms[1, :out][rows] = size, lost + (width + 32) * 2**-23 * whole
        if bias is not None:
            terms[2, :out] = bias.float().abs() * 2**-21
        terms.mul_(1.0001)  # they are rounded, too
        largest = tuple(terms.amax(1).tolist())
        if not all(map(math.isfinite, largest)):
            return None
        return cls(rough, exact.contiguous(), terms, largest, torch.zeros(3, dtype=torch.int64))

    @property
    def seen(self) -> SeenScreen:
        data, _, scale, sums = self.rough.addresses
        terms, words, tally = (x.data_ptr() for x in (self.terms, self.exact, self.tally))
        return SeenScreen(data, scale, sums, terms, self.terms.shape[1], words, tally, (c_float * 3)(*self.largest))

    @property
    def pays(self) -> bool:
        """Whether most rows so far were spared most words; those of some models are not, as where a few numbers are far larger."""
        rows, whole, _ = self.tally.tolist()
        return bool(2 * whole <= rows)
