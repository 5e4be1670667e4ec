"""Translation memories: what is like a line, and models that lean on it, against formulas written first."""

import math
import random
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

import pytest
import torch
from decode_oracle import MODELS, NextWord, make, naive_beam, next_word
from torch.nn import functional as F

import calque as package
from calque.data.codecs import WordCodec
from calque.data.vocabulary import BOS, EOS, UNK, Vocabulary
from calque.decode import recall as recall_module
from calque.decode.memory import Memory, read_memory
from calque.decode.nearest import NEAREST, Remembered, Way, WithMemory
from calque.decode.prepare import prepare_for_decoding, rows_are_apart
from calque.decode.recall import FEW, Recall, best_way, outputs, together
from calque.decode.scorer import SourceBatch
from calque.decode.select import Selection
from calque.decode.sentences import sentences_of
from calque.decode.translate import FEWER, Translator, translate_batch, translate_lines
from calque.experiment import DecodeSettings
from calque.ground.diagnostics import CalqueError
from calque.model import Model

SOURCE, TARGET = WordCodec(Vocabulary("abcdefghi")), WordCodec(Vocabulary("ABCDEFGHI"))
draw = random.Random(5)
PAIRED = [
    (" ".join(draw.choices("abcdefgh", k=n)), " ".join(draw.choices("ABCDEFGHI", k=m)))
    for n, m in zip([1, 2, 3, 4, 5, 6, 7] * 4, [3, 1, 5, 2, 4, 6] * 5, strict=False)
]
LINES = ["a b c", "", "d", "a a b i h g", "x x", "e f g h i a b", "b", "h h", "i"]
WAY = Way(0.1, 0.9, 0.6)


def translator(model: Model, **decode: object) -> Translator:
    settings = DecodeSettings(**{"beam": 3, "max_length_factor": 1.0, "max_length_offset": 4, **decode})
    return Translator(model, SOURCE, TARGET, settings)


def leaning(loaded: Translator, *ways: Way, pairs: Sequence[tuple[str, str]] = PAIRED) -> Translator:
    """With a memory and given ways."""
    known = Recall(replace(loaded, recall=None), Memory(*zip(*pairs, strict=True)))
    known.ways, known.least = ways or (WAY,) * len(loaded.members), 0.0
    return replace(loaded, recall=known)


def cosine(one: str, other: str, every: Sequence[str]) -> float:
    def weight(word: str) -> float:
        count = sum(word in text.lower().split() for text in every)
        return math.log((len(every) + 1) / max(1, count))

    a, b = (set(text.lower().split()) for text in (one, other))
    norms = [math.sqrt(sum(weight(word) ** 2 for word in words)) for words in (a, b)]
    return sum(weight(word) ** 2 for word in a & b) / (norms[0] * norms[1]) if all(norms) else 0.0


@pytest.mark.medium
def test_what_is_like_a_line_has_its_rare_words() -> None:
    chance = random.Random(1)
    sources = list(
        dict.fromkeys(" ".join(chance.choices("abcdefghijklmnop", k=chance.randint(1, 6))) for _ in range(300))
    )
    memory = Memory(sources, list(map(str, range(len(sources)))))
    for line in ("a b c", "A z P", "n", "zz", "", "a b c d e f g h i j k l m n o p"):
        scores = [cosine(line, source, sources) for source in sources]
        expected = sorted((k for k, score in enumerate(scores) if score > 0), key=lambda k: (-round(scores[k], 9), k))
        found = memory.like(line, len(sources))
        assert [round(scores[k], 9) for k in found] == [round(scores[k], 9) for k in expected]
        assert sorted(found) == sorted(expected)
        assert memory.like(line, 7) == found[:7]
        for k in found[:5]:
            assert memory.likeness(line, k) == pytest.approx(scores[k])
            assert memory.like(line, 7, memory.likeness(line, found[0])) == found[:7]
            assert memory.like(line, 7, memory.likeness(line, found[0]) + 1e-9) == ()
    assert Memory(["a b"], ["x"]).like("A", 2) == (0,)
    assert Memory(["a b"], ["x"]).likeness("b a", 0) == pytest.approx(1)


