"""The kernels of training as functions with gradients: passes that torch's operators would make many times over memory."""

import ctypes
import functools
from collections.abc import Sequence
from ctypes import c_double, c_float, c_int, c_int64, c_uint64, c_void_p
from typing import Any, NamedTuple, cast

import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor
from torch.autograd.function import once_differentiable

from calque.native.build import library
from calque.native.kernels import off
from calque.native.training_attention import TYPES, Attend, Plan

_PLAIN = (Tensor, torch.nn.Parameter)
LEVELS = 2**16
"""Probabilities of dropout are multiples of one in so many."""
DEEP = 32
"""What divides the widths of products."""
LONGEST = 512
"""Keys and queries of a sentence, over which attention is the work of products, not of passes."""


class Adam(ctypes.Structure):
    """With g the gradient over `divisor`: m = beta1 m + (1 - beta1) g, v = beta2 v + (1 - beta2) g^2, and
    w = kept w - rate m / (sqrt(v) / root + epsilon).
    """

    _fields_ = tuple((name, c_float) for name in ("divisor", "beta1", "beta2", "rate", "root", "epsilon", "kept"))


class LossSums(NamedTuple):
    """Sums over rows of logits: -log p of the targets, and of all words."""

    nll: float
    total: float


class TrainingKernels:
    """The compiled kernels of training."""

    def __init__(self, loaded: ctypes.CDLL):
        size, pointer = c_int64, c_void_p
        self._drop, self._drop_back = loaded.calque_drop, loaded.calque_drop_relu_back
        self._norm, self._norm_back = loaded.calque_training_norm, loaded.calque_norm_back
        self._attend, self._attend_back = loaded.calque_training_attend, loaded.calque_attend_back
        self._loss = loaded.calque_loss
        self._drop.argtypes = (pointer, c_int, size, c_uint64, size, c_int, pointer, c_int)
        self._drop_back.argtypes = (pointer, pointer, c_int, size, c_float, pointer, c_int)
        self._norm.argtypes = (pointer, c_int, size, size, pointer, pointer, c_float, pointer, pointer, c_int)
        self._norm_back.argtypes = (*(pointer,) * 3, c_int, size, size, *(pointer,) * 4, c_int)
        self._attend.argtypes = (pointer, c_int, *(pointer,) * 4, c_int)
        self._attend_back.argtypes = (pointer, c_int, *(pointer,) * 7, c_int)
        sums = ctypes.POINTER(c_double)
        self._loss.argtypes = (pointer, c_int, pointer, size, size, pointer, c_float, c_int, pointer, sums, c_int)
        functions: tuple[Any, ...] = (
            self._drop,
            self._drop_back,
            self._norm,
            self._norm_back,
            self._attend,
            self._attend_back,
        )
        self.multiplies = bool(loaded.calque_training_products())
        """Whether there are products in bfloat16."""
        if self.multiplies:
            self._forward, self._input = loaded.calque_training_forward, loaded.calque_training_input
            self._weight = loaded.calque_training_weight
            self._forward.argtypes = (pointer, size, pointer, pointer, size, size, pointer, c_int)
            self._input.argtypes = (pointer, size, pointer, size, size, pointer, c_int)
            self._weight.argtypes = (pointer, pointer, *(size,) * 3, pointer, pointer, c_int)
            functions = (*functions, self._forward, self._input, self._weight)
        self._squares, self._adam = loaded.calque_squares, loaded.calque_adam
        self._squares.argtypes = (pointer, c_int, size, c_int)
        self._adam.argtypes = (pointer, pointer, pointer, c_int, pointer, pointer, pointer, size, c_int)
        for function in (*functions, self._loss, self._adam):
            function.restype = None
        self._squares.restype = c_double

    def drop(self, x: Tensor, p: float, relu: bool = False) -> Tensor:
        """Each number of x, or of max(0, x), zero with probability p, else divided by 1 - p.

        With `relu` the result takes the place of x, which nothing else may need. What is kept follows from one draw of torch's
        generator; p is rounded to a multiple of 2^-16.
        """
        dropped = min(round(p * LEVELS), LEVELS - 1)
        if not dropped:
            return x.relu_() if relu else x
        seed = int(torch.randint(2**63 - 1, ()))
        return _call(_DropRelu if relu else _Drop, x, seed, dropped, self)

    def linear(
        self, x: Float[Tensor, "*n D"], weight: Float[Tensor, "E D"], bias: Tensor | None
    ) -> Float[Tensor, "*n E"] | None:
        """x W^T + b in bfloat16, widths multiples of 32; None where this kernel is not for them."""
        fit = self.multiplies and weight.is_contiguous() and not (weight.shape[0] % DEEP or weight.shape[1] % DEEP)
        return _call(_Linear, x, weight, bias, self) if fit else None

    def norm(self, x: Float[Tensor, "... D"], gain: Tensor, shift: Tensor, epsilon: float) -> Float[Tensor, "... D"]:
        """gain (x - mean) / sqrt(var + epsilon) + shift over the width."""
        return _call(_Norm, x, gain, shift, epsilon, self)

    def attend(
        self,
        parts: Sequence[Float[Tensor, "B _ _"]],
        widths: tuple[int, int, int],
        heads: int,
        scale: float,
        real: Bool[Tensor, "B S"] | None,
        causal: bool,
        shared: int | None = None,
    ) -> Float[Tensor, "B T HV"]:
        """softmax(scale q k^T) v of each head over the keys that are real, in a causal one up to its own position.

        `parts` are [q; k; v], q and [k; v], or q, k and v, of these `widths`. `shared`: heads of keys and values, each that of as
        many heads of queries in a row. A query that sees nothing takes the mean.
        """
        plan = Plan(widths, heads, shared or heads, scale, causal, self._attend, self._attend_back)
        return _call(Attend, plan, real, *parts)

    def loss(
        self,
        logits: Float[Tensor, "N V"],
        target: Int[Tensor, " N"],
        bias: Float[Tensor, " V"] | None,
        smoothing: float,
        d_bias: Float[Tensor, " V"] | None,
        needs: bool,
    ) -> LossSums:
        """Makes rows of logits, to which float32 `bias` is added, their gradients, where `needs`; adds up that of the bias."""
        sums = (c_double * 2)()
        self._loss(
            *(
                logits.data_ptr(),
                TYPES[logits.dtype],
                target.data_ptr(),
                *logits.shape,
                _address(bias),
                smoothing,
                needs,
            ),
            *(_address(d_bias), sums, torch.get_num_threads()),
        )
        return LossSums(*sums)

    def squares(self, x: Tensor) -> float:
        """The sum of the squares of all numbers."""
        x = x.contiguous()
        return float(self._squares(x.data_ptr(), TYPES[x.dtype], x.numel(), torch.get_num_threads()))

    def adam(
        self, how: Adam, weights: Tensor, gradient: Tensor, means: tuple[Tensor, Tensor], rounded: Tensor | None
    ) -> None:
        """A step of Adam, in place: `weights` and `means`, m and v, are float32; `rounded` becomes the weights in bfloat16."""
        gradient = gradient.contiguous()
        assert all(x.is_contiguous() for x in (weights, *means))
        self._adam(
            *(ctypes.addressof(how), weights.data_ptr(), gradient.data_ptr(), TYPES[gradient.dtype]),
            *(means[0].data_ptr(), means[1].data_ptr(), _address(rounded), weights.numel(), torch.get_num_threads()),
        )


