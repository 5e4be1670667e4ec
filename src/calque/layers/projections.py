"""Products, linear maps and embeddings as training needs them.

Kernels make them where they are faster than the library: in bfloat16 where a processor has instructions for it, in float32 where
the library does not use all of the processor. Without kernels a product in bfloat16 is compiled for its exact sizes and kept, up to
two megabytes each, and the rows of batches hardly ever come in the same number twice: so many rows are taken in blocks of few
sizes. float32 needs none of this: its library compiles nothing. On processors for which torch has no products in bfloat16
numbers are widened and results rounded. In a loop over positions the gradient of each matrix is summed once, over all positions.
"""

import contextlib
import functools
from collections.abc import Callable, Iterator
from contextvars import ContextVar
from typing import Any, cast

import torch
from jaxtyping import Float
from torch import Tensor
from torch.autograd.function import once_differentiable
from torch.nn import functional as F

from calque.layers.drop import relu_and_drop
from calque.native.training import training_kernels_for

LARGEST, STEP = 2048, 128
"""Of products with a matrix: rows of a block at most, and what divides every size. Each block packs the matrix anew."""
BLOCK, GRAIN = 512, 64
"""The same for sums over rows, which are faster over fewer rows."""
FEW = 256
"""Fewer rows are multiplied as they are: they come from a loop over positions, which takes the same product many times."""


def widened(x: Tensor) -> bool:
    """Whether x has to be multiplied in float32: it is bfloat16 on a processor where torch would multiply number by number."""
    return x.dtype == torch.bfloat16 and x.device.type == "cpu" and _without_halves()


@functools.cache
def _without_halves() -> bool:
    supported = getattr(torch.ops.mkldnn, "_is_mkldnn_bf16_supported", None)
    return supported is not None and not supported()


def matmul(a: Float[Tensor, "... D"], b: Float[Tensor, "... E"]) -> Float[Tensor, "... E"]:
    """a b, batch by batch."""
    return torch.matmul(a.float(), b.float()).to(a.dtype) if widened(a) else torch.matmul(a, b)


def matmul_into(a: Float[Tensor, "n D"], b: Float[Tensor, "D E"], out: Float[Tensor, "n E"]) -> None:
    """out = a b."""
    if widened(a):
        out.copy_(a.float() @ b.float())
    else:
        torch.mm(a, b, out=out)


def _affine(x: Tensor, weight: Tensor, bias: Tensor | None) -> Tensor:
    """x W^T + b by torch."""
    if not widened(x):
        return F.linear(x, weight, bias)
    return F.linear(x.float(), weight.float(), None if bias is None else bias.float()).to(x.dtype)


def in_blocks(x: Float[Tensor, "*n D"]) -> bool:
    """Whether a product with the rows of x is made by kernels or in blocks: many rows, on a processor, with a gradient.

    Never inside a `loop`, which has products of its own.
    """
    if not torch.is_grad_enabled() or _LOOP.get() is not None:
        return False
    if x.device.type != "cpu" or x.numel() < FEW * x.shape[-1]:
        return False
    kernels = training_kernels_for(x)
    return x.dtype == torch.bfloat16 or (kernels is not None and x.dtype in kernels.products)


def linear(
    x: Float[Tensor, "*n D"], weight: Float[Tensor, "E D"], bias: Float[Tensor, " E"] | None
) -> Float[Tensor, "*n E"]:
    """x W^T + b."""
    if torch.is_grad_enabled() and (loop := _LOOP.get()) is not None:
        return loop.linear(x, weight, bias)
    if in_blocks(x):
        kernels = training_kernels_for(x, weight, bias)
        if kernels is not None and (y := kernels.linear(x, weight, bias)) is not None:
            return y
        if x.dtype == torch.bfloat16 and not widened(x):
            return cast("Tensor", _Linear.apply(x, weight, bias))  # type: ignore[no-untyped-call]  # torch leaves it untyped
    return _affine(x, weight, bias)


class Projection(torch.nn.Linear):
    """x W^T + b, in training by `linear`."""

    def forward(self, x: Tensor) -> Tensor:
        return linear(x, self.weight, self.bias)


def relu_of(layer: torch.nn.Module, x: Float[Tensor, "*n D"], p: float, training: bool) -> Float[Tensor, "*n E"]:
    """Dropout of max(0, layer(x)), in one pass where there is a kernel."""
    if isinstance(layer, Projection) and in_blocks(x):
        kernels = training_kernels_for(x, layer.weight, layer.bias)
        y = None if kernels is None else kernels.linear(x, layer.weight, layer.bias, p if training else 0.0)
        if y is not None:
            return y
    return relu_and_drop(layer(x), p, training)


