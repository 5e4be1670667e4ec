"""Every layer against the loop that its paper's equation is, in float64, to 1e-9, on sentences of unequal lengths."""

import importlib
from collections.abc import Callable
from pathlib import Path

import naive
import numpy as np
import pytest
import torch
from torch import Tensor

from bench import Bench
from calque.layers.contract import DECODER, ENCODER, Context
from calque.layers.feed import Feed
from calque.layers.registry import builtin
from calque.layers.state import Cell, States
from calque.prove import prove_layer

SIDES = (ENCODER, DECODER)
COVERED: set[str] = {"id", "dropout"}  # the identity, and the identity in evaluation: nothing to compute


Test = Callable[..., None]


def covers(*layers: str) -> Callable[[Test], Test]:
    """Counted when the file is read, not when the test runs: another process may be the one that runs it."""
    COVERED.update(layers)
    return lambda test: test


@covers("linear", "ff")
@pytest.mark.parametrize("side", SIDES)
def test_linear_and_ff(side: str) -> None:
    b = Bench("linear(5) -> ff(7) -> linear(3, bias=no)", side)
    w1, b1, w2, b2, w3 = b.weights(
        "0.project.weight", "0.project.bias", "1.project.weight", "1.project.bias", "2.project.weight"
    )
    b.agrees(lambda xs, _: naive.linear(naive.ff(naive.linear(xs, w1, b1), w2, b2), w3))


@covers("norm")
@pytest.mark.parametrize("text", ["norm", "norm(eps=0.1)"])
def test_norm(text: str) -> None:
    b = Bench(text)
    eps = 0.1 if "eps" in text else 1e-6
    b.agrees(lambda xs, _: naive.norm(xs, b.weight("0.gain"), b.weight("0.shift"), eps))


@covers("act")
@pytest.mark.parametrize("name", ["relu", "tanh", "sigmoid", "gelu", "glu"])
def test_act(name: str) -> None:
    Bench(f"act({name})", DECODER).agrees(lambda xs, _: [naive.activation(name, h) for h in xs])
    Bench(name, ENCODER).agrees(lambda xs, _: [naive.activation(name, h) for h in xs])


@covers("cnn")
@pytest.mark.parametrize("side", SIDES)
@pytest.mark.parametrize("v", ["relu", "glu", "tanh", "id"])
@pytest.mark.parametrize(("kernel", "dilation"), [(1, 1), (3, 1), (5, 1), (3, 2), (5, 3)])
def test_cnn(side: str, v: str, kernel: int, dilation: int) -> None:
    b = Bench(f"cnn({v}, kernel={kernel}, width=6, dilation={dilation})", side)
    w, bias = b.weights("0.conv.weight", "0.conv.bias")
    b.agrees(lambda xs, _: naive.cnn(xs, w, bias, v, dilation, side == DECODER))


@pytest.mark.parametrize("kernel", [2, 4])
def test_even_kernels_of_the_decoder(kernel: int) -> None:
    b = Bench(f"cnn(tanh, kernel={kernel})", DECODER)
    w, bias = b.weights("0.conv.weight", "0.conv.bias")
    b.agrees(lambda xs, _: naive.cnn(xs, w, bias, "tanh", 1, True))


def recurrence(b: Bench, at: str, cell: str, forget: float = 0.0, bias: bool = True):  # type: ignore[no-untyped-def]
    """A cell's loop from its weights: (sentence, start) -> (outputs, final state)."""
    w, u = b.weights(f"{at}.input.weight", f"{at}.recurrent.weight")
    c = b.weight(f"{at}.input.bias") if bias else np.zeros(len(w))
    d = u.shape[1]

    def run(xs: naive.Sequence_, start: list[naive.Vector] | None = None):  # type: ignore[no-untyped-def]
        zeros = [np.zeros(d), np.zeros(d)] if cell == "lstm" else [np.zeros(d)]
        state = start or zeros
        if cell == "lstm":
            return naive.lstm(xs, w, u, c, forget, *state)
        return (naive.gru if cell == "gru" else naive.simple)(xs, w, u, c, *state)

    return run


