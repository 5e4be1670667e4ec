"""The layers of `naive_modern` against their loops, in float64, to 1e-9, on sentences of unequal lengths."""

import naive
import naive_modern
import numpy as np
import pytest
import torch
from test_layers import SIDES, covers
from torch import nn

from bench import Bench
from calque.adl.check import check
from calque.decode.prepare import prepare_for_decoding
from calque.ground.diagnostics import Text
from calque.layers.contract import DECODER
from calque.layers.registry import builtin
from calque.layers.relative import bucket_numbers
from calque.prove.case import ProofCase

NEW_FUNCTIONS = ["gelu_tanh", "silu", "relu2"]


@covers("rms_norm")
@pytest.mark.parametrize(
    ("text", "groups", "eps"), [("", 1, 1e-6), ("(0.1, groups=4)", 4, 0.1), ("(gain=no)", 1, 1e-6)]
)
def test_rms_norm(text: str, groups: int, eps: float) -> None:
    b = Bench(f"rms_norm{text}")
    gain = None if "gain" in text else b.weight("0.gain")
    b.agrees(lambda xs, _: naive_modern.rms_norm(xs, gain, eps, groups))
    if groups == 1 and gain is not None:
        module = nn.RMSNorm(8, eps).double()
        module.weight.data = torch.as_tensor(gain)
        b.agrees_with(module)


@covers("mul")
def test_mul() -> None:
    b = Bench("mul(linear(6), relu -> linear(6), take(2, 6))")
    w, c, u, d = b.weights("0.0.0.project.weight", "0.0.0.project.bias", "0.1.1.project.weight", "0.1.1.project.bias")

    def loop(xs: naive.Sequence_, _: int) -> naive.Sequence_:
        relu = [naive.activation("relu", h) for h in xs]
        return naive_modern.mul(naive.linear(xs, w, c), naive.linear(relu, u, d), naive.take(xs, 2, 6))

    b.agrees(loop)


@covers("scale")
@pytest.mark.parametrize("learn", ["none", "one", "each"])
def test_scale(learn: str) -> None:
    b = Bench(f"scale(-0.3, learn={learn})")
    a = np.full(8, -0.3) if learn == "none" else np.broadcast_to(b.weight("0.factor"), 8)
    b.agrees(lambda xs, _: [np.array([a[i] * h[i] for i in range(8)]) for h in xs])


@pytest.mark.parametrize("name", NEW_FUNCTIONS)
def test_non_linearities_of_act_and_ff(name: str) -> None:
    Bench(f"act({name})").agrees(lambda xs, _: [naive_modern.pointwise(name, h) for h in xs])
    b = Bench(f"ff(5, v={name}, bias=no)", DECODER)
    w = b.weight("0.project.weight")
    b.agrees(lambda xs, _: [naive_modern.pointwise(name, naive.affine(w, h)) for h in xs])


def test_swiglu_and_geglu() -> None:
    for name, v in (("swiglu", "silu"), ("geglu", "gelu_tanh")):
        b = Bench(f"{name}(12)")
        w, u, o = b.weights("0.0.0.project.weight", "0.1.0.project.weight", "2.project.weight")

        def loop(xs: naive.Sequence_, _: int, v: str = v, m: tuple[naive.Vector, ...] = (w, u, o)) -> naive.Sequence_:
            gates = [naive_modern.pointwise(v, h) for h in naive.linear(xs, m[0])]
            return naive.linear(naive_modern.mul(gates, naive.linear(xs, m[1])), m[2])

        b.agrees(loop)


def test_pos_from_another_start() -> None:
    b = Bench("pos(scale=no, start=5)", DECODER)
    zeros = [np.zeros(8)] * 5
    b.agrees(lambda xs, _: naive.pos([*zeros, *xs], False, "halves", False)[5:])


