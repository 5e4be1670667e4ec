"""Attention weights against the equation."""

import math

import pytest
import torch
from decode_oracle import MODELS, make

from calque.analyse.forced_attention import attention_matrix, attention_weights
from calque.data.vocabulary import BOS

SOURCE, TARGET = [4, 9, 7, 5, 2], [6, 10, 5]


def test_weights_are_those_of_the_equation(monkeypatch) -> None:
    text = "heads = 2\nencoder = id\ndecoder = mh_dot_src_att"
    monkeypatch.setitem(MODELS, "plain", text)
    model = make("plain")
    path, weights = attention_matrix(model, SOURCE, TARGET, heads=True)
    layer = next(m for m in model.decoder.modules() if getattr(m, "path", None) == path and hasattr(m, "q"))
    h, u = model.target_embedding.weight[[BOS, *TARGET]], model.source_embedding.weight[SOURCE]
    q, k = h @ layer.q.weight.T, u @ layer.k.weight.T
    for head in range(2):
        part = slice(4 * head, 4 * head + 4)
        expected = (q[:, part] @ k[:, part].T / math.sqrt(4)).softmax(1).float()
        torch.testing.assert_close(weights[head], expected.detach())
    assert torch.equal(attention_matrix(model, SOURCE, TARGET)[1], weights.mean(0))


@pytest.mark.parametrize("name", ["transformer", "rnmt", "cnn", "bridge"])
def test_every_target_position_has_a_distribution_over_the_source(name: str) -> None:
    model = make(name)
    path, matrix = attention_matrix(model, SOURCE, TARGET)
    assert path == model.source_attentions()[-1]
    assert matrix.shape == (len(TARGET) + 1, len(SOURCE))
    torch.testing.assert_close(matrix.sum(1), torch.ones(len(TARGET) + 1))
    assert matrix.var(1).min() > 0


def test_a_prefix_has_the_same_weights() -> None:
    model = make("rnmt")
    whole = attention_matrix(model, SOURCE, TARGET)[1]
    torch.testing.assert_close(attention_matrix(model, SOURCE, TARGET[:1])[1], whole[:2])


def test_every_layer_is_recorded_and_a_stranger_is_refused() -> None:
    model = make("transformer")
    weights = attention_weights(model, SOURCE, TARGET)
    assert len(weights) == 6
    encoder = [path for path in weights if path.startswith("encoder")]
    assert [weights[path].shape for path in encoder] == [(2, 5, 5)] * 2
    with pytest.raises(LookupError):
        attention_matrix(model, SOURCE, TARGET, path="decoder.9")
