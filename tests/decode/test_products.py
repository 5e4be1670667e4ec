"""Products laid out for decoding: as exact as the plain ones, and in int8 exactly what their formula says."""

import copy
import re

import pytest
import torch
from torch import Tensor
from torch.nn import functional as F

import calque
from calque import zoo
from calque.decode.prepare import prepare_for_decoding
from calque.decode.products import Int8, Packed, Plain, Product, packing_works, rows_of, rows_to_spare
from calque.layers.history import History
from calque.layers.state import Memory, States
from calque.train.initialise import initialise

NAMES = zoo.distinct()

needs_float32 = pytest.mark.skipif(not packing_works(torch.float32), reason="this torch packs no float32 weights")
needs_bfloat16 = pytest.mark.skipif(not packing_works(torch.bfloat16), reason="this torch packs no bfloat16 weights")
needs_int8 = pytest.mark.skipif(not packing_works(torch.int8), reason="this torch has no int8 products")


def numbers(*shape: int, seed: int = 1) -> Tensor:
    return torch.randn(shape, generator=torch.Generator().manual_seed(seed), dtype=torch.float64)


@pytest.mark.parametrize(
    "dtype", [pytest.param(torch.float32, marks=needs_float32), pytest.param(torch.bfloat16, marks=needs_bfloat16)]
)
@pytest.mark.parametrize("bias", [False, True])
@pytest.mark.parametrize("rows", [1, 5, 33, 64])
def test_a_packed_product_is_as_exact_as_the_plain_one(dtype: torch.dtype, bias: bool, rows: int) -> None:
    x, w, b = (t.to(dtype) for t in (numbers(rows, 512), numbers(256, 512, seed=2), numbers(256, seed=3)))
    exact = F.linear(x.double(), w.double(), b.double() if bias else None)
    plain, packed = (
        (y.double() - exact).square().mean().sqrt()
        for y in (F.linear(x, w, b if bias else None), Packed(w, b if bias else None)(x))
    )
    # Both round in their own order; float32 sums of 512 products in one chain lose twice as much as in several.
    assert packed <= 2.5 * plain


def test_rows_come_in_few_sizes() -> None:
    sizes = [n + rows_to_spare(n) for n in range(1, 3001)]
    assert all(n <= m <= 1.125 * n for n, m in enumerate(sizes, 1))
    assert len(set(sizes)) < 80
    assert sizes[:17] == [*range(1, 17), 18]


@needs_int8
@pytest.mark.parametrize("bias", [False, True])
def test_an_int8_product_is_its_formula(bias: bool) -> None:
    x, w, b = numbers(7, 96).float(), numbers(48, 96, seed=2).float(), numbers(48, seed=3).float()
    w[5] = 0
    x[3] = 0
    product = Int8(w, b if bias else None, keeps=True)
    for i in range(7):
        for j in range(48):
            r, s = max(1e-30, float(x[i].abs().max())) / 127, max(1e-30, float(w[j].abs().max())) / 127
            total = sum(round(float(u) / r) * round(float(v) / s) for u, v in zip(x[i], w[j], strict=True))
            expected = r * s * total + (float(b[j]) if bias else 0.0)
            assert float(product(x)[i, j]) == pytest.approx(expected, rel=1e-5, abs=1e-5)


@needs_int8
def test_an_int8_row_is_the_same_whatever_stands_around_it() -> None:
    x, product = (
        numbers(320, 96).float(),
        Int8(numbers(48, 96, seed=2).float(), numbers(48, seed=3).float(), keeps=True),
    )
    whole = product(x)
    for rows in (slice(0, 1), slice(3, 8), slice(100, 164)):
        assert torch.equal(product(x[rows]), whole[rows])
    assert torch.equal(product(x.view(4, 80, 96)), whole.view(4, 80, 48))


@needs_int8
@pytest.mark.parametrize("width", [16, 20, 24, 40, 48, 512])
def test_a_few_int8_rows_keep_their_input(width: int) -> None:
    x, w, b = numbers(4, width).float(), numbers(48, width, seed=2).float(), numbers(48, seed=3).float()
    exact, size = F.linear(x, w, b), F.linear(x, w, b).square().mean().sqrt()
    assert (Int8(w, b)(x) - exact).abs().max() < 0.05 * size
    assert (Int8(w, b)(x[:1, None])[:, 0] - exact[:1]).abs().max() < 0.05 * size