def linear_of_all(x: Float[Tensor, "*n D"], *parts: Projection) -> Float[Tensor, "*n E"]:
    """[W_1 x + b_1; ...; W_p x + b_p] by one product, which reads x once. All have a bias, or none."""
    biases: list[Tensor] = [part.bias for part in parts if part.bias is not None]
    return linear(x, torch.cat([part.weight for part in parts]), torch.cat(biases) if biases else None)


def multiply(
    rows: Float[Tensor, "n D"], matrix: Float[Tensor, "D E"], out: Float[Tensor, "n E"], bias: Tensor | None = None
) -> None:
    """out = rows matrix + bias, for at least `STEP` rows. The last block may repeat rows of the one before, to the same values."""
    for start, stop in _blocks(len(rows), LARGEST, STEP):
        start = min(start, stop - STEP)
        part = torch.mm(rows[start:stop], matrix, out=out[start:stop])
        if bias is not None:
            part += bias


def gradient(
    g: Float[Tensor, "n E"], x: Float[Tensor, "n D"], total: Float[Tensor, "E D"] | None = None
) -> Float[Tensor, "E D"]:
    """g^T x, added to `total` in place where it is given. Less than `GRAIN` rows at the end are filled up with zeros."""
    if widened(g):
        part = (g.t().float() @ x.float()).to(g.dtype)
        return part if total is None else total.add_(part)
    for start, stop in _blocks(len(g), BLOCK, GRAIN):
        part, seen = g[start:stop], x[start:stop]
        if missing := -len(part) % GRAIN:
            part, seen = F.pad(part, (0, 0, 0, missing)), F.pad(seen, (0, 0, 0, missing))
        total = part.t() @ seen if total is None else total.addmm_(part.t(), seen)
    return g.t() @ x if total is None else total


def _blocks(rows: int, largest: int, divisor: int) -> Iterator[tuple[int, int]]:
    """Blocks that hold each of so many rows once, at most `largest`; only the last may be no multiple of `divisor`."""
    start = 0
    while start < rows:
        size = min(largest, (rows - start) // divisor * divisor) or rows - start
        yield start, start + size
        start += size


class _Linear(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, x: Tensor, weight: Tensor, bias: Tensor | None) -> Tensor:
        ctx.save_for_backward(x, weight)
        ctx.biased = bias is not None
        y = x.new_empty(*x.shape[:-1], len(weight))
        multiply(x.flatten(0, -2), weight.t(), y.view(-1, len(weight)), bias)
        return y

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, g: Tensor) -> tuple[Tensor | None, ...]:
        x, weight = ctx.saved_tensors
        rows = g.reshape(-1, len(weight))
        d_x = d_weight = d_bias = None
        if ctx.needs_input_grad[0]:
            d_x = x.new_empty(x.shape)
            multiply(rows, weight, d_x.view(len(rows), -1))
        if ctx.needs_input_grad[1]:
            d_weight = gradient(rows, x.flatten(0, -2))
        if ctx.biased and ctx.needs_input_grad[2]:
            d_bias = rows.sum(0)
        return d_x, d_weight, d_bias


@contextlib.contextmanager
def loop() -> Iterator[None]:
    """Inside, products belong to one loop over positions: the gradient of each matrix is summed over all of them at once.

    Otherwise every position would add a matrix of its own to the gradient.
    """
    if _LOOP.get() is not None or not torch.is_grad_enabled():
        yield
        return
    token = _LOOP.set(_Loop())
    try:
        yield
    finally:
        _LOOP.reset(token)


class _Loop:
    """For each matrix, what its gradient will be summed from, and a tensor that stands for it in the graph of gradients."""

    def __init__(self) -> None:
        # Each with its matrix itself, so that no other one can come to have its id.
        self.matrices: dict[int, tuple[Tensor, Tensor, _Matrix]] = {}
        self.laid_out: dict[int, tuple[Tensor, Tensor]] = {}

    def linear(self, x: Tensor, weight: Tensor, bias: Tensor | None) -> Tensor:
        if not weight.requires_grad:
            return _affine(x, weight, bias)
        if id(weight) not in self.matrices:
            matrix = _Matrix(weight.detach(), None if bias is None else bias.detach())
            stand_in = _Summed.apply(weight, bias, matrix)  # type: ignore[no-untyped-call]  # torch's own
            self.matrices[id(weight)] = weight, cast("Tensor", stand_in), matrix
        _, stand_in, matrix = self.matrices[id(weight)]
        return cast("Tensor", _Turn.apply(x, stand_in, matrix))  # type: ignore[no-untyped-call]  # torch's own

    def matrix_of(self, parameter: Tensor, made: Callable[[], Tensor]) -> Tensor:
        if id(parameter) not in self.laid_out:
            self.laid_out[id(parameter)] = parameter, made()
        return self.laid_out[id(parameter)][1]


