"""Where training computes, and in which type."""

import contextlib
import time
from collections.abc import Iterator

import torch

from calque.ground.diagnostics import error

SPEEDUP = 1.5
"""bfloat16 is taken on a processor where its products are this much faster than those of float32."""
BUDGET = 0.1
"""Seconds spent on measuring each type."""


def pick_device(name: str) -> torch.device:
    """`auto`: cuda where there is one, else cpu. X410 where `cuda` is asked for and there is none."""
    available = torch.cuda.is_available()
    if name == "cuda" and not available:
        raise error("X410")
    return torch.device("cuda" if name == "cuda" or (name == "auto" and available) else "cpu")


def conditions(device: torch.device) -> dict[str, object]:
    """What decides how sums are rounded, besides the experiment."""
    on_processor = {"threads": torch.get_num_threads(), "processor": torch.backends.cpu.get_cpu_capability()}
    where = torch.cuda.get_device_name(device) if device.type == "cuda" else "cpu"
    return {"device": where, **on_processor, "torch": torch.__version__}


def probe_precision(device: torch.device) -> str:
    """`bfloat16` where it is worth it, else `float32`.

    On cuda: where the device supports it. On a processor: where a product [256, 512] x [512, 2048] takes 1.5 times less
    time, measured once with the threads that training has. Some processors have units for it, others emulate it.
    """
    if device.type == "cuda":
        return "bfloat16" if torch.cuda.is_bf16_supported(including_emulation=False) else "float32"
    return "bfloat16" if _best_time(torch.float32) > SPEEDUP * _best_time(torch.bfloat16) else "float32"


def _best_time(dtype: torch.dtype) -> float:
    x, w = torch.ones(256, 512, dtype=dtype), torch.ones(2048, 512, dtype=dtype)
    started, fastest = time.perf_counter(), float("inf")
    with torch.no_grad():
        while True:
            before = time.perf_counter()
            torch.nn.functional.linear(x, w)
            after = time.perf_counter()
            fastest = min(fastest, after - before)
            if after - started > BUDGET:
                return fastest


@contextlib.contextmanager
def processor(threads: int) -> Iterator[None]:
    """Runs with so many threads (0: as it is), denormal numbers taken as zero; afterwards as torch starts."""
    before = torch.get_num_threads()
    # First, so that threads started from now on inherit it.
    torch.set_flush_denormal(True)
    if threads:
        torch.set_num_threads(threads)
    try:
        yield
    finally:
        torch.set_flush_denormal(False)
        torch.set_num_threads(before)
