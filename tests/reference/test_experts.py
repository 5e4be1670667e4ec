"""Experts and bodies left out, against loops: routing position by position, and what a sentence does without in training."""

import naive
import naive_modern
import numpy as np
import pytest
import torch
from test_layers import SIDES, covers

from bench import Bench
from calque.adl.check import CheckedDefinition, check
from calque.explain import figures, table
from calque.ground.diagnostics import CalqueError, Text
from calque.layers.contract import DECODER, ENCODER, Context
from calque.layers.moe import Mixture
from calque.layers.registry import builtin
from calque.layers.stepping import begin, proceed
from calque.model import Model, Shape


@covers("moe")
@pytest.mark.parametrize("side", SIDES)
@pytest.mark.parametrize(("top", "renorm"), [(1, True), (2, True), (3, True), (1, False), (2, False)])
def test_each_position_mixes_the_experts_that_it_chose(side: str, top: int, renorm: bool) -> None:
    b = Bench(f"moe(relu -> linear(6), 3, top={top}, renorm={'yes' if renorm else 'no'})", side)
    experts = [b.weights(f"0.body[{k}].1.project.weight", f"0.body[{k}].1.project.bias") for k in (1, 2, 3)]

    def expert(k: int, x: naive.Vector) -> naive.Vector:
        return naive.linear([naive.activation("relu", x)], *experts[k])[0]

    b.agrees(lambda xs, _: naive_modern.mixture(xs, b.weight("0.router.weight"), expert, top, renorm))


def test_experts_with_a_state_see_every_position() -> None:
    b = Bench("moe(rnn(5, tanh), 3, top=2)", DECODER)

    def loop(xs: naive.Sequence_, _: int) -> naive.Sequence_:
        outputs = []
        for k in (1, 2, 3):
            w, u, c = b.weights(*(f"0.body[{k}].0.{n}" for n in ("input.weight", "recurrent.weight", "input.bias")))
            outputs.append(naive.simple(xs, w, u, c, np.zeros(5))[0])
        gates = [naive_modern.gates(b.weight("0.router.weight") @ x, 2, True) for x in xs]
        return [sum(gates[t][k] * outputs[k][t] for k in range(3)) for t in range(len(xs))]

    b.agrees(loop)


@pytest.mark.parametrize("top", [1, 2])
def test_routed_positions_have_the_outputs_and_gradients_of_the_whole_mixture(top: int) -> None:
    layer = Bench(f"moe(ff(6) -> linear, 5, top={top}, renorm=no)", ENCODER).module("0")
    assert isinstance(layer, Mixture)
    x = torch.randn(2, 3, 8, dtype=torch.float64, requires_grad=True)
    weight = torch.randn(2, 3, 8, dtype=torch.float64)
    found, gradients = [], []
    for apart in (True, False):
        layer._apart = apart
        y = layer(x, Context())
        found.append(y)
        gradients.append(torch.autograd.grad((y * weight).sum(), [x, *layer.parameters()]))
    torch.testing.assert_close(found[0], found[1], rtol=0, atol=1e-12)
    for routed, whole in zip(*gradients, strict=True):
        torch.testing.assert_close(routed, whole, rtol=0, atol=1e-10)
    assert layer.router.weight.grad is None
    names = [name for name, _ in layer.named_parameters()]
    assert gradients[0][1 + names.index("router.weight")].any(), "the choice is learned"


def test_an_expert_computes_the_positions_that_chose_it() -> None:
    layer = Bench("moe(ff(6) -> linear, 4, top=1)", ENCODER).module("0")
    seen: list[int] = []
    for expert in layer._experts:
        expert.register_forward_hook(lambda _, args, y: seen.append(args[0].shape[1]))
    layer(torch.randn(3, 7, 8, dtype=torch.float64), Context())
    assert len(seen) == 4
    assert 21 <= sum(seen) < 21 + 4


def definition(text: str) -> CheckedDefinition:
    return check(Text("experts", f"d = 8\n{text}decoder = mlp_src_att\n"), builtin())


