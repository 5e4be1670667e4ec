"""The kernels of training and their gradients against torch, for every set of instructions that this processor has."""

from collections.abc import Iterator

import pytest
import torch
from torch import Tensor
from torch.nn import functional as F

from calque.native.kernels import without_kernels
from calque.native.training import ALL, TrainingKernels, training_kernels_for
from calque.native.training_calls import Adam, Muon
from calque.native.training_functions import LEVELS
from instructions import EACH, load

TYPES = [torch.float32, torch.bfloat16]
Shape = tuple[int, int, int, int, int, int, int, tuple[int, int], bool, int]
SHAPES: list[Shape] = [  # sentences, queries, keys, width, value width, heads, heads of keys, window, padded, parts
    (3, 16, 16, 32, 32, 2, 2, (ALL, 0), False, 1),
    (4, 7, 21, 24, 36, 3, 3, (ALL, ALL), True, 2),
    (2, 19, 19, 32, 16, 4, 2, (ALL, ALL), True, 3),
    (2, 33, 33, 20, 20, 4, 1, (ALL, 0), False, 3),
    (1, 1, 1, 8, 8, 1, 1, (ALL, 0), True, 1),
    (3, 40, 40, 32, 32, 4, 2, (2, 2), True, 3),
    (2, 35, 35, 24, 24, 2, 2, (17, 1), True, 1),
    (2, 20, 20, 16, 16, 2, 1, (0, 0), False, 3),
]


@pytest.fixture(params=EACH)
def native(request: pytest.FixtureRequest) -> TrainingKernels:
    kernels = TrainingKernels(load(request.param))
    kernels.products = kernels.calls.products  # also where the library is as fast
    return kernels


@pytest.fixture(autouse=True, params=[1, 2])
def threads(request: pytest.FixtureRequest) -> Iterator[None]:
    before = torch.get_num_threads()
    torch.set_num_threads(request.param)
    torch.manual_seed(1)
    yield
    torch.set_num_threads(before)


def leaf(*shape: int, dtype: torch.dtype = torch.float32) -> Tensor:
    return torch.randn(*shape).to(dtype).requires_grad_()


def plain(*tensors: Tensor) -> list[Tensor]:
    return [x.detach().double().requires_grad_() for x in tensors]


def near(got: Tensor | None, want: Tensor | None, dtype: torch.dtype) -> None:
    assert got is not None
    assert want is not None
    want = want.detach()
    scale = float(want.abs().max()) or 1.0
    rest = 1e-2 if dtype == torch.bfloat16 else 1e-5
    torch.testing.assert_close(got.detach().double() / scale, want / scale, rtol=rest, atol=rest)


@pytest.mark.parametrize("dtype", TYPES)
@pytest.mark.parametrize("sizes", [(64, 32, 32), (300, 64, 96), (37, 96, 160), (2100, 32, 64)])
@pytest.mark.parametrize("biased", [True, False])
def test_products(native: TrainingKernels, dtype: torch.dtype, sizes: tuple[int, int, int], biased: bool) -> None:
    rows, width, out = sizes
    x, w, b = (leaf(*shape, dtype=dtype) for shape in ((rows, width), (out, width), (out,)))
    y = native.linear(x, w, b if biased else None)
    if y is None:
        pytest.skip("this set of instructions has no products of this type")
    g = torch.randn(rows, out).to(dtype)
    y.backward(g)
    x_2, w_2, b_2 = plain(x, w, b)
    want = F.linear(x_2, w_2, b_2 if biased else None)
    want.backward(g.double())
    for got, wanted in ((y, want), (x.grad, x_2.grad), (w.grad, w_2.grad)):
        near(got, wanted, dtype)
    if biased:
        near(b.grad, b_2.grad, dtype)


@pytest.mark.parametrize("dtype", TYPES)
@pytest.mark.parametrize("rows", [5, 64])
def test_a_packed_matrix(native: TrainingKernels, dtype: torch.dtype, rows: int) -> None:
    x, w, b, g = (torch.randn(*shape).to(dtype) for shape in ((rows, 64), (96, 64), (96,), (rows, 96)))
    if not native.fits(w):
        pytest.skip("this set of instructions has no products of this type")
    packed = native.packed(w)
    near(packed.times(x, b), x.double() @ w.double().t() + b.double(), dtype)
    near(packed.gradient(g), g.double() @ w.double(), dtype)
    total, _ = native.weight_gradient(g, x, False)
    want = g.double().t() @ x.double()
    near(total, want, dtype)
    native.weight_gradient(g, x, False, total)
    near(total, 2 * want, dtype)


