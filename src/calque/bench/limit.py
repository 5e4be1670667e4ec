"""How fast the machine could do the arithmetic of a piece of work: its products at the speed measured for their shapes."""

import math
from collections import Counter
from collections.abc import Callable
from typing import Any, NamedTuple

import torch
from torch import Tensor
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils.flop_counter import FlopCounterMode

from calque.bench.machine import ProductShape, bandwidth, fastest
from calque.model import Model

BYTES = {"float32": 4, "bfloat16": 2, "int8": 1}
_BUDGET = 0.08
_OF_NOTE = 0.002
"""Products below this share of the work are taken to be as fast as the others: there may be many shapes of them."""


class CountedWork(NamedTuple):
    """What was counted: all multiply-adds, and of products with matrices how often which shape was taken."""

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

    def figures(self) -> dict[str, Any]:
        """For a reader."""
        return {
            "milliseconds": round(self.seconds * 1e3, 4),
            "multiply_adds": self.multiply_adds,
            "product_gflops": round(self.gflops, 1),
            "weight_bytes": self.weight_bytes,
            "bound": self.bound,
        }


class _ProductShapes(TorchDispatchMode):  # type: ignore[no-untyped-call]  # torch leaves it untyped
    def __init__(self) -> None:
        super().__init__()  # type: ignore[no-untyped-call]  # torch leaves it untyped
        self.found: Counter[ProductShape] = Counter()

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        if func.overloadpacket.__name__ in ("mm", "addmm", "addmm_"):
            a, b = [t for t in args if isinstance(t, Tensor)][-2:]
            self.found[ProductShape(a.shape[0], a.shape[1], b.shape[1])] += 1
        return func(*args, **(kwargs or {}))


def work_of(run: Callable[[], object]) -> CountedWork:
    """Counts what `run` computes."""
    shapes = _ProductShapes()
    with FlopCounterMode(display=False) as counter, shapes:
        run()
    return CountedWork(counter.get_total_flops() // 2, shapes.found)


def limit(work: CountedWork, precision: str, device: torch.device, speeds: dict[Any, Any]) -> Limit | None:
    """The larger of two times: multiply-adds at the speed of these products; their weights at the speed of memory.

    None where the machine has no kernel of this precision. `speeds` keeps what was measured for the next call.
    """
    total = sum(n * p.operations for p, n in work.products.items())
    operations = seconds = 0.0
    for product, n in work.products.items():
        if n * product.operations < _OF_NOTE * total:
            continue
        if (product, precision) not in speeds:
            speeds[product, precision] = fastest(product, precision, device, _BUDGET)
        if (found := speeds[product, precision]) is None:
            return None
        operations, seconds = operations + n * product.operations, seconds + n * found[1]
    if not seconds:
        return None
    if "bandwidth" not in speeds:
        speeds["bandwidth"] = max(bandwidth(device, _BUDGET)[k] for k in ("read", "row product")) * 1e9
    weight_bytes = work.weights * BYTES[precision]
    ways = {
        "products": 2 * work.multiply_adds * seconds / operations,
        "memory": weight_bytes / speeds["bandwidth"],
    }
    bound = max(ways, key=lambda k: ways[k])
    return Limit(ways[bound], work.multiply_adds, operations / seconds / 1e9, weight_bytes, bound)


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
