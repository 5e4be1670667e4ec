"""What all tests share: the shapes of the layers' tensors are checked; tests of an accelerator say so where there is none."""

from collections.abc import Iterator

import jaxtyping
import pytest
import torch

# Before anything imports a layer: from here on every annotation such as Float[Tensor, "B T D"] is held against each call.
jaxtyping.install_import_hook("calque.layers", "beartype.beartype")


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    if torch.cuda.is_available():
        return
    for item in items:
        if item.get_closest_marker("gpu"):
            item.add_marker(pytest.mark.skip(reason="no accelerator here"))


@pytest.fixture
def shapes_unchecked() -> Iterator[None]:
    """For tests that run the layers thousands of times; the same calls are checked elsewhere."""
    jaxtyping.config.update("jaxtyping_disable", True)
    yield
    jaxtyping.config.update("jaxtyping_disable", False)