def training_kernels() -> TrainingKernels | None:
    """The kernels for this processor; None where there are none."""
    return None if off() else _loaded()


def training_kernels_for(x: Tensor) -> TrainingKernels | None:
    """The kernels, where they can take x: float32 or bfloat16 on a processor, with gradients."""
    if x.dtype not in TYPES or x.device.type != "cpu" or not torch.is_grad_enabled() or type(x) not in _PLAIN:
        return None
    return training_kernels()


@functools.cache
def _loaded() -> TrainingKernels | None:
    found = library()
    return None if found is None else TrainingKernels(found[0])


def _call(function: type[torch.autograd.Function], *values: Any) -> Tensor:
    return cast("Tensor", function.apply(*values))  # type: ignore[no-untyped-call]  # torch leaves it untyped


def _address(x: Tensor | None) -> int | None:
    return None if x is None else x.data_ptr()


class _Linear(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, x: Tensor, weight: Tensor, bias: Tensor | None, kernels: TrainingKernels) -> Tensor:
        x = x.contiguous()
        ctx.save_for_backward(x, weight)
        ctx.biased, ctx.kernels = bias is not None, kernels
        out, width = weight.shape
        y = x.new_empty(*x.shape[:-1], out)
        kernels._forward(
            *(x.data_ptr(), x.numel() // width, weight.data_ptr(), _address(bias), out, width),
            *(y.data_ptr(), torch.get_num_threads()),
        )
        return y

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, g: Tensor) -> tuple[Tensor | None, ...]:
        x, weight = ctx.saved_tensors
        kernels, threads = ctx.kernels, torch.get_num_threads()
        (out, width), g = weight.shape, g.contiguous()
        rows = x.numel() // width
        d_x = d_weight = d_bias = None
        if ctx.needs_input_grad[0]:
            d_x = torch.empty_like(x)
            kernels._input(g.data_ptr(), rows, weight.data_ptr(), out, width, d_x.data_ptr(), threads)
        if ctx.needs_input_grad[1]:
            d_weight = torch.empty_like(weight)
            d_bias = weight.new_empty(out) if ctx.biased else None
            sizes = rows, out, width
            kernels._weight(g.data_ptr(), x.data_ptr(), *sizes, d_weight.data_ptr(), _address(d_bias), threads)
        return d_x, d_weight, d_bias, None


