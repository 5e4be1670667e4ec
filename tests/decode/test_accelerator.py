"""Kernels for accelerators beside torch's operators, and searches that use them. Without an accelerator Triton interprets them.

With one, `benchmarks/gpu.sh` runs this file as well.
"""

from collections.abc import Iterator
from typing import Any

import pytest
import torch
from decode_oracle import make, sources
from torch import Tensor

from calque.data.vocabulary import EOS
from calque.decode.best_words import best_words, first_of_best
from calque.decode.captured import Captured
from calque.decode.search import SearchSettings, search
from calque.native import accelerator
from calque.native.accelerator import AcceleratorKernels
from calque.native.kernels import without_kernels
from parts import mixed

pytest.importorskip("triton")
DEVICE = "cuda" if torch.cuda.is_available() else "cpu"
LENGTHS, LIMITS = ([4, 1, 6], [4, 2, 5]) if DEVICE == "cpu" else ([4, 1, 6, 3, 5], [6, 3, 9, 2, 7])
"""Interpreted kernels take half a second for a step."""
WORDS = 2100
"""More than one part of a row."""


@pytest.fixture
def kernels(monkeypatch: pytest.MonkeyPatch) -> Iterator[AcceleratorKernels]:
    """The kernels; without an accelerator a processor takes them. Tensors are made where they run."""
    from calque.native import triton_kernels

    loaded = AcceleratorKernels(triton_kernels)
    monkeypatch.setattr(accelerator, "_on_accelerator", lambda x: True)
    monkeypatch.setattr(accelerator, "_loaded", lambda: loaded)
    with torch.inference_mode(), torch.device(DEVICE):
        yield loaded


def rounded(*shape: int) -> Tensor:
    """Random numbers many of which are equal."""
    return torch.randn(*shape).round()


@pytest.mark.parametrize("shared", [1, 2, 4])
@pytest.mark.parametrize("beams", [1, 3])
def test_attention_to_the_past_equals_a_loop(kernels: AcceleratorKernels, beams: int, shared: int) -> None:
    torch.manual_seed(1)
    sentences, heads, room, width, value_width = 4, 4, 70, 6, 5
    rows = sentences * beams
    q, k, v = (
        torch.randn(rows, heads * width),
        torch.randn(rows, shared * width),
        torch.randn(rows, shared * value_width),
    )
    keys, values = (
        torch.randn(sentences, shared, room, beams, width),
        torch.randn(sentences, shared, room, beams, value_width),
    )
    positions = torch.tensor([0, 1, 32, 66]).repeat_interleave(beams)
    origin = torch.randint(0, beams, (sentences, beams, room - 1), dtype=torch.int16) if beams > 1 else None
    before = keys.clone(), values.clone()
    found = kernels.attend(q, keys, values, 0.4, (k, v), positions, origin)
    for r in range(rows):
        s, own, at = r // beams, r % beams, int(positions[r])
        slots = [own] * at if origin is None else origin[s, own, :at].tolist()
        for h in range(heads):
            g = h * shared // heads
            past = [x[s, g, range(at), slots] for x in before]
            mine = k.view(rows, shared, 1, width)[r, g], v.view(rows, shared, 1, value_width)[r, g]
            all_keys, all_values = (torch.cat(pair) for pair in zip(past, mine, strict=True))
            weights = torch.softmax(0.4 * all_keys @ q.view(rows, heads, width)[r, h], 0)
            torch.testing.assert_close(found.view(rows, heads, -1)[r, h], weights @ all_values)
            assert torch.equal(keys[s, g, at, own], mine[0][0])
            assert torch.equal(values[s, g, at, own], mine[1][0])
    written = (keys != before[0]).any(-1).sum()
    assert written == rows * shared


