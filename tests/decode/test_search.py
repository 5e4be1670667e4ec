"""Search against a naive one, against all sequences there are, and against itself in other batches."""

import itertools
from typing import Any

import pytest
import torch
from decode_oracle import MODELS, divisor, make, naive_beam, sources, varied

from calque.data.vocabulary import BOS, EOS, UNK
from calque.decode.search import Hypotheses, Sampling, SearchSettings, search
from calque.layers.history import History
from calque.layers.state import Memory
from calque.model import Model
from parts import mixed

LENGTHS = [6, 1, 4, 7, 2, 5, 3, 3, 6, 4]
LIMITS = [9, 3, 6, 12, 1, 8, 5, 2, 7, 10]
PREFIXES = [[5, 6], [], [7], [4, 4, 9, 8], [5, 6, 7], [], [3], [9, 10], [11], [12, 5]]
"""Of many lengths, some of them above the limit."""


def run(model, source, mask, limits, **settings) -> Hypotheses:
    return search(model, source, mask, torch.tensor(limits), SearchSettings(**settings))


def agree(found: Hypotheses, b: int, expected: list[tuple[float, float, list[int]]]) -> None:
    assert found.tokens[b] == [words for _, _, words in expected]
    torch.testing.assert_close(found.scores[b], [score for score, _, _ in expected], rtol=0, atol=1e-9)
    torch.testing.assert_close(found.logps[b], [logp for _, logp, _ in expected], rtol=0, atol=1e-9)


@pytest.mark.usefixtures("shapes_unchecked")
@pytest.mark.parametrize(
    ("name", "beam", "rule"),
    mixed([*MODELS], [1, 2, 5], [("none", "best"), ("length", "best"), ("length", "full"), ("gnmt", "best")], k=1),
)
def test_equals_the_naive_search(name: str, beam: int, rule: tuple[str, str]) -> None:
    normalise, stop = rule
    model = varied(name)
    source, mask = sources(LENGTHS)
    n_best = min(beam, 3)
    found = run(model, source, mask, LIMITS, beam=beam, normalise=normalise, alpha=0.7, n_best=n_best, stop=stop)
    with torch.inference_mode():
        for b, (length, limit) in enumerate(zip(LENGTHS, LIMITS, strict=True)):
            ids = source[b, :length].tolist()
            agree(found, b, naive_beam(model, ids, limit, beam, normalise, 0.7, n_best, stop=stop))


@pytest.mark.usefixtures("shapes_unchecked")
@pytest.mark.parametrize(
    ("name", "beam", "word_penalty", "normalise"),
    mixed([*MODELS], [1, 3], [-0.8, 0.6], ["none", "length", "gnmt"], k=2),
)
def test_word_penalty_and_ragged_prefixes_equal_the_naive_search(
    name: str, beam: int, word_penalty: float, normalise: str
) -> None:
    model = varied(name)
    source, mask = sources(LENGTHS)
    found = search(
        model,
        source,
        mask,
        torch.tensor(LIMITS),
        SearchSettings(beam, normalise, 0.7, beam, word_penalty=word_penalty),
        PREFIXES,
    )
    with torch.inference_mode():
        for b, (length, limit) in enumerate(zip(LENGTHS, LIMITS, strict=True)):
            ids = source[b, :length].tolist()
            agree(found, b, naive_beam(model, ids, limit, beam, normalise, 0.7, beam, word_penalty, PREFIXES[b]))


def test_a_penalty_makes_translations_shorter_and_a_reward_longer() -> None:
    source, mask = sources(LENGTHS)
    words = [
        sum(len(t[0]) for t in run(varied("rnmt"), source, mask, LIMITS, beam=3, word_penalty=w).tokens)
        for w in (-2.0, 0.0, 2.0)
    ]
    assert words[0] < words[1] < words[2]


@pytest.mark.parametrize("name", MODELS)
def test_whole_targets_as_prefixes_are_forced_scores(name: str) -> None:
    model = varied(name)
    source, mask = sources(LENGTHS)
    settings = SearchSettings(2, "none")
    best = search(model, source, mask, torch.tensor(LIMITS), settings)
    targets = [words[0] for words in best.tokens]
    forced = search(model, source, mask, torch.tensor([0] * len(LENGTHS)), settings, targets)
    assert forced.tokens == [[words] for words in targets]
    torch.testing.assert_close([p[0] for p in forced.logps], [p[0] for p in best.logps], rtol=0, atol=1e-9)


@pytest.mark.parametrize("prefixes", [None, PREFIXES])
@pytest.mark.parametrize("sampling", [None, Sampling()])
def test_a_sentence_has_one_hypothesis_until_its_first_word_is_chosen(
    prefixes: Any, sampling: Sampling | None, monkeypatch: pytest.MonkeyPatch
) -> None:
    model, (source, mask), rows = varied("transformer"), sources(LENGTHS), []
    step = Model.step

    def counted(self: Model, words: torch.Tensor, *rest: Any) -> Any:
        rows.append(len(words))
        return step(self, words, *rest)

    monkeypatch.setattr(Model, "step", counted)
    search(model, source, mask, torch.tensor(LIMITS), SearchSettings(3, sampling=sampling), prefixes)
    assert rows[0] == len(LENGTHS)
    # Samples leave one by one, the hypotheses of a search with their sentence.
    assert rows[1] in (n for n in range(1, 3 * len(LENGTHS) + 1) if sampling or n % 3 == 0)
    assert rows[1] > len(LENGTHS)


