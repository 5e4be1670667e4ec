"""Hard-coded source attention against the loop that You 2020, section 3.2, is, and faults that this loop has to find."""

from collections.abc import Callable

import naive
import pytest
import torch
from test_layers import WEIGHTS, covers
from torch import Tensor

from bench import Bench
from calque.layers import fixed
from calque.layers.contract import DECODER, ENCODER, Context
from calque.layers.hard_coded_source import HardCodedSourceAttention

GAMMAS = (0.5, 0.963, 1.0, 1.43, 3.0)
OFFSETS = ((-1, 0, 0, 1), (-1, 1), (0,), (2, -3), (9, -11))
SOURCE_WEIGHTS: dict[str, Callable[[float], float]] = {
    "": lambda x: naive.density(x, 1.0),
    ", sigma=2.5": lambda x: naive.density(x, 2.5),
    ", form=conv": lambda x: naive.density(x, 1.0) if abs(x) <= 1 else 0.0,
    ", form=conv, reach=2, sigma=1.5": lambda x: naive.density(x, 1.5) if abs(x) <= 2 else 0.0,
}


def agrees(
    offsets: tuple[int, ...],
    weights: str,
    gamma: float,
    floor: bool,
    clamp: bool,
    project: bool = True,
    renorm: bool = False,
) -> None:
    """The layer and the loop, at a gamma of the test's own."""
    width = 4 * len(offsets)
    said = {"floor": floor, "clamp": clamp, "project": project, "renorm": renorm}
    flags = ", ".join(f"{name}={'yes' if value else 'no'}" for name, value in said.items())
    text = f"hc_src_att({', '.join(map(str, offsets))}, width={width}, gamma={gamma}, {flags}{weights})"
    b = Bench(text, DECODER, f"linear({width})")
    weight = (WEIGHTS | SOURCE_WEIGHTS)[weights]

    def loop(xs: naive.Sequence_, row: int) -> naive.Sequence_:
        source = b.source(row)
        values = naive.linear(source, b.weight("0.v.weight")) if project else source
        y = naive.hard_coded_source(len(xs), values, offsets, weight, gamma, floor, clamp, renorm)
        return naive.linear(y, b.weight("0.out.weight"))

    b.agrees(loop)


@covers("hc_src_att")
@pytest.mark.parametrize("gamma", GAMMAS)
@pytest.mark.parametrize("offsets", OFFSETS)
def test_hard_coded_source_attention(offsets: tuple[int, ...], gamma: float) -> None:
    for weights in SOURCE_WEIGHTS:
        for floor in (True, False):
            agrees(offsets, weights, gamma, floor, clamp=len(weights) % 2 == 0)
            agrees(offsets, weights, gamma, floor, clamp=len(weights) % 2 == 1, renorm=True)
    agrees(offsets, "", gamma, True, True, project=False)
    agrees(offsets, ", form=index", gamma, True, False)
    agrees(offsets, ", form=index", gamma, True, True, project=False)


@pytest.mark.parametrize(
    ("text", "side"),
    [
        ("hc_self_att(-1, 1, project=no, out=no)", ENCODER),
        ("hc_self_att(-2, 0, project=no, out=no, form=conv, sigma=0.3)", ENCODER),
        ("hc_self_att(-1, 0, 1, -3, project=no, out=no)", DECODER),
        ("hc_self_att(-1, 1, project=no, out=no, renorm=yes)", ENCODER),
        ("hc_self_att(-1, 0, 1, -3, project=no, out=no, renorm=yes)", DECODER),
        ("hc_src_att(-1, 0, 1, 3, project=no, out=no, renorm=yes)", DECODER),
        ("hc_src_att(-1, 0, 1, 3, project=no, out=no)", DECODER),
        ("hc_src_att(1, 0, project=no, out=no, clamp=yes, floor=no)", DECODER),
    ],
)
def test_the_weights_that_are_recorded_are_those_that_weigh(text: str, side: str) -> None:
    """With neither projection a head's output is its weights times its slice of what it reads."""
    b = Bench(text, side)
    s, told = b.subject, {}
    if side == ENCODER:
        mask = s.source_mask
        values, y = s.source, s.encode(s.source, mask, told.__setitem__)["end"].value
    else:
        mask = s.mask
        y = s.forward(s.x, s.sources, mask if "src" not in text else None, told.__setitem__)
        values = s.sources["end"].value if "src" in text else s.x
    ((path, weights),) = told.items()
    assert path.startswith(side)
    heads = values.unflatten(2, (weights.shape[1], -1)).transpose(1, 2)
    expected = torch.matmul(weights, heads).transpose(1, 2).flatten(2)
    real = mask if "src" not in text else torch.ones(y.shape[:2], dtype=torch.bool)
    torch.testing.assert_close(y[real], expected[real], rtol=0, atol=1e-9)
    assert (weights == 0).any()


def test_gamma_is_that_of_the_model() -> None:
    """The subject of proofs has a gamma that is not 1: the laws hold of centres that do not move by ones."""
    b = Bench("hc_src_att(0)", DECODER)
    assert b.module("0").gamma == b.subject.model.shape.gamma == 5 / 6


def mass(text: str, places: int, source: int, gamma: float = 1.0) -> list[list[float]]:
    """The sum of each head's weights at the first positions of a sentence."""
    layer = Bench(text, DECODER).module("0")
    layer.gamma = gamma
    found: Tensor = layer._weights(places, source, None, torch.device("cpu"))
    return [[round(float(m), 3) for m in head] for head in found[0].sum(-1)]


