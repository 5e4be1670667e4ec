"""Ensembles and selected words, under every search, against the naive ones."""

import itertools
import math

import pytest
import torch
from decode_oracle import MODELS, make, naive_beam, next_word, sources, varied

from calque.data.vocabulary import BOS, EOS, UNK
from calque.decode.rule import Sampling
from calque.decode.search import Candidates, Models, SearchSettings, SourceBatch, search_with
from parts import mixed

LENGTHS, LIMITS = [6, 1, 4, 7, 2, 5], [9, 3, 6, 12, 1, 8]
PREFIXES = [[], [5], [7, 7], [], [4], [9, 8, 7]]
COMBINE = ["probs", "logits", "logprobs"]
ALLOWED = [
    {0, 1, 2, 3, 4, 5, 9},
    set(range(13)),
    {0, 1, 2, 3, 7},
    {0, 1, 2, 3, 8, 9, 10},
    {0, 1, 2, 3, 4},
    {0, 1, 2, 3, 7, 8, 9},
]
pytestmark = pytest.mark.usefixtures("shapes_unchecked")


def pair(name: str, lengths: list[int], seeds: tuple[int, int] = (1, 2)) -> list[SourceBatch]:
    """A model of this family and a Transformer whose sources are cut otherwise."""
    first, second = sources(lengths, seed=seeds[0]), sources([n + 2 for n in lengths], seed=seeds[1])
    return [SourceBatch(varied(name), *first), SourceBatch(make("transformer", seed=8), *second)]


def row(sourced: list[SourceBatch], b: int) -> list[list[int]]:
    return [one.source[b, one.mask[b]].tolist() for one in sourced]


def allowed_mask(size: int = 13) -> torch.Tensor:
    return torch.tensor([[w in words for w in range(size)] for words in ALLOWED])


def by_sentence(gathered: bool) -> Candidates:
    mask = allowed_mask()
    mask[1, 6] = mask[1, 11] = False
    ids = mask.any(0).nonzero()[:, 0]
    return Candidates(ids, ~mask[:, ids]) if gathered else Candidates(None, ~mask)


def agree(found, b: int, expected) -> None:
    assert found.tokens[b] == [words for _, _, words in expected]
    torch.testing.assert_close(found.scores[b], [score for score, _, _ in expected], rtol=0, atol=1e-9)


@pytest.mark.parametrize(("name", "beam", "combine"), mixed([*MODELS], [1, 3], COMBINE, k=4))
def test_ensembles_equal_the_naive_search(name: str, beam: int, combine: str) -> None:
    sourced = pair(name, LENGTHS)
    settings = SearchSettings(beam, "length", 0.7, beam, word_penalty=-0.3)
    found = search_with(Models(sourced, combine), torch.tensor(LIMITS), settings, PREFIXES)
    with torch.inference_mode():
        for b, limit in enumerate(LIMITS):
            say = next_word([one.model for one in sourced], row(sourced, b), combine)
            agree(found, b, naive_beam(say, [], limit, beam, "length", 0.7, beam, -0.3, PREFIXES[b]))


@pytest.mark.parametrize("combine", COMBINE)
def test_an_ensemble_that_covers_the_space_finds_the_best_sequences(combine: str) -> None:
    sourced = [SourceBatch(make(n, vocabulary=6, seed=s), *sources([4], 6)) for n, s in (("rnmt", 1), ("cnn", 5))]
    found = search_with(Models(sourced, combine), torch.tensor([2]), SearchSettings(30, "none", n_best=13))
    ranked = []
    for n in range(3):
        for words in itertools.product((UNK, 4, 5), repeat=n):
            with torch.inference_mode():
                logits = torch.stack([m(s, torch.tensor([[BOS, *words]]))[0] for m, s, _ in sourced])
            p = logits.log_softmax(2)
            each = {
                "probs": p.logsumexp(0) - math.log(2),
                "logits": logits.mean(0).log_softmax(1),
                "logprobs": p.mean(0),
            }
            logp = float(each[combine][range(n + 1), [*words, EOS]].sum())
            ranked.append((logp, logp, list(words)))
    agree(found, 0, sorted(ranked, reverse=True)[:13])


