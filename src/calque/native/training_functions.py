"""The functions of training with their gradients, on tensors; `TrainingKernels` has what they compute."""

import ctypes
from ctypes import c_float, c_int64
from typing import Any, NamedTuple, cast

import torch
from jaxtyping import Float
from torch import Tensor
from torch.autograd.function import once_differentiable

from calque.native.training_calls import TYPES, Calls, address

LEVELS = 2**16
"""Probabilities of dropout are multiples of one in so many."""


def call(function: type[torch.autograd.Function], *values: Any) -> Tensor:
    """The result of a function with a gradient."""
    return cast("Tensor", function.apply(*values))  # type: ignore[no-untyped-call]  # torch leaves it untyped


def weight_gradient(
    calls: Calls, g: Float[Tensor, "*n E"], x: Float[Tensor, "*n D"], biased: bool, total: Tensor | None = None
) -> tuple[Tensor, Tensor | None]:
    """g^T x, added to `total` in place where it is given, and the sum of the rows of g where there is a bias."""
    g, x, out, width = g.contiguous(), x.contiguous(), g.shape[-1], x.shape[-1]
    fresh = g.new_empty if g.numel() else g.new_zeros
    d_weight = fresh(out, width) if total is None else total
    d_bias = fresh(out) if biased else None
    if not g.numel():
        return d_weight, d_bias
    calls.weight(
        *(g.data_ptr(), x.data_ptr(), TYPES[g.dtype], g.numel() // out, out, width),
        *(d_weight.data_ptr(), address(d_bias), total is not None, torch.get_num_threads()),
    )
    return d_weight, d_bias


class PackedMatrix(NamedTuple):
    """A matrix W [E, D] laid out for products with rows."""

    forward: Tensor
    back: Tensor
    out: int
    width: int
    calls: Calls

    def times(
        self, x: Float[Tensor, "*n D"], bias: Float[Tensor, " E"] | None, into: Tensor | None = None
    ) -> Float[Tensor, "*n E"]:
        """x W^T + b, written into a contiguous tensor where one is given."""
        return self._product(x, self.forward, self.width, self.out, bias, into)

    def gradient(self, g: Float[Tensor, "*n E"], into: Tensor | None = None) -> Float[Tensor, "*n D"]:
        """g W, likewise."""
        return self._product(g, self.back, self.out, self.width, None, into)

    def _product(
        self, x: Tensor, packed: Tensor, width: int, out: int, bias: Tensor | None, into: Tensor | None
    ) -> Tensor:
        x = x.contiguous()
        y = x.new_empty(*x.shape[:-1], out) if into is None else into
        self.calls.rows(
            *(x.data_ptr(), TYPES[x.dtype], x.numel() // width, packed.data_ptr(), address(bias), out, width),
            *(y.data_ptr(), torch.get_num_threads()),
        )
        return y


class _LstmShape(ctypes.Structure):
    _fields_ = (("rows", c_int64), ("width", c_int64), ("driven_next", c_int64), ("forget", c_float))


class Lstm(torch.autograd.Function):
    """The cell of an LSTM."""

    @staticmethod
    def forward(
        ctx: Any, driven: Tensor, pushed: Tensor, c: Tensor, forget: float, calls: Calls
    ) -> tuple[Tensor, Tensor]:
        ctx.set_materialize_grads(False)
        driven = driven if driven.stride(1) == 1 else driven.contiguous()
        pushed, c = pushed.contiguous(), c.contiguous()
        h, after, gates = pushed.new_empty(c.shape), torch.empty_like(c), torch.empty_like(pushed)
        ctx.shape, ctx.calls = _LstmShape(*c.shape, driven.stride(0), forget), calls
        calls.lstm(
            *(ctypes.addressof(ctx.shape), TYPES[pushed.dtype], driven.data_ptr(), pushed.data_ptr(), c.data_ptr()),
            *(h.data_ptr(), after.data_ptr(), gates.data_ptr(), torch.get_num_threads()),
        )
        ctx.save_for_backward(c, after, gates)
        return h, after

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, d_h: Tensor | None, d_after: Tensor | None) -> tuple[Tensor | None, ...]:
        c, after, gates = ctx.saved_tensors
        d_h = None if d_h is None else d_h.contiguous()
        d_after = None if d_after is None else d_after.contiguous()
        d_gates, d_c = torch.empty_like(gates), torch.empty_like(c)
        ctx.calls.lstm_back(
            *(ctypes.addressof(ctx.shape), TYPES[gates.dtype], address(d_h), address(d_after), c.data_ptr()),
            *(after.data_ptr(), gates.data_ptr(), d_gates.data_ptr(), d_c.data_ptr(), torch.get_num_threads()),
        )
        return d_gates, d_gates, d_c, None, None


class Linear(torch.autograd.Function):
    """x W^T + b; with a draw, a seed and how many of `LEVELS` are dropped, dropout of max(0, x W^T + b)."""

    @staticmethod
    def forward(
        ctx: Any, x: Tensor, weight: Tensor, bias: Tensor | None, draw: tuple[int, int] | None, calls: Calls
    ) -> Tensor:
        x = x.contiguous()
        ctx.biased, ctx.calls, ctx.draw = bias is not None, calls, draw
        out, width = weight.shape
        y = x.new_empty(*x.shape[:-1], out)
        calls.product(
            *(x.data_ptr(), TYPES[x.dtype], x.numel() // width, weight.data_ptr(), address(bias), out, width, False),
            *(draw is not None, *(draw or (0, 0)), y.data_ptr(), torch.get_num_threads()),
        )
        ctx.save_for_backward(x, weight, None if draw is None else y)
        return y

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, g: Tensor) -> tuple[Tensor | None, ...]:
        x, weight, y = ctx.saved_tensors
        calls, threads = ctx.calls, torch.get_num_threads()
        (out, width), g = weight.shape, g.contiguous()
        if y is not None:
            g = drop_relu_back(calls, g, y, ctx.draw[1])
        d_x = d_weight = d_bias = None
        if ctx.needs_input_grad[0]:
            d_x = torch.empty_like(x)
            rows = TYPES[x.dtype], x.numel() // width, weight.data_ptr(), None, out, width, True
            calls.product(g.data_ptr(), *rows, False, 0, 0, d_x.data_ptr(), threads)
        biased = ctx.biased and ctx.needs_input_grad[2]
        if ctx.needs_input_grad[1]:
            d_weight, d_bias = weight_gradient(calls, g, x, biased)
        elif biased:
            d_bias = g.view(-1, out).sum(0)
        return d_x, d_weight, d_bias, None, None


def drop_relu_back(calls: Calls, g: Tensor, y: Tensor, dropped: int) -> Tensor:
    """The gradient behind dropout of max(0, .), whose result is y: positive where the number is and where it was kept."""
    d_x = torch.empty_like(g)
    scale = LEVELS / (LEVELS - dropped)
    calls.drop_relu_back(
        *(g.data_ptr(), y.data_ptr(), TYPES[g.dtype], g.numel(), scale, d_x.data_ptr()),
        torch.get_num_threads(),
    )
    return d_x


class Drop(torch.autograd.Function):
    """Dropout, whose gradient draws the same numbers again."""

    @staticmethod
    def forward(ctx: Any, x: Tensor, seed: int, dropped: int, calls: Calls) -> Tensor:
        ctx.draw = seed, dropped, calls
        return _dropped(x, *ctx.draw)

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, g: Tensor) -> tuple[Tensor, None, None, None]:
        return _dropped(g, *ctx.draw), None, None, None


