"""The best words of a step against a full stable sort."""

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from calque.decode.words import CHUNK, best_words, log_normaliser


@settings(max_examples=60, deadline=None)
@given(
    size=st.integers(5, 5 * CHUNK),
    n=st.integers(1, 12),
    levels=st.sampled_from([2, 5, 1000]),
    seed=st.integers(0, 2**31),
)
def test_best_words_are_those_of_a_stable_sort(size: int, n: int, levels: int, seed: int) -> None:
    random = torch.Generator().manual_seed(seed)
    logits = torch.randint(0, levels, (4, size), generator=random).float()
    values, words = best_words(logits, n, 2)
    full = logits[:, 2:].sort(stable=True, dim=1, descending=True)
    m = min(n, size - 2)
    assert torch.equal(values[:, :m], full.values[:, :m])
    assert torch.equal(words[:, :m], full.indices[:, :m] + 2)
    assert (values[:, m:] == -torch.inf).all()
    assert int(words.max()) < size


@pytest.mark.parametrize("shift", [0.0, 500.0])
def test_the_normaliser_counts_every_word(shift: float) -> None:
    logits = torch.randn(5, 50, dtype=torch.float64)
    logits[2, 0] += shift  # the highest may be a word that is never chosen
    expected = torch.logsumexp(logits, 1)
    best = logits[:, 3:].amax(1)
    torch.testing.assert_close(log_normaliser(logits, best, 3), expected, rtol=0, atol=1e-12)
