"""Matrix-valued and gated scans, and light convolutions, against the loops of `naive_modern`."""

import math

import naive
import naive_modern
import numpy as np
import pytest
import torch
from test_layers import SIDES, covers
from torch import Tensor

from bench import Bench
from calque.layers.contract import DECODER
from calque.layers.matrix_scan import CHUNK, Driven, chunked, one_position

KINDS = {
    "heads=2": {},
    "heads=2, width=4, key=6, feature=elu": {"width": 4, "key": 6},
    "heads=2, decay=constant, rope=100": {"base": 100.0},
    "heads=4, decay=constant, feature=silu": {"heads": 4},
    "heads=2, decay=head, feature=silu": {},
    "heads=2, decay=channel, rank=3, key=4": {"key": 4},
    "heads=2, width=6, key=4, delta=yes, feature=silu": {"width": 6, "key": 4},
    "heads=2, decay=head, delta=yes": {},
    "heads=2, decay=constant, delta=yes": {},
}


def feature(arguments: str, h: naive.Vector) -> naive.Vector:
    if "silu" in arguments:
        return naive_modern.pointwise("silu", h)
    return np.array([a + 1 if a > 0 else math.exp(a) for a in h]) if "elu" in arguments else h


@covers("linear_att")
@pytest.mark.parametrize("side", SIDES)
@pytest.mark.parametrize("arguments", KINDS)
def test_linear_attention(side: str, arguments: str) -> None:
    given = {"heads": 2, "width": 8, "key": 0, "base": 0.0} | KINDS[arguments]
    heads, width, b = int(given["heads"]), int(given["width"]), Bench(f"linear_att({arguments})", side)
    k, v = int(given["key"] or width) // heads, width // heads

    def decay(x: naive.Vector, h: int) -> tuple[naive.Vector, float]:
        """The decay of a head's channels, and what multiplies its key."""
        if "decay=constant" in arguments:
            return np.full(k, 1 - 2.0 ** (-5 - h)), 1.0
        if "decay=head" in arguments:
            delta = naive_modern.softplus(naive.affine(b.weight("0.step_size.weight"), x)[h] + b.weight("0.offset")[h])
            times = 1.0 if "delta=yes" in arguments else delta
            return np.full(k, math.exp(-math.exp(b.weight("0.rate")[h]) * delta)), times
        if "decay=channel" in arguments:
            low = naive.affine(b.weight("0.down.weight"), x)
            gates = naive.affine(b.weight("0.up.weight"), low, b.weight("0.up.bias"))[h * k : h * k + k]
            return np.array([naive.sigmoid(a) ** (1 / 16) for a in gates]), 1.0
        return np.ones(k), 1.0

    def loop(xs: naive.Sequence_, _: int) -> naive.Sequence_:
        q, key, value = (naive.linear(xs, b.weight(f"0.{name}.weight")) for name in "qkv")
        outputs = []
        for h in range(heads):
            qs = [feature(arguments, a)[h * k : h * k + k] for a in q]
            ks = [feature(arguments, a)[h * k : h * k + k] for a in key]
            vs = [a[h * v : h * v + v] for a in value]
            if given["base"]:
                qs, ks = ([naive_modern.rotated(a, t, given["base"]) for t, a in enumerate(s)] for s in (qs, ks))
            if "elu" in arguments and "silu" not in arguments:
                outputs.append(naive_modern.weighted_mean(qs, ks, vs))
                continue
            decays = [decay(x, h) for x in xs]
            ks = [a * times for a, (_, times) in zip(ks, decays, strict=True)]
            betas = None
            if "delta=yes" in arguments:
                betas = [naive.sigmoid(naive.affine(b.weight("0.beta.weight"), x)[h]) for x in xs]
                ks = [a / math.sqrt(sum(i * i for i in a)) for a in ks]
            y = naive_modern.matrix_scan([a / math.sqrt(k) for a in qs], ks, vs, [d for d, _ in decays], betas)
            outputs.append(y)
        return naive.linear(naive.concat(*outputs), b.weight("0.out.weight"))

    b.agrees(loop)


@pytest.mark.parametrize(("width", "delta"), [(0, False), (1, False), (3, False), (0, True), (1, True)])
@pytest.mark.parametrize("length", [1, CHUNK, CHUNK + 1, 3 * CHUNK - 5])
def test_chunks_are_the_loop(length: int, width: int, delta: bool) -> None:
    """Across the borders of chunks, with decays down to e^-30 at a position, gradients included."""
    generator = torch.Generator().manual_seed(length)

    def normal(size: int) -> Tensor:
        return torch.randn(2, 2, length, size, generator=generator, dtype=torch.float64).requires_grad_()

    decay = -30 * torch.rand(2, 2, length, width, generator=generator, dtype=torch.float64) ** 8 if width else None
    beta = torch.rand(2, 2, length, 1, generator=generator, dtype=torch.float64) if delta else None
    q, k, v = normal(3), normal(3), normal(4)
    unit = k / k.norm(dim=-1, keepdim=True)
    drive, s, outputs = Driven(q, unit, v, decay, beta), torch.zeros(2, 2, 3, 4, dtype=torch.float64), []
    whole = chunked(drive, s)
    for t in range(length):
        y, s = one_position(drive.part(t, t + 1), s)
        outputs.append(y)
    expected = torch.cat(outputs, 2)
    torch.testing.assert_close(whole, expected, rtol=0, atol=1e-10)
    weight = torch.randn(whole.shape, generator=generator, dtype=torch.float64)
    found, right = (torch.autograd.grad((y * weight).sum(), [q, k, v], retain_graph=True) for y in (whole, expected))
    for a, b in zip(found, right, strict=True):
        torch.testing.assert_close(a, b, rtol=1e-9, atol=1e-8)


