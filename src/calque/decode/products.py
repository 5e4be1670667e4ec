"""Matrix products for decoding: weights laid out once for the processor, in float32, bfloat16 or int8."""

import functools
from typing import ClassVar

import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor, nn
from torch.nn import functional as F

from calque.native.kernels import Best, Kernels, kernels
from calque.native.packed import LEVELS, TINY, WIDEST, PackedWeight
from calque.native.steps import Choosing

SIGN = 128
"""The zero point: oneDNN's fast path reads numbers from 0 to 255, which are int8 numbers with the sign bit flipped."""
PADDED = 5
MANY = 2048
"""Words among which one is found sooner by few exact products than by all of them."""
IN_FULL = 16
"""Steps of greedy search before a screen is made, about as many as it takes to save what making it costs."""


@functools.cache
def packing_works(dtype: torch.dtype) -> bool:
    """Whether this torch has oneDNN's packed products for `dtype` on this machine's processor."""
    try:
        if dtype == torch.int8:
            Int8(torch.ones(16, 16), None)(torch.ones(1, 16))
        else:
            Packed(torch.ones(16, 16, dtype=dtype), None)(torch.ones(1, 16, dtype=dtype))
    except (AttributeError, RuntimeError):
        return False
    return True


@functools.cache
def _saturates() -> bool:
    """Whether this processor's int8 products add pairs of terms in 16 bits, which the largest ones overflow.

    Those without VNNI do; `ONEDNN_MAX_CPU_ISA=AVX2` shows it on others.
    """
    x, w = torch.full((16, 64), 255, dtype=torch.uint8), torch.full((16, 64), LEVELS, dtype=torch.int8)
    packed, ones = torch.ops.onednn.qlinear_prepack(w, None), torch.ones(16)
    zero = torch.zeros(16, dtype=torch.int32)
    return any(bool((_int8_product(x[:rows], packed, ones, zero) != 64 * LEVELS * LEVELS).any()) for rows in (1, 5, 16))


def _int8_product(levels: Tensor, packed: Tensor, scale: Tensor, zero: Tensor) -> Tensor:
    y: Tensor = torch.ops.onednn.qlinear_pointwise(
        levels, 1.0, SIGN, packed, scale, zero, None, 1.0, 0, torch.float32, "none", [], ""
    )
    return y


class Product(nn.Module):
    """W x + b with fixed weights. With `keeps`, the plain `weight` is kept beside the packed one, for `rows_of`."""

    weight: Tensor | None
    bias: Tensor | None

    def __init__(self, weight: Float[Tensor, "E D"], bias: Float[Tensor, " E"] | None, keeps: bool = False):
        super().__init__()
        self.out_features, self.in_features = weight.shape
        self.register_buffer("bias", None if bias is None else bias.detach())
        self.register_buffer("weight", weight.detach() if keeps else None)


def rows_to_spare(rows: int) -> int:
    """The number of zero rows to append to the input of a product, so that at most 8 numbers of rows occur between powers of 2.

    oneDNN compiles code for every number of rows and caches a thousand of these, which take half a gigabyte. At most an eighth of
    the rows is appended, none up to 16.
    """
    return -rows % (1 << max(0, rows.bit_length() - 4))


class Packed(Product):
    """The product in the weights' own type, float32 or bfloat16, by oneDNN.

    On the processors measured this is 1.2 to 4 times as fast as the plain product of a few rows, which lays out its weights at
    every call.
    """

    def __init__(self, weight: Float[Tensor, "E D"], bias: Float[Tensor, " E"] | None, keeps: bool = False):
        super().__init__(weight, bias, keeps)
        # Not a buffer: an opaque tensor can neither be cast nor copied.
        self._packed = torch.ops.mkldnn._reorder_linear_weight(weight.detach().contiguous(), None)

    def forward(self, x: Float[Tensor, "... D"]) -> Float[Tensor, "... E"]:
        if x.dtype == torch.float32 and x.shape.numel() == x.shape[-1]:
            # oneDNN takes longer for one row than for a handful.
            return self._product(torch.cat([x] * PADDED, -2))[..., :1, :]
        rows = x.shape.numel() // x.shape[-1]
        spare = rows_to_spare(rows)
        if not spare:
            return self._product(x)
        return self._product(F.pad(x.reshape(rows, -1), (0, 0, 0, spare)))[:rows].view(*x.shape[:-1], -1)

    def _product(self, x: Tensor) -> Tensor:
        y: Tensor = torch.ops.mkldnn._linear_pointwise.default(x, self._packed, self.bias, "none", [], "")
        return y


