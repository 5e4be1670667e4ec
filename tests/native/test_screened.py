"""The best word by few exact products is the best by all of them, to the bit, for every set of instructions."""

import pytest
import torch
from torch import Tensor

import calque
from calque.decode import products
from calque.decode.prepare import prepare_for_decoding
from calque.decode.products import IN_FULL, MANY, Native, NativeBfloat16, NativeFloat32, NativeInt8
from calque.decode.rule import SearchSettings
from calque.decode.search import search
from calque.native.kernels import Best, Kernels, kernels
from calque.native.packed import PackedWeight

TYPES = [torch.float32, torch.bfloat16]
END = 2


pytestmark = pytest.mark.usefixtures("no_gradients")
has_kernels = pytest.mark.skipif(kernels() is None, reason="no compiler, or no kernels for this processor")


def packed(native: Kernels, w: Tensor, b: Tensor | None, dtype: torch.dtype) -> tuple[PackedWeight, PackedWeight]:
    """Without a screen and with one."""
    full = native.pack(w, dtype)
    screened = native.screened(full, w, b)
    assert screened.screen is not None
    return full, screened


def assert_same(one: Best, other: Best) -> None:
    for a, b in zip(one[:3], other[:3], strict=True):
        torch.testing.assert_close(a, b, rtol=0, atol=0, equal_nan=True)


@pytest.mark.parametrize("dtype", TYPES)
@pytest.mark.parametrize(("rows", "width", "out"), [(1, 64, 3000), (3, 100, 2049), (33, 48, 1500), (70, 512, 2100)])
def test_it_finds_the_same_word(native: Kernels, dtype: torch.dtype, rows: int, width: int, out: int) -> None:
    x, w, b = torch.randn(rows, width), torch.randn(out, width), torch.randn(out)
    x[0] *= torch.linspace(-3, 3, width).exp()  # a few large numbers, and small ones lost in int8
    forbidden = torch.rand(rows, out) < 0.5
    forbidden[:, 64:128] = True
    for bias in (None, b):
        weights = packed(native, w, bias, dtype)
        for first, reward, words in ((END, 0.0, None), (END + 1, 0.0, forbidden), (END, -3.5, forbidden)):
            for given in (x, x.to(dtype)):
                full, fast = (native.best(given, one, bias, 1, first, END, reward, False, words) for one in weights)
                assert_same(full, fast)


def test_it_multiplies_few_words_exactly(native: Kernels) -> None:
    """Words that cannot be the best may as well be infinite, once int8 has seen what they are."""
    x, w = torch.randn(4, 256), torch.randn(4000, 256)
    full, screened = packed(native, w, None, torch.float32)
    logits = native.product(x, full, None)
    far = logits.amax(0) < logits.amax(1).min() - 20
    assert far.sum() > 3500
    assert screened.screen is not None
    screened.screen.exact[far] = torch.inf
    assert torch.equal(native.best(x, screened, None, 1, 0, END, 0.0, False).words[:, 0], logits.argmax(1))


@pytest.mark.parametrize("dtype", TYPES)
def test_of_equal_words_it_finds_the_first(native: Kernels, dtype: torch.dtype) -> None:
    w = torch.randn(300, 64).repeat(10, 1)
    full, screened = packed(native, w, None, dtype)
    x = torch.randn(20, 64)
    assert_same(*(native.best(x, one, None, 1, END, END, 0.0, False) for one in (full, screened)))
    assert (native.best(x, screened, None, 1, END, END, 0.0, False).words < 300 + END).all()


@pytest.mark.parametrize("dtype", TYPES)
def test_it_tells_words_apart_that_differ_in_the_last_bit(native: Kernels, dtype: torch.dtype) -> None:
    """All words are nearly one, so that nearly all may be the best."""
    like = torch.randn(64)
    w = like + torch.randn(2000, 64) * 1e-3
    weights = packed(native, w, None, dtype)
    x = torch.cat([like[None], torch.randn(20, 64)])
    assert_same(*(native.best(x, one, None, 1, END, END, 0.0, False) for one in weights))


@pytest.mark.parametrize("dtype", TYPES)
def test_rows_that_are_no_numbers_or_zero(native: Kernels, dtype: torch.dtype) -> None:
    w, b = torch.randn(3000, 64), torch.randn(3000)
    x = torch.randn(6, 64)
    x[1] = 0
    for bias in (None, b):
        weights = packed(native, w, bias, dtype)
        for bad in (0.0, 1e-30, 1e30, torch.inf, torch.nan):
            x[3, 5] = bad
            assert_same(*(native.best(x, one, bias, 1, END, END, 0.0, False) for one in weights))


def test_numbers_whose_squares_float32_does_not_have(native: Kernels) -> None:
    """Errors that vanish would leave too few words."""
    x, w = torch.randn(60, 64), torch.randn(4000, 64)
    for rows, words in ((1e-24, 1.0), (1.0, 1e-24), (1e-24, 1e17), (1e-30, 1e25), (1e18, 1e18)):
        weights = packed(native, w * words, None, torch.float32)
        for row in x * rows:  # alone: no other row keeps words for it
            assert_same(*(native.best(row[None], one, None, 1, 3, END, 0.0, False) for one in weights))


def test_logits_that_overflow(native: Kernels) -> None:
    x, w, b = torch.randn(40, 64) * 1e16, torch.randn(4000, 64) * 1e17, torch.zeros(4000)
    b[100:200] = torch.finfo(torch.float32).max
    weights = packed(native, w, b, torch.float32)
    full, fast = (native.best(x, one, b, 1, 0, END, 0.0, False) for one in weights)
    assert full.logits.isinf().any()
    assert_same(full, fast)