@covers("rnn")
@pytest.mark.parametrize("side", SIDES)
@pytest.mark.parametrize(
    ("text", "cell", "forget", "bias"),
    [
        ("rnn", "lstm", 0.0, True),
        ("rnn(5, forget=1.5)", "lstm", 1.5, True),
        ("rnn(5, bias=no)", "lstm", 0.0, False),
        ("rnn(6, gru)", "gru", 0.0, True),
        ("rnn(6, gru, bias=no)", "gru", 0.0, False),
        ("rnn(5, tanh)", "tanh", 0.0, True),
    ],
)
def test_rnn(side: str, text: str, cell: str, forget: float, bias: bool) -> None:
    b = Bench(text, side)
    run = recurrence(b, "0", cell, forget, bias)
    b.agrees(lambda xs, _: run(xs)[0])


@pytest.mark.parametrize("cell", ["lstm", "gru", "tanh"])
@pytest.mark.parametrize("turned", [False, True])
def test_the_bridge_hands_over_the_state_after_the_last_real_token(cell: str, turned: bool) -> None:
    labelled = f"rnn(6, {cell}) @ e"
    b = Bench(f"rnn(6, {cell}, start=@e)", DECODER, f"reverse({labelled})" if turned else labelled)
    encoder = Bench(f"reverse({labelled})" if turned else labelled)  # the same seed: the same encoder
    run, read = recurrence(b, "0", cell), recurrence(encoder, "0.body.0" if turned else "0", cell)

    def loop(xs: naive.Sequence_, row: int) -> naive.Sequence_:
        n = int(b.subject.source_mask[row].sum())
        sentence = list(b.subject.source[row, :n].numpy())
        state = read(list(reversed(sentence)) if turned else sentence)[1]
        np.testing.assert_allclose(np.stack(b.state(row, "e")), np.stack(state), rtol=0, atol=1e-9)
        return run(xs, list(state))[0]

    for name in ("input.weight", "recurrent.weight", "input.bias"):
        path = f"0.body.0.{name}" if turned else f"0.{name}"
        mine = b.subject.model.get_parameter(f"encoder.{path}").detach().numpy()
        encoder.weight(path)[...] = mine
    b.agrees(loop)


@covers("reverse")
def test_birnn_and_reverse() -> None:
    b = Bench("birnn")
    there, back = recurrence(b, "0.0.0", "lstm"), recurrence(b, "0.1.0.body.0", "lstm")
    b.agrees(lambda xs, _: naive.concat(there(xs)[0], naive.reverse(xs, lambda h: back(h)[0])))


def test_labels_in_reverse_read_in_source_order() -> None:
    b = Bench("mlp_src_att(keys=@e, values=@end)", DECODER, "reverse(learn_pos(9) @ e)")
    table = b.subject.model.get_parameter("encoder.0.body.0.table").detach().numpy()
    for row in range(3):
        n = int(b.subject.source_mask[row].sum())
        sentence = list(b.subject.source[row, :n].numpy())
        expected = naive.reverse(sentence, lambda xs: naive.learn_pos(xs, table))
        np.testing.assert_allclose(np.stack(b.source(row, "e")), np.stack(expected), rtol=0, atol=1e-12)


def test_attention_in_reverse_is_recorded_in_source_order() -> None:
    recorded = []
    for text in ("mh_dot_self_att(2)", "reverse(mh_dot_self_att(2))"):
        case = Bench(text).subject
        found: list[Tensor] = []
        case.encode(case.source, case.source_mask, lambda _, weights, found=found: found.append(weights))
        recorded.append(found)
    ((plain,), (turned,)) = recorded
    assert not case.source_mask.all()
    real = case.source_mask[:, None, :, None] & case.source_mask[:, None, None]
    assert (plain - plain.flip(-1, -2)).abs().max() > 0.01
    torch.testing.assert_close(turned * real, plain * real)


@covers("pos")
@pytest.mark.parametrize("layout", ["halves", "interleaved"])
@pytest.mark.parametrize("endpoint", ["yes", "no"])
@pytest.mark.parametrize("scale", ["yes", "no"])
def test_pos(layout: str, endpoint: str, scale: str) -> None:
    for width in (2, 8):
        b = Bench(f"take(0, {width}) -> pos(scale={scale}, layout={layout}, endpoint={endpoint})")
        b.agrees(lambda xs, _, w=width: naive.pos(naive.take(xs, 0, w), scale == "yes", layout, endpoint == "yes"))


