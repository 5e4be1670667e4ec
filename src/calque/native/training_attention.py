"""Attention in training: the arguments of its compiled functions, and the functions with their gradients."""

import ctypes
from collections.abc import Sequence
from ctypes import c_float, c_int64, c_void_p
from typing import Any, NamedTuple

import torch
from torch import Tensor
from torch.autograd.function import once_differentiable

from calque.native.training_calls import TYPES, Calls, address


class _Attention(ctypes.Structure):
    _fields_ = (
        *((name, c_int64) for name in ("sentences", "heads", "group", "queries", "keys", "width", "value_width")),
        *((name, c_int64) for name in ("q_next", "k_next", "v_next", "before", "behind")),
        ("scale", c_float),
        ("real", c_void_p),
    )


class Plan(NamedTuple):
    """What an attention is beside its tensors."""

    widths: tuple[int, int, int]
    heads: int
    shared: int
    scale: float
    window: tuple[int, int]
    forward: Any
    backward: Any

    def described(self, parts: Sequence[Tensor], real: Tensor | None) -> _Attention:
        """As the kernels read it. Raises ValueError where the tensors do not fit each other."""
        q, k, v = self.places(parts)
        a, b, c = self.widths
        memory = q[0].shape[0], k[0].shape[1]
        fits = [part.shape[2] for part in parts] == {1: [a + b + c], 2: [a, b + c], 3: [a, b, c]}[len(parts)]
        fits = fits and len({part.dtype for part in parts}) == 1 and k[0].shape[:2] == memory == v[0].shape[:2]
        if not fits or (real is not None and real.shape != memory):
            shapes = [tuple(part.shape) for part in parts], None if real is None else tuple(real.shape)
            raise ValueError(f"attention of {shapes[0]}, of widths {self.widths}, with the mask {shapes[1]}")
        return _Attention(
            *(len(q[0]), self.heads, self.heads // self.shared, q[0].shape[1], k[0].shape[1]),
            *(self.widths[0] // self.heads, self.widths[2] // self.shared),
            *(part.shape[2] for part, _ in (q, k, v)),
            *(*self.window, self.scale, address(real)),
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


class Attend(torch.autograd.Function):
    """softmax(scale q k^T) v of each head, as a plan says; see `TrainingKernels.attend`."""

    @staticmethod
    def forward(ctx: Any, plan: Plan, real: Tensor | None, *parts: Tensor) -> Tensor:
        parts = tuple(part.contiguous() for part in parts)
        real = None if real is None else real.contiguous()
        ctx.plan, ctx.real = plan, real
        ctx.save_for_backward(*parts)
        q = parts[0]
        out = q.new_empty(*q.shape[:2], plan.heads * (plan.widths[2] // plan.shared))
        shape = plan.described(parts, real)
        plan.forward(
            *(ctypes.addressof(shape), TYPES[q.dtype], *plan.addresses(parts), out.data_ptr()),
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
        plan.backward(
            *(ctypes.addressof(shape), TYPES[g.dtype], *plan.addresses(parts), g.data_ptr()),
            *(*plan.addresses(gradients), torch.get_num_threads()),
        )
        return None, None, *gradients


class _AdditiveShape(ctypes.Structure):
    _fields_ = tuple((name, c_int64) for name in ("sentences", "queries", "keys", "width"))


class AdditiveScores(torch.autograd.Function):
    """w^T tanh(q_i + k_j) for all pairs of a sentence; see `TrainingKernels.additive_scores`."""

    @staticmethod
    def forward(ctx: Any, q: Tensor, k: Tensor, w: Tensor, calls: Calls) -> Tensor:
        q, k, w = q.contiguous(), k.contiguous(), w.contiguous()
        if len(q) != len(k) or not q.shape[2] == k.shape[2] == len(w) or not q.dtype == k.dtype == w.dtype:
            raise ValueError(f"additive scores of {tuple(q.shape)} and {tuple(k.shape)} by {tuple(w.shape)}")
        ctx.save_for_backward(q, k, w)
        ctx.shape, ctx.calls = _AdditiveShape(*q.shape[:2], *k.shape[1:]), calls
        scores = q.new_empty(*q.shape[:2], k.shape[1])
        places = q.data_ptr(), k.data_ptr(), w.data_ptr(), scores.data_ptr()
        calls.additive(ctypes.addressof(ctx.shape), TYPES[q.dtype], *places, torch.get_num_threads())
        return scores

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, g: Tensor) -> tuple[Tensor | None, ...]:
        read = (*ctx.saved_tensors, g.contiguous())
        gradients = [torch.empty_like(x) for x in read[:3]]
        places = (x.data_ptr() for x in (*read, *gradients))
        ctx.calls.additive_back(ctypes.addressof(ctx.shape), TYPES[g.dtype], *places, torch.get_num_threads())
        return *gradients, None
