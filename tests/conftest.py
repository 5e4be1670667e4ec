"""What all tests share: shapes of tensors are checked, all but the fast tests are dealt into parts, some need an accelerator."""

import os
from collections.abc import Iterator

import jaxtyping
import pytest
import torch

from parts import chosen, part

if not torch.cuda.is_available():
    os.environ.setdefault(
        "TRITON_INTERPRET", "1"
    )  # before anything imports Triton, whose kernels then run on tensors of a processor
# Before anything imports a layer: every annotation such as Float[Tensor, "B T D"] can be compared with each call.
jaxtyping.install_import_hook("calque.layers", "beartype.beartype")
# The comparison takes as long as the layers themselves, so it is made only where their forms are tested.
jaxtyping.config.update("jaxtyping_disable", True)
SHAPES_CHECKED = {"contract"}
"""Folders whose tests check the shapes of each call: they run every layer in every form."""
SHAPES_CHECKED_IF_SLOW = {"contract", "decode", "reference"}

SLOW = pytest.StashKey[tuple[list[str], list[str]]]()
"""The ids of all slow tests and of all medium ones that were collected, whichever part of them is run."""


@pytest.hookimpl(tryfirst=True)
def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    slow = [item.nodeid for item in items if item.get_closest_marker("slow")]
    medium = sorted({item.nodeid for item in items if item.get_closest_marker("medium")} - set(slow))
    config.stash[SLOW] = slow, medium
    if wanted := os.environ.get("CALQUE_PART"):
        others = {*slow, *medium} - set(chosen(slow, medium, *part(wanted)))
        config.hook.pytest_deselected(items=[item for item in items if item.nodeid in others])
        items[:] = [item for item in items if item.nodeid not in others]
    if torch.cuda.is_available():
        return
    for item in items:
        if item.get_closest_marker("gpu"):
            item.add_marker(pytest.mark.skip(reason="no accelerator here"))


@pytest.fixture(autouse=True)
def _shapes(request: pytest.FixtureRequest) -> Iterator[None]:
    folders = SHAPES_CHECKED_IF_SLOW if request.node.get_closest_marker("slow") else SHAPES_CHECKED
    jaxtyping.config.update("jaxtyping_disable", request.path.parent.name not in folders)
    yield
    jaxtyping.config.update("jaxtyping_disable", True)


@pytest.fixture
def shapes_unchecked(_shapes: None) -> None:
    """For tests that run the layers thousands of times; the same calls are checked elsewhere."""
    jaxtyping.config.update("jaxtyping_disable", True)


@pytest.fixture
def dealt_tests(request: pytest.FixtureRequest) -> tuple[list[str], list[str]]:
    """The ids of the slow and of the medium tests among those collected."""
    return request.config.stash[SLOW]