def test_border_mass_is_lost() -> None:
    """At a sentence's first position 1/2 + 0.3989/2 of a Gaussian that stands on it; past its end nothing, unless clamped."""
    assert mass("hc_src_att(-1, 0)", 3, 20) == [[0.301, 0.699, 0.941], [0.699, 0.941, 0.995]]
    assert mass("hc_src_att(0)", 12, 3, 2.0)[0][6:] == [0.0] * 6
    assert mass("hc_src_att(0, clamp=yes)", 12, 3, 2.0)[0][1:] == [0.695] * 11


def test_renormalised_weights_sum_to_one_where_there_are_any() -> None:
    assert mass("hc_src_att(-1, 0, renorm=yes)", 3, 20) == [[1.0] * 3] * 2
    assert mass("hc_src_att(0, form=conv, renorm=yes)", 6, 3)[0] == [1.0, 1.0, 1.0, 1.0, 0.0, 0.0]


@pytest.mark.parametrize("side", [ENCODER, DECODER])
def test_learned_and_fixed_heads_in_one_layer(side: str) -> None:
    """Half of the heads learned, half fixed, one projection behind both."""
    learned, fixed = "mh_dot_self_att(heads=2, width=d/2, out=no)", "hc_self_att(-1, 1, width=d/2, out=no)"
    b = Bench(f"concat({learned}, {fixed}) -> linear(bias=no)", side)
    q, k, v = b.weights("0.0.0.q.weight", "0.0.0.k.weight", "0.0.0.v.weight")

    def loop(xs: naive.Sequence_, _: int) -> naive.Sequence_:
        queries, keys, values = (naive.linear(xs, w) for w in (q, k, v))
        one, _ = naive.attention(queries, keys, values, 2, None, side == DECODER)
        two = naive.hard_coded(naive.linear(xs, b.weight("0.1.0.v.weight")), (-1, 1), WEIGHTS[""], side == DECODER)
        return naive.linear(naive.concat(one, two), b.weight("1.project.weight"))

    b.agrees(loop)


def test_learned_and_fixed_heads_on_the_source() -> None:
    learned, fixed = "mh_dot_src_att(heads=2, width=d/2, out=no)", "hc_src_att(-1, 1, width=d/2, out=no)"
    b = Bench(f"concat({learned}, {fixed}) -> linear(bias=no)", DECODER)
    q, k, v = b.weights("0.0.0.q.weight", "0.0.0.k.weight", "0.0.0.v.weight")

    def loop(xs: naive.Sequence_, row: int) -> naive.Sequence_:
        source = b.source(row)
        keys, values = (naive.linear(source, w) for w in (k, v))
        one, _ = naive.attention(naive.linear(xs, q), keys, values, 2, None, causal=False)
        fixed_values = naive.linear(source, b.weight("0.1.0.v.weight"))
        two = naive.hard_coded_source(len(xs), fixed_values, (-1, 1), SOURCE_WEIGHTS[""], 5 / 6, True, False)
        return naive.linear(naive.concat(one, two), b.weight("1.project.weight"))

    b.agrees(loop)


FAULTS: dict[str, Callable[[pytest.MonkeyPatch], None]] = {}


def fault(plant: Callable[[pytest.MonkeyPatch], None]) -> None:
    FAULTS[plant.__name__] = plant


@fault
def centre_off_by_one(patch: pytest.MonkeyPatch) -> None:
    real = fixed.weigh
    patch.setattr(fixed, "weigh", lambda x, *how: real(x - 1, *how))


@fault
def gamma_of_the_other_direction(patch: pytest.MonkeyPatch) -> None:
    real = HardCodedSourceAttention._weights

    def turned(self: HardCodedSourceAttention, *given: object) -> Tensor:
        held, self.gamma = self.gamma, 1 / self.gamma
        found = real(self, *given)  # type: ignore[arg-type]
        self.gamma = held
        return found

    patch.setattr(HardCodedSourceAttention, "_weights", turned)


@fault
def border_renormalised(patch: pytest.MonkeyPatch) -> None:
    real = fixed.weigh

    def whole(x: Tensor, *how: object) -> Tensor:
        w = real(x, *how)  # type: ignore[arg-type]
        return w / w.sum(-1, keepdim=True).clamp(min=1e-30)

    patch.setattr(fixed, "weigh", whole)


@fault
def floored_after_rounding(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(Tensor, "floor", lambda self: self.round())


@pytest.mark.parametrize("name", FAULTS)
def test_the_reference_finds_a_fault(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    agrees((-1, 0, 0, 1), "", 1.43, True, False)
    FAULTS[name](monkeypatch)
    with pytest.raises(AssertionError):
        agrees((-1, 0, 0, 1), "", 1.43, True, False)


def test_one_position_has_all_weight_that_can_be_used() -> None:
    """What is before and behind it is lost, or given to it."""
    for renorm, weight in (("no", 0.3989422804), ("yes", 1.0)):
        layer = Bench(f"hc_self_att(0, project=no, out=no, renorm={renorm})", ENCODER).module("0")
        x = torch.randn(2, 1, 8, dtype=torch.float64)
        torch.testing.assert_close(layer(x, Context(like=x)), weight * x)
