"""Searches with more threads find the same, to the bit."""

import pytest
import torch
from test_recorded import FAMILIES, SETS, SOURCE

import calque
from calque.decode.prepare import prepare_for_decoding
from calque.decode.rule import SearchSettings
from calque.decode.search import search
from calque.train.initialise import initialise

pytestmark = pytest.mark.skipif(not SETS, reason="no compiler, or no kernels for this processor")

LIMITS = torch.tensor([12, 5, 19, 14])


@pytest.mark.parametrize("precision", ["float32", "bfloat16", "int8"])
@pytest.mark.parametrize("beam", [1, 3])
@pytest.mark.parametrize("name", ["rotary", "ssru", "lstm", "locations", "retention"])
def test_threads_change_no_bit_of_a_score(name: str, beam: int, precision: str) -> None:
    """The vocabulary is as large as several parts whose exponentials are added up apart."""
    model = calque.build(f"adl = 0\nd = 48\n{FAMILIES[name]}\n", 2100, 2100).eval()
    initialise(model, "glorot", 0.1, 3)
    model.output.weight.data.mul_(8)  # so that logits are as far apart as those of a trained model
    model, found, before = prepare_for_decoding(model, precision), [], torch.get_num_threads()
    try:
        for threads in (1, 2, 3, 7):
            torch.set_num_threads(threads)
            found.append(search(model, SOURCE, SOURCE > 0, LIMITS, SearchSettings(beam, n_best=beam)))
    finally:
        torch.set_num_threads(before)
    assert all(repr(one) == repr(found[0]) for one in found)
