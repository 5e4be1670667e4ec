"""Products laid out for decoding: as exact as their type allows on any processor, and in int8 what their formula says."""

import copy
import platform
import re
from collections.abc import Callable

import pytest
import torch
from torch import Tensor, nn

import calque
import rounding
from calque import zoo
from calque.decode import prepare, products
from calque.decode.prepare import prepare_for_decoding
from calque.decode.products import Int8, Packed, Plain, Product, packing_works, rows_of, rows_to_spare
from calque.layers.contract import Layer
from calque.layers.history import History
from calque.layers.state import Memory, States
from calque.model import Model
from calque.native.kernels import kernels
from calque.train.initialise import initialise
from parts import some

NAMES = zoo.distinct()

needs_float32 = pytest.mark.skipif(not packing_works(torch.float32), reason="this torch packs no float32 weights")
needs_bfloat16 = pytest.mark.skipif(not packing_works(torch.bfloat16), reason="this torch packs no bfloat16 weights")
needs_int8 = pytest.mark.skipif(not packing_works(torch.int8), reason="this torch has no int8 products")


def numbers(*shape: int, seed: int = 1) -> Tensor:
    return torch.randn(shape, generator=torch.Generator().manual_seed(seed), dtype=torch.float64)


TYPES = [pytest.param(torch.float32, marks=needs_float32), pytest.param(torch.bfloat16, marks=needs_bfloat16)]


def factors(dtype: torch.dtype, rows: int, inner: int = 512) -> tuple[Tensor, Tensor, Tensor]:
    x, w, b = (t.to(dtype) for t in (numbers(rows, inner), numbers(256, inner, seed=2), numbers(256, seed=3)))
    return x, w, b


@pytest.mark.parametrize("dtype", TYPES)
@pytest.mark.parametrize("with_bias", [False, True])
@pytest.mark.parametrize("rows", [1, 5, 33, 64])
def test_a_packed_product_is_within_the_bound_of_its_type(dtype: torch.dtype, with_bias: bool, rows: int) -> None:
    for inner in (16, 512):
        x, w, b = factors(dtype, rows, inner)
        bias = b if with_bias else None
        # On ARM torch rounds sums of its plain product of bfloat16 on the way.
        exact = dtype == torch.float32 or platform.machine() == "x86_64"
        for product in (Packed(w, bias), Plain(w, bias))[: 2 if exact else 1]:
            assert within_bound(product(x), x, w, bias)


def within_bound(y: Tensor, x: Tensor, w: Tensor, bias: Tensor | None = None) -> bool:
    error = (y.double() - rounding.exact_product(x, w, bias)).abs()
    return bool((error <= rounding.product_bound(x, w, bias, x.dtype)).all())


@needs_float32
@pytest.mark.parametrize("rows", [1, 5, 33])
def test_a_packed_product_of_whole_numbers_is_exact(rows: int) -> None:
    """No partial sum needs more than 24 bits, in any order: a product that rounds its factors or loses a term shows."""
    large, small = whole_numbers(4095, rows, 512), whole_numbers(7, 256, 512)
    b = whole_numbers(4095, 256)[0]
    for x, w in ((large, small), (whole_numbers(7, rows, 512), whole_numbers(4095, 256, 512))):
        assert torch.equal(Packed(w, b)(x).double(), rounding.exact_product(x, w, b))


def whole_numbers(largest: int, *shape: int) -> Tensor:
    drawn = torch.Generator().manual_seed(sum(shape) + largest)
    return torch.randint(-largest, largest + 1, shape if len(shape) > 1 else (1, *shape), generator=drawn).float()


@needs_bfloat16
@pytest.mark.parametrize("rows", [1, 5, 33])
def test_a_packed_product_in_bfloat16_rounds_its_exact_sum_once(rows: int) -> None:
    x, w, b = (whole_numbers(255, *shape).bfloat16() for shape in ((rows, 128), (256, 128), (256,)))
    exact = rounding.exact_product(x, w, b[0])
    assert torch.equal(Packed(w, b[0])(x), exact.float().bfloat16())


def one_by_one(x: Tensor, w: Tensor, b: Tensor, sums: torch.dtype) -> Tensor:
    """The product in a single chain of additions, each rounded to `sums`."""
    total = b.to(sums).expand(len(x), -1)
    for k in range(x.shape[1]):
        total = (total.double() + x[:, k : k + 1].double() * w[:, k].double()).to(sums)
    return total


