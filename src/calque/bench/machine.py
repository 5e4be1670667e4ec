"""The limits of this machine: matrix products, what an operator costs beside its arithmetic, memory.

A product of M rows takes x [M, K] times a weight [N, K]. So many weights of one shape are used in turn that they do not stay
in a cache, as the layers of a model do not: for few rows this is a measure of memory, for many of arithmetic.
"""

import ctypes
import functools
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any, NamedTuple, TypedDict

import torch
from torch import Tensor
from torch.nn import functional as F

from calque.bench.clock import best, digits, waiter
from calque.ground.table import aligned
from calque.native.graphs import captured
from calque.native.kernels import kernels
from calque.native.program import Arena, Bound, Frame, Program

ROWS = (1, 16, 64, 320)
WEIGHTS = ((512, 512), (512, 2048), (512, 32000))
"""Inner and outer sizes of a base Transformer's products."""
TURN, MOST = 120_000_000, 512
"""Bytes of the weights of one shape that take turns, more than a cache holds, and how many they are at most."""

Kernel = Callable[[Tensor, list[Tensor]], list[Callable[[], Tensor]]]
"""From an input and weights, both float32, to calls that make all products once; these are timed."""


def _plain(dtype: torch.dtype) -> Kernel:
    def make(x: Tensor, weights: list[Tensor]) -> list[Callable[[], Tensor]]:
        x = x.to(dtype)
        return [functools.partial(F.linear, x, w.to(dtype)) for w in weights]

    return make


def _packed(dtype: torch.dtype) -> Kernel:
    def make(x: Tensor, weights: list[Tensor]) -> list[Callable[[], Tensor]]:
        x, ops = x.to(dtype), torch.ops.mkldnn
        packed = [ops._reorder_linear_weight(w.to(dtype), len(x)) for w in weights]
        return [functools.partial(ops._linear_pointwise, x, w, None, "none", [], "") for w in packed]

    return make


def _int8(x: Tensor, weights: list[Tensor]) -> list[Callable[[], Tensor]]:
    ops, outer = torch.ops.onednn, len(weights[0])
    ones, zeros = torch.ones(outer), torch.zeros(outer, dtype=torch.int32)
    packed = [ops.qlinear_prepack((w * 20).to(torch.int8), list(x.shape)) for w in weights]
    x = (x * 20 + 128).clamp(0, 255).to(torch.uint8)
    rest: tuple[object, ...] = (ones, zeros, None, 1.0, 0, torch.float32, "none", [], "")
    return [functools.partial(ops.qlinear_pointwise, x, 1.0, 128, w, *rest) for w in packed]


def _native(dtype: torch.dtype) -> Kernel:
    """Calque's own kernels, as a step of decoding calls them: all products by one call."""

    def make(x: Tensor, weights: list[Tensor]) -> list[Callable[[], Tensor]]:
        own = kernels()
        if own is None or x.device.type != "cpu":
            raise NotImplementedError  # as torch does for an operator that it lacks
        x = x.to(torch.bfloat16 if dtype == torch.int8 else dtype)
        program = Program(x.dtype, (x,))
        read = program.read(x)
        for w in weights:
            program.product(read, own.pack(w, dtype))
        closed, arena, bound = program.close(), Arena(), Bound()
        bound.take(x)
        frame = Frame(rows=len(x), beams=1)

        def run() -> Tensor:
            frame.bound = ctypes.addressof(bound)
            closed.run(own.run, frame, arena, 0)
            return x

        return [run]

    return make


KERNELS: dict[str, tuple[str, Kernel]] = {
    "float32": ("float32", _plain(torch.float32)),
    "float32 packed": ("float32", _packed(torch.float32)),
    "float32 own": ("float32", _native(torch.float32)),
    "bfloat16": ("bfloat16", _plain(torch.bfloat16)),
    "bfloat16 packed": ("bfloat16", _packed(torch.bfloat16)),
    "bfloat16 own": ("bfloat16", _native(torch.bfloat16)),
    "int8": ("int8", _int8),
    "int8 own": ("int8", _native(torch.int8)),
}
"""Ways to take a product -> the precision of its weights, and the maker of calls. Packed, int8 and Calque's own ones exist
on some processors only."""
BYTES = {"float32": 4, "bfloat16": 2, "int8": 1}
"""Of a weight, by precision."""


def _written(layout: str, dtype: torch.dtype) -> Kernel:
    """Products as training takes them, into a result that is there already: x W^T; x V with V = W^T as it lies; Y^T V."""

    def make(x: Tensor, weights: list[Tensor]) -> list[Callable[[], Tensor]]:
        x = x.to(dtype)
        out = x.new_empty(len(x), len(weights[0]))
        first = x.t().contiguous().t() if layout == "t()" else x
        seconds = [w.to(dtype).t() if layout == "x W^T" else w.to(dtype).t().contiguous() for w in weights]
        return [functools.partial(torch.mm, first, second, out=out) for second in seconds]

    return make


_LAYOUTS = ("x W^T", "x V", "t()")
TRAINING_KERNELS = {
    f"{name} {layout}": (name, _written(layout, dtype))
    for name, dtype in (("float32", torch.float32), ("bfloat16", torch.bfloat16))
    for layout in _LAYOUTS
}
"""Further ways, of training."""


class ProductShape(NamedTuple):
    """x [rows, inner] times a weight [outer, inner]."""

    rows: int
    inner: int
    outer: int

    @property
    def operations(self) -> int:
        """Multiplications and additions, counted apart."""
        return 2 * self.rows * self.inner * self.outer