@covers("learn_pos")
def test_learn_pos_also_past_its_table() -> None:
    for length in (2, 9):
        b = Bench(f"learn_pos({length})", DECODER)
        b.agrees(lambda xs, _, b=b: naive.learn_pos(xs, b.weight("0.table")))


@covers("mh_dot_self_att")
@pytest.mark.parametrize("side", SIDES)
@pytest.mark.parametrize(
    ("arguments", "heads", "s", "out", "bias"),
    [
        ("heads=2", 2, None, True, False),
        ("heads=4, s=8", 4, 8, True, False),
        ("heads=1, width=6, s=1, out=no, bias=yes", 1, 1, False, True),
        ("heads=3, width=6, bias=yes", 3, None, True, True),
    ],
)
def test_self_attention(side: str, arguments: str, heads: int, s: float | None, out: bool, bias: bool) -> None:
    b = Bench(f"mh_dot_self_att({arguments})", side)

    def project(name: str, xs: naive.Sequence_) -> naive.Sequence_:
        return naive.linear(xs, b.weight(f"0.{name}.weight"), b.weight(f"0.{name}.bias") if bias else None)

    def loop(xs: naive.Sequence_, _: int) -> naive.Sequence_:
        q, k, v = (project(name, xs) for name in "qkv")
        y, _weights = naive.attention(q, k, v, heads, s, side == DECODER)
        return project("out", y) if out else y

    b.agrees(loop)


@covers("mh_dot_src_att")
@pytest.mark.parametrize("bias", [False, True])
@pytest.mark.parametrize("out", [False, True])
@pytest.mark.parametrize("project", ["all", "q", "none"])
@pytest.mark.parametrize(("heads", "s"), [(1, None), (2, None), (2, 1)])
def test_dot_source_attention(project: str, out: bool, bias: bool, heads: int, s: int | None) -> None:
    arguments = f"heads={heads}, s={s or 'none'}, project={project}, out={'yes' if out else 'no'}"
    arguments += f", bias={'yes' if bias else 'no'}, width=6, keys=@e, values=@end"
    b = Bench(f"mh_dot_src_att({arguments})", DECODER, "linear(8) @ e -> linear(4)")

    def projected(name: str, xs: naive.Sequence_) -> naive.Sequence_:
        return naive.linear(xs, b.weight(f"0.{name}.weight"), b.weight(f"0.{name}.bias") if bias else None)

    def loop(xs: naive.Sequence_, row: int) -> naive.Sequence_:
        keys, values = b.source(row, "e"), b.source(row, "end")
        q = xs if project == "none" else projected("q", xs)
        if project == "all":
            keys, values = projected("k", keys), projected("v", values)
        y, _ = naive.attention(q, keys, values, heads, s, causal=False)
        return projected("out", y) if out else y

    b.agrees(loop)


def test_a_source_chain_runs_behind_the_point() -> None:
    b = Bench("dot_src_att(s=1, project=none, from=@end -> linear -> norm)", DECODER)
    w, c = b.weights("0.from.0.project.weight", "0.from.0.project.bias")
    g, shift = b.weights("0.from.1.gain", "0.from.1.shift")

    def loop(xs: naive.Sequence_, row: int) -> naive.Sequence_:
        u = naive.norm(naive.linear(b.source(row), w, c), g, shift, 1e-6)
        return naive.attention(xs, u, u, 1, 1, causal=False)[0]

    b.agrees(loop)


@covers("mlp_src_att")
def test_mlp_source_attention() -> None:
    b = Bench("mlp_src_att(5, keys=@e, values=@end)", DECODER, "linear(3) @ e -> linear(4)")
    wq, wk, wo = b.weights("0.q.weight", "0.k.weight", "0.score.weight")
    b.agrees(lambda xs, row: naive.mlp_attention(xs, b.source(row, "e"), b.source(row), wq, wk, wo))


