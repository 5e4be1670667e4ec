"""Scans and windows where the small sentences of the other tests do not reach: long ones, all precisions, extreme factors."""

import dataclasses

import naive
import numpy as np
import pytest
import torch
from scipy import stats
from torch import Tensor, nn

import rounding
from bench import Bench
from calque.layers import fixed, hard_coded
from calque.layers.average import Average
from calque.layers.banded import banded
from calque.layers.contract import DECODER, ENCODER, Context, Layer
from calque.layers.hard_coded import HardCodedSelfAttention
from calque.layers.registry import builtin
from calque.layers.scan import SHORT, scan
from calque.layers.state import Scan, State
from calque.prove import prove_layer

LENGTHS = (1, 2, 5, SHORT, SHORT + 1, 300)


def draw(*shape: int, seed: int = 1) -> Tensor:
    return torch.randn(shape, generator=torch.Generator().manual_seed(seed), dtype=torch.float64)


def factors(kind: str, *shape: int) -> Tensor | None:
    if kind == "none":
        return None
    a = torch.sigmoid(3 * draw(*shape, seed=2))
    if kind == "extreme":  # what a gate can come to: exactly zero, too small for a product of two, exactly one
        spread = torch.tensor([0.0, 1e-300, 1.0], dtype=torch.float64)
        a = spread[torch.arange(a.numel()).remainder(7).clamp(max=2).view(shape)]
    return a


@pytest.mark.parametrize("start", [False, True])
@pytest.mark.parametrize("kind", ["none", "gates", "extreme"])
@pytest.mark.parametrize("length", LENGTHS)
def test_the_scan_is_the_loop_and_so_are_its_gradients(length: int, kind: str, start: bool) -> None:
    b, a, h0 = draw(2, length, 3), factors(kind, 2, length, 3), draw(2, 3, seed=4) if start else None
    found = scan(b, a, h0)
    ones = torch.ones_like(b) if a is None else a
    for row in range(2):
        first = np.zeros(3) if h0 is None else h0[row].numpy()
        expected = np.stack(naive.scan(list(ones[row].numpy()), list(b[row].numpy()), first))
        np.testing.assert_allclose(found[row].numpy(), expected, rtol=1e-12, atol=1e-12)

    leaves = [t.clone().requires_grad_() for t in (b, a, h0) if t is not None]

    def again(ts: list[Tensor]) -> tuple[Tensor, Tensor | None, Tensor | None]:
        rest = iter(ts)
        return next(rest), None if a is None else next(rest), None if h0 is None else next(rest)

    weight = draw(2, length, 3, seed=5)
    mine = torch.autograd.grad((scan(*again(leaves)) * weight).sum(), leaves)
    lb, la, lh = again(leaves)
    h, outputs = torch.zeros(2, 3, dtype=torch.float64) if lh is None else lh, []
    for t in range(length):
        h = (h if la is None else la[:, t] * h) + lb[:, t]
        outputs.append(h)
    theirs = torch.autograd.grad((torch.stack(outputs, 1) * weight).sum(), leaves)
    for one, other in zip(mine, theirs, strict=True):
        torch.testing.assert_close(one, other, rtol=1e-11, atol=1e-11)


@pytest.mark.parametrize("length", [6, 300])
def test_a_scan_leaves_its_inputs_as_they_are(length: int) -> None:
    b, a = draw(2, length, 3), torch.sigmoid(draw(2, length, 3))
    before = b.clone(), a.clone()
    scan(b, a)
    assert torch.equal(b, before[0])
    assert torch.equal(a, before[1])


def test_the_average_is_the_product_with_the_mask_matrix() -> None:
    """The form of section 3.1 as the authors' code makes it: softmax(M + (1 - M)(-1e9)) M, zeros at padding aside."""
    x, y, mask = Bench("average", DECODER, seed=2).run()
    length = x.shape[1]
    seen = (mask[:, :, None] & mask[:, None, :] & torch.ones(length, length).tril().bool()).double()
    matrix = torch.softmax(seen + (1 - seen) * -1e9, -1) * seen
    torch.testing.assert_close(y[mask], (matrix @ x)[mask], rtol=0, atol=1e-12)


def stepped(text: str, x: Tensor, kind: torch.dtype) -> tuple[Tensor, State]:
    """A decoder of that text, one position after the other; and the state of its only layer."""
    b = Bench(text, DECODER)
    b.subject.model.to(kind)
    sources = {k: p._replace(value=p.value[: len(x)].to(kind)) for k, p in b.subject.sources.items()}
    state, outputs = b.subject.start(sources, 1, x.shape[1]), []
    with torch.inference_mode():
        for t in range(x.shape[1]):
            y, state = b.subject.step(x[:, t : t + 1].to(kind), state, t + 1)
            outputs.append(y)
    return torch.cat(outputs, 1), state.parts[1].parts[0]  # type: ignore[attr-defined]


