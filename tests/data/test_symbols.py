"""Symbols: words that are one entry of the vocabulary and never cut, and the tags of training texts."""

import json
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from test_subwords import CODES, ENGLISH, GERMAN, KINDS, settings

from calque.data.compiled import corpus_digest, prepare
from calque.data.imported_codec import ImportedCodec, ImportedPieces
from calque.data.kept_corpus import compiled_before
from calque.data.subwords import learn, load_codecs, save_codecs
from calque.data.tagged_codec import TaggedCodec, tagged
from calque.data.vocabulary import SPECIALS, UNK
from calque.experiment import DataSettings
from calque.experiment.training_text import TrainingText
from calque.ground.diagnostics import CalqueError

SYMBOLS = ("<2de>", "cat,s", "⟦x⟧")


def code_of(call) -> str:
    with pytest.raises(CalqueError) as raised:
        call()
    return raised.value.diagnostics[0].code


@pytest.mark.parametrize("joint", [True, False])
@pytest.mark.parametrize("kind", KINDS)
def test_a_symbol_is_one_entry_of_every_vocabulary(tmp_path, kind, joint):
    wanted = settings(kind, tmp_path, joint, symbols=SYMBOLS)
    codecs = learn(wanted, ENGLISH, GERMAN)
    save_codecs(tmp_path, *codecs)
    again = load_codecs(tmp_path)
    for codec, read, line in zip(codecs, again, (ENGLISH[0], GERMAN[0]), strict=True):
        assert codec.symbols == read.symbols == SYMBOLS
        assert tuple(codec.tokens(range(7))) == SPECIALS + SYMBOLS
        [plain], [ids] = codec.encode([line]), codec.encode([f"{SYMBOLS[0]} {line} {SYMBOLS[2]}"])
        assert [i for i in ids if i in (4, 5, 6)] == [4, 6]
        pieces = [[piece for piece in codec.tokens(some) if piece != "▁"] for some in (plain, ids)]
        assert [SYMBOLS[0], *pieces[0], SYMBOLS[2]] == pieces[1]
        assert codec.decode(ids) == f"{SYMBOLS[0]} {codec.decode(plain)} {SYMBOLS[2]}"
        assert read.encode([f"{SYMBOLS[0]} {line} {SYMBOLS[2]}"]) == [ids]
        numbers = codec.words(f"{SYMBOLS[0]} {line}")
        assert len(numbers) == len(codec.pieces(f"{SYMBOLS[0]} {line}"))
        assert [n for n in numbers if n] == [n + 1 for n in codec.words(line)]
    if kind in ("codes", "words"):
        assert codecs[0].encode(["x<2de>"])[0][-1] == UNK


@pytest.mark.parametrize("kind", KINDS)
def test_symbols_of_the_text_take_the_place_of_no_word(tmp_path, kind):
    """A vocabulary of text that has the symbols already has the other entries of one of the text without them."""
    without = learn(settings(kind, tmp_path, symbols=SYMBOLS), ENGLISH, GERMAN)[0]
    inside = learn(settings(kind, tmp_path, symbols=SYMBOLS), [f"<2de> {line}" for line in ENGLISH], GERMAN)[0]
    assert inside.size == without.size
    if kind != "unigram":  # whose probabilities depend on the number of words
        assert set(inside.tokens(range(inside.size))) == set(without.tokens(range(without.size)))


@pytest.mark.parametrize("kind", ["bpe", "unigram"])
def test_a_symbol_is_not_cut_anew(tmp_path, kind):
    letters = [*ENGLISH, "<2de> < 2 d e >"]
    codec, _ = learn(settings(kind, tmp_path, symbols=("<2de>",), vocabulary_size=66), letters, GERMAN)
    usual = codec.encode(["<2de> the dogs bark"] * 20)
    drawn = codec.cut_anew(usual, 1.0 if kind == "bpe" else 0.1, 3)
    assert all(ids.count(4) == 1 for ids in drawn)
    assert {codec.decode(ids) for ids in drawn} == {"<2de> the dogs bark"}
    assert drawn != usual


@pytest.mark.parametrize("kind", KINDS)
def test_a_tag_stands_in_front_of_lines_that_have_words(tmp_path, kind):
    codec, _ = learn(settings(kind, tmp_path, symbols=SYMBOLS), ENGLISH, GERMAN)
    here = tagged(codec, "<2de>")
    assert here.encode([ENGLISH[0], "", " "]) == codec.encode([f"<2de> {ENGLISH[0]}", "", " "])
    assert here.pieces(ENGLISH[0]) == codec.pieces(f"<2de> {ENGLISH[0]}")
    assert here.words(ENGLISH[0])[-1] == codec.words(ENGLISH[0])[-1]
    assert here.words("") == []
    [ids] = here.encode([ENGLISH[0]])
    assert here.cut(ids, 3) == ids[:3]
    assert (here.size, here.kind, here.decode(ids)) == (codec.size, codec.kind, codec.decode(ids))
    assert tagged(codec, "") is codec
    assert here.encode(["▁"]) == codec.encode(["▁"])  # which is white space to sentencepiece
    # A text that has symbols itself is tagged as a whole; a line to translate keeps its own.
    own = f"{SYMBOLS[2]} {ENGLISH[0]}"
    assert here.encode([own]) == codec.encode([f"<2de> {own}"])
    kept = TaggedCodec(codec, "<2de>", others=True)
    assert kept.encode([own, ENGLISH[0]]) == codec.encode([own, f"<2de> {ENGLISH[0]}"])
    assert kept.words(own) == codec.words(own)