class _Drop(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, x: Tensor, seed: int, dropped: int, kernels: TrainingKernels) -> Tensor:
        ctx.draw = seed, dropped, kernels
        return _dropped(x, *ctx.draw)

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, g: Tensor) -> tuple[Tensor, None, None, None]:
        return _dropped(g, *ctx.draw), None, None, None


def _dropped(x: Tensor, seed: int, dropped: int, kernels: TrainingKernels, out: Tensor | None = None) -> Tensor:
    x = x.contiguous()
    y = torch.empty_like(x) if out is None else out
    kernels._drop(
        *(x.data_ptr(), TYPES[x.dtype], x.numel(), seed, dropped, out is not None),
        *(y.data_ptr(), torch.get_num_threads()),
    )
    return y


class _DropRelu(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, x: Tensor, seed: int, dropped: int, kernels: TrainingKernels) -> Tensor:
        assert x.is_contiguous()
        ctx.mark_dirty(x)
        ctx.scale, ctx.kernels = LEVELS / (LEVELS - dropped), kernels
        _dropped(x, seed, dropped, kernels, x)
        ctx.save_for_backward(x)
        return x

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, g: Tensor) -> tuple[Tensor, None, None, None]:
        (y,) = ctx.saved_tensors  # positive where x is and where it was kept
        g = g.contiguous()
        d_x = torch.empty_like(g)
        ctx.kernels._drop_back(
            *(g.data_ptr(), y.data_ptr(), TYPES[g.dtype], g.numel(), ctx.scale, d_x.data_ptr()),
            torch.get_num_threads(),
        )
        return d_x, None, None, None


class _Norm(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, x: Tensor, gain: Tensor, shift: Tensor, epsilon: float, kernels: TrainingKernels) -> Tensor:
        x = x.contiguous()
        width = x.shape[-1]
        rows = x.numel() // width
        y, kept = torch.empty_like(x), torch.empty(rows, 2)
        kernels._norm(
            *(x.data_ptr(), TYPES[x.dtype], rows, width, gain.data_ptr(), shift.data_ptr(), epsilon),
            *(y.data_ptr(), kept.data_ptr(), torch.get_num_threads()),
        )
        ctx.save_for_backward(x, gain, kept)
        ctx.kernels = kernels
        return y

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, g: Tensor) -> tuple[Tensor | None, ...]:
        x, gain, kept = ctx.saved_tensors
        g = g.contiguous()
        d_x, d_gain, d_shift = torch.empty_like(x), torch.empty_like(gain), torch.empty_like(gain)
        ctx.kernels._norm_back(
            *(g.data_ptr(), x.data_ptr(), kept.data_ptr(), TYPES[x.dtype], len(kept), x.shape[-1], gain.data_ptr()),
            *(d_x.data_ptr(), d_gain.data_ptr(), d_shift.data_ptr(), torch.get_num_threads()),
        )
        return d_x, d_gain, d_shift, None, None