def test_every_pair_is_kept_once_and_blank_and_overlong_ones_are_left_out() -> None:
    long = "a" * 2001
    assert Memory(["a", long, "b"], [long, "x", "y" * 2000]).pairs == [("b", "y" * 2000)]
    memory = Memory(["a", "a", "a", "b", " ", "c"], ["x", "x", "y", "", "z", "\t"])
    assert memory.pairs == [("a", "x"), ("a", "y")]


def test_pairs_with_the_same_source_or_target_are_no_others() -> None:
    memory = Memory(["a b", "a b", "a c", "a d", "e"], ["x", "y", "x", "z", "w"])
    assert memory.like_another(0, 9) == (3,)
    assert memory.like_another(3, 9) == (0, 1, 2)
    assert memory.like_another(3, 1) == (0,)
    assert Memory(["a b", "A, b!", "a  b c"], ["x", "y", "X."]).like_another(0, 9) == ()


def test_scripts_without_spaces_are_compared_by_characters() -> None:
    memory = Memory(["我喜欢猫", "他有狗", "天气好"], ["x", "y", "z"])
    assert memory.like("猫", 3) == (0,)


@torch.inference_mode()
def naive(loaded: Translator, line: str) -> NextWord:
    """What a model, or an ensemble of probabilities, with a memory says of the next word, by the formula."""
    pairs = [loaded.recall.memory.pairs[k] for k in loaded.recall.like(line)]
    models = [member.model for member in loaded.members]
    ids = SOURCE.encode([line])[0]
    alone = next_word(models, [[*ids, EOS]] * len(models), loaded.combine)

    def output(model: Model, source: list[int], words: list[int]) -> torch.Tensor:
        return model.decode(torch.tensor([[BOS, *words]]), model.encode(torch.tensor([[*source, EOS]])))[0]

    known = []
    for model in models:
        outs, words = [], []
        for source, target in pairs:
            cut = TARGET.encode([target])[0]
            outs.append(output(model, SOURCE.encode([source])[0], cut))
            words += [*cut, EOS]
        known.append((outs and torch.cat(outs), words))

    @torch.inference_mode()
    def say(words: list[int]) -> list[float]:
        p = [math.exp(x) for x in alone(words)]
        left, added = 0.0, [0.0] * len(p)
        for model, (outs, targets), way in zip(models, known, loaded.recall.ways, strict=True):
            if not targets:
                continue
            distances = 1 - F.cosine_similarity(outs, output(model, ids, words)[-1:], dim=1)
            near = sorted(zip(distances.tolist(), targets, strict=True))[:NEAREST]
            r = way.share * max(0.0, 1 - near[0][0] / way.reach) / len(models)
            weights = [math.exp(-d / way.temperature) for d, _ in near]
            left += r
            for weight, (_, word) in zip(weights, near, strict=True):
                added[word] += r * weight / sum(weights)
        return [math.log(max((1 - left) * x + y, 1e-300)) for x, y in zip(p, added, strict=True)]

    return say


@pytest.mark.medium
@pytest.mark.parametrize("name", MODELS)
def test_a_search_with_a_memory_equals_a_naive_one(name: str) -> None:
    loaded = leaning(translator(make(name), normalise="gnmt", alpha=0.6))
    differs = 0
    for line, found in zip(LINES, translate_lines(loaded, LINES, 2), strict=True):
        if not line:
            assert found[0].text == ""
            continue
        limit = len(line.split()) + 4
        expected = naive_beam(naive(loaded, line), [], limit, 3, "gnmt", 0.6, 2)
        assert [list(one.ids) for one in found] == [words for _, _, words in expected]
        for one, (score, logp, _) in zip(found, expected, strict=True):
            assert (one.score, one.logp) == pytest.approx((score, logp), abs=1e-9)
        differs += found != translate_lines(replace(loaded, recall=None), [line], 2)[0]
    assert differs > 5


@pytest.mark.medium
@pytest.mark.parametrize("combine", ["probs", "logits", "logprobs"])
def test_an_ensemble_leans_by_each_of_its_models(combine: str) -> None:
    other = translator(make("rnmt", seed=3))
    loaded = replace(translator(make("transformer")), others=(other,), combine=combine)
    loaded = leaning(loaded, WAY, Way(0.3, 0.5, 0.9))
    for line, found in zip(LINES[5:], translate_lines(loaded, LINES[5:]), strict=True):
        expected = naive_beam(naive(loaded, line), [], len(line.split()) + 4, 3, "length", 1.0, 1)
        assert list(found[0].ids) == expected[0][2]
        assert found[0].logp == pytest.approx(expected[0][1], abs=1e-9)


