"""Searches whose steps are made as on an accelerator. On a processor a graph is the step itself, run again on the same tensors."""

import copy
from typing import Any

import pytest
import torch
from decode_oracle import MODELS, naive_beam, sources, varied
from test_search import LENGTHS, LIMITS, PREFIXES, agree

from calque.decode import captured, captured_steps
from calque.decode.captured import Captured
from calque.decode.captured_steps import CapturedSteps, Progress
from calque.decode.graph import overwrite
from calque.decode.scorer import Models, SourceBatch
from calque.decode.search import Hypotheses, Sampling, SearchSettings, search, search_with
from calque.model import Model
from calque.native.graphs import NotCapturable
from parts import mixed

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
@pytest.mark.parametrize(
    ("name", "beam", "rule"), mixed([*MODELS], [1, 3], [("none", "best"), ("length", "full"), ("gnmt", "best")], k=3)
)
def test_equals_the_naive_search(name: str, beam: int, rule: tuple[str, str]) -> None:
    normalise, stop = rule
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


@pytest.mark.medium
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


def test_a_number_beside_the_tensors_of_a_state_stays_as_it_was() -> None:
    x = torch.zeros(2)
    overwrite((x, 3), (x + 1, 3))
    assert x.tolist() == [1, 1]
    with pytest.raises(NotCapturable, match="number"):
        overwrite((x, 3), (x, 4))


def test_views_of_what_is_overwritten_keep_their_values() -> None:
    a, b = torch.arange(4.0), torch.arange(4.0) + 10
    overwrite((a, b), (b.flip(0), a.clone()))
    assert a.tolist() == [13, 12, 11, 10]
    a = torch.arange(4.0)
    pair = (a[:2], a[2:])
    overwrite(pair, (a[2:], a[:2]))
    assert a.tolist() == [2, 3, 0, 1]


@pytest.mark.medium
@pytest.mark.parametrize(("name", "beam", "prefixes"), mixed([*MODELS], [1, 2], [None, PREFIXES[:9]], of=3, k=0))
def test_long_searches_are_captured_on_the_way(name: str, beam: int, prefixes: Any) -> None:
    """A further graph is captured while the words of the search are still on the device, and spare sentences stay within bounds."""
    model, how = by_graphs(varied(name)), SearchSettings(beam, exact_length=45)
    for lengths in (LENGTHS[:9], LENGTHS[:9], LENGTHS[1:], LENGTHS[:9]):  # nine sentences have the shape of ten
        source, mask = sources(lengths)
        limits = torch.zeros(9, dtype=torch.int64)
        same(
            search(model, source, mask, limits, how, prefixes),
            search(varied(name), source, mask, limits, how, prefixes),
        )


@pytest.mark.medium
@pytest.mark.parametrize("name", MODELS)
def test_searches_of_other_lengths_have_room_of_their_own(name: str) -> None:
    model, (source, mask) = by_graphs(varied(name)), sources(LENGTHS)
    for limit in (5, 70, 5, 70, 70):
        limits, how = torch.full((len(LENGTHS),), limit), SearchSettings(1, "none")
        same(search(model, source, mask, limits, how), search(varied(name), source, mask, limits, how))


@pytest.mark.medium
@pytest.mark.parametrize("prefixes", [None, PREFIXES])
def test_a_step_that_cannot_be_captured_on_the_way_is_made_without_graphs(
    prefixes: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    model, (source, mask), how = by_graphs(varied("transformer")), sources(LENGTHS), SearchSettings(3, exact_length=45)
    limits = torch.zeros(len(LENGTHS), dtype=torch.int64)
    for _ in range(TIMES):  # with another length, so that shapes are known
        search(model, source, mask, limits, SearchSettings(3, exact_length=20), prefixes)
    prepare = CapturedSteps.prepare

    def refuses(self: CapturedSteps, visible: int) -> Any:
        if visible > 32:
            raise NotCapturable("long")
        return prepare(self, visible)

    monkeypatch.setattr(CapturedSteps, "prepare", refuses)
    expected = search(varied("transformer"), source, mask, limits, how, prefixes)
    for _ in range(TIMES):
        same(search(model, source, mask, limits, how, prefixes), expected)
    assert set(model.programs.refused.values()) == {"long"}


@pytest.mark.medium
def test_shapes_are_forgotten_where_there_are_too_many(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(captured, "KEPT", 2)
    model, how = by_graphs(varied("rnmt")), SearchSettings(2)
    for sentences in (1, 2, 7, 10, 2, 10, 1, 7, 10, 10, 10, 1, 1, 1):
        source, mask = sources(LENGTHS[:sentences])
        limits = torch.tensor(LIMITS[:sentences])
        same(search(model, source, mask, limits, how), search(varied("rnmt"), source, mask, limits, how))
    assert len(model.programs._steps) == 2


def test_samples_of_every_seed_share_a_graph() -> None:
    model, (source, mask), limits = by_graphs(varied("rnmt")), sources(LENGTHS), torch.tensor(LIMITS)
    for seed in range(1, 4):
        how = SearchSettings(2, sampling=Sampling(seed=seed))
        same(search(model, source, mask, limits, how), search(varied("rnmt"), source, mask, limits, how))
    shapes = len(model.programs._steps)
    search(model, source, mask, limits, SearchSettings(2, sampling=Sampling(seed=9)))
    assert len(model.programs._steps) == shapes


def test_a_copy_of_a_model_has_graphs_of_its_own() -> None:
    model, (source, mask), limits = by_graphs(varied("rnmt")), sources(LENGTHS), torch.tensor(LIMITS)
    expected = search(model, source, mask, limits, SearchSettings(2))
    again = copy.deepcopy(model)
    assert again.programs is not model.programs
    same(search(again, source, mask, limits, SearchSettings(2)), expected)