@pytest.mark.parametrize("text", ["average", "ssru"])
@pytest.mark.parametrize("kind", [torch.bfloat16, torch.float16, torch.float32])
def test_sums_are_float32_in_every_precision(text: str, kind: torch.dtype) -> None:
    x = (draw(1, 2000, 8) + 3).to(kind)
    y, state = stepped(text, x, kind)
    assert isinstance(state, Scan)
    assert state.h.dtype == torch.float32
    assert y.dtype == kind
    if text == "average":  # no error but that of the last rounding
        expected = x.double().cumsum(1) / torch.arange(1, 2001)[:, None]
        torch.testing.assert_close(y.double(), expected, rtol=torch.finfo(kind).eps, atol=1e-5)


@pytest.mark.parametrize("text", ["average", "ssru", "hc_self_att(-1, 0)", "gate(average -> ffl(16, 0))"])
def test_bfloat16_steps_as_it_trains(text: str) -> None:
    """Both forms in bfloat16 are as near to float64 as the roundings of their layers allow."""
    x = draw(2, 40, 8).bfloat16()
    exact, _ = stepped(text, x.double(), torch.float64)
    b = Bench(text, DECODER)
    b.subject.model.bfloat16()
    with torch.no_grad():
        whole = b.subject.forward(x, {"end": b.subject.sources["end"]._replace(value=x)})
    steps, _ = stepped(text, x, torch.bfloat16)
    # Each layer rounds its weights and its output.
    roundings = 2 * sum(isinstance(m, (nn.Linear, Layer)) for m in b.subject.model.modules())
    allowed = rounding.network_bound(roundings, rounding.unit(torch.bfloat16)) * exact.square().mean().sqrt()
    for y in (whole, steps):
        assert (y.double() - exact).abs().max() <= allowed
    assert (rounding.narrow(exact, 4) - exact).abs().max() > allowed  # of 8 bits


# -- hard-coded attention


@pytest.mark.parametrize("side", [ENCODER, DECODER])
@pytest.mark.parametrize(("offsets", "sigma"), [((-1, 1), 1.0), ((-1, 0), 1.0), ((0, -5), 3.0), ((2, -2), 0.5)])
def test_the_window_is_the_whole_gaussian(side: str, offsets: tuple[int, int], sigma: float) -> None:
    """On 120 positions: the product with the full matrix of the densities that scipy has, and its gradient."""
    length = 120
    b = Bench(f"hc_self_att({offsets[0]}, {offsets[1]}, project=no, out=no, sigma={sigma})", side)
    layer = b.module("0")
    x = draw(2, length, 8).requires_grad_()
    y = layer(x, Context())
    at = np.arange(length)
    matrices = [stats.norm.pdf(at[None], loc=at[:, None] + o, scale=sigma) for o in offsets]
    if side == DECODER:
        matrices = [np.tril(m) for m in matrices]
    full = torch.cat([torch.as_tensor(m) @ x[:, :, 4 * k : 4 * k + 4] for k, m in enumerate(matrices)], 2)
    torch.testing.assert_close(y, full, rtol=0, atol=1e-14)
    weight = draw(*y.shape, seed=3)
    mine, theirs = (torch.autograd.grad((t * weight).sum(), x)[0] for t in (y, full))
    torch.testing.assert_close(mine, theirs, rtol=0, atol=1e-14)


def masses(text: str, side: str) -> list[float]:
    """The sums of the rows of weights, which is what a value of ones comes to."""
    layer = Bench(text, side).module("0")
    y = layer(torch.ones(1, 12, 8, dtype=torch.float64), Context())
    return [round(float(m), 3) for m in y[0, :, 0]]


def test_no_row_is_made_to_sum_to_one() -> None:
    """The masses of You 2020's configurations at the border and the causal edge; 0.883 is the sum of the kernel in 6.3."""
    one = "hc_self_att({}, project=no, out=no)"
    assert masses(one.format(-1), DECODER)[:4] == [0.242, 0.641, 0.883, 0.937]
    assert masses(one.format(0), DECODER)[:3] == [0.399, 0.641, 0.695]
    assert masses(one.format(-1), ENCODER)[0] == 0.301
    assert masses(one.format(1), ENCODER)[0] == 0.941
    conv = "hc_self_att(0, project=no, out=no, form=conv)"
    assert masses(conv, ENCODER)[:2] == [0.641, 0.883]
    assert masses(conv, DECODER)[:2] == [0.399, 0.641]


def test_the_window_of_the_state_does_not_grow() -> None:
    x = draw(2, 60, 8)
    for text, kept in (
        ("hc_self_att(-1, 0)", 9),
        ("hc_self_att(-1, 0, form=conv)", 2),
        ("hc_self_att(-1, 0, form=index)", 1),
    ):
        assert stepped(text, x, torch.float64)[1].bytes() == 2 * kept * 8 * 8


@pytest.mark.parametrize("length", [1, 5])
def test_the_weights_made_while_decoding_serve_in_training(length: int) -> None:
    layer = Bench("hc_self_att(-1, 1)").module("0").float()
    x = draw(2, length, 8).float().requires_grad_()
    with torch.inference_mode():
        layer(x.detach().clone(), Context())
    layer(x, Context()).sum().backward()
    assert x.grad is not None


