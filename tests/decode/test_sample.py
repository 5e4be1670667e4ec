"""Samples: their numbers against SplitMix64's, their frequencies against the softmax, and themselves in other batches."""

import math

import pytest
import torch
from decode_oracle import MODELS, make, sources, varied
from scipy import stats

from calque.data.vocabulary import BOS, EOS, UNK
from calque.decode.best_words import best_words
from calque.decode.noise import stream, uniform
from calque.decode.rule import Sampling
from calque.decode.sample import draw, draw_of_best, few
from calque.decode.search import Models, SearchSettings, SourceBatch, search_with

LENGTHS, LIMITS = [6, 1, 4, 7, 2, 5], [9, 3, 6, 12, 1, 8]
PREFIXES = [[], [5], [7, 7], [], [4], [9, 8, 7]]
# The first outputs for the seed 1234567, as they are published beside the generator.
PUBLISHED = [6457827717110365317, 3203168211198807973, 9817491932198370423, 4593380528125082431, 16408922859458223821]


def sampled(model, source, mask, limits, lines, count=3, prefixes=None, **how):
    settings = SearchSettings(count, "none", n_best=count, sampling=Sampling(**how))
    scorer = Models([SourceBatch(model, source, mask)])
    return search_with(scorer, torch.tensor(limits), settings, prefixes, torch.tensor(lines))


def test_numbers_are_those_of_splitmix64() -> None:
    found = [float(uniform(torch.tensor([1234567]), t)) for t in range(1, 6)]
    assert found == [(x >> 12) / 2**52 for x in PUBLISHED]


def test_streams_of_seeds_lines_and_hypotheses_differ_and_are_uniform() -> None:
    lines, each = torch.arange(200)[:, None], torch.arange(5)
    states = torch.cat([stream(seed, lines, each).flatten() for seed in range(3)])
    assert len(states.unique()) == 3000
    numbers = torch.stack([uniform(states, t) for t in range(1, 5)])
    assert stats.kstest(numbers.flatten().numpy(), "uniform").pvalue > 0.01
    assert abs(stats.spearmanr(numbers[0].numpy(), numbers[1].numpy()).statistic) < 0.05
    assert abs(stats.spearmanr(numbers[0, :1000:5].numpy(), numbers[0, 1:1000:5].numpy()).statistic) < 0.15


def kept(p: list[float], top_k: int, top_p: float, epsilon: float) -> list[float]:
    """The distribution that is drawn from, by the definition: one word after the other."""
    order = sorted(range(len(p)), key=lambda w: (-p[w], w))[: top_k or None]
    order = [w for k, w in enumerate(order) if k == 0 or p[w] >= epsilon]
    whole, before, inside = sum(p[w] for w in order), 0.0, []
    for w in order:
        if before / whole < top_p:
            inside.append(w)
        before += p[w]
    mass = sum(p[w] for w in inside)
    return [p[w] / mass if w in inside else 0.0 for w in range(len(p))]


@pytest.mark.parametrize(
    "how",
    [
        (1.0, 0, 1.0, 0.0),
        (0.5, 0, 1.0, 0.0),
        (2.0, 4, 1.0, 0.0),
        (1.0, 0, 0.8, 0.0),
        (1.5, 6, 0.7, 0.0),
        (1.0, 1, 1.0, 0.0),
        (1.0, 0, 1.0, 0.02),
        (1.0, 7, 0.9, 0.04),
        (1.5, 30, 0.8, 0.03),
        (1.0, 0, 1.0, 1.0),
        (1.0, 0, 1.0, 1e-320),
        (1.0, 200, 1.0, 1e-320),
    ],
)
def test_frequencies_are_those_of_the_softmax(how: tuple[float, int, float, float]) -> None:
    temperature, top_k, top_p, epsilon = how
    logits = torch.randn(90, generator=torch.Generator().manual_seed(3)) * 1.5
    weights = [math.exp(x / temperature) for x in logits.tolist()]
    expected = [0.0] * EOS + kept([w / sum(weights) for w in weights[EOS:]], top_k, top_p, epsilon)
    rows = 20_000
    u = uniform(stream(7, torch.arange(rows)), 1)
    settings = Sampling(temperature, top_k, top_p, epsilon=epsilon)
    check_frequencies(draw(logits.expand(rows, -1), EOS, settings, u), expected)
    if not (n := few(settings)):
        return
    values, best = best_words(logits.expand(rows, -1), n, EOS)
    words, logp = draw_of_best(values, best, logits.logsumexp(0).expand(rows), settings, u)
    check_frequencies(words, expected)
    assert torch.allclose(logp, logits.log_softmax(0)[words], atol=1e-5)


def check_frequencies(words: torch.Tensor, expected: list[float]) -> None:
    rows = len(words)
    counts = torch.bincount(words, minlength=90)
    assert all(n == 0 for n, p in zip(counts.tolist(), expected, strict=True) if p == 0)
    often = [w for w in range(90) if expected[w] * rows >= 5]
    observed = [int(counts[w]) for w in often] + [rows - sum(int(counts[w]) for w in often)]
    predicted = [expected[w] * rows for w in often] + [rows - sum(expected[w] for w in often) * rows]
    if predicted[-1] < 1e-6:
        observed, predicted = observed[:-1], predicted[:-1]
    if len(often) > 1:
        assert stats.chisquare(observed, predicted, sum_check=False).pvalue > 0.01