@covers("gate", "highway")
def test_gate_and_highway() -> None:
    for name, weights, loop in (("gate", "gates", naive.gate), ("highway", "gate", naive.highway)):
        b = Bench(f"{name}(linear)")
        w, c, wb, cb = b.weights(
            f"0.{weights}.weight", f"0.{weights}.bias", "0.body.0.project.weight", "0.body.0.project.bias"
        )
        b.agrees(lambda xs, _, f=loop, a=(w, c), z=(wb, cb): f(xs, naive.linear(xs, *z), *a))


@covers("add", "concat", "take")
def test_add_concat_take_and_residuals() -> None:
    b = Bench("concat(take(3, 2), linear(4), id) -> res_nd(linear(14)) -> add(id, id, relu)")
    w, c, g, s, w2, c2 = b.weights(
        "0.1.0.project.weight",
        "0.1.0.project.bias",
        "1.1.0.gain",
        "1.1.0.shift",
        "1.1.1.project.weight",
        "1.1.1.project.bias",
    )

    def loop(xs: naive.Sequence_, _: int) -> naive.Sequence_:
        h = naive.concat(naive.take(xs, 3, 2), naive.linear(xs, w, c), xs)
        h = naive.add(h, naive.linear(naive.norm(h, g, s, 1e-6), w2, c2))
        return naive.add(h, h, [naive.activation("relu", a) for a in h])

    b.agrees(loop)


@covers("feed")
def test_feed_around_a_cell_and_an_attention() -> None:
    b = Bench("feed(rnn(6) -> concat(id, mlp_src_att(5)) -> ff(4), width=4)", DECODER)
    run = recurrence(b, "0.body.0", "lstm")
    wq, wk, wo = b.weights(*(f"0.body.1.1.0.{n}.weight" for n in ("q", "k", "score")))
    w, c = b.weights("0.body.2.project.weight", "0.body.2.project.bias")

    def loop(xs: naive.Sequence_, row: int) -> naive.Sequence_:
        def body(seen: naive.Sequence_) -> naive.Sequence_:
            h = run(seen)[0]
            context = naive.mlp_attention(h, b.source(row), b.source(row), wq, wk, wo)
            return naive.ff(naive.concat(h, context), w, c)

        return naive.feed(xs, body, 4)

    b.agrees(loop)


@pytest.mark.medium
def test_the_loop_finds_what_both_forms_share(monkeypatch: pytest.MonkeyPatch) -> None:
    """A feed that does not start at zero keeps the contract, since `forward` is the loop over `step`: only the equation tells."""
    real = Feed.init_state

    def init_state(self: Feed, batch: int, capacity: int, ctx: Context) -> States:
        fed, inner = real(self, batch, capacity, ctx).parts  # type: ignore[attr-defined]
        return States((Cell((fed.values[0] + 1,)), inner))

    monkeypatch.setattr(Feed, "init_state", init_state)
    assert prove_layer(Feed, builtin()).passed
    with pytest.raises(AssertionError):
        test_feed_around_a_cell_and_an_attention()


@covers("average")
@pytest.mark.parametrize("side", SIDES)
def test_average_and_its_gate(side: str) -> None:
    Bench("average", side).agrees(lambda xs, _: naive.average(xs))
    b = Bench("gate(average -> ffl(6, 0))", side)
    w, c, w1, b1, w2, b2 = b.weights(
        *("0.gates.weight", "0.gates.bias", "0.body.1.project.weight", "0.body.1.project.bias"),
        *("0.body.2.project.weight", "0.body.2.project.bias"),
    )

    def loop(xs: naive.Sequence_, _: int) -> naive.Sequence_:
        g = naive.linear(naive.ff(naive.average(xs), w1, b1), w2, b2)
        return naive.gate(xs, g, w, c)

    b.agrees(loop)


@covers("ssru")
@pytest.mark.parametrize("side", SIDES)
def test_ssru(side: str) -> None:
    b = Bench("ssru(5)", side)
    weights = b.weights("0.input.weight", "0.forget.weight", "0.forget.bias")
    b.agrees(lambda xs, _: naive.ssru(xs, *weights))