@pytest.mark.parametrize("beam", [1, 3])
@pytest.mark.parametrize("name", MODELS)
def test_a_line_of_the_memory_gets_its_translation_where_nothing_else_counts(name: str, beam: int) -> None:
    own = dict(PAIRED)
    loaded = leaning(translator(make(name), beam=beam, max_length_offset=9), Way(1e-7, 2.0, 1.0))
    # Of two sources with the same different words, either may be meant.
    lines = [one for one in own if sum(set(one.split()) == set(other.split()) for other in own) == 1]
    assert len(lines) > 15
    found = [each[0].text for each in translate_lines(loaded, lines)]
    wrong = sum(text != own[line] for text, line in zip(found, lines, strict=True))
    assert wrong <= (
        3 if name == "rnmt" else 0
    )  # whose outputs may have one number that is not 0, and the same direction
    plain = [each[0].text for each in translate_lines(replace(loaded, recall=None), lines)]
    assert sum(a == b for a, b in zip(plain, found, strict=True)) < 3


def test_other_lines_do_not_matter_to_the_bit() -> None:
    model = prepare_for_decoding(make("transformer").float(), "float32")
    loaded = leaning(translator(model, batch_tokens=100))
    together = translate_lines(loaded, LINES, 2, invariant=True)
    again = leaning(translator(model, batch_tokens=100))
    assert [translate_lines(again, [line], 2, invariant=True)[0] for line in LINES[::-1]] == together[::-1]
    free = translate_lines(loaded, LINES, 2)
    assert [[one.ids for one in each] for each in free] == [[one.ids for one in each] for each in together]


@pytest.mark.parametrize("precision", ["bfloat16", "int8"])
def test_other_precisions_lean_as_well(precision: str) -> None:
    own = dict(PAIRED)
    model = prepare_for_decoding(make("transformer").float(), precision)
    loaded = leaning(translator(model, max_length_offset=9), Way(1e-3, 2.0, 1.0))
    found = translate_lines(loaded, list(own))
    right = sum(each[0].text == target for each, target in zip(found, own.values(), strict=True))
    assert right > 0.7 * len(own)


def test_every_way_to_search_has_the_memory() -> None:
    loaded = leaning(translator(make("transformer"), max_length_offset=9), Way(1e-7, 2.0, 1.0))
    line, expected = PAIRED[6]
    sampled = replace(loaded, decode=replace(loaded.decode, sample=True))
    assert {each.text for each in translate_lines(sampled, [line], 5)[0]} == {expected}
    few = Selection(torch.zeros(13, 0, dtype=torch.long), torch.arange(13) < 4)
    chosen = replace(loaded, selection=few)
    assert translate_lines(chosen, [line])[0][0].text == expected
    prefix = expected.split()[0]
    assert translate_lines(loaded, [(line, prefix)])[0][0].text == expected
    assert "I" in translate_lines(loaded, [(line, "", ["I"])])[0][0].text.split()


def test_symbols_of_a_line_do_not_count() -> None:
    loaded = leaning(translator(make("transformer")))
    loaded.source.symbols, line = ("g",), PAIRED[3][0].replace("g", "b")
    try:
        [one, other] = sentences_of(loaded, [line, f"g {line}"])
        assert one.like == other.like != ()
    finally:
        del loaded.source.symbols


def test_lines_that_are_like_no_pair_are_translated_without_a_memory() -> None:
    """As alike as pairs of the memory are, or more: then a line leans on them."""
    chance = random.Random(2)
    sources = [" ".join(chance.choices("abcdefgh", k=8)) for _ in range(60)]
    pairs = [(source, chance.choice("ABCDEFGHI")) for source in sources]
    known = Recall(translator(make("transformer")), Memory(*zip(*pairs, strict=True)))
    alike = [known.memory.likeness(sources[k], known.memory.like_another(k, 1)[0]) for k in range(60)]
    assert sum(one < known.least for one in alike) in (2, 3, 4)
    assert known.like(sources[0])
    assert known.like("a x y z u v w") == ()
    loaded = replace(translator(make("transformer")), recall=known)
    plain = translate_lines(replace(loaded, recall=None), ["a i x", "i x"])
    assert [[one.ids for one in each] for each in translate_lines(loaded, ["a i x", "i x"])] == [
        [one.ids for one in each] for each in plain
    ]