@pytest.mark.parametrize(
    ("top_p", "epsilon"), [(0.001, 0.0), (0.3, 0.0), (0.6, 0.0), (0.9, 0.0), (0.999, 0.0), (0.6, 0.03), (0.999, 0.06)]
)
def test_a_nucleus_is_the_same_among_few_words_as_among_all(
    top_p: float, epsilon: float, monkeypatch: pytest.MonkeyPatch
) -> None:
    torch.manual_seed(2)
    logits = torch.randint(0, 5, (3000, 50)).float()  # many words are equally probable
    logits[::3] *= 4
    u = torch.rand(3000, dtype=torch.float64)
    found = []
    for among in (8, 50):
        monkeypatch.setattr("calque.decode.sample.FEW", among)
        found.append(draw(logits, EOS, Sampling(top_p=top_p, epsilon=epsilon), u))
    assert torch.equal(*found)
    assert len(found[0].unique()) > 3


def test_whole_sequences_have_the_frequencies_of_the_model() -> None:
    model = make("transformer", vocabulary=6, seed=3)
    with torch.no_grad():
        model.output.weight.mul_(0.2)
    source, mask = sources([4], vocabulary=6)
    count, lines = 250, 16
    found = sampled(model, source.expand(lines, -1), mask.expand(lines, -1), [1] * lines, range(lines), count)
    drawn = [tuple(words) for b in found.tokens for words in b]
    with torch.inference_mode():
        first = model(source, torch.tensor([[BOS]]))[0, 0, EOS:].softmax(0).tolist()
    observed = [drawn.count(()), *(drawn.count((w,)) for w in (UNK, 4, 5))]
    assert sum(observed) == count * lines
    assert stats.chisquare(observed, [p * count * lines for p in first]).pvalue > 0.01


@pytest.mark.parametrize("name", MODELS)
@pytest.mark.parametrize(
    "how",
    [
        {"temperature": 1.3, "top_k": 8, "top_p": 0.95, "seed": 5},
        {"temperature": 1.3, "seed": 5},
        {"epsilon": 0.04, "top_p": 0.95, "seed": 5},
    ],
)
def test_samples_do_not_see_their_batch_and_score_what_the_model_says(name: str, how: dict[str, float]) -> None:
    model = varied(name)
    source, mask = sources(LENGTHS)
    with torch.no_grad():  # some families are too sure of themselves for samples to differ
        model.output.weight.div_(model(source, torch.full((6, 1), BOS), mask).std())
    together = sampled(model, source, mask, LIMITS, [3, 9, 1, 4, 7, 2], prefixes=PREFIXES, **how)
    assert any(len({str(words) for words in tokens}) == 3 for tokens in together.tokens)
    for i, line in enumerate([3, 9, 1, 4, 7, 2]):
        n = LENGTHS[i]
        alone = sampled(model, source[[i], :n], mask[[i], :n], [LIMITS[i]], [line], prefixes=[PREFIXES[i]], **how)
        fewer = sampled(model, source[[i], :n], mask[[i], :n], [LIMITS[i]], [line], 1, prefixes=[PREFIXES[i]], **how)
        assert together.tokens[i] == alone.tokens[0]
        assert fewer.tokens[0] == alone.tokens[0][:1]
        for words, logp in zip(alone.tokens[0], alone.logps[0], strict=True):
            with torch.inference_mode():
                said = model(source[[i], :n], torch.tensor([[BOS, *words]]))[0].log_softmax(1)
            forced = float(said[range(len(words) + 1), [*words, EOS]].sum())
            torch.testing.assert_close(logp, forced, rtol=1e-9, atol=1e-9)
    others = sampled(model, source, mask, LIMITS, [3, 9, 1, 4, 7, 2], prefixes=PREFIXES, **{**how, "seed": 6})
    assert others.tokens != together.tokens


@pytest.mark.medium
def test_one_word_to_choose_from_is_greedy_search() -> None:
    source, mask = sources(LENGTHS)
    for name in MODELS:
        greedy = search_with(
            Models([SourceBatch(varied(name), source, mask)]), torch.tensor(LIMITS), SearchSettings(1, "none")
        )
        for how in ({"top_k": 1}, {"top_p": 0.001}, {"epsilon": 1.0}, {"epsilon": 1.0, "temperature": 0.5}):
            found = sampled(varied(name), source, mask, LIMITS, range(6), 1, **how)
            assert found.tokens == greedy.tokens
            torch.testing.assert_close(torch.tensor(found.scores), torch.tensor(greedy.scores))


def test_weights_that_are_not_numbers_still_end() -> None:
    model = make("transformer")
    with torch.no_grad():
        model.output.bias.fill_(torch.nan)
    source, mask = sources([4, 2])
    for how in ({}, {"top_k": 3}, {"top_p": 0.5}):
        assert all(len(w) <= 5 for b in sampled(model, source, mask, [5, 3], [0, 1], **how).tokens for w in b)