def test_a_band_of_one_position_is_the_same_sum() -> None:
    seen, weights = draw(2, 9, 4), draw(5, 4, seed=2)
    together = banded(seen, weights)
    apart = torch.cat([banded(seen[:, t : t + 5], weights) for t in range(5)], 1)
    torch.testing.assert_close(apart, together, rtol=0, atol=1e-14)
    # With weights of their own for each position and each half of the numbers.
    seen, weights = seen.view(2, 9, 2, 2), draw(5, 2, 5, 2, 1, seed=3)
    together = banded(seen, weights)
    near = seen.unfold(1, 5, 1)
    torch.testing.assert_close(together, torch.einsum("bthck,kbth->bthc", near, weights[..., 0]))
    apart = torch.cat([banded(seen[:, t : t + 5], weights[:, :, t : t + 1]) for t in range(5)], 1)
    torch.testing.assert_close(apart, together, rtol=0, atol=1e-14)
    torch.autograd.gradcheck(banded, (seen.requires_grad_(), weights.requires_grad_()))


@pytest.mark.parametrize("sigma", [0.5, 1.0, 2.0, 3.7])
def test_what_the_window_leaves_out_is_below_the_bound(sigma: float) -> None:
    layer = Bench(f"hc_self_att(0, project=no, out=no, sigma={sigma})", DECODER).module("0")
    window = layer.init_state(1, 1, Context()).last.shape[1]
    bound = 1.1e-18 / sigma
    assert stats.norm.pdf(window + 1, scale=sigma) <= bound < stats.norm.pdf(window, scale=sigma)
    assert sigma != 1.0 or window == 8


# -- faults that both forms of a layer share keep the contract: only these tests tell


def off_by_one(self: Average, x: Tensor, ctx: object) -> Tensor:
    j = torch.arange(2, x.shape[1] + 2)
    return scan(x) / j[:, None]


def as_its_forward(self: Average, x: Tensor, state: Scan, ctx: Context) -> tuple[Tensor, Scan]:
    sums = scan(x, start=state.h)
    return sums / (ctx.now.positions[:, :, None] + 2), state.write(sums, ctx.mask)


def turned(args: HardCodedSelfAttention.Args) -> HardCodedSelfAttention.Args:
    return dataclasses.replace(args, offsets=tuple(-o for o in args.offsets))


@pytest.mark.medium
def test_a_divisor_off_by_one_in_both_forms(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Average, "forward", off_by_one)
    monkeypatch.setattr(Average, "step", as_its_forward)
    assert prove_layer(Average, builtin()).passed
    with pytest.raises(AssertionError):
        test_the_average_is_the_product_with_the_mask_matrix()


@pytest.mark.medium
def test_an_offset_of_the_wrong_sign(monkeypatch: pytest.MonkeyPatch) -> None:
    real = HardCodedSelfAttention.__init__
    monkeypatch.setattr(
        HardCodedSelfAttention, "__init__", lambda self, args, site, parts: real(self, turned(args), site, parts)
    )
    # Both forms share the fault: of the laws only the declared reach tells.
    assert {v.law for v in prove_layer(HardCodedSelfAttention, builtin()).verdicts if not v.passed} == {"cost"}
    with pytest.raises(AssertionError):
        test_the_window_is_the_whole_gaussian(ENCODER, (-1, 0), 1.0)


@pytest.mark.medium
def test_weights_made_to_sum_to_one(monkeypatch: pytest.MonkeyPatch) -> None:
    real = hard_coded._weights

    def normalised(args: HardCodedSelfAttention.Args, at: Tensor, width: int) -> Tensor:
        w = real(args, at, width)
        return w / w.sum(0).clamp(min=1e-9)

    monkeypatch.setattr(hard_coded, "_weights", normalised)
    assert prove_layer(HardCodedSelfAttention, builtin()).passed
    with pytest.raises(AssertionError):
        test_no_row_is_made_to_sum_to_one()


def test_a_window_one_shorter_on_either_side(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(fixed, "DEVIATIONS", 8)
    with pytest.raises(AssertionError):
        test_what_the_window_leaves_out_is_below_the_bound(1.0)


@pytest.mark.medium
def test_a_sum_kept_in_the_precision_of_the_weights(monkeypatch: pytest.MonkeyPatch) -> None:
    for module in ("scan", "state", "average", "ssru"):
        monkeypatch.setattr(f"calque.layers.{module}.accumulated", lambda kind: kind)
    assert prove_layer(Average, builtin()).passed
    with pytest.raises(AssertionError):
        test_sums_are_float32_in_every_precision("average", torch.bfloat16)


def test_a_band_has_the_gradients_of_its_sum() -> None:
    seen, weights = draw(2, 6, 3), draw(4, 3, seed=2)
    assert torch.autograd.gradcheck(banded, (seen.requires_grad_(), weights.requires_grad_()))
    assert torch.autograd.gradcheck(banded, (seen[:, :4].detach().requires_grad_(), weights))
