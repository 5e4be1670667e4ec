"""Fields by gradient; the closed forms and tables that papers print."""

import math

import pytest
import torch
from explained import built, explained, small
from torch import Tensor

from calque import zoo
from calque.adl.check import CheckedDefinition, check
from calque.adl.dialect import reader
from calque.adl.settings import parse_settings
from calque.explain import ModelCosts, Surroundings, whole
from calque.explain.node_costs import figures
from calque.explain.paths import path_length, path_order, waits
from calque.ground.diagnostics import Text
from calque.layers.contract import Context
from calque.layers.registry import builtin
from calque.prove import random_program
from parts import some

LENGTH = 41
MIDDLE = LENGTH // 2


def seen(checked: CheckedDefinition, side: str) -> tuple[int, int]:
    """The earliest and the latest input that the output in the middle depends on, by gradient, relative to it."""
    made = built(checked)
    for p in made.parameters():
        torch.nn.init.normal_(p, std=1 / math.sqrt(p[0].numel()) if p.dim() > 1 else 0.3)
    x = torch.randn(1, LENGTH, checked.width, dtype=torch.float64, requires_grad=True)
    y: Tensor
    if side == "encoder":
        y = made.encoder(x, Context(taps={}, like=x.new_empty(0)))
    else:
        y = made.decoder(x, Context(sources=made.encode(torch.tensor([[1, 2, 3]])), like=x.new_empty(0)))
    (gradient,) = torch.autograd.grad((y[0, MIDDLE] * torch.randn(y.shape[2], dtype=torch.float64)).sum(), x)
    at = [k - MIDDLE for k in range(LENGTH) if gradient[0, k].abs().max() > 0]
    return min(at), max(at)


def cut(field: tuple[float, float]) -> tuple[float, float]:
    """A field as far as it lies in the sentence."""
    return max(field[0], -MIDDLE), min(field[1], LENGTH - 1 - MIDDLE)


@pytest.mark.parametrize("name", some([n for n in zoo.distinct() if "rnmt" not in n and "/rnn" not in n], 1))
@pytest.mark.usefixtures("shapes_unchecked")
def test_field_of_a_row_of_the_zoo(name: str) -> None:
    checked = small(name)
    told = whole(checked)
    found, field = seen(checked, "decoder"), cut(told.decoder.field)
    if "zero_first" in checked.text:  # of its first position it makes nothing
        field = (max(field[0], 1 - MIDDLE), field[1])
    if "you2020" in name:  # the tails of a Gaussian fall below what float64 adds to
        assert field[0] <= found[0] <= found[1] <= field[1]
    else:
        assert found == field
        assert seen(checked, "encoder") == cut(told.encoder.field)


TEXTS = {
    "encoder": {
        "cnn": (-1, 1),
        "cnn(kernel=5) -> cnn(kernel=3, dilation=4)": (-6, 6),
        "concat(id, cnn(kernel=7)) -> linear": (-3, 3),
        "reverse(cnn(kernel=3) -> hc_self_att(-3, form=index))": (2, 4),
        "hc_self_att(-2, 4, form=conv, reach=2, sigma=2.0)": (-4, 6),
        "rnn(cell=tanh)": (-math.inf, 0),
        "reverse(ssru)": (0, math.inf),
        "birnn": (-math.inf, math.inf),
        "gate(hc_self_att(-3, form=index))": (-3, 0),
        "add(hc_self_att(-3, form=index), hc_self_att(-5, form=index))": (-5, -3),
        "repeat(6, res(cnn(glu)))": (-6, 6),
    },
    "decoder": {
        "cnn": (-2, 0),
        "repeat(6, res(cnn(glu)))": (-12, 0),
        "cnn(kernel=2, dilation=8) -> hc_self_att(-1, 0, form=index)": (-9, 0),
        "average": (-math.inf, 0),
        "feed(ff)": (-math.inf, 0),
        "hc_self_att(-2, form=index) -> hc_self_att(-1, form=index)": (-3, -3),
        "ffl -> norm -> mlp_src_att": (0, 0),
    },
}


@pytest.mark.parametrize(("side", "text"), [(side, text) for side, texts in TEXTS.items() for text in texts])
@pytest.mark.usefixtures("shapes_unchecked")
def test_field_of_a_text(side: str, text: str) -> None:
    other = "decoder" if side == "encoder" else "encoder"
    checked = check(Text("text", f"d = 8\np = 0.1\n{other} = dropout\n{side} = {text}\n"), builtin())
    told = whole(checked)
    field = (told.encoder if side == "encoder" else told.decoder).field
    assert field == TEXTS[side][text]
    assert seen(checked, side) == cut(field)


@pytest.mark.medium
@pytest.mark.usefixtures("shapes_unchecked")
def test_nothing_outside_the_field_of_a_random_architecture_is_seen() -> None:
    for seed in range(20):
        checked = check(Text("drawn", random_program(seed)), builtin())
        told = whole(checked)
        for side, field in (("encoder", told.encoder.field), ("decoder", told.decoder.field)):
            try:
                found = seen(checked, side)
            except (RuntimeError, ValueError):  # the output depends on no input at all
                continue
            assert field[0] <= found[0] <= found[1] <= field[1], (seed, side)


# -- recurrences and what is fed back; tests/explain/test_averages.py has Zhang 2018, table 1

