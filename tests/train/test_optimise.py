import math
from dataclasses import replace
from typing import Any

import pytest
import torch
from torch import Tensor, nn
from torch.utils._python_dispatch import TorchDispatchMode
from whole_loss import cross_entropy

from calque.experiment import TrainSettings
from calque.train.loss import output_loss
from calque.train.muon import MOMENTUM, muon, muon_rate, orthogonal
from calque.train.objective import Objective
from calque.train.optimise import Updater, squares_decay


def make(seed: int = 0) -> nn.Linear:
    torch.manual_seed(seed)
    return nn.Linear(5, 3)


def loss_of(model: nn.Module, seed: int) -> Tensor:
    x = torch.randn(8, 5, generator=torch.Generator().manual_seed(seed))
    y: Tensor = model(x.to(next(model.parameters()).dtype))
    return y.float().pow(2).sum()


def test_a_half_life_in_tokens_fits_any_size_of_batch() -> None:
    half = TrainSettings(batch_tokens=1000, accumulate=2, beta2_half_life_tokens=6000.0)
    beta = squares_decay(half)
    assert beta**3 == pytest.approx(0.5)  # three updates of 2,000 tokens
    assert squares_decay(replace(half, accumulate=1)) ** 2 == pytest.approx(beta)
    assert squares_decay(replace(half, beta2_half_life_tokens=0.0)) == half.beta2
    by_tokens, by_update, other = make(), make(), make()
    for model, settings in (
        (by_tokens, half),
        (by_update, TrainSettings(beta2=beta)),
        (other, TrainSettings(beta2=0.98)),
    ):
        updater = Updater(model, settings, "float32")
        for seed in range(3):
            updater.backward(loss_of(model, seed))
            updater.step(0.01, 4)
    assert torch.equal(by_tokens.weight, by_update.weight)
    assert not torch.equal(by_tokens.weight, other.weight)


def test_adam_follows_its_equations() -> None:
    model, twin = make(), make()
    updater = Updater(model, TrainSettings(beta1=0.9, beta2=0.98, epsilon=1e-9, weight_decay=0.1), "float32")
    w = twin.weight.detach().double()
    m = v = torch.zeros_like(w)
    for t in range(1, 6):
        x = torch.randn(8, 5, generator=torch.Generator().manual_seed(t)).double()
        g = 2 * (x @ w.T + 0).T @ x / 4  # the bias takes no part
        with torch.no_grad():
            model.bias.zero_()
        updater.backward(loss_of(model, t))
        updater.step(0.01, 4)
        m, v = 0.9 * m + 0.1 * g, 0.98 * v + 0.02 * g * g
        w = w - 0.01 * 0.1 * w
        w = w - 0.01 * (m / (1 - 0.9**t)) / ((v / (1 - 0.98**t)).sqrt() + 1e-9)
        assert torch.allclose(model.weight.double(), w, atol=1e-6)


def test_muon_follows_its_equations_for_matrices_and_adam_for_the_rest() -> None:
    model, twin = make(), make()
    settings = TrainSettings(optimiser="muon", weight_decay=0.1)
    updater, adam = Updater(model, settings, "float32"), Updater(twin, replace(settings, optimiser="adam"), "float32")
    w, b = model.weight.detach().clone().double(), torch.zeros(())
    for t in range(1, 4):
        g = torch.randn(w.shape, generator=torch.Generator().manual_seed(t)).double()
        for one in (model, twin):
            one.weight.grad, one.bias.grad = (g * 4).float(), torch.full_like(one.bias, 0.5 * t)
        for one in (updater, adam):
            one.step(0.01, 4)
        b = 0.95 * b + 0.05 * g
        u = 0.05 * g + 0.95 * b
        x = u / u.norm()
        for _ in range(5):
            a = x @ x.T
            x = 3.4445 * x + (-4.775 * a + 2.0315 * a @ a) @ x
        w = w * (1 - 0.01 * 0.1) - 0.01 * 0.2 * max(w.shape) ** 0.5 * x
        assert torch.allclose(model.weight.double(), w, atol=2e-3 * t * 0.01 * max(w.shape) ** 0.5 + 1e-4)
        assert torch.equal(model.bias, twin.bias)
    assert {key.split("/")[0] for key in updater.state() if key.endswith("/weight")} == {"weight", "momentum_buffer"}
    again = Updater(make(), settings, "float32")
    again.load(updater.state())
    assert all(torch.equal(value, again.state()[key]) for key, value in updater.state().items())


