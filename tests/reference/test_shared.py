"""Copies of a repetition with one set of weights: what they compute, count, learn, and leave in files."""

from pathlib import Path

import naive
import pytest
import torch

from bench import Bench
from calque.adl.check import CheckedDefinition, check
from calque.data.corpus import seal
from calque.decode.prepare import prepare_for_decoding
from calque.diagram import diagram
from calque.explain import figures
from calque.ground.diagnostics import Place, Text
from calque.layers.contract import DECODER
from calque.layers.registry import builtin
from calque.model import Model, Shape
from calque.prove.case import ProofCase
from calque.run.model_file import load_weights, weights_of
from calque.run.tensors import read_tensors, write_tensors
from calque.train.initialise import initialise

TEXT = """d = 8
heads = 2
p = 0.0
encoder = pos -> repeat(3, tenc @ block{share}) -> norm
decoder = pos -> repeat(2, tdec(m = @block[i + 1]){share}) -> repeat(2, rnn{share}) -> norm
"""


def definition(share: bool) -> CheckedDefinition:
    return check(Text("shared", TEXT.format(share=", share=yes" if share else "")), builtin())


def models() -> tuple[Model, Model]:
    """A model with shared weights, and one whose copies all have the same numbers."""
    shared, own = (Model(definition(share), Shape(11, 11)).double() for share in (True, False))
    initialise(shared, "glorot", 0.1, 3)
    numbers = dict(shared.named_parameters(remove_duplicate=False))
    with torch.no_grad():
        for name, p in own.named_parameters(remove_duplicate=False):
            p.copy_(numbers[name])
    return shared, own


@pytest.mark.parametrize("side", ["encoder", DECODER])
def test_the_same_matrix_again_and_again(side: str) -> None:
    b = Bench("repeat(3, linear -> relu, share=yes)", side)
    w, c = b.weights("0[1].0.project.weight", "0[1].0.project.bias")

    def loop(xs: naive.Sequence_, _: int) -> naive.Sequence_:
        for _copy in range(3):
            xs = [naive.activation("relu", h) for h in naive.linear(xs, w, c)]
        return xs

    b.agrees(loop)


def test_outputs_are_those_of_equal_copies_and_gradients_their_sum() -> None:
    shared, own = models()
    source, target = torch.randint(11, (3, 5)), torch.randint(11, (3, 4))
    y, z = shared(source, target), own(source, target)
    torch.testing.assert_close(y, z, rtol=0, atol=1e-12)
    for logits in (y, z):
        logits.square().sum().backward()
    sums: dict[int, torch.Tensor] = {}
    owners = dict(shared.named_parameters(remove_duplicate=False))
    for name, p in own.named_parameters():
        grad = torch.zeros_like(p) if p.grad is None else p.grad  # nothing reads the end of the encoder
        sums[id(owners[name])] = sums.get(id(owners[name]), 0) + grad
    for p in shared.parameters():
        torch.testing.assert_close(sums[id(p)] if p.grad is None else p.grad, sums[id(p)], rtol=1e-9, atol=1e-9)
        assert p.grad is not None or not sums[id(p)].any()


def test_each_weight_is_counted_drawn_and_written_once(tmp_path: Path) -> None:
    shared, own = models()
    checked = shared.checked
    for chain in (checked.encoder, checked.decoder):
        built = shared.encoder if chain is checked.encoder else shared.decoder
        assert chain.parameters == figures(chain).parameters == sum(p.numel() for p in built.parameters())
    assert checked.encoder.parameters < definition(False).encoder.parameters / 2
    names = [n for n in weights_of(shared) if n.startswith("encoder")]
    assert names
    assert not any("1[2]" in n or "1[3]" in n for n in names)
    assert any("1[3]" in n for n in weights_of(own))
    write_tensors(tmp_path / "model", weights_of(shared), {"sum": seal({})})
    tensors, _ = read_tensors(tmp_path / "model")
    assert set(tensors) == set(weights_of(shared))
    again = Model(definition(True), Shape(11, 11)).double()
    load_weights(again, tensors, Place("model"))
    source, target = torch.randint(11, (2, 5)), torch.randint(11, (2, 4))
    torch.testing.assert_close(again(source, target), shared(source, target), rtol=0, atol=0)
    one, two = shared.get_submodule("encoder.1[1]"), shared.get_submodule("encoder.1[3]")
    pairs = list(zip(one.parameters(), two.parameters(), strict=True))
    assert pairs
    assert all(a is b for a, b in pairs)


def test_decoding_with_fused_products_is_the_same() -> None:
    case = ProofCase(definition(True), builtin(), 3)
    with torch.no_grad():
        expected = case.stepped(case.x, case.tamed, [1] * case.x.shape[1])
        prepare_for_decoding(case.model, "float32")
        sources = {
            key: p._replace(value=p.value.float(), state=None if p.state is None else tuple(s.float() for s in p.state))
            for key, p in case.tamed.items()
        }
        found = case.stepped(case.x.float(), sources, [1] * case.x.shape[1])
    torch.testing.assert_close(found.double(), expected, rtol=1e-4, atol=1e-4)


def test_a_picture_and_the_canonical_text_say_it() -> None:
    checked = definition(True)
    assert "3 ×, one set of weights" in diagram(checked, "shared")
    assert "one set of weights" not in diagram(definition(False), "own")
    assert checked.text.count(", share=yes)") == 3
    assert check(Text("again", checked.text), builtin()).text == checked.text