@pytest.mark.parametrize("arguments", ["decay=head", "decay=channel"])
def test_a_decay_to_nothing_leaves_those_of_other_positions(arguments: str) -> None:
    """One position whose decay is e^(-10^30) or so: positions behind it come out of chunks as out of single steps."""
    b = Bench(f"linear_att(heads=2, {arguments})", DECODER)
    s = b.subject
    x = s.normal(1, 12, 8)
    x[:, 3] *= 1e30
    sources = {key: point._replace(value=point.value[:1], mask=point.mask[:1]) for key, point in s.sources.items()}
    with torch.no_grad():
        whole, steps = s.forward(x, sources), s.stepped(x, sources, [1] * 12)
    torch.testing.assert_close(whole / whole.abs().amax(2, keepdim=True), steps / steps.abs().amax(2, keepdim=True))


@covers("min_gru")
@pytest.mark.parametrize("side", SIDES)
def test_min_gru(side: str) -> None:
    b = Bench("min_gru(5)", side)
    w, c, u, d = b.weights("0.input.weight", "0.input.bias", "0.gate.weight", "0.gate.bias")

    def loop(xs: naive.Sequence_, _: int) -> naive.Sequence_:
        z = [naive.activation("sigmoid", h) for h in naive.linear(xs, u, d)]
        new = naive.linear(xs, w, c)
        return naive_modern.gated_scan([1 - a for a in z], [a * n for a, n in zip(z, new, strict=True)])

    b.agrees(loop)


@covers("hgrn")
@pytest.mark.parametrize("floor", [0.0, 0.7])
def test_hgrn(floor: float) -> None:
    b = Bench(f"hgrn(5, floor={floor})", DECODER)
    maps = {name: b.weights(f"0.{name}.weight", f"0.{name}.bias") for name in ("input", "forget", "gate")}

    def loop(xs: naive.Sequence_, _: int) -> naive.Sequence_:
        made = {name: naive.linear(xs, *pair) for name, pair in maps.items()}
        f = [floor + (1 - floor) * naive.activation("sigmoid", h) for h in made["forget"]]
        c = [naive_modern.pointwise("silu", h) for h in made["input"]]
        h = naive_modern.gated_scan(f, [(1 - a) * b for a, b in zip(f, c, strict=True)])
        return [naive.activation("sigmoid", g) * a for g, a in zip(made["gate"], h, strict=True)]

    b.agrees(loop)


@covers("rg_lru")
@pytest.mark.parametrize("side", SIDES)
def test_rg_lru(side: str) -> None:
    b = Bench("rg_lru(5)", side)
    maps = {name: b.weights(f"0.{name}.weight", f"0.{name}.bias") for name in ("input", "forget", "gate")}
    decay = [naive_modern.softplus(a) for a in b.weight("0.decay")]

    def loop(xs: naive.Sequence_, _: int) -> naive.Sequence_:
        made = {name: naive.linear(xs, *pair) for name, pair in maps.items()}
        r, i = ([naive.activation("sigmoid", h) for h in made[name]] for name in ("forget", "gate"))
        a = [np.array([math.exp(-8 * decay[j] * h[j]) for j in range(5)]) for h in r]
        terms = [np.sqrt(1 - f * f) * g * u for f, g, u in zip(a, i, made["input"], strict=True)]
        return naive_modern.gated_scan(a, terms)

    b.agrees(loop)


@covers("light_cnn")
@pytest.mark.parametrize("side", SIDES)
@pytest.mark.parametrize(("arguments", "heads", "kernel"), [
    ("heads=2", 2, 3),
    ("5, heads=4, dynamic=yes", 4, 5),
    ("heads=8, softmax=no", 8, 3),
    ("1, heads=1, dynamic=yes, softmax=no", 1, 1),
])  # fmt: skip
def test_light_cnn(side: str, arguments: str, heads: int, kernel: int) -> None:
    b = Bench(f"light_cnn({arguments})", side)

    def weights(x: naive.Vector) -> naive.Vector:
        rows = b.weight("0.filter") if "dynamic" not in arguments else naive.affine(b.weight("0.weigh.weight"), x)
        rows = rows.reshape(heads, kernel)
        return rows if "softmax=no" in arguments else np.array([naive.softmax(list(row)) for row in rows])

    b.agrees(lambda xs, _: naive_modern.light_cnn(xs, [weights(x) for x in xs], heads, side == DECODER))