@pytest.mark.parametrize("padded", [True, False])
def test_attention_to_the_source_equals_a_softmax(kernels: AcceleratorKernels, padded: bool) -> None:
    torch.manual_seed(1)
    q, keys, values = torch.randn(6, 8), torch.randn(2, 2, 37, 4), torch.randn(2, 2, 37, 4)
    blocked = torch.arange(37) >= torch.tensor([[37], [12]]) if padded else None
    found = kernels.attend(q, keys[:, :, :, None], values[:, :, :, None], 0.5, blocked=blocked)
    scores = torch.einsum("sbhk,shtk->sbht", q.view(2, 3, 2, 4), keys) * 0.5
    if blocked is not None:
        scores = scores.masked_fill(blocked[:, None, None], -torch.inf)
    expected = torch.einsum("sbht,shtk->sbhk", scores.softmax(-1), values)
    torch.testing.assert_close(found, expected.reshape(6, 8))


@pytest.mark.parametrize("forbids", [True, False])
@pytest.mark.parametrize("first", [EOS, EOS + 1])
@pytest.mark.parametrize("n", [1, 8])
def test_best_words_equal_those_of_all_logits(kernels: AcceleratorKernels, n: int, first: int, forbids: bool) -> None:
    torch.manual_seed(n)
    x, weight, bias = rounded(6, 7), rounded(WORDS, 7), rounded(WORDS)
    forbidden = torch.rand(3, WORDS) < 0.5 if forbids else None
    found = kernels.best(x, weight, bias, n, first, EOS, 0.5, forbidden)
    logits = x @ weight.t() + bias
    if forbidden is not None:
        logits = logits.masked_fill(forbidden.repeat_interleave(2, 0), -torch.inf)
    assert torch.equal(found.end, logits[:, EOS])
    torch.testing.assert_close(found.total, logits.logsumexp(1))
    logits[:, EOS] -= 0.5
    values, words = best_words(logits, n, first)
    assert torch.equal(found.logits, values)
    assert torch.equal(found.words, words)


@pytest.mark.parametrize("total", [True, False])
def test_continuations_are_the_best_ones_the_first_hypothesis_first(kernels: AcceleratorKernels, total: bool) -> None:
    torch.manual_seed(1)
    beam = 3
    values, words = rounded(12, 6).sort(1, descending=True).values, torch.randint(0, 99, (12, 6))
    live, sums = rounded(4, beam), rounded(12) if total else None
    live[1, 1:] = -torch.inf
    found = kernels.continued(values, words, live, sums)
    logp = values if sums is None else values - sums[:, None]
    logp, order = first_of_best((logp.view(4, beam, 6) + live[:, :, None]).flatten(1), 2 * beam)
    assert torch.equal(found.logp, logp)
    assert torch.equal(found.parents, order // 6)
    assert torch.equal(found.words, words.view(4, -1).gather(1, order))


@pytest.mark.medium
@pytest.mark.usefixtures("shapes_unchecked", "kernels")
@pytest.mark.parametrize(
    ("name", "graphs", "settings"),
    mixed(
        ["transformer", "window"],
        [True, False],
        [{"beam": 1}, {"beam": 3, "word_penalty": 0.3, "n_best": 2}, {"beam": 17}],
    ),
)
def test_searches_find_what_they_find_without_kernels(
    name: str, graphs: bool, settings: dict[str, Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    with torch.device("cpu"):
        model, how = make(name, vocabulary=70, seed=3, end=2.0).float().to(DEVICE), SearchSettings(**settings)
        (source, mask), limits = sources(LENGTHS), torch.tensor(LIMITS)
    source, mask = source.to(DEVICE), mask.to(DEVICE)
    with without_kernels():
        expected = search(model, source, mask, limits, how)
    if graphs:
        model.programs = Captured()
    monkeypatch.setattr("calque.decode.beam.kernels_for_numbers", lambda x: None)  # those of processors
    calls: set[str] = set()
    for kernel in ("attend", "best", "continued"):
        plain = getattr(AcceleratorKernels, kernel)
        monkeypatch.setattr(
            AcceleratorKernels, kernel, lambda *given, k=kernel, f=plain, **named: calls.add(k) or f(*given, **named)
        )
    found = search(model, source, mask, limits, how)
    few = how.beam <= 16  # others are chosen by torch
    assert calls == {"attend", *["best"] * few, *["continued"] * (few and how.beam > 1)}
    assert found.tokens == expected.tokens
    with torch.device("cpu"):
        torch.testing.assert_close(torch.tensor(found.scores), torch.tensor(expected.scores), rtol=0, atol=1e-4)
