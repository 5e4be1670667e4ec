"""What Gehring 2017 adds to the language, and whole models of its tables, against the loops that its equations are."""

import gehring
import naive
import numpy as np
import pytest
import torch
from test_layers import SIDES, covers
from torch import Tensor, nn
from torch.nn import functional as F

from bench import Bench
from calque import zoo
from calque.adl.check import CheckedDefinition, check
from calque.adl.dialect import reader
from calque.adl.settings import parse_settings
from calque.layers.contract import DECODER, ENCODER
from calque.layers.pool import Pool
from calque.layers.registry import builtin
from calque.prove import prove_layer, prove_text
from calque.prove.case import SENTENCES, SOURCE_WORDS, TARGET_LENGTH, TARGET_WORDS, ProofCase


@covers("pool")
@pytest.mark.parametrize("side", SIDES)
@pytest.mark.parametrize("k", [1, 3, 5, 13])
def test_pool(side: str, k: int) -> None:
    Bench(f"pool({k})", side).agrees(lambda xs, _: naive.pool(xs, k, side == DECODER))


@pytest.mark.parametrize("k", [2, 4])
def test_even_kernels_of_the_decoder(k: int) -> None:
    Bench(f"pool({k})", DECODER).agrees(lambda xs, _: naive.pool(xs, k, causal=True))


def test_pool_is_torchs() -> None:
    oracle = nn.AvgPool1d(5, 1, padding=2, count_include_pad=True)
    Bench("pool", ENCODER).agrees_with(lambda x: oracle(x.transpose(1, 2)).transpose(1, 2))


@pytest.mark.medium
@pytest.mark.usefixtures("shapes_unchecked")
def test_the_loop_finds_a_mean_over_what_is_there(monkeypatch: pytest.MonkeyPatch) -> None:
    """Divided by the number of real inputs it is a layer too, and keeps the contract: only the equation tells."""

    def mean(self: Pool, seen: Tensor) -> Tensor:
        count = (seen != 0).to(seen.dtype).transpose(1, 2)
        real = F.avg_pool1d(count, self.kernel, 1).clamp(min=1e-3)
        return (F.avg_pool1d(seen.transpose(1, 2), self.kernel, 1) / real).transpose(1, 2)

    monkeypatch.setattr(Pool, "_mean", mean)
    assert prove_layer(Pool, builtin()).passed
    with pytest.raises(AssertionError):
        test_pool(ENCODER, 5)


@covers("learn_length")
@pytest.mark.parametrize("rows", [2, 9])
def test_learn_length_also_past_its_table(rows: int) -> None:
    b = Bench(f"learn_length({rows})", DECODER)
    lengths = b.subject.source_mask.sum(1).tolist()
    assert len(set(lengths)) > 1
    b.agrees(lambda xs, row: naive.learn_length(xs, b.weight("0.table"), lengths[row]))


# -- whole models, from words to logits

POS = gehring.with_positions
ROWS: dict[str, tuple[gehring.Encoder, int, list[str]]] = {
    "table1/lstm": (gehring.uni, 1, []),
    "table1/lstm+pos": (POS(gehring.uni), 1, []),
    "table1/bilstm": (gehring.bilstm(1), 1, []),
    "table1/bilstm+pos": (POS(gehring.bilstm(1)), 1, []),
    "table1/pooling": (gehring.pooling, 1, []),
    "table1/pooling+pos": (POS(gehring.pooling), 1, []),
    "table1/convolutional": (gehring.convolutional(1, 1), 1, []),
    "table1/convolutional+pos": (POS(gehring.convolutional(1, 1)), 1, []),
    "table1/deep+pos": (POS(gehring.convolutional(6, 3)), 1, []),
    "table1/deep+pos+length": (POS(gehring.convolutional(6, 3)), 1, []),
    "table2/bilstm": (gehring.bilstm(1), 1, []),
    "table2/bilstm-2": (gehring.bilstm(2), 2, []),
    "table2/deep-8-4": (POS(gehring.convolutional(8, 4)), 1, []),
    "table2/deep-15-5": (POS(gehring.convolutional(3, 2)), 2, ["n=3", "m=2"]),
    "figure2/1-none": (POS(gehring.without_c(1)), 1, []),
    "figure2/7-none": (POS(gehring.without_c(7)), 1, []),
    "figure2/6-shared": (POS(gehring.shared(6)), 1, []),
    "figure2/6-3-plain": (POS(gehring.convolutional(6, 3, residual=False)), 1, []),
}


def small(name: str, settings: list[str]) -> CheckedDefinition:
    return check(zoo.read(f"gehring2017/{name}"), builtin(), reader("calque", parse_settings(["d=4", *settings])))


@pytest.mark.parametrize("name", ROWS)
def test_a_row_from_words_to_logits(name: str) -> None:
    encoder, layers, settings = ROWS[name]
    s = ProofCase(small(name, settings), builtin(), seed=1)
    source, target = (
        s.words(SENTENCES, s.source.shape[1], SOURCE_WORDS),
        s.words(SENTENCES, TARGET_LENGTH, TARGET_WORDS),
    )
    with torch.no_grad():
        logits = s.model(source, target, s.source_mask)
    embed, embed_target, w_o, b_o = (
        p.detach().numpy()
        for p in (
            s.model.source_embedding.weight,
            s.model.target_embedding.weight,
            s.model.output.weight,
            s.model.output.bias,
        )
    )
    for row in range(SENTENCES):
        m = int(s.source_mask[row].sum())
        there, here = gehring.Weights(s.model.encoder), gehring.Weights(s.model.decoder)
        z, values = encoder(there, [embed[w] for w in source[row, :m].tolist()])
        gs = [embed_target[w] for w in target[row].tolist()]
        if name.endswith("+length"):
            gs = naive.learn_length(gs, *here(), m)
        hs = gehring.decoder(gs, z, values, here, layers)
        assert there.left == here.left == []
        np.testing.assert_allclose(logits[row].numpy(), np.stack(naive.linear(hs, w_o, b_o)), rtol=0, atol=1e-9)


@pytest.mark.medium
@pytest.mark.usefixtures("shapes_unchecked")
@pytest.mark.parametrize(
    ("name", "settings"),
    [
        ("table1/pooling+pos", []),
        ("table1/deep+pos+length", ["n=2", "m=1"]),
        ("table2/bilstm-2", []),
        ("table2/deep-15-5", ["n=2", "m=2"]),
    ],
)
def test_a_row_keeps_the_laws(name: str, settings: list[str]) -> None:
    report = prove_text(small(name, settings).text, builtin())
    assert report.passed, str(report)
