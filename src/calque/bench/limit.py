"""How fast the machine could do the arithmetic of a piece of work: its products at the speed measured for their shapes."""

import math
import time
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import NamedTuple

import torch
from torch import Tensor
from torch.utils.flop_counter import FlopCounterMode

from calque.bench.machine import BYTES, ProductShape, fastest
from calque.bench.observe import OperatorObserver
from calque.model import Model
from calque.native.kernels import without_kernels

_BUDGET = 0.08
"""Seconds for the measurement of one shape by one kernel."""
_TOTAL = 20.0
"""Seconds for the measurement of all shapes, the most important first; the others count at the highest speed measured."""
_FACTORS = {"mm": (0, 1), "addmm": (1, 2), "addmm_": (1, 2)}
"""Where the factors of a product stand among the arguments of an operator; results to write into may follow them."""


class CountedWork(NamedTuple):
    """All multiply-adds of some work, and how often it takes a product of each shape."""

    multiply_adds: int
    """Products of batches of matrices and convolutions included, which have no shapes here."""
    products: Counter[ProductShape]

    @property
    def weights(self) -> int:
        """Numbers in the second factors of all products."""
        return sum(n * p.inner * p.outer for p, n in self.products.items())


class Limit(NamedTuple):
    """The least time of some work, and what it follows from."""

    seconds: float
    multiply_adds: int
    gflops: float
    weight_bytes: int

    def over(self, parts: int) -> "Limit":
        """The mean of so many parts of the work."""
        whole = (self.seconds / parts, self.multiply_adds // parts, self.gflops, self.weight_bytes // parts)
        return Limit(*whole)

    def figures(self) -> dict[str, str | int | float]:
        """The limit as JSON, rounded."""
        return {
            "milliseconds": round(self.seconds * 1e3, 4),
            "multiply_adds": self.multiply_adds,
            "product_gflops": round(self.gflops, 1),
            "weight_bytes": self.weight_bytes,
        }


def work_of(run: Callable[[], object]) -> CountedWork:
    """Counts what `run` computes."""
    products: Counter[ProductShape] = Counter()

    def observe(name: str, arguments: Sequence[object], _: object) -> None:
        tensors = [t for t in arguments if isinstance(t, Tensor)]
        if name in _FACTORS:
            a, b = (tensors[k] for k in _FACTORS[name])
            products[ProductShape(a.shape[0], a.shape[1], b.shape[1])] += 1
        elif name.startswith("mkldnn_rnn_layer"):
            x, _, u = tensors[:3]
            for product, n in _recurrent(x, u, name.endswith("backward")):
                products[product] += n

    # Kernels compute the same products, where nothing counts them.
    with without_kernels(), FlopCounterMode(display=False) as counter, OperatorObserver(observe):
        run()
    by_operator = counter.get_flop_counts().get("Global", {})
    others = sum(n for operator, n in by_operator.items() if str(operator).rpartition(".")[2] not in _FACTORS)
    shaped = sum(n * p.operations for p, n in products.items())
    return CountedWork((shaped + others) // 2, products)


def _recurrent(x: Tensor, u: Tensor, back: bool) -> Iterator[tuple[ProductShape, int]]:
    """The products of a fused layer of cells on x [T, B, D], W the matrix of x_t and U that of h_t-1, and how often it takes each.

    With `back` they are the products of the backward pass: the gradients of h_t-1 at each step, of all x_t, of W and of U.
    """
    steps, batch, inner = x.shape
    (gates, width), rows = u.shape, steps * batch
    if not back:
        yield ProductShape(rows, inner, gates), 1
        yield ProductShape(batch, width, gates), steps
        return
    yield ProductShape(batch, gates, width), steps
    yield ProductShape(rows, gates, inner), 1
    yield ProductShape(gates, rows, inner), 1
    yield ProductShape(gates, rows, width), 1


@dataclass
class Roofline:
    """The speeds of a device at one precision; each is measured when it is first needed.

    In decoding the weights of a step are read in turn, so that they come from the cache that holds all of them, or from memory: of
    each shape weights of as many bytes take turns. In training (`training`) a product may find its factors in a cache, as those
    of a recurrence do, and lies in any of three layouts: each shape is timed with what is best for it.
    """

    device: torch.device
    precision: str
    seconds: dict[ProductShape, float | None] = field(default_factory=dict)
    """Of a product, by the fastest kernel; None where the machine has no kernel of this precision."""
    training: bool = False

    def limit(self, work: CountedWork) -> Limit | None:
        """The least time of some work; None where the machine has no kernel of this precision.

        Each product takes the time that was measured for its shape; shapes for which no time was left, and what has no shape, the
        time at the highest speed of all measured shapes. Reading the weights is part of the products.
        """
        seconds = self._product_seconds(work)
        if seconds is None:
            return None
        gflops = 2 * work.multiply_adds / seconds / 1e9
        return Limit(seconds, work.multiply_adds, gflops, work.weights * BYTES[self.precision])

    def _product_seconds(self, work: CountedWork) -> float | None:
        """The time of all products of some work."""
        order = sorted(work.products, key=lambda p: -work.products[p] * p.operations)
        until = time.monotonic() + _TOTAL
        for product in order:
            if product not in self.seconds and (time.monotonic() < until or not self.seconds):
                turn = 0 if self.training else work.weights * BYTES[self.precision]
                self.seconds[product] = fastest(product, self.precision, self.device, _BUDGET, turn, self.training)
        known = {product: each for product in order if (each := self.seconds.get(product)) is not None}
        if not known or len(known) < len(self.seconds.keys() & set(order)):
            return None
        speed = max(product.operations / each for product, each in known.items())
        rest = 2 * work.multiply_adds - sum(work.products[p] * p.operations for p in known)
        return sum(work.products[p] * each for p, each in known.items()) + rest / speed


def step_work(model: Model, source: Tensor, mask: Tensor, beam: int, length: int) -> CountedWork:
    """The work of one decoding step, output layer included, in the middle of a translation of `length` words.

    The model is as it was built: what is counted does not depend on how its weights are kept.
    """
    half = max(1, math.ceil(length / 2))
    with torch.no_grad():
        state = model.init_state(model.encode(source, mask), half + 1, beam)
        words = torch.ones(len(source) * beam, half, dtype=torch.int64, device=source.device)
        state = model.step(words, state, half, beam)[1]

        def step() -> None:
            model.logits(model.step(words[:, :1], state, half + 1, beam)[0][:, 0])

        return work_of(step)
