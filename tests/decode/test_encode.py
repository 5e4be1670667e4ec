"""Encoding in groups of about equal length against encoding all at once."""

import pytest
import torch
from decode_oracle import MODELS, make, sources

from calque.decode import encode as module
from calque.decode.encode import encode

LENGTHS = [5, 1, 9, 9, 2, 7, 4]


@pytest.mark.parametrize("name", MODELS)
@pytest.mark.parametrize("tokens", [1, 12, 1000])
def test_groups_encode_as_the_whole_batch(name: str, tokens: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "GROUP_TOKENS", tokens)
    model = make(name)
    source, mask = sources(LENGTHS)
    with torch.inference_mode():
        found, expected = encode(model, source, mask), encode(model, source, mask, whole=True)
    assert found.keys() == expected.keys()
    for key, point in expected.items():
        torch.testing.assert_close(found[key].value[mask], point.value[mask], rtol=0, atol=1e-12)
        assert torch.equal(found[key].mask, mask)
        for a, b in zip(found[key].state or (), point.state or (), strict=True):
            torch.testing.assert_close(a, b, rtol=0, atol=1e-12)


def test_sentences_of_one_length_need_no_mask() -> None:
    source, mask = sources([4, 4, 4])
    with torch.inference_mode():
        assert encode(make("transformer"), source, mask)["end"].mask is None
