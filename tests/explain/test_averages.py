"""Zhang 2018, table 1: orders as printed, from the cost of each form of the layer; the forms against what they compute."""

import math

import pytest
import torch
from torch import Tensor
from torch.utils.flop_counter import FlopCounterMode

from calque.adl.check import CheckedDefinition, check
from calque.explain.averages import FORMS, mask, registry_of
from calque.explain.node_costs import figures
from calque.explain.paths import path_length, path_order, waits
from calque.ground.diagnostics import Text
from calque.layers.build import build
from calque.layers.contract import Context
from calque.papers import read_paper
from calque.papers.compute import CostAt, grows_with, growth, terms_of

D = 16
(TABLE,) = read_paper.paper("zhang2018").computed
# Pasted from the paper's text.
PRINTED = {
    "self-attention": ("n^2 d + n d^2", "1", "1"),
    "original": ("n d^2", "n", "1"),
    "masked": ("n^2 d + n d^2", "1", "1"),
}


def layer(text: str, form: str = "") -> CheckedDefinition:
    return check(Text("text", f"d = {D}\nencoder = id\ndecoder = {text}\n"), registry_of(form))


def test_computed_numbers_grow_as_the_paper_says() -> None:
    computed = {row.key: {name: growth(row, name) for name in TABLE.columns} for row in TABLE.rows}
    assert {row.key: row.figures for row in TABLE.rows if row.figures} == PRINTED
    for key, orders in PRINTED.items():
        assert tuple(grown.order for grown in computed[key].values()) == orders
        assert all(grown.as_printed for grown in computed[key].values())
    # A scan waits log n times, between the sum's n and the product's once.
    assert [grown.order for grown in computed["scan"].values()] == ["n d^2", "log n", "1"]
    for key, exponents in {"self-attention": (2, 2), "original": (1, 2), "masked": (2, 2), "scan": (1, 2)}.items():
        assert computed[key]["complexity"].exponents == pytest.approx(exponents, abs=0.02)


def test_closed_forms() -> None:
    """Self-attention: 4 d^2 for the projections, 2 d for each position seen. AAN: the gate's 4 d^2, the network's 8 d^2."""
    n = 50
    for row in TABLE.rows:
        of = CostAt(row)
        seen = {"self-attention": 2, "masked": 1}.get(row.key, 0)
        own = 4 if row.key == "self-attention" else 12
        assert of.complexity(n, D) == n * (own * D * D + seen * n * D)
        assert of.path(n, D) == 1
        behind = 0 if row.key == "self-attention" else 3  # two linear layers and the gate
        waiting = {"original": n, "scan": math.ceil(math.log2(n))}.get(row.key, 1)
        assert of.sequential(n, D) == waiting + behind


def test_other_orders_are_told_apart() -> None:
    of = CostAt(TABLE.rows[0]).complexity
    assert not grows_with(of, "n d^2", offset=False)
    assert not grows_with(of, "n^2 d", offset=False)
    assert not grows_with(of, "n^2 d + n d^2 + n^3", offset=False)  # a factor of zero is none
    assert [term(8, 2) for term in terms_of("n^2 d + n d^2 + log n + 1")] == [128, 32, 3, 1]
    with pytest.raises(ValueError, match="no term"):
        terms_of("n^2 d + m")


@pytest.mark.parametrize("n", [8, 40])
def test_forms_give_the_same_sums_and_cost_what_they_say(n: int) -> None:
    x = torch.randn(1, n, D, dtype=torch.float64)
    found: dict[str, Tensor] = {}
    for form in ("", *FORMS):
        checked = layer("average", form)
        made = build(checked.decoder, registry_of(form)).double()
        with FlopCounterMode(display=False) as counter:
            found[form] = made(x, Context(like=x.new_empty(0)))
        assert counter.get_total_flops() == 2 * n * figures(checked.decoder).products.per_position(n, 0)
    expected = torch.stack([x[0, : j + 1].mean(0) for j in range(n)])
    for form in found:
        torch.testing.assert_close(found[form][0], expected, rtol=0, atol=1e-12)
    torch.testing.assert_close(mask(n) @ x[0], expected, rtol=0, atol=1e-12)


def test_the_layer_that_is_used() -> None:
    found = layer("gate(average -> ffl)").decoder
    assert (figures(found).order, path_order(found)) == ("log n", "1")
    assert figures(found).state.exact == D  # equation 5: one previous state
    attention = layer("mh_dot_self_att(heads=2)").decoder
    assert (figures(attention).order, path_order(attention), waits(attention, 50)) == ("1", "1", 1)
    assert [path_length(attention, n) for n in (2, 50)] == [1, 1]