@pytest.mark.parametrize("words", [1, 2, 4])
@pytest.mark.parametrize("name", MODELS)
def test_prefixes_are_read_in_parts(name: str, words: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """At once attention would take the square of its words."""
    model, (source, mask), settings = varied(name), sources(LENGTHS), SearchSettings(3, n_best=3)
    whole = search(model, source, mask, torch.tensor(LIMITS), settings, PREFIXES)
    widths: list[int] = []
    step = Model.step

    def counted(self: Model, words: torch.Tensor, *rest: Any) -> Any:
        widths.append(words.shape[1])
        return step(self, words, *rest)

    monkeypatch.setattr(Model, "step", counted)
    monkeypatch.setattr("calque.decode.begin.PREFIX_WORDS", words)
    parts = search(model, source, mask, torch.tensor(LIMITS), settings, PREFIXES)
    assert max(widths) == words
    assert parts.tokens == whole.tokens
    for one, other in zip(parts.scores, whole.scores, strict=True):
        torch.testing.assert_close(one, other, rtol=0, atol=1e-10)


@pytest.mark.parametrize("beam", [1, 3])
@pytest.mark.parametrize("name", MODELS)
def test_a_prefix_does_not_see_its_batch(name: str, beam: int) -> None:
    model = varied(name)
    source, mask = sources(LENGTHS)
    settings = SearchSettings(beam, n_best=beam)
    together = search(model, source, mask, torch.tensor(LIMITS), settings, PREFIXES)
    for i, n in enumerate(LENGTHS):
        alone = search(model, source[[i], :n], mask[[i], :n], torch.tensor([LIMITS[i]]), settings, [PREFIXES[i]])
        assert together.tokens[i] == alone.tokens[0]
        torch.testing.assert_close(together.scores[i], alone.scores[0], rtol=0, atol=1e-10)


@pytest.mark.parametrize("name", MODELS)
def test_the_models_of_these_tests_end_early_and_late(name: str) -> None:
    source, mask = sources(LENGTHS)
    for beam in (1, 5):
        found = run(varied(name), source, mask, LIMITS, beam=beam)
        lengths = [len(words[0]) for words in found.tokens]
        assert len(set(lengths)) >= 5
        assert 3 <= sum(n < limit for n, limit in zip(lengths, LIMITS, strict=True)) <= 7


@pytest.mark.usefixtures("shapes_unchecked")
@pytest.mark.parametrize("word_penalty", [0.0, -0.7, 1.1])
@pytest.mark.parametrize("normalise", ["none", "length", "gnmt"])
@pytest.mark.parametrize("name", MODELS)
def test_a_beam_that_covers_the_space_finds_all_sequences_in_order(
    name: str, normalise: str, word_penalty: float
) -> None:
    model = make(name, vocabulary=6)
    source, mask = sources([4, 2], vocabulary=6)
    prefixes = [[], [5]]
    settings = SearchSettings(60, normalise, 0.8, 13, word_penalty=word_penalty)
    found = search(model, source, mask, torch.tensor([3, 3]), settings, prefixes)
    for b, length in enumerate([4, 2]):
        ranked = []
        for n in range(4 - len(prefixes[b])):
            for rest in itertools.product((UNK, 4, 5), repeat=n):
                words = [*prefixes[b], *rest]
                with torch.inference_mode():
                    logits = model(source[b : b + 1, :length], torch.tensor([[BOS, *words]]))[0]
                logp = logits.log_softmax(1)[range(len(words) + 1), [*words, EOS]].sum().item()
                score = (logp + word_penalty * len(words)) / divisor(normalise, 0.8, len(words) + 1)
                ranked.append((score, logp, words))
        agree(found, b, sorted(ranked, reverse=True)[:13])


@pytest.mark.parametrize("beam", [1, 4])
@pytest.mark.parametrize("name", MODELS)
def test_a_sentence_does_not_see_its_batch(name: str, beam: int) -> None:
    model = varied(name)
    source, mask = sources(LENGTHS)
    together = run(model, source, mask, LIMITS, beam=beam, n_best=beam)
    order = torch.randperm(len(LENGTHS), generator=torch.Generator().manual_seed(3)).tolist()
    shuffled = run(model, source[order], mask[order], [LIMITS[i] for i in order], beam=beam, n_best=beam)
    for place, i in enumerate(order):
        n = LENGTHS[i]
        alone = run(model, source[i : i + 1, :n], mask[i : i + 1, :n], [LIMITS[i]], beam=beam, n_best=beam)
        assert together.tokens[i] == alone.tokens[0] == shuffled.tokens[place]
        torch.testing.assert_close(together.scores[i], alone.scores[0], rtol=0, atol=1e-10)


@pytest.mark.medium
@pytest.mark.usefixtures("shapes_unchecked")
@pytest.mark.parametrize("name", MODELS)
@pytest.mark.parametrize("beam", [1, 2, 4])
def test_a_finished_sentence_that_waits_in_the_batch_stays_as_it_is(name: str, beam: int) -> None:
    model = varied(name)
    source, mask = sources(LENGTHS)
    for i in range(len(LENGTHS)):
        rows = [i] + [3] * 30  # too few are finished for any to leave
        limits = [LIMITS[i]] + [25] * 30
        together = run(model, source[rows], mask[rows], limits, beam=beam, n_best=beam)
        alone = run(model, source[[i]], mask[[i]], [LIMITS[i]], beam=beam, n_best=beam)
        assert together.tokens[0] == alone.tokens[0]
        torch.testing.assert_close(together.scores[0], alone.scores[0], rtol=0, atol=1e-10)


@pytest.mark.parametrize("beam", [1, 3])
def test_finished_sentences_leave_and_rows_move_only_where_they_must(monkeypatch, beam: int) -> None:
    calls: dict[str, list[int]] = {"select": [], "keep": []}
    select, keep = History.select, Memory.keep

    def counted(self, rows):
        calls["select"].append(len(rows))
        return select(self, rows)

    def kept(self, rows, sentences):
        calls["keep"].append(len(sentences))
        return keep(self, rows, sentences)

    monkeypatch.setattr(History, "select", counted)
    monkeypatch.setattr(History, "keep", lambda self, rows, sentences: select(self, rows))
    monkeypatch.setattr(Memory, "keep", kept)
    limits = [1, 30, 2, 3, 12, 40, 4, 5]
    model = make("transformer", end=-30.0)  # every hypothesis runs into its limit
    source, mask = sources([3, 5, 2, 6, 4, 1, 7, 3])
    found = run(model, source, mask, limits, beam=beam)
    assert [len(words[0]) for words in found.tokens] == limits
    assert calls["keep"][::2] == [7, 6, 5, 4, 3, 2, 1]
    assert (not calls["select"]) == (beam == 1)


def test_neither_padding_nor_begin_is_ever_chosen() -> None:
    model = make("transformer")
    with torch.no_grad():
        model.output.bias[:2] += 100.0
    source, mask = sources(LENGTHS)
    for beam in (1, 4):
        found = run(model, source, mask, LIMITS, beam=beam, n_best=beam)
        assert all(w > EOS for words in found.tokens for hypothesis in words for w in hypothesis)
        assert all(logp < -90 for logps in found.logps for logp in logps)  # they keep their share of the probability


@pytest.mark.parametrize("beam", [1, 3])
def test_equals_are_taken_in_the_order_of_ids(beam: int) -> None:
    model = make("transformer")
    with torch.no_grad():
        model.output.weight.zero_()
        model.output.bias.zero_()
        model.output.bias[EOS] = -1.0
    source, mask = sources([3, 2])
    found = run(model, source, mask, [4, 2], beam=beam, n_best=beam, normalise="none")
    expected = [[UNK] * 3 + [UNK + k] for k in range(beam)]
    assert found.tokens[0] == expected


@pytest.mark.parametrize("beam", [1, 3])
def test_exact_length_for_benchmarks(beam: int) -> None:
    source, mask = sources([4, 2, 5])
    found = run(make("cnn", end=9.0), source, mask, [2, 2, 2], beam=beam, exact_length=6)
    assert [len(words[0]) for words in found.tokens] == [5, 5, 5]
    assert all(w != EOS for words in found.tokens for w in words[0])


def test_a_limit_of_nothing_is_the_empty_sentence() -> None:
    source, mask = sources([4, 2])
    for beam in (1, 3):
        found = run(make("rnmt"), source, mask, [0, 2], beam=beam, n_best=beam)
        assert found.tokens[0] == [[]]


def test_a_model_whose_weights_are_not_numbers_still_ends() -> None:
    model = make("transformer")
    with torch.no_grad():
        model.output.bias.fill_(torch.nan)
    source, mask = sources([4, 2])
    for beam in (1, 3):
        assert all(len(words[0]) <= 5 for words in run(model, source, mask, [5, 3], beam=beam).tokens)


def test_more_hypotheses_than_the_beam_has() -> None:
    with pytest.raises(ValueError, match="at most beam = 2, found 3"):
        SearchSettings(beam=2, n_best=3)


def test_a_model_can_be_trained_after_a_search() -> None:
    model = make("transformer")
    source, mask = sources([4, 2])
    run(model, source, mask, [5, 3], beam=2)
    model.train()
    model(source, source, mask, mask).sum().backward()
    assert all(p.grad is not None for p in model.parameters())