def test_muon_takes_a_filter_as_the_matrix_that_it_is() -> None:
    filters, matrix = torch.nn.Conv1d(4, 6, 3, bias=False), torch.nn.Linear(12, 6, bias=False)
    with torch.no_grad():
        matrix.weight.copy_(filters.weight.flatten(1))
    updaters = [Updater(one, TrainSettings(optimiser="muon"), "float32") for one in (filters, matrix)]
    for t in range(1, 3):
        matrix.weight.grad = torch.randn(6, 12, generator=torch.Generator().manual_seed(t))
        filters.weight.grad = matrix.weight.grad.view(6, 4, 3).clone()
        for updater in updaters:
            updater.step(0.01, 4)
    assert torch.equal(filters.weight.flatten(1), matrix.weight)


@pytest.mark.parametrize("shape", [(96, 64), (64, 96), (33, 5)])
def test_muon_follows_torch_which_computes_in_bfloat16(shape: tuple[int, int]) -> None:
    w = torch.randn(shape, generator=torch.Generator().manual_seed(0))
    ours, mean, theirs = w.clone(), torch.zeros(shape), nn.Parameter(w.clone())
    library = torch.optim.Muon([theirs], lr=0.01, weight_decay=0.1, momentum=MOMENTUM, adjust_lr_fn="match_rms_adamw")
    for t in range(3):
        g = torch.randn(shape, generator=torch.Generator().manual_seed(t + 1))
        muon(ours, g, mean, muon_rate(0.01, w.shape), 1 - 0.01 * 0.1)
        theirs.grad = g
        library.step()
    moved = theirs.detach() - w
    assert float((ours - w - moved).norm() / moved.norm()) < 0.02