def test_a_tag_is_a_symbol_of_the_vocabulary(tmp_path):
    codec, _ = learn(settings("words", tmp_path, symbols=SYMBOLS), ENGLISH, GERMAN)
    with pytest.raises(CalqueError) as raised:
        tagged(codec, "<2d>")
    [fault] = raised.value.diagnostics
    assert (fault.code, fault.fields["nearest"]) == ("D209", "<2de>")
    assert code_of(lambda: tagged(codec, "the")) == "D209"


def test_the_marks_of_an_imported_model_are_its_symbols(tmp_path):
    model = learn(settings("bpe", tmp_path), ENGLISH, GERMAN)[0].model
    pieces = (*SPECIALS, ">>de<<", ">>fr<<", "▁the", "▁cat")
    codec = ImportedCodec(model, ImportedPieces(pieces, hidden=(4, 5), marks=True))
    assert codec.symbols == (">>de<<", ">>fr<<")
    assert tagged(codec, ">>fr<<").encode(["the"])[0][0] == 5
    assert ImportedCodec(model, ImportedPieces(pieces)).symbols == ()
    save_codecs(tmp_path, codec, codec)
    assert load_codecs(tmp_path)[0].symbols == codec.symbols


@pytest.mark.parametrize("symbols", ["<2de>", [1], {"a": 1}])
def test_damaged_symbols_are_one_fault(tmp_path, symbols):
    codec, _ = learn(settings("words", tmp_path), ENGLISH, GERMAN)
    save_codecs(tmp_path, codec, codec)
    about = json.loads((tmp_path / "codec.json").read_text())
    (tmp_path / "codec.json").write_text(json.dumps({**about, "symbols": symbols}))
    assert code_of(lambda: load_codecs(tmp_path)) == "D204"


@pytest.fixture
def mixed(tmp_path) -> DataSettings:
    """Two texts, of which the second has a tag and a validation text."""
    for name, lines in (("en", ENGLISH), ("de", GERMAN)):
        (tmp_path / f"a.{name}").write_text("".join(f"{line}\n" for line in lines))
        (tmp_path / f"b.{name}").write_text("".join(f"{line}\n" for line in lines[::-1]))
    (tmp_path / "codes").write_text(CODES)
    a, b = ((str(tmp_path / f"{name}.en"), str(tmp_path / f"{name}.de")) for name in "ab")
    texts = TrainingText(*a), TrainingText(*b, tag="<bt>", valid=b, name="made")
    codes = str(tmp_path / "codes")
    return DataSettings(train=texts, valid=a, subwords="codes", codes=codes, vocabulary_size=0)


def test_every_source_of_a_tagged_text_begins_with_its_tag(tmp_path, mixed):
    corpus = prepare(mixed, tmp_path / "corpus", Path())
    train, count = corpus.split("train"), len(ENGLISH)
    assert train.parts == [count, count]
    for i in range(2 * count):
        assert (train.source(i)[0] == 4) == (i >= count)
        assert 4 not in train.target(i)
    made = corpus.split("valid.made")
    assert all(made.source(i)[0] == 4 for i in range(count))
    assert corpus.lines("valid.made")[0] == [f"<bt> {line}" for line in ENGLISH[::-1]]
    assert corpus.lines("valid.made")[1] == GERMAN[::-1]
    valid = corpus.split("valid")
    assert not any(4 in valid.source(i) for i in range(count))
    np.testing.assert_array_equal(train.source(count)[1:], valid.source(count - 1))


def test_a_tag_is_no_reason_to_leave_a_pair_out(tmp_path, mixed):
    """Not by the ratio of lengths, nor by the longest."""
    longest = max(len(line.split()) for line in (*ENGLISH, *GERMAN))
    bounds = replace(mixed, max_ratio=1.2, max_tokens=longest, subwords="words", codes="")
    corpus = prepare(bounds, tmp_path / "corpus", Path())
    first, second = corpus.split("train").parts
    assert 0 < first == second < len(ENGLISH)


def test_a_corpus_is_that_of_its_tags(tmp_path, mixed):
    plain = replace(mixed, train=tuple(replace(text, tag="") for text in mixed.texts))
    other = replace(mixed, train=tuple(replace(text, tag=text.tag and "<x>") for text in mixed.texts))
    digests = {corpus_digest(one, Path()) for one in (mixed, plain, other, replace(plain, symbols=("<bt>",)))}
    assert len(digests) == 4
    assert plain.every_symbol == ()
    corpus = prepare(mixed, tmp_path / "corpus", Path())
    assert compiled_before(mixed, tmp_path / "corpus", Path()).digest == corpus.digest
    assert compiled_before(plain, tmp_path / "corpus", Path()) is None
