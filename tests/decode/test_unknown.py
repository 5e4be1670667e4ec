"""Attention of forced translations in words, and unknown words replaced by it."""

from dataclasses import replace

import pytest
import torch
from decode_oracle import make, varied

from calque.analyse.forced_attention import attention_matrix
from calque.data.codecs import WordCodec
from calque.data.subwords import learn
from calque.data.vocabulary import EOS, UNK, Vocabulary
from calque.decode.attention import align_lines, attend
from calque.decode.translate import Translation, Translator, translate_lines
from calque.decode.unknown import COPY, DICTIONARY, LEFT, replace_unknown, replacements
from calque.experiment import DataSettings, DecodeSettings
from calque.ground.diagnostics import CalqueError

SOURCE, TARGET = WordCodec(Vocabulary("abcdefghi")), WordCodec(Vocabulary("ABCDEFGHI"))
LINES = ["a b c", "d", "a a b i h g", "c never-seen", "e f g h i a b"]
TARGETS = [[4, 5, UNK], [UNK], [], [UNK, 4, UNK, 9], [5, 6, 7, 8, 9, 10, 11, 12]]


def loaded(name: str, **decode: object) -> Translator:
    return Translator(make(name), SOURCE, TARGET, DecodeSettings(batch_tokens=30, **decode))


@pytest.mark.parametrize("row", [0, 1])
@pytest.mark.parametrize("name", ["transformer", "rnmt", "cnn", "bridge"])
def test_attention_in_a_batch_is_that_of_each_pair(name: str, row: int) -> None:
    here = loaded(name, align_row=row)
    for line, ids, found in zip(LINES, TARGETS, attend(here, LINES, TARGETS), strict=True):
        source = [*SOURCE.encode([line])[0], EOS]
        _, expected = attention_matrix(here.model, source, ids)
        torch.testing.assert_close(found, expected[row : row + len(ids)], rtol=1e-5, atol=1e-6)


def test_the_layer_can_be_named_and_an_ensemble_sums() -> None:
    paths = make("transformer").source_attentions()
    first = attend(loaded("transformer", align_layer=paths[0]), LINES, TARGETS)
    last = attend(loaded("transformer"), LINES, TARGETS)
    assert not torch.allclose(first[0], last[0])
    torch.testing.assert_close(attend(loaded("transformer", align_layer=paths[-1]), LINES, TARGETS), last)
    no_end = replace(loaded("cnn", align_row=1), source_end=False)
    both = replace(loaded("transformer"), others=(no_end,))
    apart = attend(no_end, LINES, TARGETS)
    torch.testing.assert_close(attend(both, LINES, TARGETS), [a + b for a, b in zip(last, apart, strict=True)])
    assert (apart[0][:, -1] == 0).all()
    with pytest.raises(CalqueError, match="X803"):
        align_lines(loaded("transformer", align_layer="decoder.9"), LINES, LINES)


def test_weights_of_pieces_are_summed_by_word() -> None:
    text = ["ab abc b  a"] * 30
    codec, _ = learn(DataSettings(subwords="unigram", vocabulary_size=9), text, text)
    line = "ab  abc\tb a"
    pieces = [codec.pieces(line)[k] for k, w in enumerate(codec.words(line)) if w == 1]
    assert "".join(pieces).strip("▁").strip() == "abc"
    assert len(codec.words(line)) == len(codec.encode([line])[0])
    here = Translator(make("transformer", vocabulary=codec.size), codec, codec, DecodeSettings())
    weights = attend(here, [line], codec.encode([line]))[0]
    assert weights.shape == (len(codec.encode([line])[0]), 5)
    torch.testing.assert_close(weights.sum(1), torch.ones(len(weights)))
    links = align_lines(here, [line, "", "a"], [line, "b", ""])
    assert [len(some) for some in links] == [4, 0, 0]


def fixed(monkeypatch: pytest.MonkeyPatch, matrix: list[list[float]]) -> None:
    monkeypatch.setattr("calque.decode.unknown.attend", lambda *_: [torch.tensor(matrix)])


