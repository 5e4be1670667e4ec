"""How a function becomes a graph, with a stand-in for the device: tests/test_gpu.py has a real one."""

import contextlib
import gc
import warnings
from collections.abc import Iterator
from typing import Any
from unittest.mock import MagicMock

import pytest
import torch

from calque.native import graphs as graph
from calque.native.graphs import NotCapturable, captured

DEVICE = torch.device("cuda:0")
CALLS: list[Any] = []


class StandIn:
    """A graph that only tells what is asked of it."""

    under_way = False

    def capture_begin(self, pool: object, capture_error_mode: str) -> None:
        CALLS.append(("begin", pool))
        self.under_way = True

    def capture_end(self) -> None:
        if not self.under_way:
            raise RuntimeError("no capture is under way")
        self.under_way = False

    def pool(self) -> str:
        return "the pool"

    def replay(self) -> None:
        CALLS.append("replay")


@pytest.fixture(autouse=True)
def device(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    stands = {
        "Stream": lambda device: MagicMock(),
        "CUDAGraph": StandIn,
        "current_stream": lambda device: MagicMock(),
        "stream": lambda stream: contextlib.nullcontext(),
        "synchronize": lambda device: None,
        "empty_cache": lambda: None,
        "get_sync_debug_mode": lambda: 0,
        "set_sync_debug_mode": lambda mode: CALLS.append(mode),
    }
    for name, stand in stands.items():
        monkeypatch.setattr(torch.cuda, name, stand)
    monkeypatch.setattr(graph, "_FIRST", {})
    monkeypatch.setattr(graph, "_STREAMS", {})
    CALLS.clear()
    yield
    assert gc.isenabled()
    assert not graph._LOCK.locked()


def test_graphs_share_the_memory_of_the_first_one_and_keep_what_they_read() -> None:
    x, weight = torch.zeros(3), torch.ones(3)
    replay = captured(_adds(x, weight), DEVICE)
    captured(_adds(x, weight), DEVICE)
    replay()
    assert CALLS == ["warn", 0, ("begin", None), "warn", 0, ("begin", "the pool"), "replay"]
    assert x.tolist() == [6.0] * 3  # two runs and a capture each
    assert {read.data_ptr() for read in replay._reads} == {x.data_ptr(), weight.data_ptr()}


def test_a_graph_does_not_keep_what_it_makes() -> None:
    x, weight = torch.ones(3), torch.ones(3, requires_grad=True)

    def step() -> None:
        y = (weight * x).exp()
        torch.autograd.backward((y * y).sum() + y[0])
        x.copy_(weight.grad)  # type: ignore[arg-type]  # there is one
        weight.grad = None

    replay = captured(step, DEVICE)
    assert sorted(read.data_ptr() for read in replay._reads) == sorted([x.data_ptr(), weight.data_ptr()])


def _adds(x: torch.Tensor, weight: torch.Tensor) -> Any:
    def step() -> None:
        x.add_(weight)

    return step


def test_a_wait_is_no_part_of_a_graph() -> None:
    runs: list[int] = []

    def waits() -> None:
        runs.append(1)
        if len(runs) > 1:  # the first run may wait, to make tables for instance
            warnings.warn("called a synchronizing CUDA operation", stacklevel=1)

    with pytest.raises(NotCapturable, match="waits for the device"):
        captured(waits, DEVICE)


@pytest.mark.parametrize(("fault", "raised"), [(RuntimeError, NotCapturable), (torch.OutOfMemoryError, RuntimeError)])
def test_the_graph_behind_one_that_fails_has_memory_of_its_own(fault: type[Exception], raised: type[Exception]) -> None:
    runs: list[int] = []

    def fails() -> None:
        runs.append(1)
        if len(runs) == 3:
            raise fault("not permitted\nand more")

    captured(lambda: None, DEVICE)
    with pytest.raises(raised, match="not permitted"):
        captured(fails, DEVICE)
    CALLS.clear()
    captured(lambda: None, DEVICE)
    assert ("begin", None) in CALLS