FAULTS: dict[str, Callable[[Tensor, Tensor, Tensor], Tensor]] = {
    "factors of 11 bits": lambda x, w, b: rounding.exact_product(rounding.narrow(x, 11), rounding.narrow(w, 11), b).to(
        x.dtype
    ),
    "one factor of 8 bits": lambda x, w, b: rounding.exact_product(x, rounding.narrow(w, 8), b).to(x.dtype),
    "sums in bfloat16": lambda x, w, b: one_by_one(x, w, b, torch.bfloat16).to(x.dtype),
    "a term is lost": lambda x, w, b: rounding.exact_product(x[:, 1:], w[:, 1:], b).to(x.dtype),
    "no bias": lambda x, w, b: rounding.exact_product(x, w).to(x.dtype),
    "a row of another": lambda x, w, b: rounding.exact_product(x, w.roll(1, 0), b.roll(1)).to(x.dtype),
}
FINE = {torch.float32: (), torch.bfloat16: ("factors of 11 bits", "one factor of 8 bits")}
"""What is no fault in a type."""


@pytest.mark.parametrize(
    ("dtype", "fault"), [(dtype, fault) for dtype in FINE for fault in FAULTS if fault not in FINE[dtype]]
)
def test_the_bound_has_no_room_for_a_fault(dtype: torch.dtype, fault: str) -> None:
    x, w, b = factors(dtype, 5)
    assert within_bound(rounding.exact_product(x, w, b).to(dtype), x, w, b)
    assert within_bound(one_by_one(x, w, b, torch.float32).to(dtype), x, w, b)
    assert not within_bound(FAULTS[fault](x, w, b), x, w, b)


@pytest.mark.parametrize("terms", [16, 512])
def test_the_bound_is_reached(terms: int) -> None:
    """In one chain that starts with 1, terms of half an ulp are all lost: a smaller bound would be wrong on some processor."""
    x, w = torch.full((1, terms), rounding.unit(torch.float32)), torch.ones(1, terms)
    x[0, 0] = 1
    exact, bound = rounding.exact_product(x, w), rounding.product_bound(x, w)
    lost = one_by_one(x, w, torch.zeros(1), torch.float32)
    assert exact - lost > 0.9 * bound
    assert within_bound(lost, x, w)
    assert not within_bound(lost - 0.2 * bound, x, w)


def test_rows_come_in_few_sizes() -> None:
    sizes = [n + rows_to_spare(n) for n in range(1, 3001)]
    assert all(n <= m <= 1.125 * n for n, m in enumerate(sizes, 1))
    assert len(set(sizes)) < 80
    assert sizes[:17] == [*range(1, 17), 18]


