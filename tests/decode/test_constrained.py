"""Translations that contain what they must: against a naive search, against all sequences there are, and in other batches."""

import itertools
import random
from collections.abc import Sequence
from dataclasses import replace

import pytest
import torch
from decode_oracle import MODELS, divisor, make, next_word, sources, varied

from calque.data.codecs import WordCodec
from calque.data.vocabulary import BOS, EOS, PAD, UNK, Vocabulary
from calque.decode.required import SLOTS, Edges, Matched, Required, automata, distinct, lacks, rows_needed, words_needed
from calque.decode.search import Models, SearchSettings, SourceBatch, search_with
from calque.decode.select import Selection
from calque.decode.translate import Translator, translate_lines
from calque.experiment import DecodeSettings
from calque.ground.diagnostics import CalqueError, Diagnostic, Place
from parts import mixed

LENGTHS = [6, 1, 4, 7, 2, 5, 3, 3]
LIMITS = [9, 6, 8, 12, 7, 8, 9, 10]
PREFIXES = [[5, 6], [], [7, 8], [4, 4, 9, 8], [], [], [3], [9, 10]]
REQUIRED: list[Required] = [
    (((6, 7),),),
    (((5,),), ((5, 5, 8),)),  # one is inside the other
    (((7, 8), (9,)), ((8, 7),)),  # two forms, and two phrases that share a word
    (),
    (((4, 4, 4), (BOS, 6, 6)),),  # another form at the beginning
    (((10, 11, 12), (10, 11, 5, 6)),),
    (((3,), (12, 12)),),
    (((9,),), ((10,), (BOS, 3)), ((11,),)),
]
"""Phrases of every kind; one sentence has none."""
EDGES = Edges(
    torch.tensor([word not in (6, 8, 12) for word in range(13)]),
    torch.tensor([word in (4, 5, 6, 8, 10, 11) for word in range(13)]),
)
"""6, 8 and 12 go on with the word before them, if that is open."""


def contains(words: list[int], phrase: tuple[tuple[int, ...], ...], edges: Edges, ended: bool) -> bool:
    """Whether words have a phrase, from the beginning of a word to the end of one; `ended`: the last of them does not go on."""
    words = [BOS, *words]

    def ends(at: int) -> bool:
        return ended if at == len(words) else edges.between(words[at - 1], words[at])

    found = (
        (i, i + len(form)) for form in phrase for i in range(len(words)) if tuple(words[i : i + len(form)]) == form
    )
    return any((not first or edges.between(words[first - 1], words[first])) and ends(end) for first, end in found)


def needed(words: list[int], required: Required, edges: Edges = EDGES) -> int:
    """The words that are still needed, as one would count them first."""

    def least(phrase: tuple[tuple[int, ...], ...]) -> int:
        return min(len(form) for form in phrase if form[0] != BOS)

    counts, have = [], [BOS, *words]
    open_ = bool(edges.opens[have[-1]])
    stuck = not any(edges.begins[form[0]] for phrase in required for form in phrase if form[0] != BOS)
    for ended in (True, False):
        missing = [phrase for phrase in required if not contains(words, phrase, edges, ended or not open_)]
        saved = [0]
        for phrase in missing:
            for form in phrase:
                for d in range(1, len(form)):
                    at = len(have) - d
                    begun = at >= 0 and tuple(have[at:]) == form[:d]
                    begun = begun and (at == 0 or edges.between(have[at - 1], have[at]))
                    if begun and (edges.between(form[d - 1], form[d]) or not ended):
                        saved.append(least(phrase) - len(form) + d)
        wait = stuck and open_ and missing and not max(saved)
        counts.append(sum(map(least, missing)) - max(saved) + bool(wait))
    return min(counts)


