"""A function of tensors that keep their places as a graph of an accelerator's kernels."""

import contextlib
import gc
import threading
import warnings
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import torch
from torch import Tensor
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils._pytree import tree_leaves


class NotCapturable(Exception):
    """Why a step cannot become a graph."""


def captured(step: Callable[[], None], device: torch.device) -> Callable[[], None]:
    """Returns a function that does what `step` does: on CUDA it replays a graph, elsewhere it is `step`.

    `step` runs twice first, since layers make tables in their first run.

    Raises NotCapturable where it waits for the device, or where the form of what it overwrites changes.
    """
    step()
    if device.type != "cuda":
        step()
        return step
    with _LOCK:
        stream = _STREAMS.get(device) or torch.cuda.Stream(device)  # type: ignore[no-untyped-call]  # torch leaves it untyped
        # Memory that a graph has no more use for serves the next one, as long as both are captured on one stream.
        _STREAMS[device] = stream
        stream.wait_stream(torch.cuda.current_stream(device))
        with torch.cuda.stream(stream):
            with _without_waits(), _Reads() as reads:
                step()
            torch.cuda.synchronize(device)
            torch.cuda.empty_cache()  # which cannot be done while a graph is captured
            graph = _captured(step, device)
        torch.cuda.current_stream(device).wait_stream(stream)
    return _Replay(graph, reads.kept)


def forget(device: torch.device) -> None:
    """Memory that graphs of the device have shared is free as soon as none of them is left."""
    with _LOCK:
        _FIRST.pop(device, None)
    if device.type == "cuda":
        torch.cuda.empty_cache()


_LOCK = threading.Lock()
"""One graph is captured at a time."""
_STREAMS: dict[torch.device, torch.cuda.Stream] = {}
_FIRST: dict[torch.device, torch.cuda.CUDAGraph] = {}
"""The first graph of each device, which keeps the memory alive that all graphs share, one of which runs at a time."""


def _captured(step: Callable[[], None], device: torch.device) -> torch.cuda.CUDAGraph:
    """Raises NotCapturable where an operation cannot be part of a graph."""
    graph, first = torch.cuda.CUDAGraph(), _FIRST.get(device)
    collects = gc.isenabled()
    gc.disable()  # what it frees may belong to another graph
    try:
        # Another thread may use the device meanwhile, to load a model for instance.
        graph.capture_begin(pool=None if first is None else first.pool(), capture_error_mode="thread_local")
        step()
        graph.capture_end()
    except BaseException as fault:
        _FIRST.pop(device, None)  # its memory may still be taken for that of this graph
        with contextlib.suppress(RuntimeError):
            graph.capture_end()
        if isinstance(fault, RuntimeError) and not isinstance(fault, torch.cuda.OutOfMemoryError):
            raise NotCapturable(str(fault).split("\n")[0]) from fault
        raise
    finally:
        if collects:
            gc.enable()
    _FIRST.setdefault(device, graph)
    return graph


class _Replay:
    """Runs a graph, and keeps the tensors that it reads: layers may replace tables, which the graph goes on to read."""

    def __init__(self, graph: torch.cuda.CUDAGraph, reads: list[Tensor]):
        self._graph, self._reads = graph, reads

    def __call__(self) -> None:
        self._graph.replay()


@contextmanager
def _without_waits() -> Iterator[None]:
    """Raises NotCapturable where the device is waited for. So it seems, too, where another thread waits meanwhile."""
    mode = torch.cuda.get_sync_debug_mode()
    with warnings.catch_warnings(record=True) as said:
        warnings.simplefilter("always")
        torch.cuda.set_sync_debug_mode("warn")
        try:
            yield
        finally:
            torch.cuda.set_sync_debug_mode(mode)
    if any("called a synchronizing" in str(each.message) for each in said):
        raise NotCapturable("a step waits for the device")


class _Reads(TorchDispatchMode):  # type: ignore[no-untyped-call]  # torch leaves it untyped
    """The tensors that operators read and that none of them has made."""

    def __init__(self) -> None:
        super().__init__()  # type: ignore[no-untyped-call]  # torch leaves it untyped
        self.kept: list[Tensor] = []
        self._made: dict[int, Tensor] = {}  # kept, so that no storage takes the place of another one

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        kwargs = kwargs or {}
        made = func(*args, **kwargs)
        for x in tree_leaves((args, kwargs)):
            if isinstance(x, Tensor) and storage(x) not in self._made:
                self._made[storage(x)] = x
                self.kept.append(x.detach())  # a parameter may be given other numbers
        for x in tree_leaves(made):
            if isinstance(x, Tensor):
                self._made.setdefault(storage(x), x)
        return made

    def __exit__(self, *fault: Any) -> None:
        self._made.clear()
        super().__exit__(*fault)  # type: ignore[no-untyped-call]  # torch leaves it untyped


def storage(x: Tensor) -> int:
    """What tells the memory of a tensor from that of others."""
    return int(x.untyped_storage()._cdata)