@pytest.mark.parametrize("combine", COMBINE)
def test_a_model_with_itself_is_itself(combine: str) -> None:
    one = SourceBatch(varied("transformer"), *sources(LENGTHS))
    for settings in (SearchSettings(3, n_best=3), SearchSettings(3, n_best=3, sampling=Sampling(1.2, 7, 0.9))):
        single = search_with(Models([one]), torch.tensor(LIMITS), settings, PREFIXES)
        double = search_with(Models([one, one], combine), torch.tensor(LIMITS), settings, PREFIXES)
        assert single.tokens == double.tokens
        torch.testing.assert_close(single.scores, double.scores, rtol=0, atol=1e-9)


@pytest.mark.parametrize("gathered", [True, False])
@pytest.mark.parametrize("beam", [1, 3])
@pytest.mark.parametrize("name", MODELS)
def test_selected_words_equal_the_naive_search_among_them(name: str, beam: int, gathered: bool) -> None:
    model, (source, mask) = varied(name), sources(LENGTHS)
    candidates = by_sentence(gathered)
    settings = SearchSettings(beam, "gnmt", 0.7, beam, word_penalty=0.2)
    scorer = Models([SourceBatch(model, source, mask)], candidates=candidates)
    found = search_with(scorer, torch.tensor(LIMITS), settings, PREFIXES)
    with torch.inference_mode():
        for b, (n, limit) in enumerate(zip(LENGTHS, LIMITS, strict=True)):
            allowed = ALLOWED[b] - ({6, 11} if b == 1 else set())
            say = next_word([model], [source[b, :n].tolist()], allowed=allowed)
            agree(found, b, naive_beam(say, [], limit, beam, "gnmt", 0.7, beam, 0.2, PREFIXES[b]))
            assert {w for words in found.tokens[b] for w in words} <= allowed


@pytest.mark.parametrize("combine", COMBINE)
def test_an_ensemble_among_selected_words_equals_the_naive_search(combine: str) -> None:
    sourced = pair("rnmt", LENGTHS)
    scorer = Models(sourced, combine, by_sentence(True))
    found = search_with(scorer, torch.tensor(LIMITS), SearchSettings(2, "none", n_best=2), PREFIXES)
    with torch.inference_mode():
        for b, limit in enumerate(LIMITS):
            allowed = ALLOWED[b] - ({6, 11} if b == 1 else set())
            say = next_word([one.model for one in sourced], row(sourced, b), combine, allowed)
            agree(found, b, naive_beam(say, [], limit, 2, "none", 1.0, 2, 0.0, PREFIXES[b]))


@pytest.mark.parametrize(
    "settings",
    [
        SearchSettings(1),
        SearchSettings(3, n_best=3),
        SearchSettings(3, n_best=3, sampling=Sampling(1.2, 0, 0.9)),
    ],
)
@pytest.mark.parametrize("name", MODELS)
def test_all_words_selected_is_no_selection_to_the_bit(name: str, settings: SearchSettings) -> None:
    model, (source, mask) = varied(name).float(), sources(LENGTHS)
    every = torch.arange(13)
    without = search_with(Models([SourceBatch(model, source, mask)]), torch.tensor(LIMITS), settings, PREFIXES)
    for candidates in (
        Candidates(every),
        Candidates(None, torch.zeros(len(LENGTHS), 13, dtype=torch.bool)),
        Candidates(every, torch.zeros(len(LENGTHS), 13, dtype=torch.bool)),
    ):
        scorer = Models([SourceBatch(model, source, mask)], candidates=candidates)
        assert search_with(scorer, torch.tensor(LIMITS), settings, PREFIXES) == without


@pytest.mark.parametrize("sampling", [None, Sampling(1.2, 0, 0.9)])
def test_selection_by_sentence_does_not_see_the_batch(sampling: Sampling | None) -> None:
    model, (source, mask) = varied("transformer"), sources(LENGTHS)
    settings = SearchSettings(2, n_best=2, sampling=sampling)
    lines = torch.arange(len(LENGTHS))
    scorer = Models([SourceBatch(model, source, mask)], candidates=by_sentence(True))
    together = search_with(scorer, torch.tensor(LIMITS), settings, PREFIXES, lines)
    for b, n in enumerate(LENGTHS):
        allowed = torch.tensor(sorted(ALLOWED[b] - ({6, 11} if b == 1 else set())))
        scorer = Models([SourceBatch(model, source[[b], :n], mask[[b], :n])], candidates=Candidates(allowed))
        alone = search_with(scorer, torch.tensor([LIMITS[b]]), settings, [PREFIXES[b]], lines[[b]])
        assert alone.tokens[0] == together.tokens[b]
        torch.testing.assert_close(alone.scores[0], together.scores[b], rtol=0, atol=1e-10)
