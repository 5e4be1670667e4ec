"""Products in blocks, gradients summed over loops, and gradients of embeddings: each equals the plain one."""

from typing import Any

import pytest
import torch
from torch import Tensor
from torch.nn import functional as F
from torch.utils._python_dispatch import TorchDispatchMode

import calque
from calque.layers import projections
from calque.layers.projections import (
    FEW,
    GRAIN,
    STEP,
    Embedding,
    Projection,
    gradient,
    linear,
    linear_of_all,
    loop,
    multiply,
)
from calque.native.kernels import without_kernels
from calque.train.initialise import initialise
from calque.train.loss import output_loss
from calque.train.objective import Objective

WIDENED = (
    "heads = 2\nencoder = pos -> repeat(2, tenc)\ndecoder = pos -> repeat(2, tdec)",
    "encoder = birnn\ndecoder = feed(rnn -> res(mlp_src_att))",
    "encoder = cnn\ndecoder = res(mh_dot_self_att(2, window=3)) -> dot_src_att(project=q, window=10, center=predict)",
    "encoder = res(mh_dot_self_att(2, relative=shaw, reach=4))\ndecoder = rnn -> dot_src_att",
)
"""Definitions whose products are made in all ways that there are."""


def grads(y: Tensor, *of: Tensor) -> tuple[Tensor, ...]:
    weight = torch.linspace(-1, 1, y.numel()).view(y.shape).to(y.dtype)
    return torch.autograd.grad((y * weight).sum(), of)


def close(a: Tensor, b: Tensor) -> bool:
    """Equal up to two roundings to bfloat16 of the largest number."""
    return bool((a.float() - b.float()).abs().max() <= 2**-7 * b.float().abs().max())