@pytest.mark.parametrize(
    "kind", [Plain, pytest.param(Packed, marks=needs_float32), pytest.param(Int8, marks=needs_int8)]
)
def test_rows_of_a_product_are_rows_of_its_output(kind: type[Plain]) -> None:
    x, rows = numbers(6, 96).float(), torch.tensor([40, 2, 2, 17])
    product = kind(numbers(48, 96, seed=2).float(), numbers(48, seed=3).float(), True)
    torch.testing.assert_close(rows_of(product, rows)(x), product(x)[:, rows])
    with pytest.raises(ValueError, match="keep"):
        rows_of(Product(numbers(48, 96).float(), None), rows)


@pytest.mark.parametrize("name", NAMES)
@pytest.mark.parametrize(("precision", "tolerance"), [("float32", 1e-4), ("bfloat16", 0.06), ("int8", 0.1)])
def test_every_architecture_can_be_prepared(name: str, precision: str, tolerance: float) -> None:
    """The logits of a few steps with two hypotheses, re-ordered once, beside the model that was not prepared."""
    if precision == "int8" and not packing_works(torch.int8):
        pytest.skip("this torch has no int8 products")
    sizes = {"d": "48", "n": "3", "heads": "4"}
    small = re.sub(r"^(d|n|heads) = \d+", lambda m: f"{m[1]} = {sizes[m[1]]}", zoo.read(name).body, flags=re.M)
    model = calque.build(small, 50, 50).eval()
    initialise(model, "glorot", 0.1, 3)
    prepared = prepare_for_decoding(copy.deepcopy(model), precision)
    source = torch.tensor([[4, 9, 13, 2], [7, 30, 2, 0]])
    words = torch.tensor([[1, 5, 20], [1, 6, 21], [1, 7, 22], [1, 8, 23]])
    rows = torch.tensor([1, 0, 2, 2])
    found = []
    with torch.inference_mode():
        for m in (model, prepared):
            state, logits = m.init_state(m.encode(source, source > 0), 3, 2), []
            for t in range(3):
                z, state = m.step(words[:, t : t + 1], state, t + 1, 2)
                logits.append(m.logits(z).float())
                state = state.select(rows) if t == 1 else state
            found.append(torch.cat(logits, 1))
    assert isinstance(state.parts[0], History)
    size = found[0].square().mean().sqrt()
    assert (found[1] - found[0]).abs().max() <= tolerance * 3 * size


@pytest.mark.parametrize(("words", "folded"), [(4, True), (7, False)])
@pytest.mark.parametrize("chain", ["mh_dot_src_att", "mh_dot_src_att(bias=yes)", "dot_src_att(project=q)"])
def test_one_short_sentence_alone_has_products_of_its_own(words: int, folded: bool, chain: str) -> None:
    """Its attention without W_q and W_o says the same; the weights too, and with padding behind the sentence."""
    text = f"d = 32\nheads = 4\nencoder = pos -> tenc\ndecoder = pos -> repeat(2, res({chain}))\n"
    model = calque.build(text, 50, 50).eval()
    initialise(model, "glorot", 0.1, 3)
    prepared = prepare_for_decoding(copy.deepcopy(model))
    source = torch.tensor([[*range(4, words + 2), 2, 0]])
    target = torch.tensor([[1, 5, 20], [1, 6, 21]])
    found: list[list[Tensor]] = []
    with torch.inference_mode():
        for m in (model, prepared):
            kept: dict[str, Tensor] = {}
            state = m.init_state(m.encode(source, source > 0), 3, 2)
            z, state = m.step(target, state, 3, 2, record=kept.__setitem__)
            found.append([m.logits(z), *kept.values()])
    memories = [part for part in _flat(state) if isinstance(part, Memory)]
    keeps = chain == "mh_dot_src_att" and folded
    assert [part.keys.dim() for part in memories] == [3 if keeps else 4] * 2
    for a, b in zip(*found, strict=True):
        torch.testing.assert_close(b, a, rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize(
    ("precision", "folded"),
    [
        ("float32", True),
        pytest.param("bfloat16", False, marks=needs_bfloat16),
        pytest.param("int8", False, marks=needs_int8),
    ],
)
def test_in_fewer_bits_it_has_not_since_it_would_come_out_otherwise(precision: str, folded: bool) -> None:
    text = "d = 32\nheads = 4\nencoder = pos -> tenc\ndecoder = pos -> res(mh_dot_src_att)\n"
    model = prepare_for_decoding(calque.build(text, 50, 50).eval(), precision)
    source = torch.tensor([[4, 5, 6, 2]])
    with torch.inference_mode():
        state = model.init_state(model.encode(source), 3)
    (memory,) = (part for part in _flat(state) if isinstance(part, Memory))
    assert memory.keys.dim() == (3 if folded else 4)


def _flat(state: object) -> list[object]:
    return [state, *(p for part in state.parts for p in _flat(part))] if isinstance(state, States) else [state]
