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

_PLAIN = (Tensor, torch.nn.Parameter)
_TYPES = {torch.float32: 4, torch.bfloat16: 2}
LEVELS = 2**16
"""Probabilities of dropout are multiples of one in so many."""
LONGEST = 512
"""Keys and queries of a sentence, over which attention is the work of products, not of passes."""


class _Attention(ctypes.Structure):
    _fields_ = (
        *((name, c_int64) for name in ("sentences", "heads", "group", "queries", "keys", "width", "value_width")),
        *((name, c_int64) for name in ("q_next", "k_next", "v_next", "causal")),
        ("scale", c_float),
        ("real", c_void_p),
    )


class LossSums(NamedTuple):
    """Sums over rows of logits: -log p of the targets, and of all words; and the gradient of the bias."""

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
        functions = (self._drop, self._drop_back, self._norm, self._norm_back, self._attend, self._attend_back)
        for function in (*functions, self._loss):
            function.restype = None

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
        plan = _Plan(widths, heads, shared or heads, scale, causal, self)
        return _call(_Attend, plan, real, *parts)

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
                _TYPES[logits.dtype],
                target.data_ptr(),
                *logits.shape,
                _address(bias),
                smoothing,
                needs,
            ),
            *(_address(d_bias), sums, torch.get_num_threads()),
        )
        return LossSums(*sums)


def training_kernels_for(x: Tensor) -> TrainingKernels | None:
    """The kernels, where they can take x: float32 or bfloat16 on a processor, with gradients."""
    if x.dtype not in _TYPES or x.device.type != "cpu" or not torch.is_grad_enabled() or type(x) not in _PLAIN:
        return None
    return None if off() else _loaded()


@functools.cache
def _loaded() -> TrainingKernels | None:
    found = library()
    return None if found is None else TrainingKernels(found[0])


def _call(function: type[torch.autograd.Function], *values: Any) -> Tensor:
    return cast("Tensor", function.apply(*values))  # type: ignore[no-untyped-call]  # torch leaves it untyped


def _address(x: Tensor | None) -> int | None:
    return None if x is None else x.data_ptr()


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
        *(x.data_ptr(), _TYPES[x.dtype], x.numel(), seed, dropped, out is not None),
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
            *(g.data_ptr(), y.data_ptr(), _TYPES[g.dtype], g.numel(), ctx.scale, d_x.data_ptr()),
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
            *(x.data_ptr(), _TYPES[x.dtype], rows, width, gain.data_ptr(), shift.data_ptr(), epsilon),
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
            *(g.data_ptr(), x.data_ptr(), kept.data_ptr(), _TYPES[x.dtype], len(kept), x.shape[-1], gain.data_ptr()),
            *(d_x.data_ptr(), d_gain.data_ptr(), d_shift.data_ptr(), torch.get_num_threads()),
        )
        return d_x, d_gain, d_shift, None, None


class _Plan(NamedTuple):
    """What an attention is beside its tensors."""

    widths: tuple[int, int, int]
    heads: int
    shared: int
    scale: float
    causal: bool
    kernels: TrainingKernels

    def described(self, parts: Sequence[Tensor], real: Tensor | None) -> _Attention:
        """As the kernels read it."""
        q, k, v = self.places(parts)
        return _Attention(
            *(len(q[0]), self.heads, self.heads // self.shared, q[0].shape[1], k[0].shape[1]),
            *(self.widths[0] // self.heads, self.widths[2] // self.shared),
            *(part.shape[2] for part, _ in (q, k, v)),
            *(self.causal, self.scale, _address(real)),
        )

    def places(self, parts: Sequence[Tensor]) -> list[tuple[Tensor, int]]:
        """The tensors that hold queries, keys and values, and where in their rows these begin."""
        q, k, _ = self.widths
        starts = {1: (0, q, q + k), 2: (0, 0, k), 3: (0, 0, 0)}[len(parts)]
        holders = {1: (0, 0, 0), 2: (0, 1, 1), 3: (0, 1, 2)}[len(parts)]
        return [(parts[holder], start) for holder, start in zip(holders, starts, strict=True)]

    def addresses(self, parts: Sequence[Tensor]) -> list[int]:
        """Where queries, keys and values begin."""
        return [part.data_ptr() + start * part.element_size() for part, start in self.places(parts)]


class _Attend(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, plan: _Plan, real: Tensor | None, *parts: Tensor) -> Tensor:
        parts = tuple(part.contiguous() for part in parts)
        real = None if real is None else real.contiguous()
        ctx.plan, ctx.real = plan, real
        ctx.save_for_backward(*parts)
        q = parts[0]
        out = q.new_empty(*q.shape[:2], plan.heads * (plan.widths[2] // plan.shared))
        shape = plan.described(parts, real)
        plan.kernels._attend(
            *(ctypes.addressof(shape), _TYPES[q.dtype], *plan.addresses(parts), out.data_ptr()),
            torch.get_num_threads(),
        )
        return out

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, g: Tensor) -> tuple[Tensor | None, ...]:
        parts, plan = ctx.saved_tensors, ctx.plan
        g = g.contiguous()
        gradients = [torch.empty_like(part) for part in parts]
        shape = plan.described(parts, ctx.real)
        plan.kernels._attend_back(
            *(ctypes.addressof(shape), _TYPES[g.dtype], *plan.addresses(parts), g.data_ptr()),
            *(*plan.addresses(gradients), torch.get_num_threads()),
        )
        return None, None, *gradients