@pytest.mark.parametrize(
    ("offset", "expected"),
    [(0, "uno A a <unk>"), (1, "due A uno <unk>"), (-1, "a A <unk> <unk>"), (2, "<unk> A due <unk>")],
)
def test_unknown_words_become_entries_or_copies(monkeypatch, offset: int, expected: str) -> None:
    # Words a, one, two; the last column is the end symbol, to which the last unknown word attends.
    fixed(monkeypatch, [[0.1, 0.8, 0.1, 0], [0, 0, 1, 0], [0.9, 0.1, 0, 0], [0.2, 0.2, 0.2, 0.4]])
    here = replace(loaded("cnn", align_offset=offset), dictionary={"one": "uno", "two": "due"})
    one = Translation("<unk> A <unk> <unk>", (UNK, 4, UNK, UNK), -1.5, -6.0)
    given = [[one, Translation("B", (5,), -1, -1)], []]
    told = replacements(here, ["a one two", "b"], given)
    assert [(r.line, r.rank, r.position) for r in told] == [(0, 0, 0), (0, 0, 2), (0, 0, 3)]
    words = expected.split()
    assert [r.word or "<unk>" for r in told] == [words[0], *words[2:]]
    how = {"uno": DICTIONARY, "due": DICTIONARY, "a": COPY, "<unk>": LEFT}
    assert [r.how(here) for r in told] == [how[words[k]] for k in (0, 2, 3)]
    found = replace_unknown(here, ["a one two", "b"], given)
    assert found == [[one._replace(text=expected), Translation("B", (5,), -1, -1)], []]


@pytest.mark.medium
@pytest.mark.parametrize("settings", [{"beam": 1}, {"beam": 3}])
def test_lines_are_translated_with_unknown_words_replaced(settings: dict[str, int]) -> None:
    model = varied("transformer").float()
    with torch.no_grad():
        model.output.bias[UNK] += 2
    plain = Translator(model, SOURCE, TARGET, DecodeSettings(**settings))
    here = replace(plain, decode=replace(plain.decode, replace_unknown=True))
    before, after = translate_lines(plain, LINES, 2), translate_lines(here, LINES, 2)
    assert [[t.ids for t in each] for each in before] == [[t.ids for t in each] for each in after]
    assert sum("<unk>" in t.text for each in before for t in each) > 2
    for line, each, old in zip(LINES, after, before, strict=True):
        for one, other in zip(each, old, strict=True):
            words, olds = one.text.split(), other.text.split()
            weights = attend(here, [line], [one.ids])[0].argmax(1).tolist()
            for word, known, best in zip(words, olds, weights, strict=True):
                assert word == (known if known != "<unk>" or best == len(line.split()) else line.split()[best])
    alone = [translate_lines(here, [line], 2, invariant=True)[0] for line in LINES]
    assert translate_lines(here, LINES, 2, invariant=True) == alone


@pytest.mark.parametrize("replaces", [False, True])
def test_the_words_of_a_prefix_stay_also_where_the_vocabulary_lacks_them(replaces: bool) -> None:
    model = varied("transformer").float()
    here = Translator(model, SOURCE, TARGET, DecodeSettings(replace_unknown=replaces))
    asked = [("a b c", "Zyklop A Ende"), ("a b c", "A B"), ("a b c", (UNK, 4)), ("", "Zyklop")]
    found = translate_lines(here, asked, 2)
    assert all(one.ids[:3] == (UNK, 4, UNK) and one.text.startswith("Zyklop A Ende") for one in found[0])
    assert all(one.text.startswith("A B") for one in found[1])
    assert all(one.text.startswith("<unk> A") for one in found[2])  # ids say no more
    assert [one.text for one in found[3]] == [""]
    pieces, _ = learn(DataSettings(subwords="unigram", vocabulary_size=9), ["ab abc b  a"] * 30, ["ab abc b  a"] * 30)
    spelt = replace(here, model=make("transformer", vocabulary=pieces.size), source=pieces, target=pieces)
    for one in translate_lines(replace(spelt, decode=DecodeSettings()), [("ab", "日本 ab")], 2)[0]:
        assert one.text.startswith("日本 ab")


def test_a_line_that_was_cut_aligns_what_was_read() -> None:
    here = loaded("cnn", max_source_tokens=2)
    weights = attend(here, ["a b c d"], [[4, UNK]])[0]
    assert weights.shape == (2, 5)
    assert (weights[:, 2:4] == 0).all()
    torch.testing.assert_close(weights.sum(1), torch.ones(2))