@needs_int8
@pytest.mark.parametrize("saturates", [False, True])
@pytest.mark.parametrize("bias", [False, True])
def test_an_int8_product_is_its_formula(bias: bool, saturates: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    """On processors whose sums of pairs have 16 bits too; the largest factors stand side by side."""
    if saturates:
        monkeypatch.setattr(products, "_saturates", lambda: True)
    x, w, b = numbers(7, 96).float(), numbers(48, 96, seed=2).float(), numbers(48, seed=3).float()
    w[5] = 0
    x[3] = 0
    w[6], x[2] = 1, 1
    product = Int8(w, b if bias else None, keeps=True)
    for i in range(7):
        for j in range(48):
            r, s = max(1e-30, float(x[i].abs().max())) / 127, max(1e-30, float(w[j].abs().max())) / 127
            total = sum(round(float(u) / r) * round(float(v) / s) for u, v in zip(x[i], w[j], strict=True))
            expected = r * s * total + (float(b[j]) if bias else 0.0)
            assert float(product(x)[i, j]) == pytest.approx(expected, rel=1e-5, abs=1e-5)


@needs_int8
@pytest.mark.parametrize("keeps", [True, False])
def test_an_int8_row_is_the_same_whatever_stands_around_it(keeps: bool) -> None:
    x, product = (
        numbers(320, 96).float(),
        Int8(numbers(48, 96, seed=2).float(), numbers(48, seed=3).float(), keeps),
    )
    whole = product(x)
    for rows in (slice(0, 1), slice(3, 8), slice(100, 164)):
        assert torch.equal(product(x[rows]), whole[rows])
    assert torch.equal(product(x.view(4, 80, 96)), whole.view(4, 80, 48))


@pytest.mark.parametrize(
    "kind", [Plain, pytest.param(Packed, marks=needs_float32), pytest.param(Int8, marks=needs_int8)]
)
def test_rows_of_a_product_are_rows_of_its_output(kind: type[Plain]) -> None:
    x, w, b = numbers(6, 96).float(), numbers(48, 96, seed=2).float(), numbers(48, seed=3).float()
    rows, product = torch.tensor([40, 2, 2, 17]), kind(w, b, True)
    for y in (product(x)[:, rows], rows_of(product, rows)(x)):
        if kind is Int8:  # whole sums: the same to the bit
            assert torch.equal(y, product(x)[:, rows])
        else:
            assert within_bound(y, x, w[rows], b[rows])
    with pytest.raises(ValueError, match="keep"):
        rows_of(Product(numbers(48, 96).float(), None), rows)


PRECISIONS = {
    "float32": rounding.unit(torch.float32),
    "bfloat16": rounding.unit(torch.bfloat16),
    "int8": 1 / (2 * rounding.INT8_LEVELS),
}
"""The error of one rounding in a network prepared for a precision: of a number, or half a step of the largest in a row."""


def allowed(model: nn.Module, precision: str) -> float:
    """The largest error of a network in a precision, relative to its outputs: of each layer, and of sums where they count."""
    roundings = sum(isinstance(m, (nn.Linear, Layer)) for m in model.modules())
    longest = max(m.in_features for m in model.modules() if isinstance(m, nn.Linear))
    own = kernels()
    # Weights whose products are added up in 16 bits have fewer steps.
    coarser = 2 if precision == "int8" and own is not None and own.short_sums else 1
    # In fewer bits than float32 it is the factors that are rounded; their sums are made in float32 or exactly.
    return rounding.network_bound(
        roundings * (longest if precision == "float32" else 1), coarser * PRECISIONS[precision]
    )


def small_architecture(name: str) -> tuple[Model, Model]:
    """An architecture of the zoo, narrow and shallow; and the same in float64."""
    sizes = {"d": "48", "n": "3", "heads": "4"}
    small = re.sub(r"^(d|n|heads) = \d+", lambda m: f"{m[1]} = {sizes[m[1]]}", zoo.read(name).body, flags=re.M)
    model = calque.build(small, 50, 50).eval()
    initialise(model, "glorot", 0.1, 3)
    return model, copy.deepcopy(model).double()


def few_steps(model: Model) -> Tensor:
    """The logits of a few steps with two hypotheses, re-ordered once."""
    source = torch.tensor([[4, 9, 13, 2], [7, 30, 2, 0]])
    words = torch.tensor([[1, 5, 20], [1, 6, 21], [1, 7, 22], [1, 8, 23]])
    with torch.inference_mode():
        state, logits = model.init_state(model.encode(source, source > 0), 3, 2), []
        for t in range(3):
            z, state = model.step(words[:, t : t + 1], state, t + 1, 2)
            logits.append(model.logits(z).double())
            state = state.select(torch.tensor([1, 0, 2, 2])) if t == 1 else state
    assert isinstance(state.parts[0], History)
    return torch.cat(logits, 1)


def error(found: Tensor, exact: Tensor) -> float:
    """The largest error, relative to the root mean square of what is exact."""
    return float((found - exact).abs().max() / exact.square().mean().sqrt())


UNSTEADY = ("modern/gla", "modern/mamba2", "modern/retnet", "beyond/table1/retention", "beyond/table2/retention")
"""A norm follows the heads of their linear attention. At the first position it divides v (q . k) by |v| |q . k|: where q . k is
near zero, any rounding may turn the sign."""


@pytest.mark.medium
@pytest.mark.parametrize("name", some(NAMES, 1, 6))
def test_every_architecture_can_be_prepared(name: str) -> None:
    model, wide = small_architecture(name)
    exact = few_steps(wide)
    for precision in PRECISIONS:
        if precision == "int8" and not packing_works(torch.int8):
            continue
        found = few_steps(prepare_for_decoding(copy.deepcopy(model), precision))
        if precision != "float32" and name in UNSTEADY:
            assert bool(found.isfinite().all()), precision
        else:
            assert error(found, exact) <= allowed(model, precision), precision


@pytest.mark.parametrize(
    "name", ["domhan2018/transformer", "domhan2018/rnmt", "luong2015/table1/base", "zhang2018/aan"]
)
def test_the_errors_allowed_have_no_room_for_fewer_bits(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    model, wide = small_architecture(name)
    exact = few_steps(wide)

    def rounded(bits: int) -> Model:
        made = copy.deepcopy(wide)
        with torch.no_grad():
            for p in made.parameters():
                p.copy_(rounding.narrow(p, bits))
        return made

    assert error(few_steps(rounded(11)), exact) > allowed(model, "float32")
    assert error(few_steps(rounded(3)), exact) > allowed(model, "bfloat16")
    if packing_works(torch.int8):
        monkeypatch.setattr(products, "LEVELS", 7)
        monkeypatch.setattr(prepare, "kernels", lambda: None)
        coarse = prepare_for_decoding(copy.deepcopy(model), "int8")
        assert error(few_steps(coarse), exact) > allowed(model, "int8")


@pytest.mark.parametrize(("words", "folded"), [(4, True), (7, False)])
@pytest.mark.parametrize("chain", ["mh_dot_src_att", "mh_dot_src_att(bias=yes)", "dot_src_att(project=q)"])
def test_one_short_sentence_alone_has_products_of_its_own(
    monkeypatch: pytest.MonkeyPatch, words: int, folded: bool, chain: str
) -> None:
    """Its attention without W_q and W_o says the same; the weights too, and with padding behind the sentence."""
    monkeypatch.setattr(prepare, "kernels", lambda: None)
    text = f"d = 32\nheads = 4\nencoder = pos -> tenc\ndecoder = pos -> repeat(2, res({chain}))\n"
    model = calque.build(text, 50, 50).eval()
    initialise(model, "glorot", 0.1, 3)
    wide, prepared = copy.deepcopy(model).double(), prepare_for_decoding(copy.deepcopy(model))
    source = torch.tensor([[*range(4, words + 2), 2, 0]])
    target = torch.tensor([[1, 5, 20], [1, 6, 21]])
    found: list[list[Tensor]] = []
    with torch.inference_mode():
        for m in (wide, prepared):
            kept: dict[str, Tensor] = {}
            state = m.init_state(m.encode(source, source > 0), 3, 2)
            z, state = m.step(target, state, 3, 2, record=kept.__setitem__)
            found.append([m.logits(z), *kept.values()])
    memories = [part for part in _flat(state) if isinstance(part, Memory)]
    keeps = chain == "mh_dot_src_att" and folded
    assert [part.keys.dim() for part in memories] == [3 if keeps else 4] * 2
    for exact, y in zip(*found, strict=True):
        assert error(y, exact) <= allowed(model, "float32")


@pytest.mark.parametrize(
    ("precision", "folded"),
    [
        ("float32", True),
        pytest.param("bfloat16", False, marks=needs_bfloat16),
        pytest.param("int8", False, marks=needs_int8),
    ],
)
def test_in_fewer_bits_it_has_not_since_it_would_come_out_otherwise(
    monkeypatch: pytest.MonkeyPatch, precision: str, folded: bool
) -> None:
    if folded:
        monkeypatch.setattr(prepare, "kernels", lambda: None)
    text = "d = 32\nheads = 4\nencoder = pos -> tenc\ndecoder = pos -> res(mh_dot_src_att)\n"
    model = prepare_for_decoding(calque.build(text, 50, 50).eval(), precision)
    source = torch.tensor([[4, 5, 6, 2]])
    with torch.inference_mode():
        state = model.init_state(model.encode(source), 3)
    (memory,) = (part for part in _flat(state) if isinstance(part, Memory))
    assert memory.keys.dim() == (3 if folded else 4)


@pytest.mark.skipif(kernels() is None, reason="torch's products take padding too")
@pytest.mark.parametrize("precision", PRECISIONS)
def test_keys_and_values_are_made_of_real_words_alone(precision: str) -> None:
    """They are the same as those of the sentence alone, to the bit; of padding a product would make its bias."""
    text = "d = 32\nheads = 4\nencoder = pos -> tenc\ndecoder = res(mh_dot_src_att(bias=yes))\n"
    model = calque.build(text, 50, 50).eval()
    initialise(model, "glorot", 0.1, 3)
    for name, p in model.named_parameters():
        if name.endswith("bias"):
            nn.init.ones_(p)
    prepare_for_decoding(model, precision)
    source = torch.tensor([[4, 5, 6, 7, 2], [8, 2, 0, 0, 0]])
    with torch.inference_mode():
        states = [model.init_state(model.encode(x, x > 0), 3) for x in (source, source[1:, :2])]
    beside, alone = (part for state in states for part in _flat(state) if isinstance(part, Memory))
    for one, other in ((beside.keys, alone.keys), (beside.values, alone.values)):
        assert torch.equal(one[1:, :, :2], other)
        assert bool(one[1, :, 2:].eq(0).all())


def _flat(state: object) -> list[object]:
    return [state, *(p for part in state.parts for p in _flat(part))] if isinstance(state, States) else [state]