def product_seconds(
    product: ProductShape, kernel: str, device: torch.device, budget: float = 0.1, turn: int = TURN
) -> float | None:
    """The shortest time of a product, or None where this torch or this machine has no such kernel.

    Weights of at least `turn` bytes take turns, but at most `MOST`; what a cache holds comes from there.
    """
    rows, inner, outer = product
    precision, make = {**KERNELS, **TRAINING_KERNELS}[kernel]
    copies = min(MOST, max(1, -(-turn // (inner * outer * BYTES[precision]))))
    with torch.inference_mode():
        x = torch.randn(rows, inner, device=device)
        one = torch.randn(outer, inner, device=device)
        weights = [one.clone() for _ in range(copies)]
        try:
            calls = make(x, weights)
            calls[0]()
        except (RuntimeError, AttributeError, NotImplementedError):  # what torch raises for an operator it lacks
            return None

        def run() -> None:
            for call in calls:
                call()

        if device.type == "cuda":  # it has made the products of few rows before the host can ask for the next ones
            return best(captured(run, device), budget, waiter(device)) / copies
        return best(run, budget, waiter(device)) / copies


def fastest(
    product: ProductShape, precision: str, device: torch.device, budget: float, turn: int, training: bool
) -> float | None:
    """The seconds of the fastest kernel of a precision; None where the machine has none. In `training`, of more kernels."""
    ways = {**KERNELS, **(TRAINING_KERNELS if training else {})}
    kernels = [kernel for kernel, (weights, _) in ways.items() if weights == precision]
    seconds = [product_seconds(product, kernel, device, budget, turn) for kernel in kernels]
    return min((s for s in seconds if s is not None), default=None)


def bandwidth(device: torch.device, budget: float = 0.1, size: int = 256_000_000) -> dict[str, float]:
    """Gigabytes a second: a large tensor summed; one row times a large weight; a copy, which reads and writes."""
    with torch.inference_mode():
        one, other = torch.ones(size // 4, device=device), torch.empty(size // 4, device=device)
        x, wait = torch.ones(1, 1024, device=device), waiter(device)
        weight = one[: len(one) // 1024 * 1024].view(-1, 1024)
        return {
            "read": digits(size / best(one.sum, budget, wait) / 1e9),
            "row product": digits(size / best(lambda: F.linear(x, weight), budget, wait) / 1e9),
            "copy": digits(2 * size / best(lambda: other.copy_(one), budget, wait) / 1e9),
        }


def overhead(device: torch.device, budget: float = 0.1, calls: int = 500) -> dict[str, float]:
    """Microseconds of operators on tensors so small that their arithmetic takes no time, called from Python."""
    with torch.inference_mode():
        x, w = torch.ones(8, 8, device=device), torch.ones(8, 8, device=device)
        ways: dict[str, Callable[[], object]] = {
            "view": lambda: x.view(64),
            "add": lambda: x + w,
            "add in place": lambda: x.add_(0.0),
            "index": lambda: x.index_select(0, rows),
            "product": lambda: F.linear(x, w),
        }
        rows = torch.arange(8, device=device)

        def many(way: Callable[[], object]) -> Callable[[], None]:
            def run() -> None:
                for _ in range(calls):
                    way()

            return run

        return {name: digits(best(many(w), budget, waiter(device)) / calls * 1e6, 3) for name, w in ways.items()}


class ProductFigures(TypedDict):
    """The speed of a product of one shape, by kernel."""

    rows: int
    inner: int
    outer: int
    gflops: dict[str, float | None]
    microseconds: dict[str, float | None]


class MachineLimits(TypedDict):
    """What this machine can do."""

    products: list[ProductFigures]
    overhead_microseconds: dict[str, float]
    bandwidth_gigabytes_per_second: dict[str, float]


def machine(
    device: torch.device,
    budget: float = 0.2,
    rows: Sequence[int] = ROWS,
    weights: Iterable[tuple[int, int]] = WEIGHTS,
    size: int = 256_000_000,
) -> MachineLimits:
    """Every limit of this machine, each measured for `budget` seconds; null for a kernel that it lacks."""
    products: list[ProductFigures] = []
    for inner, outer in weights:
        for m in rows:
            product = ProductShape(m, inner, outer)
            seconds = {kernel: product_seconds(product, kernel, device, budget) for kernel in KERNELS}
            figures = {k: None if s is None else digits(product.operations / s / 1e9) for k, s in seconds.items()}
            micro = {k: None if s is None else digits(s * 1e6) for k, s in seconds.items()}
            products.append({"rows": m, "inner": inner, "outer": outer, "gflops": figures, "microseconds": micro})
    return {
        "products": products,
        "overhead_microseconds": overhead(device, budget),
        "bandwidth_gigabytes_per_second": bandwidth(device, budget, size),
    }


def table(limits: Mapping[str, Any]) -> str:
    """`MachineLimits` for a reader: products in GFLOP/s, a multiply-add being two operations."""
    rows = [
        [
            f"{p['rows']} x {p['inner']} x {p['outer']}",
            *("-" if v is None else f"{v:.4g}" for v in p["gflops"].values()),
        ]
        for p in limits["products"]
    ]
    text = ["products, GFLOP/s", "", *aligned(["rows x inner x outer", *KERNELS], rows)]
    for title, key, unit in (
        ("operators, from Python", "overhead_microseconds", "µs"),
        ("memory", "bandwidth_gigabytes_per_second", "GB/s"),
    ):
        text += ["", title, "", *(f"{name:14}{value:>8} {unit}" for name, value in limits[key].items())]
    return "\n".join(text)
