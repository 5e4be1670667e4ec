"""The inputs under a filter, with their gradient."""

import pytest
import torch

from calque.layers.sliding import neighbours


@pytest.mark.parametrize(("kernel", "dilation"), [(1, 1), (3, 1), (3, 2)])
@pytest.mark.parametrize("batch", [0, 2])
def test_windows_and_their_gradient(kernel: int, dilation: int, batch: int) -> None:
    seen = torch.randn(batch, 9, 4, dtype=torch.float64, requires_grad=True)
    found = neighbours(seen, kernel, dilation)
    n = 9 - (kernel - 1) * dilation
    places = [seen[:, k * dilation : k * dilation + n] for k in range(kernel)]
    expected = torch.cat(places, 2)
    assert torch.equal(found, expected)
    weights = torch.randn_like(expected)
    (own,) = torch.autograd.grad((found * weights).sum(), seen)
    (plain,) = torch.autograd.grad((expected * weights).sum(), seen)
    assert (own - plain).abs().sum() < 1e-12