def test_muon_multiplies_in_float32_on_a_processor() -> None:
    seen = set()

    class Watched(TorchDispatchMode):
        def __torch_dispatch__(self, function: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
            seen.update(x.dtype for x in args if isinstance(x, Tensor))
            return function(*args, **(kwargs or {}))

    with Watched():
        orthogonal(torch.randn(8, 6))
    assert seen == {torch.float32}


@pytest.mark.parametrize("precision", ["float32", "bfloat16"])
def test_muon_by_kernel_follows_that_without(precision: str) -> None:
    def made(kernels: bool) -> Updater:
        torch.manual_seed(3)
        made = Updater(
            torch.nn.Linear(64, 96, bias=False), TrainSettings(optimiser="muon", weight_decay=0.1), precision
        )
        made._kernels = made._kernels if kernels else None
        return made

    one, other = made(True), made(False)
    for t in range(3):
        for updater in (one, other):
            weight = updater.working["weight"]
            weight.grad = torch.randn(96, 64, generator=torch.Generator().manual_seed(t)).to(weight.dtype)
            updater.step(0.01, 4)
    a, b = one.state(), other.state()
    assert a.keys() == b.keys()
    assert all(torch.allclose(a[key], b[key], atol=4e-3) for key in a)


def test_sgd_clips_to_the_norm_and_tells_the_norm_before() -> None:
    model, twin = make(), make()
    updater = Updater(model, TrainSettings(optimiser="sgd", clip_norm=0.5), "float32")
    updater.backward(loss_of(model, 1))
    torch.autograd.backward(loss_of(twin, 1))
    gradients = [p.grad for p in twin.parameters() if p.grad is not None]
    norm = math.sqrt(sum(float(g.double().pow(2).sum()) for g in gradients)) / 8
    assert norm > 0.5
    assert updater.step(0.1, 8) == pytest.approx(norm, rel=1e-5)
    for p, q, g in zip(model.parameters(), twin.parameters(), gradients, strict=True):
        assert torch.allclose(p, q - 0.1 * g / 8 * 0.5 / norm, atol=1e-6)


@pytest.mark.parametrize("precision", ["float32", "bfloat16"])
def test_accumulated_halves_are_the_whole(precision: str) -> None:
    halves, whole = make(), make()
    one, other = (Updater(m, TrainSettings(optimiser="sgd"), precision) for m in (halves, whole))
    one.backward(loss_of(halves, 1))
    one.backward(loss_of(halves, 2))
    other.backward(loss_of(whole, 1) + loss_of(whole, 2))
    one.step(0.1, 16)
    other.step(0.1, 16)
    for name in ("weight", "bias"):
        assert torch.allclose(one.masters[name], other.masters[name], atol=1e-6 if precision == "float32" else 2e-3)


def test_a_gradient_that_is_not_finite_changes_nothing_and_is_counted() -> None:
    model = make()
    updater = Updater(model, TrainSettings(), "float32")
    updater.backward(loss_of(model, 1))
    updater.step(0.01, 1)
    before = {name: t.clone() for name, t in updater.state().items()}
    updater.backward(loss_of(model, 2) * math.nan)
    assert math.isnan(updater.step(0.01, 1))
    assert updater.skipped == 1
    assert all(torch.equal(t, before[name]) for name, t in updater.state().items())
    updater.backward(loss_of(model, 2))
    assert math.isfinite(updater.step(0.01, 1))


def test_masters_keep_what_bfloat16_would_lose() -> None:
    model = make()
    updater = Updater(model, TrainSettings(optimiser="sgd"), "bfloat16")
    assert model.weight.dtype == torch.bfloat16
    start = updater.masters["weight"].clone()
    for _ in range(40):
        updater.backward((model.weight * 1.0).sum())
        updater.step(1e-4, 1)
    moved = start - updater.masters["weight"]
    assert torch.allclose(moved, torch.full_like(moved, 4e-3), rtol=1e-3)
    assert torch.equal(model.weight, updater.masters["weight"].bfloat16())


@pytest.mark.parametrize("precision", ["float32", "bfloat16"])
def test_state_continues_exactly(precision: str) -> None:
    model, other = make(), make(5)
    settings = TrainSettings()
    updater = Updater(model, settings, precision)
    for seed in range(3):
        updater.backward(loss_of(model, seed))
        updater.step(0.01, 1)
    resumed = Updater(other, settings, precision)
    resumed.load({name: t.clone() for name, t in updater.state().items()})
    for seed in range(3, 6):
        for m, u in ((model, updater), (other, resumed)):
            u.backward(loss_of(m, seed))
            u.step(0.01, 1)
    assert all(torch.equal(t, resumed.state()[name]) for name, t in updater.state().items())
    assert all(torch.equal(p, q) for p, q in zip(model.parameters(), other.parameters(), strict=True))


@pytest.mark.parametrize("smoothing", [0.0, 0.1])
@pytest.mark.parametrize("with_bias", [True, False])
def test_the_loss_in_chunks_is_the_cross_entropy(smoothing: float, with_bias: bool) -> None:
    torch.manual_seed(1)
    z, weight = (torch.randn(n, 6, dtype=torch.float64, requires_grad=True) for n in (11, 9))
    bias = torch.randn(9, dtype=torch.float64, requires_grad=True) if with_bias else None
    target = torch.randint(0, 9, (11,))
    inputs = [t for t in (z, weight, bias) if t is not None]
    plain = cross_entropy(torch.nn.functional.linear(z, weight, bias), target, smoothing)
    chunked = output_loss(z, weight, bias, target, Objective(smoothing), chunk_bytes=4 * 9 * 3)  # three rows at a time
    assert all(torch.allclose(a, b) for a, b in zip(plain, chunked, strict=True))
    with torch.no_grad():
        silent = output_loss(z, weight, bias, target, Objective(smoothing))
    assert all(torch.allclose(a, b) for a, b in zip(plain, silent, strict=True))
    expected, found = (torch.autograd.grad(3 * made[0], inputs) for made in (plain, chunked))
    assert all(torch.allclose(a, b, atol=1e-12) for a, b in zip(expected, found, strict=True))


@pytest.mark.parametrize("smoothing", [0.0, 0.1])
@pytest.mark.parametrize("counts", [True, False])
def test_r_drop_adds_the_divergences_of_both_passes(smoothing: float, counts: bool) -> None:
    torch.manual_seed(1)
    z, weight = (torch.randn(n, 6, dtype=torch.float64, requires_grad=True) for n in (14, 9))
    bias = torch.randn(9, dtype=torch.float64, requires_grad=True)
    words = torch.randint(0, 9, (7,))
    counted = torch.tensor([True, False, True, True, False, True, True]) if counts else torch.ones(7, dtype=torch.bool)
    logp = torch.nn.functional.linear(z, weight, bias).log_softmax(1)
    one, other = (half[counted] for half in logp.chunk(2))
    first, nll = cross_entropy(one, words[counted], smoothing)
    second, again = cross_entropy(other, words[counted], smoothing)
    apart = ((one.exp() - other.exp()) * (one - other)).sum()  # KL(p || q) + KL(q || p)
    plain = (first + second) / 2 + 3.0 / 4 * apart, (nll + again) / 2
    asked = Objective(smoothing, r_drop=3.0)
    given = z, weight, bias, words.repeat(2), asked
    made = output_loss(*given, chunk_bytes=8 * 9 * 4, counted=counted.repeat(2) if counts else None)
    assert all(torch.allclose(a, b) for a, b in zip(plain, made, strict=True))
    expected, found = (torch.autograd.grad(5 * each[0], (z, weight, bias)) for each in (plain, made))
    assert all(torch.allclose(a, b, atol=1e-12) for a, b in zip(expected, found, strict=True))
    with torch.no_grad():
        silent = output_loss(*given, counted=counted.repeat(2) if counts else None)
    assert all(torch.allclose(a, b) for a, b in zip(plain, silent, strict=True))


@pytest.mark.parametrize("r_drop", [0.0, 3.0])
def test_the_loss_in_bfloat16_is_near_that_of_float64(r_drop: float) -> None:
    torch.manual_seed(1)
    z, weight = torch.randn(50, 16).bfloat16().requires_grad_(), torch.randn(40, 16).bfloat16().requires_grad_()
    target = torch.randint(0, 40, (25,)).repeat(2)
    loss, _ = output_loss(z, weight, None, target, Objective(0.1, r_drop))
    torch.autograd.backward(loss)
    exact_z, exact_weight = (t.detach().double().requires_grad_() for t in (z, weight))
    logits = exact_z @ exact_weight.T
    exact, _ = cross_entropy(logits, target, 0.1)
    if r_drop:
        one, other = logits.log_softmax(1).chunk(2)
        exact = exact / 2 + r_drop / 4 * ((one.exp() - other.exp()) * (one - other)).sum()
    torch.autograd.backward(exact)
    assert loss.dtype == torch.float32
    assert float(loss.detach()) == pytest.approx(float(exact.detach()), rel=0.01)
    for narrow, wide in ((z.grad, exact_z.grad), (weight.grad, exact_weight.grad)):
        assert narrow is not None
        assert wide is not None
        assert (narrow - wide).norm() < 0.02 * wide.norm()


class Mixed(nn.Module):
    """A table, a filter and a matrix."""

    def __init__(self) -> None:
        super().__init__()
        torch.manual_seed(4)
        self.table, self.filter, self.matrix = nn.Embedding(7, 6), nn.Conv1d(6, 5, 3), nn.Linear(5, 3)

    def forward(self) -> Tensor:
        x = self.table(torch.arange(7)[None]).transpose(1, 2)
        y: Tensor = self.matrix(self.filter(x).transpose(1, 2))
        return y.float().pow(2).sum()


@pytest.mark.parametrize("scale_filters", [True, False])
@pytest.mark.parametrize("counts", [True, False])
@pytest.mark.parametrize("precision", ["float32", "bfloat16"])
def test_filters_are_scaled_and_embeddings_left_out_of_the_norm(
    precision: str, counts: bool, scale_filters: bool
) -> None:
    model, twin = Mixed(), Mixed()
    settings = TrainSettings(
        optimiser="sgd", clip_norm=0.01, clip_counts_embeddings=counts, scale_filters=scale_filters
    )
    updater = Updater(model, settings, precision)
    updater.backward(model())
    torch.autograd.backward(twin())
    expected: dict[str, Tensor] = {}
    for name, p in twin.named_parameters():
        assert p.grad is not None
        expected[name] = p.grad.double() / (4 * (math.sqrt(6) if scale_filters and "filter" in name else 1))
    counted = [g for name, g in expected.items() if counts or "table" not in name]
    norm = math.sqrt(sum(float(g.pow(2).sum()) for g in counted))
    near = 1e-5 if precision == "float32" else 0.02
    assert updater.step(0.1, 4) == pytest.approx(norm, rel=near)
    for name, p in twin.named_parameters():
        moved = (p - updater.masters[name]).double()
        wanted = 0.1 * 0.01 / norm * expected[name]
        assert (moved - wanted).norm() <= max(1e-6, near) * wanted.norm() + 1e-6, name


def test_an_embedding_left_out_of_the_norm_is_looked_at_all_the_same() -> None:
    model = Mixed()
    updater = Updater(model, TrainSettings(optimiser="sgd", clip_norm=1.0, clip_counts_embeddings=False), "float32")
    before = model.matrix.weight.detach().clone()
    updater.backward(model())
    assert model.table.weight.grad is not None
    model.table.weight.grad[0, 0] = math.inf
    updater.step(0.1, 1)
    assert updater.skipped == 1
    assert torch.equal(model.matrix.weight, before)


@pytest.mark.parametrize("rows", [0, 3, 300])
def test_the_loss_of_rows_that_do_not_lie_side_by_side(rows: int) -> None:
    torch.manual_seed(1)
    turned, weight, target = torch.randn(64, rows).t(), torch.randn(50, 64), torch.randint(0, 50, (rows,))
    found = []
    for z in (turned, turned.contiguous()):
        leaves = [z.detach().requires_grad_(), weight.clone().requires_grad_()]
        loss, _ = output_loss(*leaves, None, target, Objective(0.1))
        found.append((loss, *torch.autograd.grad(loss, leaves)))
    for pair in zip(*found, strict=True):
        torch.testing.assert_close(*pair)


class Several(nn.Module):
    """Matrices of two shapes, a filter of one of them, vectors, a table, and a weight without a gradient."""

    def __init__(self) -> None:
        super().__init__()
        torch.manual_seed(4)
        self.table, self.filter, self.unused = nn.Embedding(7, 6), nn.Conv1d(6, 5, 3), nn.Linear(2, 2)
        self.narrow = nn.ModuleList(nn.Linear(5, 5) for _ in range(3))
        self.wide = nn.ModuleList(nn.Linear(5, 18 if k else 5, bias=False) for k in range(2))

    def forward(self) -> Tensor:
        x = self.filter(self.table(torch.arange(7)[None]).transpose(1, 2)).transpose(1, 2)
        for each in (*self.narrow, *self.wide):
            x = each(x)
        y: Tensor = x.float().pow(2).sum()
        return y


@pytest.mark.parametrize("together", [1 << 25, 50])
@pytest.mark.parametrize("precision", ["float32", "bfloat16"])
@pytest.mark.parametrize("optimiser", ["adam", "muon", "sgd"])
def test_weights_that_are_updated_together_become_what_each_becomes_alone(
    optimiser: str, precision: str, together: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("calque.train.together.TOGETHER", together)
    settings = TrainSettings(optimiser=optimiser, weight_decay=0.1, clip_norm=0.5, scale_filters=True)
    updaters = [Updater(Several(), settings, precision) for _ in range(2)]
    updaters[0]._together = True
    for updater in updaters:
        updater._kernels = None
    gradients = torch.Generator().manual_seed(1)
    for _ in range(3):
        drawn = {n: torch.randn(p.shape, generator=gradients) for n, p in updaters[0].working.items()}
        norms = []
        for updater in updaters:
            for name, p in updater.working.items():
                p.grad = None if "unused" in name else drawn[name].to(p.dtype, copy=True)
            norms.append(updater.step(0.01, 4))
        assert norms[0] == pytest.approx(norms[1], rel=1e-5)
    found, expected = (updater.state() for updater in updaters)
    assert found.keys() == expected.keys()
    for name, value in expected.items():
        torch.testing.assert_close(found[name], value, rtol=1e-4, atol=1e-6)
    before = dict(Several().named_parameters())
    for name, p in updaters[0].working.items():
        weight = found[f"weight/{name}"]
        assert torch.equal(p.detach(), weight.to(p.dtype))
        assert ("unused" in name) == torch.equal(weight, before[name])


def test_updates_together_start_few_kernels() -> None:
    calls = 0

    class Counted(TorchDispatchMode):
        def __torch_dispatch__(self, function: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
            nonlocal calls
            calls += not function.is_view
            return function(*args, **(kwargs or {}))

    found = []
    for many in (3, 30):
        model = nn.ModuleList(nn.Linear(8, 8) for _ in range(many))
        updater = Updater(model, TrainSettings(optimiser="muon"), "float32")
        updater._together, updater._kernels = True, None
        for _ in range(2):  # the second time nothing is made anew
            for p in updater.working.values():
                p.grad = torch.ones_like(p)
            calls = 0
            with Counted():
                updater.step(0.01, 4)
        found.append(calls)
    assert found[0] == found[1]


def test_muon_goes_on_from_the_means_of_adam() -> None:
    model = make()
    before = Updater(model, TrainSettings(optimiser="adam"), "float32")
    before.backward(loss_of(model, 1))
    before.step(0.01, 1)
    for together in (False, True):
        updater = Updater(make(), TrainSettings(optimiser="muon"), "float32")
        updater.load(before.state())
        updater._together = together
        if together:
            updater._kernels = None
        loss = loss_of(model, 2)
        for p, g in zip(updater.working.values(), torch.autograd.grad(loss, [*model.parameters()]), strict=True):
            p.grad = g
        assert math.isfinite(updater.step(0.01, 1))
        assert "momentum_buffer/weight" in updater.state()