@pytest.mark.medium
@pytest.mark.parametrize("name", ["transformer", "average"])
def test_equally_near_words_are_taken_in_their_order(name: str) -> None:
    """One source has many translations, so that more than `NEAREST` words are at the same distance, in every batch."""
    targets = [" ".join([a, b]) for a in "ABCDEFGHI" for b in "ABC"]
    pairs = [("a b c", target) for target in targets] + PAIRED
    model = prepare_for_decoding(make(name).float(), "float32")
    lines = ["a b c", "c b a", "a b c d e f g h", "b", "e f g h i a b"]
    loaded = leaning(translator(model), Way(0.2, 2.0, 1.0), pairs=pairs)
    together = translate_lines(loaded, lines, 3, invariant=True)
    alone = [
        translate_lines(leaning(translator(model), Way(0.2, 2.0, 1.0), pairs=pairs), [line], 3, invariant=True)[0]
        for line in lines
    ]
    assert together == alone


def test_rows_of_a_batch_do_not_matter_to_the_bit() -> None:
    """As a server translates: any number of rows where the products of the model do not depend on them."""
    model = prepare_for_decoding(make("transformer").float(), "float32")
    if not rows_are_apart(model):
        pytest.skip("the products of this machine depend on the rows of a batch")
    loaded = leaning(translator(model))
    sentences = sentences_of(loaded, ["a b c", "d e f", "g h a", "b c e", "h e a"])
    together = translate_batch(loaded, sentences, 3, 8)
    for rows in (1, 2, 5):
        assert translate_batch(loaded, sentences[:1], 3, rows)[0] == together[0]