class Int8(Product):
    """y_ij = r_i s_j sum_k X_ik Q_jk + b_j with X = round(x_i / r_i), Q = round(w_j / s_j), r_i = max|x_i| / 127, s_j likewise.

    Each row of the input has its own scale, and the sums are whole numbers: the result of a row does not depend on the other rows,
    or on their number, to the bit. Input and output are float32.
    """

    _zero: Tensor

    def __init__(self, weight: Float[Tensor, "E D"], bias: Float[Tensor, " E"] | None, keeps: bool = False):
        weight = weight.detach().float()
        super().__init__(weight, None if bias is None else bias.float(), keeps)
        scale = weight.abs().amax(1).clamp_(min=TINY) / LEVELS
        quantised = (weight / scale[:, None]).round_().to(torch.int8)
        self.register_buffer("_zero", torch.zeros(len(scale), dtype=torch.int32))
        # Half a weight is small enough for sums of 16 bits; its last bit, which halving loses, is a product of its own.
        parts = [(quantised >> 1, 2 * scale), (quantised & 1, scale)] if _saturates() else [(quantised, scale)]
        self._packed = [(torch.ops.onednn.qlinear_prepack(levels, None), step) for levels, step in parts]

    def forward(self, x: Float[Tensor, "... D"]) -> Float[Tensor, "... E"]:
        flat = x.reshape(-1, x.shape[-1])
        rows = len(flat)
        if spare := rows_to_spare(rows):
            flat = F.pad(flat, (0, 0, 0, spare))
        step = flat.abs().amax(1, keepdim=True).clamp_(min=TINY).mul_(1 / LEVELS)
        levels = (flat / step).round_().to(torch.int8).view(torch.uint8).bitwise_xor_(SIGN)  # moved up by 128
        y, *rest = (_int8_product(levels, packed, scale, self._zero) for packed, scale in self._packed)
        for more in rest:
            y.add_(more)
        y = y.mul_(step)[:rows]
        return (y if self.bias is None else y.add_(self.bias)).view(*x.shape[:-1], -1)


class Native(Product):
    """The product by a kernel of Calque's own: W x + b in sums of 32 bits, whatever the number of rows.

    A weight that is kept is read later, too, and must not be changed.

    float32   sums of single terms
    bfloat16  weights and inputs are rounded to bfloat16, sums are float32
    int8      y_ij as `Int8` computes it, for every number of rows; s_j as `calque.native.packed.quantised` has them
    """

    weights: ClassVar[torch.dtype]

    def __init__(self, weight: Float[Tensor, "E D"], bias: Float[Tensor, " E"] | None, keeps: bool = False):
        super().__init__(weight, None if bias is None else bias.float(), keeps)
        found = kernels()
        if found is None:
            raise RuntimeError("there are no kernels for this processor")
        self.kernels: Kernels = found
        # Not buffers: they can neither be cast nor copied to another device.
        self._packed = found.pack(weight.detach(), self.weights)
        large = self.out_features >= MANY and self.in_features <= WIDEST
        self._unscreened = self.weight if large and self.weights != torch.int8 else None
        self._in_full = IN_FULL

    def forward(self, x: Float[Tensor, "... D"]) -> Float[Tensor, "... E"]:
        return self.kernels.product(x, self._packed, self.bias)

    def best(
        self,
        x: Float[Tensor, "R D"],
        n: int,
        first: int,
        end: int,
        reward: float,
        total: bool,
        forbidden: Bool[Tensor, "S E"] | None,
    ) -> Best:
        """The n best of the output, see `Kernels.best`."""
        weight = self._searched(1, n, total)
        return self.kernels.best(x, weight, self.bias, n, first, end, reward, total, forbidden)

    def choosing(self, first: int, end: int, n: int, reward: float, total: bool) -> Choosing:
        """How steps choose the n best of the output."""
        return Choosing(self._searched(IN_FULL, n, total), self.bias, n, first, end, reward, total)

    def _searched(self, steps: int, n: int, total: bool) -> PackedWeight:
        """The weight for so many steps of a search, with a screen where one word is wanted without sums, as long as that pays."""
        weight, packed = self._unscreened, self._packed
        if total or n > 1:
            return packed
        if packed.screen is not None and not packed.screen.pays:
            self._packed = packed._replace(screen=None)
        if weight is None:
            return self._packed
        if self._in_full > 0:
            self._in_full -= steps
        else:
            self._packed, self._unscreened = self.kernels.screened(packed, weight, self.bias), None
        return self._packed


class NativeFloat32(Native):
    """The product in float32."""

    weights = torch.float32


class NativeBfloat16(Native):
    """The product in bfloat16."""

    weights = torch.bfloat16


class NativeInt8(Native):
    """The product in int8."""

    weights = torch.int8


def rows_of(product: nn.Module, rows: Int[Tensor, " n"]) -> nn.Module:
    """The part of a product, packed or not, that computes these rows of its output, in order."""
    weight, bias = product.weight, product.bias
    if not isinstance(weight, Tensor):
        raise ValueError("a product that does not keep its weight has no rows to take")
    part = weight[rows], None if not isinstance(bias, Tensor) else bias[rows]
    return type(product)(*part) if isinstance(product, Product) else Plain(*part)


class Plain(Product):
    """The product as torch has it."""

    def __init__(self, weight: Float[Tensor, "E D"], bias: Float[Tensor, " E"] | None, keeps: bool = True):
        super().__init__(weight, bias, True)

    def forward(self, x: Float[Tensor, "... D"]) -> Float[Tensor, "... E"]:
        return F.linear(x, self.get_buffer("weight"), self.bias)