D = 16


def layer(text: str) -> CheckedDefinition:
    return check(Text("text", f"d = {D}\nencoder = id\ndecoder = {text}\n"), builtin())


@pytest.mark.parametrize("text", ["rnn", "feed(ff)", "ssru"])
def test_recurrences_are_n_steps_long(text: str) -> None:
    found = layer(text).decoder
    assert path_order(found) == "n"
    assert [path_length(found, n) for n in (2, 9, 50)] == [1, 8, 49]
    assert figures(found).order == ("log n" if text == "ssru" else "n")


def test_feeding_makes_everything_wait() -> None:
    assert waits(layer("feed(ff -> linear -> ff)").decoder, 10) == 30
    assert waits(layer("feed(rnn -> ff)").decoder, 10) == 20
    assert waits(layer("rnn -> ff").decoder, 10) == 11
    assert path_order(layer("feed(linear -> mh_dot_self_att(heads=2))").decoder) == "1"


@pytest.mark.parametrize("n", [2, 3, 4, 5, 12, 40])
def test_a_fed_convolution_hops_in_turns(n: int) -> None:
    """Out of the feed by one position, through the filter by two, which is passed once more than the feed."""
    ways = [feeds + hops for feeds in range(n) for hops in range(feeds + 2) if feeds + 2 * hops >= n - 1]
    assert path_length(layer("feed(cnn -> linear)").decoder, n) == min(ways)
    assert path_length(layer("feed(linear -> cnn) -> norm").decoder, n) == min(ways)


def test_feeds_within_feeds_are_costed_at_once() -> None:
    text = "rnn"
    for _ in range(18):  # computing each body twice would take a quarter of a million walks
        text = f"feed({text} -> cnn)"
    of = layer(text).decoder
    assert path_length(of, 30) == 15


def test_a_signal_takes_the_shortest_way() -> None:
    both = explained("d = 16\nencoder = concat(rnn(8), reverse(rnn(8)))\ndecoder = res(rnn) -> mh_dot_self_att(2)\n")
    assert path_order(both.checked.encoder) == "n"
    assert path_length(both.checked.encoder, 30) == 29
    assert path_length(both.checked.decoder, 30) == 1
    one_way = explained("d = 16\nencoder = rnn\ndecoder = ff\n").checked
    assert (path_order(one_way.encoder), path_length(one_way.encoder, 30)) == ("n", 29)
    assert (path_order(one_way.decoder), path_length(one_way.decoder, 30)) == ("none", math.inf)  # words never meet
    narrow = explained("d = 16\nencoder = rnn -> cnn\ndecoder = cnn\n").checked
    assert (path_order(narrow.encoder), path_length(narrow.encoder, 30)) == ("none", math.inf)  # no word sees the last


# -- Gehring 2017, sections 1, 3.2, 4.2, 5.2 and 5.4, and appendix B


def gehring(row: str, *settings: str) -> ModelCosts:
    """A row at the paper's sizes, with vocabularies of 200,000 and 30,000 words, as in section 5.2."""
    text = zoo.read(f"gehring2017/{row}")
    return whole(
        check(text, builtin(), reader("calque", parse_settings(settings))), Surroundings(200_000, 30_000, "none")
    )


def test_gehring_more_operations_yet_faster() -> None:
    """Section 5.4: at equal embeddings the 6/3 encoder takes "roughly 1.6x as many FLOPs" as a BiLSTM."""
    deep, turns = gehring("table3/deep-all"), gehring("table3/bilstm-all")
    assert round(deep.encoder.products.position / turns.encoder.products.position, 1) == 1.6


def test_gehring_fewer_parameters() -> None:
    """Section 5.2: 20/5 has "40% fewer parameters" than the two-layer BiLSTM, whose embeddings are twice as wide."""
    deep, turns = gehring("table2/deep-20-5"), gehring("table2/bilstm-2")
    assert round(1 - deep.parameters / turns.parameters, 2) == 0.40


@pytest.mark.parametrize("kernel", [3, 5])
@pytest.mark.parametrize("n", [11, 13, 25])
def test_gehring_depth_that_spans_n_words(kernel: int, n: int) -> None:
    """ceil((n - 1) / (k - 1)) layers bring together n words, here in a decoder, and as many operations carry a signal over them."""
    depth = math.ceil((n - 1) / (kernel - 1))
    spans = layer(f"repeat({depth}, res(cnn(tanh, kernel={kernel})))").decoder
    assert figures(spans).field[0] <= -(n - 1)
    assert path_length(spans, n) == depth
    short = layer(f"repeat({depth - 1}, res(cnn(tanh, kernel={kernel})))").decoder
    assert path_length(short, n) == math.inf


@pytest.mark.parametrize(("layers", "words"), [(1, 3), (5, 11), (6, 13)])
def test_gehring_receptive_fields(layers: int, words: int) -> None:
    """Section 3.2: 5 convolutions give "an input field of 11 words"; appendix B: with 6, 13 words."""
    first, last = gehring("table1/deep+pos", f"n={layers}", "m=1").encoder.field
    assert last - first + 1 == words
    assert layers == math.ceil((words - 1) / (3 - 1))


def test_gehring_pooling_sees_five_words() -> None:
    assert gehring("table1/pooling+pos").encoder.field == (-2, 2)