@pytest.mark.parametrize("rows", [FEW, FEW + 1, 3 * STEP, 700, 1009, 2048 + 3 * STEP + 5])
def test_blocks_give_the_product_and_its_gradients(rows: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(projections, "_without_halves", lambda: False)
    torch.manual_seed(rows)
    x, w, b = (torch.randn(*shape).bfloat16().requires_grad_() for shape in ((rows, 48), (40, 48), (40,)))
    blocks, plain = linear(x, w, b), F.linear(x, w, b)
    assert type(blocks.grad_fn).__name__ == "_LinearBackward"
    assert close(blocks, plain)
    assert all(close(*pair) for pair in zip(grads(blocks, x, w, b), grads(plain, x, w, b), strict=True))


class Products(TorchDispatchMode):
    """The types of what is multiplied while it is entered."""

    def __init__(self) -> None:
        super().__init__()
        self.types: set[torch.dtype] = set()

    def __torch_dispatch__(self, function: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        if function.overloadpacket in (
            torch.ops.aten.mm,
            torch.ops.aten.addmm,
            torch.ops.aten.bmm,
            torch.ops.aten.baddbmm,
        ):
            self.types.update(x.dtype for x in args if isinstance(x, Tensor))
        return function(*args, **(kwargs or {}))


@pytest.mark.parametrize("text", WIDENED)
def test_numbers_are_widened_where_torch_has_no_products_in_bfloat16(
    text: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    model = calque.build(f"adl = 0\nd = 32\n{text}\n", 50, 50).bfloat16()
    initialise(model, "glorot", 0.1, 3)
    words = torch.randint(4, 50, (40, 9), generator=torch.Generator().manual_seed(0))

    def run() -> Tensor:
        z = model.decode(words, model.encode(words))
        loss = output_loss(z.flatten(0, 1), model.output.weight, model.output.bias, words.flatten(), Objective(0.1))[0]
        return torch.cat([g.flatten().float() for g in torch.autograd.grad(loss, list(model.parameters()))])

    with without_kernels():
        with Products() as products:
            monkeypatch.setattr(projections, "_without_halves", lambda: True)
            wide = run()
        assert products.types == {torch.float32}
        monkeypatch.setattr(projections, "_without_halves", lambda: False)
        plain = run()
        model.float()
        exact = run()
    assert float((wide - exact).norm()) <= 1.5 * float((plain - exact).norm())


def test_few_sizes_are_multiplied_whatever_the_number_of_rows(monkeypatch: pytest.MonkeyPatch) -> None:
    sizes: set[int] = set()
    mm = torch.mm
    monkeypatch.setattr(torch, "mm", lambda a, *rest, **named: sizes.add(len(a)) or mm(a, *rest, **named))
    for rows in range(FEW, 1300, 7):
        multiply(torch.ones(rows, 2), torch.ones(2, 2), torch.empty(rows, 2))
    assert all(size % STEP == 0 for size in sizes)
    assert len(sizes) <= 1300 // STEP


@pytest.mark.parametrize("rows", [1, GRAIN - 1, GRAIN, 1000])
def test_sums_over_rows_in_blocks(rows: int) -> None:
    g, x = torch.randn(rows, 3, dtype=torch.float64), torch.randn(rows, 5, dtype=torch.float64)
    assert torch.allclose(gradient(g, x), g.t() @ x)
    assert torch.allclose(gradient(g, x, torch.ones(3, 5, dtype=torch.float64)), 1 + g.t() @ x)


def test_one_product_for_several_matrices() -> None:
    parts = [Projection(6, 4, bias=bias) for bias in (True, True)]
    x = torch.randn(2, 3, 6)
    assert torch.allclose(linear_of_all(x, *parts), torch.cat([part(x) for part in parts], -1))


def test_a_loop_sums_its_gradients_once(monkeypatch: pytest.MonkeyPatch) -> None:
    summed: list[int] = []
    monkeypatch.setattr(projections, "gradient", lambda g, x: (summed.append(len(g)), gradient(g, x))[1])
    used, unused = Projection(4, 4).double(), Projection(4, 4).double()
    start = torch.randn(3, 4, dtype=torch.float64, requires_grad=True)

    def run() -> Tensor:
        h, outputs = start, []
        for _ in range(5):
            h = torch.tanh(used(h))
            outputs.append(h)
            unused(h)
        return torch.stack(outputs)

    of = (start, used.weight, used.bias)
    plain = grads(run(), *of)
    with loop():
        looped = run()
    assert all(torch.allclose(*pair) for pair in zip(grads(looped, *of), plain, strict=True))
    assert summed == [15]  # three rows at each of five positions, of the one matrix that is used


def test_a_loop_may_end_before_its_gradient_is_taken_twice() -> None:
    part = Projection(4, 4).double()
    x = torch.randn(3, 4, dtype=torch.float64)
    with loop():
        y = part(x).sum() + part(2 * x).sum()
    first = torch.autograd.grad(y, part.weight, retain_graph=True)[0]
    assert torch.allclose(first, torch.autograd.grad(y, part.weight)[0])


def test_an_embedding_hands_over_the_gradients_of_its_rows() -> None:
    table, numbers = Embedding(7, 3), torch.tensor([[1, 5, 1]])
    (dense,) = grads(table(numbers), table.weight)
    table.rows = []
    y = table(numbers)
    (y * torch.linspace(-1, 1, y.numel()).view(y.shape)).sum().backward()
    ((which, rows),) = table.rows
    assert table.weight.grad is None
    assert torch.allclose(torch.zeros(7, 3).index_add_(0, which, rows), dense)


def test_matrices_that_are_put_together_in_a_loop_are_not_taken_for_one_another() -> None:
    text = (
        "adl = 0\nd = 32\nencoder = id\ndecoder = feed(linear -> res(mh_dot_self_att(2)) -> res(mh_dot_self_att(2)))\n"
    )
    model = calque.build(text, 50, 50)
    initialise(model, "glorot", 0.1, 3)
    source, words = torch.randint(4, 50, (FEW + 44, 4)), torch.randint(4, 50, (FEW + 44, 6))

    def run(rows: int) -> tuple[Tensor, tuple[Tensor, ...]]:
        z = torch.cat(
            [model.decode(w, model.encode(s)) for s, w in zip(source.split(rows), words.split(rows), strict=True)]
        )
        return z, torch.autograd.grad(
            z.square().sum(), [p for n, p in model.named_parameters() if n.startswith("decoder.")]
        )

    (many, of_many), (few, of_few) = run(len(source)), run(50)
    torch.testing.assert_close(many, few, rtol=1e-4, atol=1e-5)
    for pair in zip(of_many, of_few, strict=True):
        torch.testing.assert_close(*pair, rtol=1e-3, atol=1e-3)