def test_costs_say_active_and_all_parameters() -> None:
    checked = definition("encoder = repeat(2, res(moe(ff(16) -> linear, 8, top=2))) -> linear\n")
    expert, router, last = 8 * 16 + 16 + 16 * 8 + 8, 8 * 8, 72
    costs = figures(checked.encoder)
    assert costs.parameters == 2 * (8 * expert + router) + last
    assert costs.active == 2 * (2 * expert + router) + last
    assert sum(p.numel() for p in Model(checked, Shape(9, 9)).encoder.parameters()) == costs.parameters
    told = table(checked)
    assert f"{costs.parameters:,} parameters, {costs.active:,} active" in told
    assert "encoder.0[1-2].0.1.0.body[1-8].0" in told


def test_more_experts_than_there_are_is_an_error() -> None:
    with pytest.raises(CalqueError) as caught:
        definition("encoder = moe(ff -> linear, 3, top=4)\n")
    (fault,) = caught.value.diagnostics
    assert (fault.code, fault.fields["found"], fault.fields["high"]) == ("C403", 4, 3)


def test_labels_in_experts_are_numbered() -> None:
    checked = check(Text("labels", "encoder = moe(linear @ a, 3)\ndecoder = mlp_src_att(from=@a[3])\n"), builtin())
    assert [n.label for n in checked.encoder.nodes() if n.label] == ["a[1]", "a[2]", "a[3]"]


@pytest.mark.parametrize("body", ["linear @ a", "gate(linear @ a)"])
def test_labels_in_experts_are_of_all_positions(body: str) -> None:
    """Training reads the points that decoding reads."""
    case = Bench("mh_dot_src_att(2, from=@a[1])", DECODER, f"moe({body}, 2, top=1)").subject
    with torch.no_grad():
        decoded = case.encode(case.source, case.source_mask)
    with torch.enable_grad():
        trained = case.encode(case.source, case.source_mask)
    assert trained["a[1]"].value.shape == decoded["a[1]"].value.shape
    torch.testing.assert_close(trained["a[1]"].value.detach(), decoded["a[1]"].value)
    assert trained["a[1]"].mask is not None


@covers("drop_path")
@pytest.mark.parametrize("without", ["zeros", "input"])
def test_a_sentence_does_without_a_body_at_all_positions(without: str) -> None:
    layer = Bench(f"drop_path(rnn(8, tanh), 0.4, without={without})", DECODER).module("0")
    rows = 400
    x = torch.randn(rows, 3, 8, dtype=torch.float64)
    ctx = Context(like=x.new_empty(0))
    with torch.no_grad():
        y = layer.part("body")(x, ctx)
        torch.testing.assert_close(layer(x, ctx), y, rtol=0, atol=0)
        layer.train()
        torch.manual_seed(5)
        whole = layer(x, ctx)
        torch.manual_seed(5)
        state, steps = begin(layer, rows, 3, ctx), []
        z = state.parts[1].parts[0].values[0][:, 0]  # type: ignore[attr-defined]
        for t in range(3):
            out, state = proceed(layer, x[:, t : t + 1], state, ctx)
            steps.append(out)
    torch.testing.assert_close(torch.cat(steps, 1), whole, rtol=0, atol=1e-12)
    left = z == 0
    assert 0.25 < float(left.double().mean()) < 0.55
    kept = y[~left] if without == "input" else y[~left] / 0.6
    torch.testing.assert_close(whole[~left], kept, rtol=1e-4, atol=1e-4)  # p is a multiple of 2^-16
    instead = x[left] if without == "input" else torch.zeros_like(x[left])
    torch.testing.assert_close(whole[left], instead, rtol=0, atol=0)


def test_layer_drop_needs_the_width_that_enters() -> None:
    with pytest.raises(CalqueError) as caught:
        definition("encoder = drop_path(linear(4), without=input)\n")
    assert [d.code for d in caught.value.diagnostics] == ["C202"]
    assert definition("encoder = drop_path(linear(4))\n").encoder.width_out == 4