def naive(say, limit, beam, normalise, n_best, required, prefix=(), alpha=0.7):
    """Score and words of the n best, by the rule in `calque.decode.constrained`."""
    own = {word for phrase in required for form in phrase for word in form} - {BOS}
    live = [(sum(say(list(prefix[:k]))[prefix[k]] for k in range(len(prefix))), list(prefix))]
    enough = max(n_best, beam // (needed(list(prefix), required) + 1))
    finished: list[tuple[float, list[int]]] = []
    for t in range(len(prefix) + 1, max(limit, len(prefix)) + 2):
        candidates = []
        for i, (logp, words) in enumerate(live):
            each = say(words)
            early = needed(words, required) > 0
            free = sorted(w for w in range(EOS, len(each)) if w != EOS or not early)
            best = [w for w in sorted(free, key=lambda w: -each[w])[: 2 * beam] if w not in own]
            if t > max(limit, len(prefix)):
                none = not finished and all(needed(those, required) for _, those in live)
                best, some = [EOS] * (none or not early), []
            else:
                some = sorted(own)
            candidates += [
                (-logp - each[w], i, w, needed(words if w == EOS else [*words, w], required)) for w in best + some
            ]
        banks = {r: sorted(c for c in candidates if c[3] == r) for r in {c[3] for c in candidates}}
        turns = sorted((rank, r) for r, bank in banks.items() for rank in range(len(bank)))
        chosen = [banks[r][rank] for rank, r in turns][: 2 * beam]
        for cost, i, word, _ in chosen[:beam]:
            if word == EOS:
                finished.append((-cost / divisor(normalise, alpha, t), live[i][1]))
        finished = sorted(finished, key=lambda h: -h[0])[:beam]
        live = [(-cost, [*live[i][1], word]) for cost, i, word, _ in chosen if word != EOS][:beam]
        if len(finished) >= enough and live:
            if normalise == "none":
                ahead = max(logp for logp, _ in live)
            else:
                ahead = max(logp / divisor(normalise, alpha, t + 1 + needed(words, required)) for logp, words in live)
            if finished[n_best - 1][0] >= ahead:
                break
    return finished[:n_best]


@pytest.mark.medium
@pytest.mark.usefixtures("shapes_unchecked")
@pytest.mark.parametrize(
    ("name", "beam", "normalise", "prefixes"), mixed([*MODELS], [2, 6], ["none", "length", "gnmt"], [None, PREFIXES])
)
def test_equals_the_naive_search(name: str, beam: int, normalise: str, prefixes: list[list[int]] | None) -> None:
    model, (source, mask) = varied(name), sources(LENGTHS)
    settings = SearchSettings(beam, normalise, 0.7, 2)
    before = prefixes or [[]] * len(LENGTHS)
    usual = LIMITS if beam > 2 else [4] * len(LENGTHS)  # a limit that many hypotheses meet
    limits = [n + words_needed(r) + len(p) for n, r, p in zip(usual, REQUIRED, before, strict=True)]
    scorer = Models([SourceBatch(model, source, mask)])
    found = search_with(scorer, torch.tensor(limits), settings, prefixes, required=REQUIRED, edges=EDGES)
    with torch.inference_mode():
        for b, length in enumerate(LENGTHS):
            say = next_word([model], [source[b, :length].tolist()])
            expected = naive(say, limits[b], beam, normalise, 2, REQUIRED[b], before[b])
            assert found.tokens[b] == [words for _, words in expected]
            torch.testing.assert_close(found.scores[b], [score for score, _ in expected], rtol=0, atol=1e-9)
            assert not any(lacks(REQUIRED[b], words, EDGES) for words in found.tokens[b])


@pytest.mark.medium
@pytest.mark.usefixtures("shapes_unchecked")
def test_a_search_goes_on_while_what_is_needed_may_still_be_the_best() -> None:
    """Here a hypothesis that lacks a phrase would be given up, were the end its next word."""
    model, (source, mask) = make("transformer", seed=4, end=1.0), sources(LENGTHS)
    limits = [12 + words_needed(r) for r in REQUIRED]
    scorer = Models([SourceBatch(model, source, mask)])
    settings = SearchSettings(3, "gnmt", 1.0, 2)
    found = search_with(scorer, torch.tensor(limits), settings, required=REQUIRED, edges=EDGES)
    with torch.inference_mode():
        for b, length in enumerate(LENGTHS):
            say = next_word([model], [source[b, :length].tolist()])
            expected = naive(say, limits[b], 3, "gnmt", 2, REQUIRED[b], alpha=1.0)
            assert found.tokens[b] == [words for _, words in expected]


@pytest.mark.usefixtures("shapes_unchecked")
@pytest.mark.parametrize("word_penalty", [-0.8, 0.6])
@pytest.mark.parametrize("normalise", ["none", "length"])
def test_a_word_penalty_counts_in_hypotheses_with_phrases(normalise: str, word_penalty: float) -> None:
    model, (source, mask) = varied("rnmt"), sources(LENGTHS)
    limits = [n + words_needed(r) for n, r in zip(LIMITS, REQUIRED, strict=True)]
    settings = SearchSettings(6, normalise, 0.7, 3, word_penalty=word_penalty)
    scorer = Models([SourceBatch(model, source, mask)])
    found = search_with(scorer, torch.tensor(limits), settings, required=REQUIRED, edges=EDGES)
    for required, tokens, scores, logps in zip(REQUIRED, *found, strict=True):
        assert tokens
        assert scores == sorted(scores, reverse=True)
        for words, score, logp in zip(tokens, scores, logps, strict=True):
            assert not lacks(required, words, EDGES)
            counted = logp + word_penalty * len(words)
            assert score == pytest.approx(counted / divisor(normalise, 0.7, len(words) + 1))


@pytest.mark.medium
def test_a_wide_beam_finds_the_most_probable_translation_that_has_the_phrases() -> None:
    """Of all sequences of up to five words, which a beam of 200 does not hold; but it keeps the best."""
    model, (source, mask) = make("rnmt", vocabulary=7, seed=3), sources([4, 3], vocabulary=7)
    required: list[Required] = [(((6, 4),),), (((5,),), ((3, 4), (6, 6)))]
    settings = SearchSettings(200, "none")
    scorer = Models([SourceBatch(model, source, mask)])
    edges = Edges(torch.tensor([word != 4 for word in range(7)]), torch.ones(7, dtype=torch.bool))
    found = search_with(scorer, torch.tensor([5, 5]), settings, required=required, edges=edges)
    free = search_with(scorer, torch.tensor([5, 5]), settings)
    with torch.inference_mode():
        for b, length in enumerate([4, 3]):
            say = next_word([model], [source[b, :length].tolist()])
            best = (-float("inf"), [])
            known: dict[tuple[int, ...], list[float]] = {}
            for n in range(6):
                for words in itertools.product(range(UNK, 7), repeat=n):
                    if lacks(required[b], words, edges):
                        continue
                    logp = 0.0
                    for k, word in enumerate([*words, EOS]):
                        if words[:k] not in known:
                            known[words[:k]] = say(list(words[:k]))
                        logp += known[words[:k]][word]
                    best = max(best, (logp, list(words)))
            assert found.tokens[b][0] == best[1]
            assert found.logps[b][0] == pytest.approx(best[0])
    assert any(lacks(one, each[0], edges) for one, each in zip(required, free.tokens, strict=True))


@pytest.mark.parametrize("kind", ["words", "pieces", "joined"])
@pytest.mark.parametrize("seed", range(12))
def test_automata_count_as_one_would_count_first(seed: int, kind: str) -> None:
    chance = random.Random(seed)
    every = torch.ones(8, dtype=torch.bool)
    edges = {
        "words": Edges.of_words(8),
        "pieces": Edges(torch.tensor([word not in (5, 7) for word in range(8)]), every),
        "joined": Edges(~every, torch.tensor([word in (5, 7) for word in range(8)])),
    }[kind]

    def form() -> list[int]:
        words = [chance.choice([4, 6]), *chance.choices([4, 5, 6], k=chance.randint(0, 3))]
        return [*words, 4] if kind == "joined" else words  # which ends a word

    required = [distinct([[form(), form(), [BOS, *form()]] for _ in range(3)]) for _ in range(4)]
    prefixes = [chance.choices([4, 5, 6, 7], k=chance.randint(0, 6)) for _ in required]
    found, matched = automata(required, prefixes, edges)
    one = Matched(matched.node[:, None], matched.has[:, None])
    for _ in range(8):
        counts = found.needed(one)
        after = found.needed(found.behind(one))
        other = found.elsewhere(one, torch.tensor([[[2, 7]]] * len(required)))
        for b, words in enumerate(prefixes):
            assert counts[b, 0] == needed(words, required[b], edges)
            assert (counts[b, 0] == 0) == (not lacks(required[b], words, edges))
            assert other[b, 0].tolist() == [needed([*words, word], required[b], edges) for word in (2, 7)]
            own = [w for w, word in enumerate(found.words[b].tolist()) if word > BOS]
            for w in own:
                assert after[b, 0, w] == needed([*words, int(found.words[b, w])], required[b], edges)
            if counts[b, 0]:  # so that as many steps contain everything
                assert min(after[b, 0, own].min(), other[b, 0, 0]) < counts[b, 0]
        chosen = [chance.choice([4, 5, 6, 7]) for _ in prefixes]
        one = found.after(one, torch.tensor(chosen)[:, None])
        prefixes = [[*words, word] for words, word in zip(prefixes, chosen, strict=True)]


@pytest.mark.parametrize("seed", range(12))
def test_as_many_words_as_are_needed_contain_every_phrase(seed: int) -> None:
    """However the phrases overlap, and whatever goes on with a word."""
    chance, (source, mask) = random.Random(seed), sources([3, 5, 2, 6, 1, 4], seed=seed)
    model = varied(sorted(MODELS)[seed % len(MODELS)])
    edges = Edges(*(torch.tensor([word < UNK + 2 or chance.random() < 0.6 for word in range(13)]) for _ in range(2)))
    first = [word for word in range(UNK + 1, UNK + 5) if edges.begins[word]]

    def form() -> list[int]:
        return [chance.choice(first), *chance.choices(range(UNK + 1, UNK + 5), k=chance.randint(0, 2))]

    required = [distinct([[form(), form()][: 1 + k % 2] for k in range(chance.randint(1, 4))]) for _ in source]
    limits = torch.tensor(list(map(words_needed, required)))
    scorer = Models([SourceBatch(model, source, mask)])
    for beam in (1, 5):
        settings = SearchSettings(max(rows_needed(one, beam) for one in required), "gnmt", 0.6)
        found = search_with(scorer, limits, settings, required=required, edges=edges)
        for one, tokens in zip(required, found.tokens, strict=True):
            assert not lacks(one, tokens[0], edges)


def test_a_beam_has_places_for_every_number_of_words_needed() -> None:
    assert rows_needed((), 5) == 5
    assert rows_needed((((4,),),), 5) == 5
    assert rows_needed((((4,),),), 1) == 2 * SLOTS
    assert rows_needed((((4, 5, 6), (7, 8, 9, 10)),), 5) == 10
    assert rows_needed(tuple(((4, k),) for k in range(100)), 5) == 80
    assert rows_needed((((4,),),), 300) == 300
    assert rows_needed((((4, 5),),), 50, 50) == 200


def test_phrases_and_forms_count_once() -> None:
    assert distinct([[[4], [4], []], [[4]], [[]], [[5, 6]]]) == (((4,),), ((5, 6),))


LINES = ["a b c", "", "d", "a a b i h g", "c never-seen", "e f g h i a b", "a b c", "b", "h h"]
PHRASES = [["A B"], ["A"], [], [["G H", "I"], "A"], ["C D E"], ["B"], ["A B"], [], ["I", "H G"]]


@pytest.fixture
def loaded() -> Translator:
    source, target = WordCodec(Vocabulary("abcdefghi")), WordCodec(Vocabulary("ABCDEFGHI"))
    decode = DecodeSettings(beam=3, max_length_factor=1.3, max_length_offset=1, batch_tokens=90)
    return Translator(varied("transformer"), source, target, decode)


def has(text: str, phrases: list) -> bool:
    return all(
        any(f" {form} " in f" {text} " for form in ([phrase] if isinstance(phrase, str) else phrase))
        for phrase in phrases
    )


@pytest.mark.medium
@pytest.mark.parametrize("prefix", ["", "C A"])
@pytest.mark.parametrize("invariant", [False, True])
@pytest.mark.parametrize("beam", [1, 3])
def test_every_translation_of_a_line_contains_what_it_must_whatever_its_batch(
    loaded: Translator, beam: int, invariant: bool, prefix: str
) -> None:
    loaded = replace(loaded, decode=replace(loaded.decode, beam=beam))
    asked = [(line, prefix, phrases) for line, phrases in zip(LINES, PHRASES, strict=True)]
    counted: list[int] = []
    found = translate_lines(loaded, asked, n_best=2, invariant=invariant, progress=counted.append)
    assert sum(counted) == len(LINES)
    for line, translations, phrases in zip(LINES, found, PHRASES, strict=True):
        for one in translations if line else []:
            assert has(one.text, phrases)
            assert one.text.startswith(prefix)
            assert one.score == pytest.approx(one.logp / (len(one.ids) + 1))
    alone = [translate_lines(loaded, [one], n_best=2, invariant=invariant)[0] for one in asked]
    assert [[one.text for one in each] for each in found] == [[one.text for one in each] for each in alone]
    if invariant:
        assert [[one.logp for one in each] for each in found] == [[one.logp for one in each] for each in alone]


def test_a_translation_that_has_what_it_must_is_that_of_a_free_search(loaded: Translator) -> None:
    free = translate_lines(loaded, LINES)
    phrases = [each[0].text.split()[:1] for each in free]
    asked = [(line, "", some) for line, some in zip(LINES, phrases, strict=True)]
    assert translate_lines(loaded, asked) == free


@pytest.mark.medium
def test_no_mean_over_words_decides_between_translations_with_phrases(
    loaded: Translator, monkeypatch: pytest.MonkeyPatch
) -> None:
    asked = [(line, "", ["I H G F"]) for line in LINES]

    def texts(**decode: object) -> list[str]:
        return [
            each[0].text for each in translate_lines(replace(loaded, decode=replace(loaded.decode, **decode)), asked)
        ]

    found = texts()
    assert found == texts(normalise="gnmt", alpha=0.6)
    monkeypatch.setattr("calque.decode.translate.UNDILUTED", ("length", 1.0))
    assert found != texts()


def test_words_stand_one_space_apart(loaded: Translator) -> None:
    class Wide(WordCodec):
        def decode(self, ids: Sequence[int]) -> str:
            return "  ".join(self.tokens(ids))

    loaded = replace(loaded, target=Wide(Vocabulary("ABCDEFGHI")))
    for each in translate_lines(loaded, [(line, "", ["I H G F"]) for line in LINES if line]):
        assert "  " not in each[0].text
        assert "I H G F" in each[0].text


def test_an_ensemble_and_a_selection_obey(loaded: Translator) -> None:
    asked = [(line, "", phrases) for line, phrases in zip(LINES, PHRASES, strict=True)]
    both = replace(loaded, others=(replace(loaded, model=varied("rnmt")),))
    none = Selection(torch.full((13, 1), EOS), torch.arange(13) < UNK + 2)  # offers no word but one
    for one in (both, replace(loaded, selection=none), replace(both, combine="logprobs")):
        for line, each, phrases in zip(LINES, translate_lines(one, asked), PHRASES, strict=True):
            assert not line or has(each[0].text, phrases)


def test_as_many_translations_come_out_as_are_asked_for(loaded: Translator) -> None:
    asked = [(line, "", phrases) for line, phrases in zip(LINES, PHRASES, strict=True) if line]
    for n_best in (4, 12):
        found = translate_lines(loaded, asked, n_best)
        assert [len(each) for each in found] == [n_best] * len(asked)
        for each in found:
            assert len({one.ids for one in each}) == n_best


def test_a_small_letter_may_be_a_capital_one_at_the_beginning(loaded: Translator) -> None:
    vocabulary = ["a", "A", "b", "B", "c", "C", "d", "D", "e"]
    loaded = replace(loaded, target=WordCodec(Vocabulary(vocabulary)), model=varied("rnmt"))
    letters = ["a", "b", "c", "d"]
    found = translate_lines(loaded, [("a b c", "", [letter]) for letter in letters], n_best=12)
    firsts = set()
    for letter, each in zip(letters, found, strict=True):
        for one in each:
            words = one.text.split()
            assert letter in words or words[0] == letter.upper()
            firsts.add(letter in words)
    assert firsts == {True, False}


def test_samples_have_no_phrases(loaded: Translator) -> None:
    drawn = replace(loaded, decode=replace(loaded.decode, sample=True))
    with pytest.raises(CalqueError, match="X807"):
        translate_lines(drawn, [("a b", "", ["A"])])
    assert translate_lines(drawn, [("a b", "", [])])


def test_a_phrase_of_unknown_words_is_refused(loaded: Translator) -> None:
    with pytest.raises(CalqueError, match="D610"):
        translate_lines(loaded, [("a b", "", ["A Z"])])


def test_special_symbols_are_no_candidates(loaded: Translator) -> None:
    """Neither what fills up shorter lists of words nor the begin symbol, which a form may begin with."""
    loaded = replace(loaded, target=WordCodec(Vocabulary(["a", "A", "b", "B", "c", "C", "d", "D", "e"])))
    asked = [("a b c", "", ["a"]), ("a b c", "", ["a b c d a e"])]
    for each in translate_lines(loaded, asked, n_best=8):
        for one in each:
            assert not {PAD, BOS, EOS} & set(one.ids)


def test_a_line_without_room_for_its_phrases_is_told(loaded: Translator, monkeypatch: pytest.MonkeyPatch) -> None:
    asked = [("a b", "", ["A B C D E F G"]), ("a b", "", []), ("", "", ["A"]), ("a b", "", ["B"])]
    told: list[Diagnostic] = []
    translate_lines(loaded, asked, first=5, warn=told.append)
    assert told == []
    monkeypatch.setattr("calque.decode.translate.words_needed", lambda required: 0)
    found = translate_lines(loaded, asked, first=5, warn=told.append)
    assert [(one.code, one.where, one.severity) for one in told] == [("D611", Place("stdin", 5), "warning")]
    assert all(len(each) == 1 for each in found)