@pytest.mark.parametrize(("first", "end"), [(0, 2999), (2999, 0), (3000, 2), (3, -1), (0, 3000), (2999, 2999)])
def test_words_at_the_edges_and_beyond(native: Kernels, first: int, end: int) -> None:
    x, weights = torch.randn(5, 64), packed(native, torch.randn(3000, 64), None, torch.float32)
    assert_same(*(native.best(x, one, None, 1, first, end, 0.5, False) for one in weights))


def test_one_row_of_zeros_costs_the_others_nothing(native: Kernels) -> None:
    x, (full, screened) = torch.randn(100, 64), packed(native, torch.randn(3000, 64), None, torch.float32)
    x[50] = 0
    assert_same(*(native.best(x, one, None, 1, END, END, 0.0, False) for one in (full, screened)))
    assert screened.screen is not None
    rows, whole, words = screened.screen.tally.tolist()
    assert (rows, whole) == (100, 32)
    assert 68 <= words <= 68 * 100


def test_weights_that_are_no_numbers_have_no_screen(native: Kernels) -> None:
    w = torch.randn(100, 64)
    w[7, 3] = torch.inf
    full = native.pack(w, torch.float32)
    assert native.screened(full, w, None) is full


def test_a_row_finds_the_same_alone_and_with_other_threads(native: Kernels) -> None:
    x, w, b = torch.randn(70, 128), torch.randn(3000, 128), torch.randn(3000)
    _, screened = packed(native, w, b, torch.float32)
    together, threads = native.best(x, screened, b, 1, END, END, 0.0, False), torch.get_num_threads()
    alone = [native.best(row[None], screened, b, 1, END, END, 0.0, False) for row in x]
    assert torch.equal(together.logits, torch.cat([one.logits for one in alone]))
    assert torch.equal(together.words, torch.cat([one.words for one in alone]))
    try:
        for count in (1, 2, 3):
            torch.set_num_threads(count)
            assert_same(native.best(x, screened, b, 1, END, END, 0.0, False), together)
    finally:
        torch.set_num_threads(threads)


def test_sums_and_several_words_are_those_of_all_products(native: Kernels) -> None:
    x, w = torch.randn(9, 64), torch.randn(3000, 64)
    for n, total in ((1, True), (4, False), (4, True)):
        full, screened = (
            native.best(x, one, None, n, 3, END, 0.0, total) for one in packed(native, w, None, torch.float32)
        )
        assert_same(full, screened)
        assert not total or torch.equal(full.total, screened.total)


@has_kernels
@pytest.mark.parametrize("kind", [NativeFloat32, NativeBfloat16])
def test_an_output_layer_has_a_screen_once_it_is_worth_one(kind: type[NativeFloat32]) -> None:
    w, x = torch.randn(MANY, 64).to(kind.weights), torch.randn(5, 64)
    product, search = kind(w, None, keeps=True), (3, END, 0.0, False)
    before = product.best(x, 1, *search, None)
    for _ in range(IN_FULL):
        product.best(x, 1, 3, END, 0.0, True, None)  # with sums
        assert product.choosing(3, END, 4, 0.0, False).weight.screen is None
        assert product._packed.screen is None
        product.best(x, 1, *search, None)
    assert product.choosing(3, END, 1, 0.0, False).weight.screen is not None
    product.bfloat16().float()  # rounds what lies beside the packed weight
    assert_same(product.best(x, 1, *search, None), before)


@has_kernels
def test_a_screen_that_spares_nothing_is_given_up() -> None:
    """Where one number of every row is far larger than the others, int8 holds little of these."""
    w, x = torch.randn(MANY, 64), torch.randn(5, 64)
    x[:, 3], w[:, 3] = 1000, 1e-3
    product = NativeFloat32(w, None, keeps=True)
    for _ in range(2):
        product.choosing(3, END, 1, 0.0, False)
    assert product._packed.screen is not None
    want = product.kernels.best(x, product._packed._replace(screen=None), None, 1, 3, END, 0.0, False)
    for _ in range(3):
        assert_same(product.best(x, 1, 3, END, 0.0, False, None), want)
    assert product._packed.screen is None


@has_kernels
@pytest.mark.parametrize("precision", ["float32", "bfloat16"])
def test_searches_write_the_same_words(monkeypatch: pytest.MonkeyPatch, precision: str) -> None:
    """Through steps of which several are one call."""
    text = "d = 32\nheads = 2\nencoder = pos -> tenc -> norm\ndecoder = pos -> tdec -> norm\n"
    source = torch.randint(4, 40, (7, 9))
    settings, limits = SearchSettings(beam=1, scores=False, exact_length=40), torch.full((7,), 40)
    found, tallies = [], []
    for many in (MANY, 10**9):
        monkeypatch.setattr(products, "MANY", many)
        torch.manual_seed(1)
        model = prepare_for_decoding(calque.build(text, 3000, 3000), precision)
        found += [search(model, source, source > 0, limits, settings).tokens for _ in range(4)]
        screen = model.output._packed.screen if isinstance(model.output, Native) else None
        tallies.append(None if screen is None else screen.tally.tolist())
    assert all(one == found[0] for one in found)
    assert tallies[1] is None
    assert tallies[0] is not None
    rows, whole, _ = tallies[0]
    assert rows > 7 * 40
    assert whole < 0.5 * rows


@has_kernels
def test_layers_that_gain_nothing_have_none() -> None:
    for product in (
        NativeFloat32(torch.randn(MANY, 8), None),
        NativeFloat32(torch.randn(MANY - 1, 8), None, keeps=True),
        NativeInt8(torch.randn(MANY, 8), None, keeps=True),
    ):
        for _ in range(3):
            assert product.choosing(3, END, 1, 0.0, False).weight.screen is None
