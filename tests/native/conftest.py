"""What tests of kernels share."""

from collections.abc import Iterator
from pathlib import Path

import pytest
import torch

from calque.native import build
from calque.native.kernels import Kernels
from instructions import EACH, load


@pytest.fixture(params=EACH)
def native(request: pytest.FixtureRequest) -> Kernels:
    """The kernels for each set of instructions that this processor has."""
    return Kernels(load(request.param), request.param)


@pytest.fixture
def no_gradients() -> Iterator[None]:
    """Random numbers are the same each time, and nothing is recorded for gradients."""
    torch.manual_seed(1)
    with torch.inference_mode():
        yield


@pytest.fixture
def tiny_source(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A source of a library that starts and does nothing, in place of those of the kernels: compiled at once, kept nowhere else."""
    source = tmp_path / "tiny.cpp"
    source.write_text('extern "C" int calque_start() { return 0; }\n')
    monkeypatch.setattr(build, "SOURCES", (source,))
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    return source