def _dropped(x: Tensor, seed: int, dropped: int, calls: Calls, out: Tensor | None = None) -> Tensor:
    x = x.contiguous()
    y = torch.empty_like(x) if out is None else out
    calls.drop(
        *(x.data_ptr(), TYPES[x.dtype], x.numel(), seed, dropped, out is not None),
        *(y.data_ptr(), torch.get_num_threads()),
    )
    return y


class DropRelu(torch.autograd.Function):
    """Dropout of max(0, x), in place."""

    @staticmethod
    def forward(ctx: Any, x: Tensor, seed: int, dropped: int, calls: Calls) -> Tensor:
        assert x.is_contiguous()
        ctx.mark_dirty(x)
        ctx.dropped, ctx.calls = dropped, calls
        _dropped(x, seed, dropped, calls, x)
        ctx.save_for_backward(x)
        return x

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, g: Tensor) -> tuple[Tensor, None, None, None]:
        (y,) = ctx.saved_tensors
        return drop_relu_back(ctx.calls, g.contiguous(), y, ctx.dropped), None, None, None


class Norm(torch.autograd.Function):
    """Layer norm."""

    @staticmethod
    def forward(ctx: Any, x: Tensor, gain: Tensor, shift: Tensor, epsilon: float, calls: Calls) -> Tensor:
        x = x.contiguous()
        width = x.shape[-1]
        rows = x.numel() // width
        y, kept = torch.empty_like(x), torch.empty(rows, 2, dtype=torch.float32, device=x.device)
        calls.norm(
            *(x.data_ptr(), TYPES[x.dtype], rows, width, gain.data_ptr(), shift.data_ptr(), epsilon),
            *(y.data_ptr(), kept.data_ptr(), torch.get_num_threads()),
        )
        ctx.save_for_backward(x, gain, kept)
        ctx.calls = calls
        return y

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, g: Tensor) -> tuple[Tensor | None, ...]:
        x, gain, kept = ctx.saved_tensors
        g = g.contiguous()
        d_x, d_gain, d_shift = torch.empty_like(x), torch.empty_like(gain), torch.empty_like(gain)
        ctx.calls.norm_back(
            *(g.data_ptr(), x.data_ptr(), kept.data_ptr(), TYPES[x.dtype], len(kept), x.shape[-1], gain.data_ptr()),
            *(d_x.data_ptr(), d_gain.data_ptr(), d_shift.data_ptr(), torch.get_num_threads()),
        )
        return d_x, d_gain, d_shift, None, None