ATTENTIONS = {
    "heads=4, rope=100": {"heads": 4, "base": 100.0},
    "heads=4, kv_heads=2, qk_norm=yes, rope=50": {"heads": 4, "shared": 2, "base": 50.0, "gains": True},
    "heads=2, kv_heads=1, s=3, bias=yes": {"heads": 2, "shared": 1, "s": 3, "bias": True},
    "heads=3, width=6, relative=alibi": {"heads": 3, "alibi": True},
    "heads=2, relative=t5, buckets=8, reach=5": {"heads": 2, "table": True, "reach": 5},
    "heads=2, relative=t5": {"heads": 2, "table": True, "reach": 128},
    "heads=2, relative=shaw, reach=2, s=2": {"heads": 2, "reach": 2, "s": 2, "vectors": True},
    "heads=2, talking=yes, relative=alibi": {"heads": 2, "talking": True, "alibi": True},
    "heads=2, window=0": {"heads": 2, "window": 0},
    "heads=4, kv_heads=2, window=2, rope=20": {"heads": 4, "shared": 2, "window": 2, "base": 20.0},
    "heads=2, window=3, relative=t5, talking=yes": {
        "heads": 2,
        "window": 3,
        "table": True,
        "reach": 128,
        "talking": True,
    },
    "heads=2, window=1, relative=shaw, reach=1": {"heads": 2, "window": 1, "reach": 1, "vectors": True},
    "heads=2, window=40, qk_norm=yes": {"heads": 2, "window": 40, "gains": True},
}


@pytest.mark.parametrize("side", SIDES)
@pytest.mark.parametrize("arguments", ATTENTIONS)
def test_self_attention_of_today(side: str, arguments: str) -> None:
    given = dict(ATTENTIONS[arguments])
    b, loop = Bench(f"mh_dot_self_att({arguments})", side), naive_modern.Attention()
    loop.causal, bias = side == DECODER, given.pop("bias", False)
    if given.pop("gains", False):
        loop.q_gain, loop.k_gain = b.weights("0.q_gain", "0.k_gain")
    if given.pop("table", False):
        loop.table = b.weight("0.relative.table")
    if given.pop("vectors", False):
        loop.a_keys, loop.a_values = b.weights("0.relative.keys", "0.relative.values")
    if given.pop("talking", False):
        loop.before, loop.after = b.weights("0.talk.before", "0.talk.after")
    for name, value in ({"shared": given["heads"]} | given).items():
        setattr(loop, name, value)

    def project(name: str, xs: naive.Sequence_) -> naive.Sequence_:
        return naive.linear(xs, b.weight(f"0.{name}.weight"), b.weight(f"0.{name}.bias") if bias else None)

    b.agrees(lambda xs, _: project("out", loop(*(project(name, xs) for name in "qkv"))))


@pytest.mark.parametrize(("buckets", "reach"), [(16, 128), (32, 128), (4, 6), (8, 8)])
def test_buckets_of_distances(buckets: int, reach: int) -> None:
    expected = [naive_modern.t5_bucket(-d, buckets, reach, False) for d in range(reach + 1)]
    assert bucket_numbers(buckets, reach).tolist() == expected


def test_a_turned_product_depends_on_the_distance_alone() -> None:
    q, k = np.arange(1.0, 7.0), np.cos(np.arange(6.0))
    turned = [naive_modern.rotated(q, t + 3, 10.0) @ naive_modern.rotated(k, t, 10.0) for t in range(4)]
    np.testing.assert_allclose(turned, turned[0])


@pytest.mark.parametrize("arguments", ATTENTIONS)
def test_fused_products_are_the_same(arguments: str) -> None:
    """A model prepared for decoding folds the scale into W_q only where no norm takes it away again."""
    width = ", width=6" if "width=6" in arguments else ""
    text = f"d = 8\nencoder = id\ndecoder = res(mh_dot_self_att({arguments}) -> linear) -> mh_dot_src_att(2{width})\n"
    case = ProofCase(check(Text("fused", text), builtin()), builtin(), 3)
    with torch.no_grad():
        expected = case.stepped(case.x, case.tamed, [1] * case.x.shape[1])
        prepare_for_decoding(case.model, "float32")
        sources = {key: p._replace(value=p.value.float()) for key, p in case.tamed.items()}
        found = case.stepped(case.x.float(), sources, [1] * case.x.shape[1])
    torch.testing.assert_close(found.double(), expected, rtol=0, atol=2e-5)


@pytest.mark.parametrize("buckets", range(1, 17))
@pytest.mark.parametrize("reach", range(1, 20))
def test_buckets_of_distances_are_in_range_and_rise(buckets: int, reach: int) -> None:
    found = bucket_numbers(buckets, reach).tolist()
    assert found == sorted(found)
    assert 0 == found[0] <= found[-1] < buckets