@pytest.mark.parametrize("dtype", TYPES)
@pytest.mark.parametrize("p", [0.0, 0.25])
@pytest.mark.parametrize("rows", [70, 2100])
def test_a_product_with_relu_and_dropout(native: TrainingKernels, dtype: torch.dtype, p: float, rows: int) -> None:
    x, w, b = (leaf(*shape, dtype=dtype) for shape in ((rows, 64), (288, 64), (288,)))
    torch.manual_seed(5)
    y = native.linear(x, w, b, relu=p)
    if y is None:
        pytest.skip("this set of instructions has no products of this type")
    g = torch.randn(rows, 288).to(dtype)
    y.backward(g)
    torch.manual_seed(5)
    factors = native.drop(torch.ones(rows, 288), p).detach().double()
    x_2, w_2, b_2 = plain(x, w, b)
    want = F.linear(x_2, w_2, b_2).relu() * factors
    (want * g.double()).sum().backward()
    near(y, want, dtype)
    for got, wanted in ((x, x_2), (w, w_2), (b, b_2)):
        near(got.grad, wanted.grad, dtype)


@pytest.mark.parametrize("dtype", TYPES)
@pytest.mark.parametrize("use", ["h", "c", "both"])
def test_the_cell_of_an_lstm(native: TrainingKernels, dtype: torch.dtype, use: str) -> None:
    driven, pushed, c = leaf(5, 3, 76, dtype=dtype), leaf(5, 76, dtype=dtype), leaf(5, 19)
    h, after = native.lstm(driven[:, 1], pushed, c, 0.5)
    others = plain(driven, pushed, c)
    i, f, g, o = (others[0][:, 1] + others[1]).chunk(4, -1)
    want_c = torch.sigmoid(f + 0.5) * others[2] + torch.sigmoid(i) * torch.tanh(g)
    want_h = torch.sigmoid(o) * torch.tanh(want_c)
    near(h, want_h, dtype)
    near(after, want_c, torch.float32)
    by_h, by_c = torch.randn(5, 19).to(dtype), torch.randn(5, 19)
    weights = {"h": (1, 0), "c": (0, 1), "both": (1, 1)}[use]
    sum(x for x, n in (((h * by_h).sum(), weights[0]), ((after * by_c).sum(), weights[1])) if n).backward()  # type: ignore[union-attr]  # a tensor
    ((want_h * by_h.double()).sum() * weights[0] + (want_c * by_c.double()).sum() * weights[1]).backward()
    for got, wanted in zip((driven, pushed, c), others, strict=True):
        near(got.grad, wanted.grad, dtype)


def test_widths_that_do_not_fit_have_no_kernel(native: TrainingKernels) -> None:
    assert native.linear(torch.zeros(64, 40).bfloat16(), torch.zeros(32, 40).bfloat16(), None) is None


@pytest.mark.parametrize("dtype", TYPES)
@pytest.mark.parametrize("relu", [True, False])
@pytest.mark.parametrize("count", [1, 31, 33, 4096])
def test_dropout_keeps_what_its_seed_says(native: TrainingKernels, dtype: torch.dtype, relu: bool, count: int) -> None:
    x, g = leaf(count, dtype=dtype), torch.randn(count).to(dtype)
    torch.manual_seed(5)
    y = native.drop(x * 1, 0.25, relu)
    y.backward(g)
    torch.manual_seed(5)
    kept = native.drop(torch.ones(count, dtype=dtype), 0.25)
    assert set(kept.tolist()) <= {0.0, float(torch.tensor(1 / 0.75).to(dtype))}
    factors = (kept != 0) / (1 - round(0.25 * LEVELS) / LEVELS)
    if relu:
        factors = factors * (x > 0)
    near(y, x.detach().double() * factors, dtype)
    near(x.grad, g.double() * factors, dtype)


def test_dropout_is_even_and_without_a_pattern(native: TrainingKernels) -> None:
    kept = native.drop(torch.ones(2**20), 0.3) != 0
    assert abs(float(kept.double().mean()) - 0.7) < 0.002
    other = native.drop(torch.ones(2**20), 0.3) != 0
    for a, b in ((kept, other), (kept[1:], kept[:-1]), (kept[16:], kept[:-16]), (kept[32:], kept[:-32])):
        assert abs(float((a == b).double().mean()) - 0.58) < 0.003
    by_place = kept.view(-1, 32).double().mean(0)
    assert float((by_place - 0.7).abs().max()) < 0.012


