"""The best words of a step against a full stable sort."""

import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from calque.decode.best_words import CHUNK, best_word, best_words


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


@settings(max_examples=60, deadline=None)
@given(size=st.integers(5, 5 * CHUNK), levels=st.sampled_from([2, 5, 1000]), seed=st.integers(0, 2**31))
def test_the_best_word_is_the_first_of_the_best(size: int, levels: int, seed: int) -> None:
    random = torch.Generator().manual_seed(seed)
    logits = torch.randint(0, levels, (4, size), generator=random).float()
    assert torch.equal(best_word(logits, 3), best_words(logits, 1, 3)[1][:, 0])
