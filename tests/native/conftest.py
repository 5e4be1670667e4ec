"""What tests of kernels share."""

from collections.abc import Iterator

import pytest
import torch

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