@pytest.mark.parametrize("dtype", TYPES)
@pytest.mark.parametrize("width", [16, 37, 256])
def test_layer_norm(native: TrainingKernels, dtype: torch.dtype, width: int) -> None:
    x, gain, shift = leaf(5, 7, width, dtype=dtype), leaf(width, dtype=dtype), leaf(width, dtype=dtype)
    g = torch.randn(5, 7, width).to(dtype)
    y = native.norm(x, gain, shift, 1e-6)
    y.backward(g)
    others = plain(x, gain, shift)
    want = F.layer_norm(others[0], (width,), others[1], others[2], 1e-6)
    want.backward(g.double())
    near(y, want, dtype)
    for got, wanted in zip((x, gain, shift), others, strict=True):
        near(got.grad, wanted.grad, dtype)


def attention(
    q: Tensor, k: Tensor, v: Tensor, heads: int, shared: int, real: Tensor | None, window: tuple[int, int]
) -> Tensor:
    cut = [x.view(*x.shape[:2], n, -1).transpose(1, 2) for x, n in zip((q, k, v), (heads, shared, shared), strict=True)]
    queries, keys, values = cut[0], *(x.repeat_interleave(heads // shared, 1) for x in cut[1:])
    scores = queries @ keys.transpose(2, 3) * 0.3
    blocked = torch.zeros(len(q), 1, *scores.shape[2:], dtype=torch.bool)
    if real is not None:
        blocked |= ~real[:, None, None]
    distance = torch.arange(keys.shape[2]) - torch.arange(queries.shape[2])[:, None]
    blocked = blocked | (distance < -window[0]) | (distance > window[1])
    weights = scores.masked_fill(blocked, torch.finfo(scores.dtype).min).softmax(-1)
    weights = weights.masked_fill(blocked.all(-1, keepdim=True), 0)
    return (weights @ values).transpose(1, 2).flatten(2)


@pytest.mark.parametrize("dtype", TYPES)
@pytest.mark.parametrize("shape", SHAPES)
def test_attention(native: TrainingKernels, dtype: torch.dtype, shape: Shape) -> None:
    batch, queries, keys, width, value_width, heads, shared, window, padded, count = shape
    widths = width, width // heads * shared, value_width // heads * shared
    lengths = (queries, keys, keys)
    tensors = [torch.randn(batch, n, w).to(dtype) for n, w in zip(lengths, widths, strict=True)]
    cuts = {1: [tensors], 2: [tensors[:1], tensors[1:]], 3: [[x] for x in tensors]}[count]
    parts = [torch.cat(group, -1).requires_grad_() for group in cuts]
    real = torch.arange(keys) < torch.randint(1, keys + 1, (batch, 1)) if padded else None
    y = native.attend(parts, widths, heads, 0.3, real, window, shared)
    g = torch.randn(batch, queries, value_width).to(dtype)
    y.backward(g)
    others = plain(*tensors)
    want = attention(others[0], others[1], others[2], heads, shared, real, window)
    want.backward(g.double())
    near(y, want, dtype)
    got = [x for part, group in zip(parts, grouped(widths, count), strict=True) for x in part.grad.split(group, -1)]  # type: ignore[union-attr]  # it has one
    for mine, other in zip(got, others, strict=True):
        near(mine, other.grad, dtype)


def grouped(widths: tuple[int, int, int], count: int) -> list[list[int]]:
    a, b, c = widths
    return {1: [[a, b, c]], 2: [[a], [b, c]], 3: [[a], [b], [c]]}[count]


def test_a_query_that_sees_nothing_takes_the_mean(native: TrainingKernels) -> None:
    x = leaf(1, 3, 24)
    y = native.attend([x], (8, 8, 8), 2, 0.3, torch.zeros(1, 3, dtype=torch.bool), (ALL, ALL))
    near(y, x.detach()[:, :, 16:].mean(1, keepdim=True).expand(1, 3, 8).double(), torch.float32)
    y.sum().backward()
    assert x.grad is not None
    near(x.grad, torch.cat([torch.zeros(1, 3, 16), torch.ones(1, 3, 8)], -1).double(), torch.float32)


@pytest.mark.parametrize("dtype", TYPES)
@pytest.mark.parametrize(("batch", "queries", "keys", "width"), [(3, 5, 7, 40), (2, 1, 9, 16), (1, 4, 1, 3)])
def test_additive_scores(
    native: TrainingKernels, dtype: torch.dtype, batch: int, queries: int, keys: int, width: int
) -> None:
    q, k, w = leaf(batch, queries, width, dtype=dtype), leaf(batch, keys, width, dtype=dtype), leaf(width, dtype=dtype)
    others = plain(q, k, w)
    want = torch.tanh(others[0][:, :, None] + others[1][:, None]) @ others[2]
    y = native.additive_scores(q, k, w)
    g = torch.randn_like(y)
    g[:, :, keys // 2] = 0  # as where a key is padding
    y.backward(g)
    want.backward(g.double())
    near(y, want, dtype)
    for mine, other in zip((q, k, w), others, strict=True):
        near(mine.grad, other.grad, dtype)


@pytest.mark.parametrize("dtype", TYPES)
@pytest.mark.parametrize("smoothing", [0.0, 0.1])
@pytest.mark.parametrize("words", [17, 400])
def test_the_loss_of_an_output_layer(native: TrainingKernels, dtype: torch.dtype, smoothing: float, words: int) -> None:
    logits, target, bias = torch.randn(9, words).to(dtype) * 3, torch.randint(words, (9,)), torch.randn(words)
    wide = (logits.double() + bias.double()).requires_grad_()
    log_p = wide.log_softmax(1)
    log_q = log_p.detach()
    q = torch.full((9, words), smoothing / (words - 1) if smoothing else 0.0, dtype=torch.float64)
    q.scatter_(1, target[:, None], 1 - smoothing)
    (-(q * log_p).sum()).backward()
    d_bias = torch.zeros(words)
    logits = F.pad(logits, (0, 15))[:, :words]  # a view with longer rows
    sums = native.loss(logits, target, bias, smoothing, d_bias, needs=True)
    assert sums.nll == pytest.approx(-float(log_q.gather(1, target[:, None]).sum()), rel=1e-5)
    assert sums.total == pytest.approx(-float(log_q.sum()), rel=1e-5)
    near(logits, wide.grad, dtype)
    near(d_bias, wide.grad.sum(0), torch.float32)  # type: ignore[union-attr]  # it has one


@pytest.mark.parametrize("dtype", TYPES)
@pytest.mark.parametrize("smoothing", [0.0, 0.1])
@pytest.mark.parametrize("words", [17, 400])
@pytest.mark.parametrize("threads", [1, 2])
def test_the_loss_of_pairs_that_are_drawn_together(
    native: TrainingKernels, dtype: torch.dtype, smoothing: float, words: int, threads: int
) -> None:
    logits, target = torch.randn(10, words).to(dtype), torch.randint(words, (5,)).repeat_interleave(2)
    bias, r_drop = torch.randn(words), 3.0
    wide = (logits.double() + bias.double()).requires_grad_()
    log_p = wide.log_softmax(1)
    q = torch.full((10, words), smoothing / (words - 1) if smoothing else 0.0, dtype=torch.float64)
    q.scatter_(1, target[:, None], 1 - smoothing)
    one, other = log_p[::2], log_p[1::2]
    apart = ((one.exp() - other.exp()) * (one - other)).sum()
    (-(q * log_p).sum() / 2 + r_drop / 4 * apart).backward()
    d_bias = torch.zeros(words)
    logits = F.pad(logits, (0, 15))[:, :words]  # a view with longer rows
    before = torch.get_num_threads()
    torch.set_num_threads(threads)
    try:
        silent = native.loss(logits.clone(), target, bias, smoothing, None, needs=False, r_drop=r_drop)
        sums = native.loss(logits, target, bias, smoothing, d_bias, needs=True, r_drop=r_drop)
    finally:
        torch.set_num_threads(before)
    assert silent == pytest.approx(sums, rel=1e-6)
    log_q = log_p.detach()
    assert sums.nll == pytest.approx(-float(log_q.gather(1, target[:, None]).sum()), rel=1e-5)
    assert sums.total == pytest.approx(-float(log_q.sum()), rel=1e-5)
    assert sums.apart == pytest.approx(float(apart.detach()), rel=1e-5)
    near(logits, wide.grad, dtype)
    near(d_bias, wide.grad.sum(0), torch.float32)  # type: ignore[union-attr]  # it has one
    with pytest.raises(ValueError, match="pairs of rows"):
        native.loss(logits[:3], target[:3], bias, smoothing, None, needs=False, r_drop=r_drop)


@pytest.mark.parametrize("dtype", TYPES)
def test_adam(native: TrainingKernels, dtype: torch.dtype) -> None:
    weights, first, second = torch.randn(4, 1500), torch.randn(4, 1500), torch.rand(4, 1500)
    others = [x.clone() for x in (weights, first, second)]
    gradient, rounded = torch.randn(4, 1500).to(dtype), torch.empty(4, 1500, dtype=torch.bfloat16)
    step = 3
    how = Adam(4.0, 0.9, 0.98, 0.01 / (1 - 0.9**step), (1 - 0.98**step) ** 0.5, 1e-9, 1 - 0.01 * 0.1)
    native.adam(how, weights, gradient, (first, second), rounded)
    torch._fused_adamw_(
        [others[0]],
        [gradient.float()],
        [others[1]],
        [others[2]],
        [],
        [torch.tensor(float(step))],
        lr=0.01,
        beta1=0.9,
        beta2=0.98,
        weight_decay=0.1,
        eps=1e-9,
        amsgrad=False,
        maximize=False,
        grad_scale=torch.tensor(4.0),
    )
    for got, want in zip((weights, first, second), others, strict=True):
        torch.testing.assert_close(got, want, rtol=1e-5, atol=1e-6)
    assert torch.equal(rounded, weights.bfloat16())
    assert native.squares(gradient) == pytest.approx(float(gradient.double().square().sum()), rel=1e-5)


@pytest.mark.parametrize("dtype", TYPES)
@pytest.mark.parametrize("shape", [(32, 32), (64, 96), (128, 32), (96, 4, 24), (32, 3200), (3200, 32)])
def test_muon(native: TrainingKernels, dtype: torch.dtype, shape: tuple[int, ...]) -> None:
    if torch.bfloat16 not in native.calls.products:
        pytest.skip("this set of instructions has no products in bfloat16")
    weights, momentum, g = torch.randn(shape), torch.randn(shape), torch.randn(shape).to(dtype)
    b = 0.95 * momentum.double().flatten(1) + 0.05 * g.double().flatten(1) / 4
    u = 0.95 * b + 0.05 * g.double().flatten(1) / 4
    x = u / u.norm()
    for _ in range(3):
        gram = x @ x.T
        x = 3.4445 * x + (-4.775 * gram + 2.0315 * gram @ gram) @ x
    how, rounded = Muon(4, 0.95, 0.3, 0.9, 3.4445, -4.775, 2.0315), torch.empty(shape, dtype=torch.bfloat16)
    before = weights.clone(), momentum.clone()
    assert native.muon(how, 3, weights, g, momentum, rounded)
    moved = (weights - 0.9 * before[0]).double().flatten(1)
    assert float((moved + 0.3 * x).norm() / (0.3 * x).norm()) < 0.02
    near(momentum.flatten(1), b, torch.float32)
    assert torch.equal(rounded, weights.bfloat16())
    torch.set_num_threads(3 - torch.get_num_threads())
    assert native.muon(how, 3, before[0], g, before[1], None)
    assert torch.equal(before[0], weights)


def test_muon_has_no_kernel_for_other_widths(native: TrainingKernels) -> None:
    weights = torch.randn(33, 64)
    kept = weights.clone()
    assert not native.muon(Muon(), 5, weights, torch.randn(33, 64), torch.zeros(33, 64), None)
    assert torch.equal(weights, kept)


def test_kernels_are_for_gradients_on_a_processor() -> None:
    x = torch.zeros(3)
    assert training_kernels_for(x.double()) is None
    with without_kernels():
        assert training_kernels_for(x) is None
    with torch.no_grad():
        assert training_kernels_for(x) is None


@pytest.mark.parametrize("dtype", TYPES)
def test_a_product_of_no_rows_has_no_gradient(native: TrainingKernels, dtype: torch.dtype) -> None:
    x, w, b = (leaf(*shape, dtype=dtype) for shape in ((0, 64), (32, 64), (32,)))
    y = native.linear(x, w, b)
    assert (y is None) == (dtype not in native.products)
    if y is None:
        return
    y.sum().backward()
    assert not torch.cat([w.grad.flatten(), b.grad]).any()  # type: ignore[union-attr]  # they have one


@pytest.mark.parametrize("dtype", TYPES)
def test_what_is_no_number_stays_so_behind_relu(native: TrainingKernels, dtype: torch.dtype) -> None:
    x = torch.full((40, 32), torch.nan, dtype=dtype)
    assert native.drop(x.clone(), 0.0, relu=True).isnan().all()
    assert native.drop(x.clone(), 0.5, relu=True).isnan().any()
    y = native.linear(x, torch.ones(32, 32, dtype=dtype), None, 0.0)
    assert (y is None) == (dtype not in native.products)
    assert y is None or y.isnan().all()
