"""The contract, for every layer there is, every example of it, and for compositions drawn at random."""

import pytest
import torch

from calque.adl.check import check
from calque.adl.program import prelude
from calque.ground.diagnostics import Text
from calque.layers.contract import DECODER, ENCODER, Layer
from calque.layers.registry import builtin
from calque.prove import prove_layer, prove_text, prover, random_program
from calque.prove.case import POISON, ProofCase, sentence
from calque.prove.laws import LONG
from calque.prove.prover import LAWS, TRIALS
from parts import some

FAST, DRAWN, SOAK, BATCH = 10, 60, 2200, 10
LARGE = 1e6  # of the sum of what a layer puts out

EXPECTED = {
    ENCODER: {"padding", "batch", "shape", "cost", "record", "train"},
    DECODER: {
        "equal",
        "causal",
        "padding",
        "batch",
        "idle",
        "reorder",
        "state",
        "model",
        "shape",
        "cost",
        "record",
        "train",
    },
}

# A transformer, a recurrent and a convolutional network of Domhan 2018, section 2.4; bridges, labels in loops, feeding.
NETWORKS = {
    "transformer": """
        d = 8\nheads = 2
        encoder = pos -> repeat(2, tenc @ block) -> norm
        decoder = pos -> repeat(2, tdec(m = @block[3 - i] -> norm)) -> norm""",
    "rnmt": """
        d = 8
        encoder = dropout -> birnn -> repeat(2, res_d(rnn))
        decoder = feed(dropout -> rnn -> dropout -> repeat(2, res_d(rnn)) -> concat(id, mlp_src_att) -> ff)""",
    "convs2s": """
        d = 8
        encoder = pos -> repeat(2, res(cnn(glu) -> dropout))
        decoder = pos -> repeat(2, res(dropout -> cnn(glu) -> dropout -> res(dot_src_att(s=1, project=none))))""",
    "zhang": """
        d = 8\nheads = 2
        encoder = pos -> repeat(2, post(mh_dot_self_att) -> post(ffl))
        decoder = pos -> repeat(2, post(gate(average -> ffl)) -> post(mh_dot_src_att) -> post(ffl))""",
    "you": """
        d = 8
        encoder = pos -> repeat(2, post(hc_self_att(-1, 1)) -> post(ffl(6, 0)))
        decoder = pos -> repeat(2, post(hc_self_att(-1, 0)) -> post(ffl(6, 0))) -> post(mh_dot_src_att(1))""",
    "you-mixed-heads": """
        d = 8
        mixed(a, b) = concat(mh_dot_self_att(heads=2, width=d/2, out=no), hc_self_att(a, b, width=d/2, out=no)) -> linear(bias=no)
        encoder = mixed(-1, 1)
        decoder = repeat(2, mixed(-i, 0)) -> feed(hc_self_att(0, -1, form=conv) -> ssru)""",
    "you-all": """
        d = 8
        cross = concat(mh_dot_src_att(heads=2, width=d/2, out=no), hc_src_att(-1, 1, width=d/2, out=no)) -> linear(bias=no)
        encoder = pos -> repeat(2, post(hc_self_att(-1, 1)) -> post(ffl(6, 0)) @ block)
        decoder = pos -> repeat(2, post(hc_self_att(-i, 0)) -> post(hc_src_att(-1, 0, 0, 1, from=@block[i]))) -> post(cross)""",
    "fixed-and-scanned": """
        d = 8
        encoder = repeat(2, post(hc_self_att(-1, 1)))
        decoder = post(ssru) -> feed(ff -> hc_src_att(-1, 1, floor=no) -> add(id, ssru))""",
    "luong": """
        d = 8
        encoder = reverse(repeat(2, dropout -> rnn(bias=no) @ enc))
        decoder = feed(repeat(2, dropout -> rnn(bias=no, start=@enc[i]))
                  -> concat(dot_src_att(project=q, s=1, window=10, center=predict), id) -> linear(bias=no) -> tanh)""",
    "luong-every-score": """
        d = 8
        encoder = reverse(repeat(2, dropout -> rnn(bias=no) @ enc))
        decoder = feed(repeat(2, dropout -> rnn(bias=no, start=@enc[i])) -> concat(id, dot_src_att(project=none, s=1, window=2),
                  mlp_src_att(project=q, from=@enc[1], window=1, center=predict), location_src_att(4),
                  location_src_att(window=1, center=predict, bounds=round)) -> linear(bias=no) -> tanh)""",
    "transformer-local-p": """
        d = 8\nheads = 2
        near(b) = res_nd(b) -> res_nd(mh_dot_src_att(window=1, center=predict, bounds=real, renorm=yes)) -> res_nd(ffl)
        encoder = pos -> repeat(2, tenc) -> norm
        decoder = pos -> near(mh_dot_self_att) -> near(average) -> norm""",
    "gehring": """
        d = 8\nh = 12
        conv(n, w) = repeat(n-1, res(cnn(id, width=w)) -> tanh) -> cnn(tanh, width=w)
        encoder = learn_pos(4) -> dropout @ e -> concat(linear(h) -> conv(3, h) -> linear @ a, conv(2, d) @ c)
        cond(k, v) = feed(concat(take(h, d), add(take(0, h) -> linear, take(h, d))
                     -> dot_src_att(keys=k, values=v, s=1, project=none)) -> rnn(h, bias=no), width=h)
        decoder = dropout -> cond(@a, @c) -> linear -> dropout""",
}


