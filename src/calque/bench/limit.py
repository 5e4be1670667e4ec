"""How fast the machine could do the arithmetic of a piece of work: its products at the speed measured for their shapes."""

import math
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import NamedTuple

import torch
from torch import Tensor
from torch.utils.flop_counter import FlopCounterMode

from calque.bench.machine import BYTES, ProductShape, bandwidth, fastest
from calque.bench.observe import OperatorObserver
from calque.model import Model

_BUDGET = 0.08
"""Seconds for the measurement of one shape."""
_OF_NOTE = 0.002
"""Products below this share of the work are taken to be as fast as the others: there may be many shapes of them."""


class CountedWork(NamedTuple):
    """All multiply-adds of some work, and how often it takes a product of each shape."""

    multiply_adds: int
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
    bound: str
    """`products` or `memory`"""

    def figures(self) -> dict[str, str | int | float]:
        """The limit as JSON, rounded."""
        return {
            "milliseconds": round(self.seconds * 1e3, 4),
            "multiply_adds": self.multiply_adds,
            "product_gflops": round(self.gflops, 1),
            "weight_bytes": self.weight_bytes,
            "bound": self.bound,
        }


def work_of(run: Callable[[], object]) -> CountedWork:
    """Counts what `run` computes."""
    products: Counter[ProductShape] = Counter()

    def observe(name: str, arguments: Sequence[object], _: object) -> None:
        if name in ("mm", "addmm", "addmm_"):
            a, b = [t for t in arguments if isinstance(t, Tensor)][-2:]
            products[ProductShape(a.shape[0], a.shape[1], b.shape[1])] += 1

    with FlopCounterMode(display=False) as counter, OperatorObserver(observe):
        run()
    return CountedWork(counter.get_total_flops() // 2, products)


@dataclass
class Roofline:
    """The speeds of a device at one precision; each is measured when it is first needed."""

    device: torch.device
    precision: str
    seconds: dict[ProductShape, float | None] = field(default_factory=dict)
    """Of a product, by the fastest kernel; None where the machine has no kernel of this precision."""
    memory: float | None = None
    """Bytes a second that a sum, or a product of one row, reads."""

    def limit(self, work: CountedWork) -> Limit | None:
        """The larger of two times: multiply-adds at the speed of these products; their weights at the speed of memory.

        None where the machine has no kernel of this precision.
        """
        total = sum(n * p.operations for p, n in work.products.items())
        operations = seconds = 0.0
        for product, n in work.products.items():
            if n * product.operations < _OF_NOTE * total:
                continue
            if product not in self.seconds:
                self.seconds[product] = fastest(product, self.precision, self.device, _BUDGET)
            if (each := self.seconds[product]) is None:
                return None
            operations, seconds = operations + n * product.operations, seconds + n * each
        if not seconds:
            return None
        if self.memory is None:
            measured = bandwidth(self.device, _BUDGET)
            self.memory = max(measured["read"], measured["row product"]) * 1e9
        weight_bytes = work.weights * BYTES[self.precision]
        times = {
            "products": 2 * work.multiply_adds * seconds / operations,
            "memory": weight_bytes / self.memory,
        }
        bound = max(times, key=lambda name: times[name])
        return Limit(times[bound], work.multiply_adds, operations / seconds / 1e9, weight_bytes, bound)


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
