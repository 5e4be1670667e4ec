"""Layers against torch.nn and scipy, where these have the same thing."""

import numpy as np
import pytest
import torch
from scipy import special
from torch import nn

from bench import Bench, load
from calque.layers.contract import DECODER, ENCODER
from calque.layers.dot import normalised
from calque.layers.pos import sinusoids

SIDES = (ENCODER, DECODER)


@pytest.mark.parametrize("side", SIDES)
@pytest.mark.parametrize(("cell", "module"), [("lstm", nn.LSTM), ("tanh", nn.RNN)])
def test_lstm_and_tanh_are_torchs(side: str, cell: str, module: type[nn.Module]) -> None:
    b = Bench(f"rnn(6, {cell})", side)
    w, u, c = b.weights("0.input.weight", "0.recurrent.weight", "0.input.bias")
    oracle = load(
        module(8, 6, batch_first=True), weight_ih_l0=w, weight_hh_l0=u, bias_ih_l0=c, bias_hh_l0=np.zeros_like(c)
    )
    b.agrees_with(lambda x: oracle(x)[0])


@pytest.mark.parametrize("side", SIDES)
def test_gru_is_torchs_without_the_bias_in_the_reset_product(side: str) -> None:
    b = Bench("rnn(6, gru)", side)
    w, u, c = b.weights("0.input.weight", "0.recurrent.weight", "0.input.bias")
    oracle = load(
        nn.GRU(8, 6, batch_first=True), weight_ih_l0=w, weight_hh_l0=u, bias_ih_l0=c, bias_hh_l0=np.zeros_like(c)
    )
    b.agrees_with(lambda x: oracle(x)[0])


def test_birnn_is_torchs() -> None:
    b = Bench("birnn")
    names = {"": "0.0.0", "_reverse": "0.1.0.body.0"}
    weights = {}
    for suffix, at in names.items():
        w, u, c = b.weights(f"{at}.input.weight", f"{at}.recurrent.weight", f"{at}.input.bias")
        weights |= {f"weight_ih_l0{suffix}": w, f"weight_hh_l0{suffix}": u, f"bias_ih_l0{suffix}": c}
        weights[f"bias_hh_l0{suffix}"] = np.zeros_like(c)
    oracle = load(nn.LSTM(8, 4, batch_first=True, bidirectional=True), **weights)
    b.agrees_with(lambda x: oracle(x)[0])


@pytest.mark.parametrize("side", SIDES)
@pytest.mark.parametrize("heads", [1, 2, 4])
def test_self_attention_is_torchs(side: str, heads: int) -> None:
    b = Bench(f"mh_dot_self_att(heads={heads}, bias=yes)", side)
    joint = np.concatenate(b.weights("0.q.weight", "0.k.weight", "0.v.weight"))
    biases = np.concatenate(b.weights("0.q.bias", "0.k.bias", "0.v.bias"))
    oracle = load(
        nn.MultiheadAttention(8, heads, batch_first=True),
        in_proj_weight=joint,
        in_proj_bias=biases,
        **{"out_proj.weight": b.weight("0.out.weight"), "out_proj.bias": b.weight("0.out.bias")},
    )

    def run(x: torch.Tensor) -> torch.Tensor:
        later = torch.ones(x.shape[1], x.shape[1], dtype=torch.bool).triu(1) if side == DECODER else None
        y: torch.Tensor = oracle(x, x, x, attn_mask=later, need_weights=False)[0]
        return y

    b.agrees_with(run)


@pytest.mark.parametrize(("kernel", "dilation"), [(3, 1), (5, 2)])
def test_cnn_is_torchs(kernel: int, dilation: int) -> None:
    field = (kernel - 1) * dilation
    for side, padding in ((ENCODER, (field // 2, field // 2)), (DECODER, (field, 0))):
        b = Bench(f"cnn(tanh, kernel={kernel}, dilation={dilation})", side)
        w, c = b.weights("0.conv.weight", "0.conv.bias")
        oracle = load(nn.Conv1d(8, 8, kernel, dilation=dilation), weight=w, bias=c)
        b.agrees_with(lambda x, o=oracle, p=padding: torch.tanh(o(nn.functional.pad(x.mT, p)).mT))


def test_norm_is_torchs() -> None:
    b = Bench("norm")
    b.agrees_with(load(nn.LayerNorm(8, eps=1e-6), weight=b.weight("0.gain"), bias=b.weight("0.shift")))


def test_gelu_is_scipys() -> None:
    Bench("gelu").agrees(lambda xs, _: [x * special.ndtr(x) for x in xs])


def test_the_softmax_of_attention_is_scipys() -> None:
    scores = torch.randn(2, 3, 4, 5, dtype=torch.float64, generator=torch.Generator().manual_seed(1)) * 30
    allowed = torch.tensor([True, True, True, False, False])
    weights = normalised(scores, ~allowed)
    expected = special.softmax(np.where(allowed.numpy(), scores.numpy(), -np.inf), axis=-1)
    np.testing.assert_allclose(weights.numpy(), expected, rtol=0, atol=1e-12)


def test_sinusoids_of_far_positions_keep_their_precision() -> None:
    t = torch.tensor([0, 1, 4095, 65535])
    rates = 10000.0 ** -(np.arange(4) / 4)
    found = sinusoids(t, 8, "halves", False).numpy()
    angles = t.numpy()[:, None] * rates
    np.testing.assert_allclose(found, np.concatenate([np.sin(angles), np.cos(angles)], 1), rtol=0, atol=1e-12)


def test_positions_are_exact_in_float64_whatever_ran_before() -> None:
    """A model that ran in float32 and is then widened computes its sinusoids again."""
    b = Bench("pos(scale=no)")
    model = b.subject.model.float()
    model.encode(torch.zeros(1, 5, dtype=torch.int64))
    model.double()
    x, y, _ = b.run()
    fresh = sinusoids(torch.arange(x.shape[1]), 8, "halves", False)
    torch.testing.assert_close(y - x, fresh.expand_as(x), rtol=0, atol=1e-12)