@pytest.mark.medium
def test_logits_do_not_depend_on_other_sentences_to_the_bit() -> None:
    """Of random outputs and keys, as many as tell vectors from what is left of them."""
    text = "d = 64\nencoder = pos -> linear\ndecoder = linear -> mlp_src_att -> linear\n"
    model = prepare_for_decoding(package.build(text, 24, 24).eval(), "float32")
    if not rows_are_apart(model):
        pytest.skip("the products of this machine depend on the rows of a batch")
    generator = torch.Generator().manual_seed(1)

    def random_pairs(words: int) -> Remembered:
        keys = F.normalize(torch.randn(words, 64, generator=generator), dim=1)
        return Remembered((keys,), 4 + torch.arange(words) % 20)

    chance = random.Random(1)
    known = [random_pairs(n) for n in (1024, 5, 16, *(chance.randint(17, 20) for _ in range(150)))]
    hidden = torch.randn(len(known) * 5, 64, generator=generator)
    source = torch.full((len(known), 3), 7)

    def logits(of: slice) -> torch.Tensor:
        batch = SourceBatch(model, source[of], torch.ones_like(source[of], dtype=torch.bool))
        scorer = WithMemory([batch], "probs", None, True, known[of], (Way(0.2, 1.5, 0.9),))
        return scorer.logits((hidden[5 * of.start : 5 * of.stop],), scorer.start(4), 5)

    with torch.inference_mode():
        whole = logits(slice(0, len(known)))
        assert whole.exp().sum(1).allclose(torch.ones(len(whole)))
        for k in range(len(known)):
            assert logits(slice(k, k + 1)).equal(whole[5 * k : 5 * k + 5])
            assert logits(slice(k // 2, k + 1)).equal(whole[5 * (k // 2) : 5 * k + 5])


def test_words_that_the_vocabulary_lacks_are_not_leaned_on() -> None:
    pairs = [(source, f"{target} never-seen {target}") for source, target in PAIRED]
    loaded = leaning(translator(make("transformer"), max_length_offset=9), Way(1e-7, 2.0, 1.0), pairs=pairs)
    for _, known in loaded.recall._of_pairs(loaded, range(len(pairs)), False).items():
        assert UNK not in known.words.tolist()
        assert len(known.words) == len(known.keys[0])
    found = translate_lines(loaded, [source for source, _ in PAIRED])
    assert not any(UNK in each[0].ids for each in found)


def test_batches_have_room_for_what_is_remembered() -> None:
    loaded = leaning(translator(make("transformer"), beam=1, batch_tokens=4096))
    sizes = []

    def scorer(*asked: object) -> WithMemory:
        sizes.append(len(asked[3]))
        return Recall.scorer(loaded.recall, *asked)

    loaded.recall.scorer = scorer
    translate_lines(loaded, ["a b c"] * 200)
    assert max(sizes) == FEWER == 64
    assert sum(sizes) == 200


def test_a_sentence_is_compared_with_so_many_words_at_most(monkeypatch: pytest.MonkeyPatch) -> None:
    loaded = leaning(translator(make("transformer")))
    monkeypatch.setattr(recall_module, "WORDS", 12)
    [sentence] = sentences_of(loaded, ["a b c d e f g h"])
    sourced = [SourceBatch(loaded.model, torch.full((1, 2), 5), torch.ones(1, 2, dtype=torch.bool))]
    [remembered] = loaded.recall.scorer(loaded, sourced, None, [sentence], False).remembered
    assert 6 <= len(remembered.words) <= 12
    known = [Remembered((torch.full((n, 2), float(n)),), torch.full((n,), n)) for n in (3, 4, 5)]
    assert together(known, 7).words.tolist() == [3] * 3 + [4] * 4
    assert together(known, 1).words.tolist() == [3] * 3
    assert together(known).keys[0].shape == (12, 2)


def test_what_is_known_of_pairs_is_dropped_where_there_is_no_room(monkeypatch: pytest.MonkeyPatch) -> None:
    loaded = leaning(translator(make("transformer")))
    expected = translate_lines(loaded, LINES)
    monkeypatch.setattr(recall_module, "KEPT", 3000)
    small = leaning(translator(make("transformer")))
    assert [each[0].ids for each in translate_lines(small, LINES)] == [each[0].ids for each in expected]
    assert 0 < small.recall._bytes <= 3000
    assert len(small.recall._known) < len(PAIRED) == len({number for number, _ in loaded.recall._known})


def test_outputs_do_not_depend_on_other_pairs() -> None:
    loaded = translator(make("rnmt"), batch_tokens=60)
    alone, together = (outputs(loaded, PAIRED, one) for one in (True, False))
    for one, other in zip(alone, together, strict=True):
        torch.testing.assert_close(one.keys, other.keys, rtol=0, atol=1e-12)
        assert one.words.equal(other.words)


def test_the_way_is_that_of_the_most_probable_words() -> None:
    generator = torch.Generator().manual_seed(1)
    logp = torch.full((50,), math.log(0.1))
    distances = torch.rand(50, NEAREST, generator=generator).sort(1).values * 0.3
    right = torch.ones(50, NEAREST, dtype=torch.bool)
    assert best_way(logp, distances, right).share == 1.0
    assert best_way(logp, distances, ~right).share == 0.0
    close = distances[:, :1] < distances[:, :1].median()
    close = right & close  # neighbours are right where the first is near
    way = best_way(logp, distances, close)
    assert way.share >= 0.5
    assert way.reach < 0.3


def test_a_memory_of_what_the_model_does_not_know_is_leaned_on() -> None:
    """Its targets are words in one order, whatever the source."""
    targets = ["A B C D", "A B C D E", "A B C", "B C D E F", "C D E F", "A B"]
    pairs = [(source, targets[k % len(targets)]) for k, (source, _) in enumerate(PAIRED)]
    known = Recall(translator(make("transformer")), Memory(*zip(*pairs, strict=True)))
    assert known.ways[0].share > 0.5
    assert Recall(translator(make("transformer")), Memory(["a", "b"], ["A", "B"])).ways == (FEW,)


def test_files_of_a_memory(tmp_path: Path) -> None:
    source, target = tmp_path / "a", tmp_path / "b"
    source.write_text("a b\n\nc\n")
    target.write_text("X\nY\nZ\n")
    assert read_memory(source, target).pairs == [("a b", "X"), ("c", "Z")]
    for text, code in (("X\n", "D102"), ("\n\n \n", "D612"), ("", "D102")):
        target.write_text(text)
        with pytest.raises(CalqueError, match=code):
            read_memory(source, target)
    with pytest.raises(CalqueError, match="D101"):
        read_memory(source, tmp_path / "none")
