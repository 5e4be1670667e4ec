"""What stands inside recurrent cells, against loops: layer normalisation, and dropout of the state in training."""

import naive
import naive_modern
import numpy as np
import pytest
import torch

from bench import Bench
from calque.adl.check import check
from calque.ground.diagnostics import Text
from calque.layers.contract import DECODER, ENCODER, Context
from calque.layers.registry import builtin
from calque.layers.rnn import Recurrent
from calque.layers.stepping import begin, proceed
from calque.model import Model, Shape

CELLS = ("lstm", "gru", "tanh")


def loop_of(b: Bench, at: str, cell: str, norm: bool, bias: bool) -> naive_modern.Cell:
    """The cell's loop with the weights of a layer."""
    loop = naive_modern.Cell()
    loop.w, loop.u = b.weights(f"{at}.input.weight", f"{at}.recurrent.weight")
    loop.b = b.weight(f"{at}.bias" if norm else f"{at}.input.bias") if bias else np.zeros(len(loop.w))
    if norm:
        loop.g = b.weight(f"{at}.gain")
        loop.g_state = b.weight(f"{at}.gain_of_state") if cell != "tanh" else None
    if norm and cell == "lstm":
        loop.g_cell = b.weight(f"{at}.gain_of_cell")
        loop.b_cell = b.weight(f"{at}.shift_of_cell") if bias else None
    return loop


def run(loop: naive_modern.Cell, cell: str, xs: naive.Sequence_, d: int) -> naive.Sequence_:
    zeros = [np.zeros(d)] * (2 if cell == "lstm" else 1)
    return getattr(loop, cell)(xs, *zeros)  # type: ignore[no-any-return]


@pytest.mark.parametrize("side", [ENCODER, DECODER])
@pytest.mark.parametrize("cell", CELLS)
@pytest.mark.parametrize("bias", [True, False])
def test_layer_norm_inside_a_cell(side: str, cell: str, bias: bool) -> None:
    forget = ", forget=0.5" if cell == "lstm" else ""
    b = Bench(f"rnn(6, {cell}, bias={'yes' if bias else 'no'}, norm=yes{forget})", side)
    loop = loop_of(b, "0", cell, True, bias)
    loop.forget = 0.5
    b.agrees(lambda xs, _: run(loop, cell, xs, 6))


@pytest.mark.parametrize("cell", CELLS)
@pytest.mark.parametrize("norm", [True, False])
def test_dropout_of_the_state_has_one_mask_for_a_sentence(cell: str, norm: bool) -> None:
    """The loop with the mask that the state before the first position holds; `forward` draws the same one."""
    b = Bench(f"rnn(6, {cell}, dropout=0.4, norm={'yes' if norm else 'no'})", DECODER)
    layer, loop = b.module("0").train(), loop_of(b, "0", cell, norm, True)
    x = torch.randn(4, 5, 8, dtype=torch.float64)
    ctx = Context(like=x.new_empty(0))
    with torch.no_grad():
        torch.manual_seed(3)
        whole = layer(x, ctx)
        torch.manual_seed(3)
        state = begin(layer, 4, 5, ctx)
        masks = state.parts[1].values[-1].numpy()  # type: ignore[attr-defined]
        steps = []
        for t in range(5):
            y, state = proceed(layer, x[:, t : t + 1], state, ctx)
            steps.append(y)
    torch.testing.assert_close(torch.cat(steps, 1), whole, rtol=0, atol=1e-12)
    assert set(np.round(masks.flatten() * (1 - 0.4), 3)) == {0.0, 1.0}
    assert len({tuple(row) for row in masks}) > 1, "every sentence has its own mask"
    for row in range(4):
        loop.mask = masks[row]
        np.testing.assert_allclose(whole[row].numpy(), np.stack(run(loop, cell, list(x[row].numpy()), 6)), atol=1e-9)


def test_idle_rows_keep_their_mask_and_the_bridge_hands_over_none() -> None:
    text = "d = 6\nencoder = rnn(dropout=0.5) @ e\ndecoder = rnn(dropout=0.5, start=@e) -> mh_dot_src_att(2)\n"
    model = Model(check(Text("bridge", text), builtin()), Shape(9, 9)).train()
    sources = model.encode(torch.randint(9, (3, 4)))
    assert [v.shape for v in sources["e"].state or ()] == [(3, 6), (3, 6)]
    model(torch.randint(9, (3, 4)), torch.randint(9, (3, 5))).sum().backward()
    cell = model.decoder.get_submodule("0")
    assert isinstance(cell, Recurrent)
    state = model.init_state(sources, 5)
    before = state.parts[1].parts[0].values  # type: ignore[attr-defined]
    idle = torch.tensor([[True], [False], [True]])
    _, state = model.step(torch.ones(3, 1, dtype=torch.int64), state, 1, mask=idle)
    after = state.parts[1].parts[0].values  # type: ignore[attr-defined]
    assert after[-1] is before[-1]
    assert torch.equal(after[0][1], before[0][1])
    assert not torch.equal(after[0][0], before[0][0])


def test_older_texts_keep_their_hashes() -> None:
    plain = "encoder = birnn\ndecoder = rnn -> mh_dot_src_att\n"
    written = plain.replace("birnn", "birnn(dropout=0.0, norm=no)")
    one, two = (check(Text("hash", text), builtin()) for text in (plain, written))
    assert one.text == two.text
    assert "rnn(width=512, cell=lstm, bias=yes, forget=0.0, start=none) ->" in one.text
    other = check(Text("hash", plain.replace("= rnn", "= rnn(norm=yes, dropout=0.25)")), builtin())
    assert "start=none, dropout=0.25, norm=yes)" in other.text