_LOOP: ContextVar[_Loop | None] = ContextVar("loop", default=None)


def matrix_of(parameter: Tensor, made: Callable[[], Tensor]) -> Tensor:
    """A matrix that is made of a parameter: in a loop once, so that it is one matrix at all positions."""
    loop = _LOOP.get()
    return made() if loop is None or not torch.is_grad_enabled() else loop.matrix_of(parameter, made)


class _Matrix:
    """A matrix that a loop multiplies with at each turn, and the terms of its gradient."""

    def __init__(self, weight: Tensor, bias: Tensor | None):
        self.weight, self.bias = weight, bias
        self.terms: list[tuple[Tensor, Tensor]] = []
        self.kernels = training_kernels_for(weight)
        if self.kernels is not None and not self.kernels.fits(weight):
            self.kernels = None
        self.packed = None if self.kernels is None else self.kernels.packed(weight)
        self.wide = weight.float() if widened(weight) else None

    def times(self, x: Tensor) -> Tensor:
        """x W^T + b. Written into, not a view: nobody may change a view in place that comes from here."""
        if self.packed is not None:
            return self.packed.times(x, self.bias)
        y = x.new_empty(*x.shape[:-1], len(self.weight))
        rows, out = x.flatten(0, -2), y.view(-1, len(self.weight))
        if self.wide is not None:
            out.copy_(F.linear(rows.float(), self.wide, None if self.bias is None else self.bias.float()))
        elif self.bias is None:
            torch.mm(rows, self.weight.t(), out=out)
        else:
            torch.addmm(self.bias, rows, self.weight.t(), out=out)
        return y

    def back(self, g: Tensor) -> Tensor:
        """g W."""
        if self.wide is not None:
            return (g.float() @ self.wide).to(g.dtype)
        return g @ self.weight if self.packed is None else self.packed.gradient(g)

    def gradients(self) -> tuple[Tensor, Tensor | None] | None:
        """Those of the matrix and of the bias, of all turns; none where there was no turn."""
        if not self.terms:
            return None
        g, x = (torch.cat(parts) for parts in zip(*self.terms, strict=True))
        self.terms.clear()
        if self.kernels is not None:
            return self.kernels.weight_gradient(g, x, self.bias is not None)
        return gradient(g, x), None if self.bias is None else g.sum(0)


class _Summed(torch.autograd.Function):
    """Runs back after all turns of a loop, when they have left their terms."""

    @staticmethod
    def forward(ctx: Any, weight: Tensor, bias: Tensor | None, matrix: _Matrix) -> Tensor:
        ctx.set_materialize_grads(False)
        ctx.matrix = matrix
        return weight.new_empty(0)

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, _: Tensor | None) -> tuple[Tensor | None, Tensor | None, None]:
        return *(ctx.matrix.gradients() or (None, None)), None


class _Turn(torch.autograd.Function):
    """x W^T + b in one turn of a loop."""

    @staticmethod
    def forward(ctx: Any, x: Tensor, stand_in: Tensor, matrix: _Matrix) -> Tensor:
        ctx.set_materialize_grads(False)
        ctx.save_for_backward(x)
        ctx.matrix = matrix
        return matrix.times(x)

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, g: Tensor | None) -> tuple[Tensor | None, None, None]:
        if g is None:
            return None, None, None
        (x,) = ctx.saved_tensors
        ctx.matrix.terms.append((g.flatten(0, -2), x.flatten(0, -2)))
        return ctx.matrix.back(g) if ctx.needs_input_grad[0] else None, None, None


class Embedding(torch.nn.Embedding):
    """Rows of a matrix by their numbers.

    Where `rows` is a list, the gradient of the matrix is put there, as numbers and the gradients of their rows: in full it has
    as many numbers as the matrix, nearly all of them zero.
    """

    rows: list[tuple[Tensor, Tensor]] | None = None

    def forward(self, numbers: Tensor) -> Tensor:
        if self.rows is None or not torch.is_grad_enabled():
            return super().forward(numbers)
        return cast("Tensor", _Lookup.apply(self.weight, numbers, self.rows))  # type: ignore[no-untyped-call]  # torch leaves it untyped


class _Lookup(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, weight: Tensor, numbers: Tensor, rows: list[tuple[Tensor, Tensor]]) -> Tensor:
        ctx.numbers, ctx.rows = numbers, rows
        return F.embedding(numbers, weight)

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, g: Tensor) -> tuple[None, None, None]:
        ctx.rows.append((ctx.numbers.flatten(), g.flatten(0, -2)))
        return None, None, None
