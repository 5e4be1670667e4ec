"""Dropout behind a rectified product: in place, with the gradient of the two functions one after the other."""

import pytest
import torch

from calque.layers.drop import drop, relu_and_drop
from calque.layers.projections import Projection


@pytest.mark.parametrize("rows", [4, 1000])
def test_both_at_once_are_one_after_the_other(rows: int) -> None:
    project = Projection(8, 16)
    x = torch.randn(3, rows, 8, requires_grad=True)
    of = (x, *project.parameters())

    torch.manual_seed(1)
    expected = drop(project(x).relu(), 0.3, training=True)
    torch.manual_seed(1)
    found = relu_and_drop(project(x), 0.3, training=True)
    assert torch.equal(found, expected)
    assert 0.3 < float((found == 0).float().mean()) < 0.9
    both = (torch.autograd.grad(y.square().sum(), of) for y in (found, expected))
    assert all(torch.allclose(a, b, rtol=1e-4, atol=1e-4) for a, b in zip(*both, strict=True))


def test_draws_follow_from_the_state_of_torchs_generator_however_many() -> None:
    for numbers in (100, 100_000):
        torch.manual_seed(7)
        first = drop(torch.ones(numbers), 0.5, training=True)
        torch.manual_seed(7)
        assert torch.equal(first, drop(torch.ones(numbers), 0.5, training=True))
        assert not torch.equal(first, drop(torch.ones(numbers), 0.5, training=True))
