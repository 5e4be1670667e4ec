"""A prepared model that is cast afterwards, or runs where torch takes other types, computes the same within their rounding."""

import pytest
import torch
from test_ahead import PREFIXES, lively, searched
from test_recorded import FAMILIES, SOURCE, TRANSFORMER, decoded, prepared, words_of

from calque.decode.rule import SearchSettings
from calque.native import build

pytestmark = pytest.mark.skipif(not build.available(), reason="no compiler, or no kernels for this processor")


@pytest.mark.parametrize("to", [torch.float32, torch.bfloat16, torch.float64])
@pytest.mark.parametrize("precision", ["float32", "bfloat16", "int8"])
def test_a_model_that_is_cast_computes_the_same(precision: str, to: torch.dtype) -> None:
    want = decoded(prepared(TRANSFORMER, precision), SOURCE, words_of(4), 1)[1]
    moved = prepared(TRANSFORMER, precision).to(to)
    found = decoded(moved, SOURCE, words_of(4), 1)[1]
    torch.testing.assert_close(found.float(), want.float(), rtol=0.02, atol=0.1)
    again = decoded(moved, SOURCE, words_of(4), 1, layers=True)[1]
    torch.testing.assert_close(found, again, rtol=1e-5, atol=1e-5)


def test_a_model_that_stays_what_it_is_keeps_its_programs() -> None:
    model = prepared(TRANSFORMER, "float32")
    assert model.programs is not None
    assert model.to(torch.float32).to("cpu").programs is not None
    assert model.to(torch.float64).programs is None


@pytest.mark.parametrize("default", [torch.bfloat16, torch.float64])
def test_the_default_type_of_torch_changes_no_search(default: torch.dtype) -> None:
    model = lively(TRANSFORMER, "int8", 3)
    want = searched(model, SearchSettings(3), 16)
    torch.set_default_dtype(default)
    try:
        found = searched(model, SearchSettings(3), 16)
    finally:
        torch.set_default_dtype(torch.float32)
    assert (found.tokens, found.scores) == (want.tokens, want.scores)


@pytest.mark.parametrize("name", ["rotary", "lstm"])
def test_a_prefix_within_autocast_changes_no_score_much(name: str) -> None:
    model = lively(FAMILIES[name], "float32", 3)
    want = searched(model, SearchSettings(3), 16, None, PREFIXES)
    with torch.autocast("cpu", dtype=torch.bfloat16):
        found = searched(model, SearchSettings(3), 16, None, PREFIXES)
    for mine, theirs in zip(found.scores, want.scores, strict=True):
        assert mine == pytest.approx(theirs, abs=0.02)
