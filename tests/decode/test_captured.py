"""Searches whose steps are made as on an accelerator. On a processor a graph is the step itself, run again on the same tensors."""

from typing import Any

import pytest
import torch
from decode_oracle import MODELS, naive_beam, sources, varied
from test_search import LENGTHS, LIMITS, PREFIXES, agree

from calque.decode import captured_steps
from calque.decode.captured import Captured
from calque.decode.captured_steps import Progress
from calque.decode.graph import NotCapturable, overwrite
from calque.decode.scorer import Models, SourceBatch
from calque.decode.search import Hypotheses, Sampling, SearchSettings, search, search_with
from calque.model import Model

TIMES = 3
"""The steps are captured at first, what precedes them when the shape comes again, and then both are replayed."""


def by_graphs(model: Model) -> Model:
    """The model, whose searches are made of graphs."""
    model.programs = Captured()
    return model


def same(found: Hypotheses, expected: Hypotheses) -> None:
    assert found.tokens == expected.tokens
    for kind in ("scores", "logps"):
        flat = [torch.tensor([x for xs in getattr(one, kind) for x in xs]) for one in (found, expected)]
        torch.testing.assert_close(*flat, rtol=0, atol=1e-9, equal_nan=True)


@pytest.mark.usefixtures("shapes_unchecked")
@pytest.mark.parametrize(("normalise", "stop"), [("none", "best"), ("length", "full"), ("gnmt", "best")])
@pytest.mark.parametrize("beam", [1, 3])
@pytest.mark.parametrize("name", MODELS)
def test_equals_the_naive_search(name: str, beam: int, normalise: str, stop: str) -> None:
    model, n_best = by_graphs(varied(name)), min(beam, 2)
    source, mask = sources(LENGTHS)
    settings = SearchSettings(beam, normalise, 0.7, n_best, stop=stop)
    each = [search(model, source, mask, torch.tensor(LIMITS), settings) for _ in range(TIMES)]
    assert model.programs.refused == {}
    for b, (length, limit) in enumerate(zip(LENGTHS, LIMITS, strict=True)):
        with torch.inference_mode():
            expected = naive_beam(model, source[b, :length].tolist(), limit, beam, normalise, 0.7, n_best, stop=stop)
        for found in each:
            agree(found, b, expected)


@pytest.mark.usefixtures("shapes_unchecked")
@pytest.mark.parametrize(
    "settings",
    [
        {"word_penalty": 0.6, "n_best": 3},
        {"word_penalty": -0.8, "normalise": "none"},
        {"sampling": Sampling(top_k=5, seed=3), "n_best": 3},
        {"exact_length": 7},
        {"exact_length": 7, "beam": 1, "scores": False},
        {"capacity": 24},
    ],
)
@pytest.mark.parametrize("prefixes", [None, PREFIXES])
@pytest.mark.parametrize("name", ["transformer", "rnmt", "average"])
def test_equals_the_search_step_by_step(name: str, prefixes: Any, settings: dict[str, Any]) -> None:
    source, mask = sources(LENGTHS)
    how = SearchSettings(**{"beam": 3, **settings})
    expected = search(varied(name), source, mask, torch.tensor(LIMITS), how, prefixes)
    model = by_graphs(varied(name))
    for _ in range(TIMES):
        same(search(model, source, mask, torch.tensor(LIMITS), how, prefixes), expected)


def test_graphs_are_captured_for_shapes_that_come_again_and_for_the_positions_that_are_needed(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    made, capture = [], captured_steps.captured
    monkeypatch.setattr(captured_steps, "captured", lambda *given: made.append(given) or capture(*given))
    model = by_graphs(varied("transformer"))
    count = []
    for lengths, words in (([16] * 9, 20), ([16] * 10, 20), ([3, 14] * 5, 20), ([16] * 10, 20), ([16] * 10, 100)):
        source, mask = sources(lengths)
        how = SearchSettings(2, exact_length=words)
        search(model, source, mask, torch.zeros(len(lengths), dtype=torch.int64), how)
        count.append(len(made))
    # Nine sentences take the shape of ten: first a step, then a beginning. Sources of 14 words are as wide as those of 16 where
    # they have come before. Settings are another shape, here with 32, 64 and 128 positions.
    assert count == [1, 2, 2, 2, 5]


def test_half_of_the_sentences_leave_when_they_are_done(monkeypatch: pytest.MonkeyPatch) -> None:
    kept: list[int] = []
    keep = Progress.keep

    def counted(self: Progress, sentences: torch.Tensor) -> Progress:
        kept.append(len(sentences))
        return keep(self, sentences)

    monkeypatch.setattr(Progress, "keep", counted)
    source, mask = sources([5] * 16)
    limits = torch.tensor([2] * 10 + [20] * 6)
    search(by_graphs(varied("transformer")), source, mask, limits, SearchSettings(2, exact_length=0))
    assert kept
    assert kept[0] <= 8


def test_ensembles_share_graphs_and_other_ensembles_do_not() -> None:
    first, second = by_graphs(varied("transformer")), varied("average")
    source, mask = sources(LENGTHS)
    settings, limits = SearchSettings(3), torch.tensor(LIMITS)
    both = [SourceBatch(m, source, mask) for m in (first, second)]
    plain = [SourceBatch(m, source, mask) for m in (varied("transformer"), varied("average"))]
    for combine in ("probs", "logits") * TIMES:
        expected = search_with(Models(plain, combine), limits, settings)
        same(search_with(Models(both, combine), limits, settings), expected)
    same(search(first, source, mask, limits, settings), search(varied("transformer"), source, mask, limits, settings))


def test_a_state_that_changes_its_form_is_decoded_step_by_step() -> None:
    with pytest.raises(NotCapturable, match="form"):
        overwrite((torch.zeros(2),), (torch.zeros(3),))


def test_views_of_what_is_overwritten_keep_their_values() -> None:
    a, b = torch.arange(4.0), torch.arange(4.0) + 10
    overwrite((a, b), (b.flip(0), a.clone()))
    assert a.tolist() == [13, 12, 11, 10]
    a = torch.arange(4.0)
    shifted = torch.cat([a[1:], a[:1]])
    pair = (a[:2], a[2:])
    overwrite(pair, (a[2:], a[:2]))
    assert a.tolist() == [2, 3, 0, 1]
    assert shifted.tolist() == [1, 2, 3, 0]
