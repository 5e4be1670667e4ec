"""The kernels of training as functions with gradients: passes that torch's operators would make many times over memory."""

import ctypes
import functools
from collections.abc import Sequence
from ctypes import c_double
from typing import NamedTuple, cast

import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor

from calque.native.build import library, narrow_library
from calque.native.kernels import off
from calque.native.training_attention import AdditiveScores, Attend, Plan
from calque.native.training_calls import TYPES, Adam, Calls, Muon, address
from calque.native.training_functions import (
    LEVELS,
    Drop,
    DropRelu,
    Linear,
    Lstm,
    Norm,
    PackedMatrix,
    call,
    weight_gradient,
)

_PLAIN = (Tensor, torch.nn.Parameter)
DEEP = 32
"""What divides the widths of products."""
LINE = 64
"""Bytes of a line of a cache."""
LONGEST = 512
"""Keys and queries of a sentence, over which attention is the work of products, not of passes."""
ALL = 1 << 30
"""Positions on a side of a window that ends at no position."""


class LossSums(NamedTuple):
    """Sums over rows of logits: -log p of the targets, and of all words, and the divergences of pairs of rows."""

    nll: float
    total: float
    apart: float


class TrainingKernels:
    """The compiled kernels of training."""

    def __init__(self, loaded: ctypes.CDLL):
        self.calls = Calls(loaded)
        self.products = self.calls.products if narrow_library() else self.calls.products - {torch.float32}
        """The types of products that are faster here than the library's."""

    def drop(self, x: Tensor, p: float, relu: bool = False) -> Tensor:
        """Each number of x, or of max(0, x), zero with probability p, else divided by 1 - p.

        With `relu` the result takes the place of x, which nothing else may need. What is kept follows from one draw of torch's
        generator; p is rounded to a multiple of 2^-16.
        """
        dropped = _levels(p)
        if not dropped:
            return x.relu_() if relu else x
        return call(DropRelu if relu else Drop, x, _seed(), dropped, self.calls)

    def linear(
        self, x: Float[Tensor, "*n D"], weight: Float[Tensor, "E D"], bias: Tensor | None, relu: float | None = None
    ) -> Float[Tensor, "*n E"] | None:
        """x W^T + b, widths multiples of 32; None where this kernel is not for them.

        With `relu` dropout with this probability of max(0, x W^T + b), in the same pass.
        """
        if not self.fits(weight) or x.shape[-1] != weight.shape[1]:
            return None
        dropped = 0 if relu is None else _levels(relu)
        draw = None if relu is None else (_seed() if dropped else 0, dropped)
        return call(Linear, x, weight, bias, draw, self.calls)

    def fits(self, weight: Float[Tensor, "E D"]) -> bool:
        """Whether there are products with this matrix."""
        plain = weight.dtype in self.products and weight.is_contiguous()
        return plain and not (weight.shape[0] % DEEP or weight.shape[1] % DEEP)

    def packed(self, weight: Float[Tensor, "E D"]) -> PackedMatrix:
        """The matrix laid out for many products of few rows, in both directions."""
        size = weight.numel() * weight.element_size()
        space = torch.empty(2 * size + LINE, dtype=torch.uint8, device=weight.device)
        first = space[-space.data_ptr() % LINE :][: 2 * size]
        for back in (False, True):
            self.calls.pack(
                *(weight.data_ptr(), TYPES[weight.dtype], *weight.shape, back),
                *(first[back * size :].data_ptr(), torch.get_num_threads()),
            )
        return PackedMatrix(first[:size], first[size:], weight.shape[0], weight.shape[1], self.calls)

    def weight_gradient(
        self, g: Float[Tensor, "*n E"], x: Float[Tensor, "*n D"], biased: bool, total: Tensor | None = None
    ) -> tuple[Tensor, Tensor | None]:
        """g^T x, added to `total` in place where it is given, and the sum of the rows of g where there is a bias."""
        return weight_gradient(self.calls, g, x, biased, total)

    def lstm(
        self, driven: Float[Tensor, "B G"], pushed: Float[Tensor, "B G"], c: Float[Tensor, "B D"], forget: float
    ) -> tuple[Tensor, Tensor]:
        """h and c of an LSTM: [i; f; g; o] = driven + pushed, c' = sig(f + forget) c + sig(i) tanh(g), h = sig(o) tanh(c')."""
        return cast("tuple[Tensor, Tensor]", call(Lstm, driven, pushed, c, forget, self.calls))

    def norm(self, x: Float[Tensor, "... D"], gain: Tensor, shift: Tensor, epsilon: float) -> Float[Tensor, "... D"]:
        """gain (x - mean) / sqrt(var + epsilon) + shift over the width."""
        return call(Norm, x, gain, shift, epsilon, self.calls)

    def attend(
        self,
        parts: Sequence[Float[Tensor, "B _ _"]],
        widths: tuple[int, int, int],
        heads: int,
        scale: float,
        real: Bool[Tensor, "B S"] | None,
        window: tuple[int, int],
        shared: int | None = None,
    ) -> Float[Tensor, "B T HV"]:
        """softmax(scale q k^T) v of each head over the keys that are real, so many positions before and behind a query's own.

        `parts` are [q; k; v], q and [k; v], or q, k and v, of these `widths`. `shared`: heads of keys and values, each that of as
        many heads of queries in a row. Where no key is real, a query takes the mean; where none in its window is, zeros.
        Raises ValueError where the tensors do not fit each other.
        """
        plan = Plan(widths, heads, shared or heads, scale, window, self.calls.attend, self.calls.attend_back)
        return call(Attend, plan, real, *parts)

    def additive_scores(
        self, q: Float[Tensor, "B T D"], k: Float[Tensor, "B S D"], w: Float[Tensor, " D"]
    ) -> Float[Tensor, "B T S"]:
        """w^T tanh(q_i + k_j) of each query with each key of its sentence. No tanh is kept: the gradient makes them again.

        Raises ValueError where the tensors do not fit each other.
        """
        return call(AdditiveScores, q, k, w, self.calls)

    def loss(
        self,
        logits: Float[Tensor, "N V"],
        target: Int[Tensor, " N"],
        bias: Float[Tensor, " V"] | None,
        smoothing: float,
        d_bias: Float[Tensor, " V"] | None,
        needs: bool,
        r_drop: float = 0.0,
    ) -> LossSums:
        """Makes rows of logits, to which float32 `bias` is added, their gradients, where `needs`; adds up that of the bias.

        With `r_drop` the rows come in pairs, whose loss is that of `calque.train.loss.output_loss`. The logits of a row lie side
        by side. Raises `IndexError` for a target that is no word.
        """
        if len(target) and not 0 <= int(target.min()) <= int(target.max()) < logits.shape[1]:
            raise IndexError(f"targets are words from 0 to {logits.shape[1] - 1}")
        if r_drop and len(logits) % 2:
            raise ValueError("expected pairs of rows")
        sums = (c_double * 3)()
        self.calls.loss(
            *(
                logits.data_ptr(),
                TYPES[logits.dtype],
                target.data_ptr(),
                *logits.shape,
                logits.stride(0),
                address(bias),
                smoothing,
                r_drop,
                needs,
            ),
            *(address(d_bias), sums, torch.get_num_threads()),
        )
        return LossSums(*sums)

    def squares(self, x: Tensor) -> float:
        """The sum of the squares of all numbers."""
        x = x.contiguous()
        return float(self.calls.squares(x.data_ptr(), TYPES[x.dtype], x.numel(), torch.get_num_threads()))

    def adam(
        self, how: Adam, weights: Tensor, gradient: Tensor, means: tuple[Tensor, Tensor], rounded: Tensor | None
    ) -> None:
        """A step of Adam, in place: `weights` and `means`, m and v, are float32; `rounded` becomes the weights in bfloat16."""
        gradient = gradient.contiguous()
        assert all(x.is_contiguous() for x in (weights, *means))
        self.calls.adam(
            *(ctypes.addressof(how), weights.data_ptr(), gradient.data_ptr(), TYPES[gradient.dtype]),
            *(means[0].data_ptr(), means[1].data_ptr(), address(rounded), weights.numel(), torch.get_num_threads()),
        )

    def muon(
        self, how: Muon, steps: int, weights: Tensor, gradient: Tensor, momentum: Tensor, rounded: Tensor | None
    ) -> bool:
        """An update by Muon, in place, of matrices whose widths are multiples of 32; false, and nothing, where it cannot.

        `weights` and `momentum`, b, are float32, products bfloat16; `rounded` becomes the weights in bfloat16. Filters are
        matrices [out, in kernel].
        """
        rows, columns = len(weights), weights[0].numel()
        if torch.bfloat16 not in self.calls.products or rows % DEEP or columns % DEEP:
            return False
        gradient = gradient.contiguous()
        assert all(x.is_contiguous() for x in (weights, momentum))
        self.calls.muon(
            *(
                ctypes.addressof(how),
                weights.data_ptr(),
                gradient.data_ptr(),
                TYPES[gradient.dtype],
                momentum.data_ptr(),
            ),
            *(address(rounded), rows, columns, steps, torch.get_num_threads()),
        )
        return True


def _levels(p: float) -> int:
    return min(round(p * LEVELS), LEVELS - 1)


def _seed() -> int:
    return int(torch.randint(2**63 - 1, ()))


def training_kernels() -> TrainingKernels | None:
    """The kernels for this processor; None where there are none."""
    return None if off() else _loaded()


def training_kernels_for(x: Tensor, *others: Tensor | None) -> TrainingKernels | None:
    """The kernels, where they can take x, and others with it: all float32 or all bfloat16, on a processor, with gradients."""
    if x.dtype not in TYPES or not torch.is_grad_enabled():
        return None
    given = (x, *(one for one in others if one is not None))
    plain = all(one.dtype == x.dtype and one.device.type == "cpu" and type(one) in _PLAIN for one in given)
    return training_kernels() if plain else None


@functools.cache
def _loaded() -> TrainingKernels | None:
    found = library()
    return None if found is None else TrainingKernels(found[0])