WEIGHTS: dict[str, Callable[[int], float]] = {
    "": lambda x: naive.density(x, 1.0),
    ", sigma=2.5": lambda x: naive.density(x, 2.5),
    ", sigma=0.3": lambda x: naive.density(x, 0.3),
    ", form=conv": lambda x: naive.density(x, 1.0) if abs(x) <= 1 else 0.0,
    ", form=conv, reach=2, sigma=1.5": lambda x: naive.density(x, 1.5) if abs(x) <= 2 else 0.0,
    ", form=index": lambda x: 1.0 if x == 0 else 0.0,
}
SUMMED = [
    (weights, renorm) for weights in WEIGHTS for renorm in ("no", "yes") if (weights, renorm) != (", form=index", "yes")
]


@covers("hc_self_att")
@pytest.mark.parametrize("side", SIDES)
@pytest.mark.parametrize(("weights", "renorm"), SUMMED)
@pytest.mark.parametrize("offsets", [(-1, 1), (-1, 0), (0,), (1, -3, 4), (9, -11)])
def test_hard_coded_self_attention(side: str, weights: str, offsets: tuple[int, ...], renorm: str) -> None:
    written = ", ".join(map(str, offsets))
    for project, out in (("yes", "yes"), ("yes", "no"), ("no", "yes"), ("no", "no")):
        wide = "take(0, 6) -> " if project == "no" else ""
        given = f"width=6, project={project}, out={out}, renorm={renorm}{weights}"
        b = Bench(f"{wide}hc_self_att({written}, {given})", side)
        at = "1" if wide else "0"

        def loop(
            xs: naive.Sequence_, _: int, b: Bench = b, at: str = at, made: tuple[str, str] = (project, out)
        ) -> naive.Sequence_:
            values = naive.linear(xs, b.weight("0.v.weight")) if made[0] == "yes" else naive.take(xs, 0, 6)
            y = naive.hard_coded(values, offsets, WEIGHTS[weights], side == DECODER, renorm == "yes")
            return naive.linear(y, b.weight(f"{at}.out.weight")) if made[1] == "yes" else y

        b.agrees(loop)


def test_a_transformer_block_of_each_side() -> None:
    b = Bench("tdec", DECODER, "tenc", seed=3)
    encoder = {n: p.detach().numpy() for n, p in b.subject.model.encoder.named_parameters()}
    decoder = {n: p.detach().numpy() for n, p in b.subject.model.decoder.named_parameters()}

    def sub_layers(p: dict[str, naive.Vector], xs: naive.Sequence_, u: naive.Sequence_ | None) -> naive.Sequence_:
        last = 1 if u is None else 2
        for k in range(last):
            n = naive.norm(xs, p[f"{k}.1.0.gain"], p[f"{k}.1.0.shift"], 1e-6)
            read = n if u is None or k == 0 else u
            q = naive.linear(n, p[f"{k}.1.1.q.weight"])
            keys, values = (naive.linear(read, p[f"{k}.1.1.{name}.weight"]) for name in "kv")
            y, _ = naive.attention(q, keys, values, 8, None, causal=u is not None and k == 0)
            xs = naive.add(xs, naive.linear(y, p[f"{k}.1.1.out.weight"]))
        n = naive.norm(xs, p[f"{last}.1.0.gain"], p[f"{last}.1.0.shift"], 1e-6)
        h = naive.ff(n, p[f"{last}.1.1.project.weight"], p[f"{last}.1.1.project.bias"])
        return naive.add(xs, naive.linear(h, p[f"{last}.1.2.project.weight"], p[f"{last}.1.2.project.bias"]))

    def loop(xs: naive.Sequence_, row: int) -> naive.Sequence_:
        n = int(b.subject.source_mask[row].sum())
        u = sub_layers(encoder, list(b.subject.source[row, :n].numpy()), None)
        return sub_layers(decoder, xs, u)

    b.agrees(loop)


def test_every_layer_has_a_reference() -> None:
    for path in Path(__file__).parent.glob("test_*.py"):  # also where this file alone is asked for
        importlib.import_module(path.stem)
    assert set(builtin()) <= COVERED, "a layer without its loop; write it in naive.py and test it here"