@pytest.mark.usefixtures("shapes_unchecked")
@pytest.mark.parametrize("trials", [1, pytest.param(TRIALS, marks=pytest.mark.slow)])
@pytest.mark.parametrize("layer", builtin().values(), ids=lambda layer: layer.name)
def test_every_layer_keeps_the_contract(layer: type[Layer], trials: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(prover, "TRIALS", trials)
    report = prove_layer(layer, builtin())
    assert report.passed, str(report)
    assert not report.notes
    sides = {side for example in layer.examples for side in example.sides}
    assert sides == set(layer.sides), "an example on every side the layer stands on"
    assert {v.law for v in report.verdicts} == set().union(*(EXPECTED[side] for side in sides))


@pytest.mark.medium
@pytest.mark.parametrize("layer", some([*builtin().values()], of=6), ids=lambda layer: layer.name)
def test_shapes_are_those_of_the_annotations(layer: type[Layer], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(prover, "TRIALS", 1)  # other weights have the same shapes
    report = prove_layer(layer, builtin())
    assert report.passed, str(report)


@pytest.mark.medium
@pytest.mark.usefixtures("shapes_unchecked")
@pytest.mark.parametrize("name", some([*NETWORKS]))
def test_the_networks_of_the_papers_keep_it(name: str) -> None:
    report = prove_text(NETWORKS[name], builtin(), seed=1)
    assert report.passed, str(report)


def test_a_text_is_proved_on_both_sides() -> None:
    assert {law for law, _ in LAWS["both"]} == EXPECTED[ENCODER] | EXPECTED[DECODER]


@pytest.mark.medium
@pytest.mark.usefixtures("shapes_unchecked")
@pytest.mark.parametrize("first", range(0, FAST, BATCH))
def test_random_compositions_keep_it(first: int) -> None:
    prove_drawn(first, BATCH)


@pytest.mark.slow
@pytest.mark.usefixtures("shapes_unchecked")
@pytest.mark.parametrize("first", range(FAST, SOAK, BATCH))
def test_many_random_compositions_keep_it(first: int) -> None:
    prove_drawn(first, BATCH)


def prove_drawn(first: int, count: int) -> None:
    broken, left_out = [], 0
    for seed in range(first, first + count):
        text = random_program(seed)
        if not bounded(text, seed):
            left_out += 1
            continue
        report = prove_text(text, builtin(), seed)
        if not report.passed:
            broken.append(f"seed {seed}\n{text}{report}")
    assert not broken, "\n".join(broken)
    assert left_out <= count // 5


def bounded(text: str, seed: int) -> bool:
    """Whether numbers are small inside of all layers, with dropout too, and finite where the law of padding makes the input loud
    and where a text is long. The last bits of large ones move weights and gradients by more than the laws tolerate, and products
    within products, such as `mul` of linear attentions, raise numbers to any power.
    """
    case = ProofCase(check(Text("drawn", text), builtin()), builtin(), seed)
    largest: list[float] = []
    hooks = [
        layer.register_forward_hook(lambda _, __, y: largest.append(float(y.abs().sum())))
        for layer in case.layers().values()
    ]
    with torch.no_grad():
        for training in (True, False):
            case.model.train(training)
            case.encode(case.source, case.source_mask)
            case.forward(case.x, case.sources)
        for hook in hooks:
            hook.remove()
        loud = case.encode(POISON * case.normal(*case.source.shape), case.source_mask)
        heard = case.forward(POISON * case.normal(*case.x.shape), case.sources)
        long = case.forward(case.normal(1, LONG, case.x.shape[2]), sentence(case.tamed, 0, case.source.shape[1]))
    finite = all(bool(x.isfinite().all()) for x in (heard, long, *(point.value for point in loud.values())))
    return finite and not any(most >= LARGE for most in largest)  # NaN is for the laws


@pytest.mark.slow
def test_compositions_are_drawn_from_everything_there_is() -> None:
    """Every layer, the features of the language around them, and definitions of the prelude occur among the first ones."""
    texts = [random_program(seed) for seed in range(DRAWN)]
    assert len(set(texts)) == DRAWN
    assert texts[7] == random_program(7)
    drawn = "".join([*texts, *(random_program(seed) for seed in range(DRAWN, 5 * DRAWN))])
    used = {
        node.name
        for text in texts
        for chain in (lambda c: (c.encoder, c.decoder))(check(Text("drawn", text), builtin()))
        for node in chain.nodes()
    }
    assert used == set(builtin())
    for piece in ("repeat(", " @ l", "from=@l", "start=@l", "keys=@", "[i]", "- i]", "start=@l", "feed(", "reverse("):
        assert piece in drawn, piece
    bare = [s.name for s in prelude() if all(p.default is not None for p in s.parameters or ())]
    assert sum(f" {name} " in drawn.replace("\n", " ") for name in bare) > len(bare) // 2
