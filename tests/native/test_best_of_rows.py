"""The best words of rows and the best continuations of hypotheses against torch."""

import pytest
import torch

from calque.decode.best_words import first_of_best
from calque.native.kernels import Kernels

pytestmark = pytest.mark.usefixtures("no_gradients")


@pytest.mark.parametrize("threads", [1, 3])
@pytest.mark.parametrize(("n", "first", "reward"), [(1, 2, 0.0), (5, 3, 0.5), (20, 2, -0.5)])
@pytest.mark.parametrize("some", [False, True])
def test_best_words(native: Kernels, n: int, first: int, reward: float, threads: int, some: bool) -> None:
    x, w, b = torch.randn(21, 32), torch.randn(1100, 32), torch.randn(1100)
    weight, end, before = native.pack(w, torch.int8), 2, torch.get_num_threads()
    logits, forbidden = native.product(x, weight, b), None
    if some:  # of three rows each, among them whole strips
        forbidden = torch.rand(7, 1100) < 0.6
        forbidden[:, 34:66], forbidden[:, :4] = True, False
        logits = logits.masked_fill(forbidden.repeat_interleave(3, 0), -torch.inf)
    try:
        torch.set_num_threads(threads)
        best = native.best(x, weight, b, n, first, end, reward, forbidden=forbidden)
    finally:
        torch.set_num_threads(before)
    torch.testing.assert_close(best.total, logits.logsumexp(1))
    assert torch.equal(best.end, logits[:, end])
    logits[:, end] -= reward
    logits[:, :first] = -torch.inf
    want = logits.sort(dim=1, descending=True, stable=True)
    assert torch.equal(best.logits, want.values[:, :n])
    there = best.logits > -torch.inf
    assert torch.equal(best.words[there], want.indices[:, :n][there])


@pytest.mark.parametrize("words", [1100, 5000])
@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16, torch.int8])
def test_sums_of_rows_are_the_same_alone_and_with_other_threads(
    native: Kernels, dtype: torch.dtype, words: int
) -> None:
    """Logits are far apart, so that the highest so far changes, and with it what is taken from the others."""
    x, weight = 5 * torch.randn(37, 64), native.pack(torch.randn(words, 64), dtype)
    found, threads = [], torch.get_num_threads()
    try:
        for count in (1, 2, 3, 7):
            torch.set_num_threads(count)
            found.append(native.best(x, weight, None, 3, 2, 2))
    finally:
        torch.set_num_threads(threads)
    alone = torch.cat([native.best(row[None], weight, None, 3, 2, 2).total for row in x])
    for best in found:
        assert all(torch.equal(a, b) for a, b in zip(best, found[0], strict=True))
        assert torch.equal(best.total, alone)
    torch.testing.assert_close(alone.double(), native.product(x, weight, None).double().logsumexp(1), rtol=1e-6, atol=0)


def test_equal_words_come_in_their_order(native: Kernels) -> None:
    best = native.best(torch.ones(2, 16), native.pack(torch.ones(50, 16), torch.bfloat16), None, 4, 3, 2)
    assert best.words.tolist() == [[3, 4, 5, 6]] * 2


@pytest.mark.parametrize("beam", [2, 5])
def test_hypotheses_go_on_as_torch_says(native: Kernels, beam: int) -> None:
    """With few different numbers many are equal, and some hypotheses are empty."""
    each, sentences, end = 2 * beam, 40, 2
    logits = -torch.randint(0, 6, (sentences * beam, each)).float()
    words, live = torch.randint(2, 30, logits.shape), -torch.randint(0, 3, (sentences, beam)).float()
    live[torch.rand(live.shape) < 0.2] = -torch.inf
    total = torch.randint(0, 2, (sentences * beam,)).float()
    found = native.continued(logits, words, live, total, end)
    logp, order = first_of_best(((logits - total[:, None]).view(-1, beam, each) + live[:, :, None]).flatten(1), each)
    assert torch.equal(found.logp, logp)
    assert torch.equal(found.parents, order // each)
    assert torch.equal(found.words, words.view(sentences, -1).gather(1, order))
    for one in range(sentences):
        here = slice(one * beam, (one + 1) * beam)
        alone = native.continued(logits[here], words[here], live[one : one + 1], total[here], end)
        assert alone.ends == bool((found.words[one] == end).any())
        assert alone.moved == (found.parents[one, :beam].tolist() != list(range(beam)))


def test_rows_with_few_words_have_the_end_once(native: Kernels) -> None:
    x, weight = torch.randn(3, 32), native.pack(torch.randn(90, 32), torch.float32)
    forbidden = torch.ones(3, 90, dtype=torch.bool)
    forbidden[:, [2, 7]] = False
    best = native.best(x, weight, None, 8, 2, 2, forbidden=forbidden)
    assert ((best.words == 2).sum(1) == 1).all()
    assert ((best.logits > -torch.inf).sum(1) == 2).all()
