"""Codecs against subword-nmt, plain counting, and themselves: round trips, unknown words, saving, faults."""

import io
import json
import math
import random
import subprocess
import sys
from collections import Counter
from dataclasses import replace
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from calque.data.codecs import WordCodec, difference, split
from calque.data.merges import Merges
from calque.data.subwords import learn, load_codecs, save_codecs
from calque.data.vocabulary import BOS, EOS, PAD, SPECIALS, UNK, Vocabulary
from calque.experiment import DataSettings
from calque.ground.diagnostics import CalqueError

ENGLISH = ["the small cat sleeps", "a big dog barks at the cat", "the dog sleeps on the big red sofa", "birds sing"]
ENGLISH += ["the cats and the dogs barked", "a singing bird and a barking dog", "small birds, bigger cats"]
GERMAN = ["die kleine Katze schläft", "ein großer Hund bellt die Katze an", "der Hund schläft auf dem Sofa", "Vögel"]
GERMAN += ["die Katzen und die Hunde bellten", "ein singender Vogel und ein bellender Hund", "kleine Vögel"]
CODES = "#version: 0.2\nt h\nth e</w>\ns l\nsl e\ne p\nc a\nca t</w>\nd o\ndo g</w>\nK a\nt z\ntz e</w>\n"


def settings(kind: str, folder: Path, joint: bool = True, **other) -> DataSettings:
    (folder / "codes").write_text(CODES, encoding="utf-8")
    size = {"bpe": 60, "unigram": 60 if joint else 36}.get(kind, 0)
    return DataSettings(
        **{"subwords": kind, "codes": str(folder / "codes"), "vocabulary_size": size, "joint": joint, **other}
    )


def code_of(call) -> str:
    with pytest.raises(CalqueError) as raised:
        call()
    assert "{" not in str(raised.value)
    return raised.value.diagnostics[0].code


KINDS = ("bpe", "unigram", "codes", "words")


@pytest.mark.parametrize("joint", [True, False])
@pytest.mark.parametrize("kind", KINDS)
def test_round_trip_and_reload(tmp_path, kind, joint):
    codecs = learn(settings(kind, tmp_path, joint), ENGLISH, GERMAN)
    assert (codecs[0] is codecs[1]) == joint
    model = tmp_path / "model"
    model.mkdir()
    save_codecs(model, *codecs)
    again = load_codecs(model)
    assert (again[0] is again[1]) == joint
    for codec, read, lines in zip(codecs, again, (ENGLISH, GERMAN), strict=True):
        ids = codec.encode(lines)
        assert [codec.decode(sentence) for sentence in ids] == lines
        assert all(UNK < i < codec.size for sentence in ids for i in sentence)
        assert read.encode(lines) == ids
        assert (read.kind, read.size) == (kind, codec.size)
        assert [read.decode(sentence) for sentence in ids] == lines
        assert codec.tokens(range(4)) == list(SPECIALS)
        assert codec.encode(["", "   "]) == [[], []]
        assert codec.decode([]) == ""


@pytest.mark.parametrize("kind", KINDS)
def test_specials_in_ids_and_in_text(tmp_path, kind):
    codec, _ = learn(settings(kind, tmp_path), ENGLISH, GERMAN)
    [ids] = codec.encode([ENGLISH[0]])
    assert codec.decode([BOS, *ids, EOS, PAD, PAD]) == ENGLISH[0]
    assert "<unk>" in codec.decode([*ids, UNK])
    [spelt] = codec.encode(["<s> </s> <pad> <unk>"])
    assert not {PAD, BOS, EOS} & set(spelt)  # text never yields a symbol that rules the sentence


@pytest.mark.parametrize("kind", KINDS)
def test_pieces_keep_the_surface_of_unknown_words(tmp_path, kind):
    codec, _ = learn(settings(kind, tmp_path), ENGLISH, GERMAN)
    line = "the 日 cat 本"
    [ids], pieces = codec.encode([line]), codec.pieces(line)
    assert len(ids) == len(pieces)
    unknown = [piece for i, piece in zip(ids, pieces, strict=True) if i == UNK]
    assert unknown == ["日", "本"]
    known = [(t, p) for i, t, p in zip(ids, codec.tokens(ids), pieces, strict=True) if i != UNK]
    assert all(token == piece for token, piece in known)


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("line", ["", "  the  cats\tbark ", "Ж\u00a0x @@ the@@", "▁ a▁b 12 unheard-of▁"])
def test_each_piece_is_a_part_of_the_word_it_stands_in(tmp_path, kind, line):
    codec, _ = learn(settings(kind, tmp_path), ENGLISH, GERMAN)
    numbers, pieces, words = codec.words(line), codec.pieces(line), split(line)
    assert len(numbers) == len(pieces) == len(codec.encode([line])[0])
    assert numbers == sorted(numbers)
    assert all(0 <= k < len(words) for k in numbers)
    marks = "@" if kind == "codes" else "▁\t " if kind in ("bpe", "unigram") else ""
    for k, word in enumerate(words):
        whole = "".join(piece for n, piece in zip(numbers, pieces, strict=True) if n == k)
        assert whole.translate(dict.fromkeys(map(ord, marks))) == word.translate(dict.fromkeys(map(ord, marks)))


@pytest.mark.parametrize("kind", ["bpe", "unigram"])
def test_characters_without_a_piece_become_bytes(tmp_path, kind):
    codec, _ = learn(settings(kind, tmp_path, byte_fallback=True, vocabulary_size=310), ENGLISH, GERMAN)
    line = "the 日本 cat, é and 😀 birds"
    [ids], pieces = codec.encode([line]), codec.pieces(line)
    assert UNK not in ids
    assert codec.decode(ids) == line
    assert sum(piece.startswith("<0x") for piece in pieces) == 3 + 3 + 2 + 4
    numbers, words = codec.words(line), split(line)
    for k, word in enumerate(words):
        own = [i for i, n in zip(ids, numbers, strict=True) if n == k]
        assert codec.decode(own).strip() == word
    save_codecs(tmp_path, codec, codec)
    assert load_codecs(tmp_path)[0].encode([line]) == [ids]
    # A model may write any bytes: a line stays one line, and bytes that are no character are read as U+FFFD.
    byte = {piece: i for i, piece in enumerate(codec.tokens(range(codec.size)))}
    assert codec.decode([*ids[:1], byte["<0x0A>"], byte["<0x0D>"], byte["<0xE6>"]]).splitlines() == [
        f"{codec.decode(ids[:1])}  \ufffd"
    ]


AGAIN = """
import json, pathlib, sys
from calque.data.subwords import load_codecs
print(json.dumps(load_codecs(pathlib.Path(sys.argv[1]))[0].cut_anew(json.loads(sys.argv[3]), 0.3, 5)))
"""


@pytest.mark.parametrize("kind", ["bpe", "unigram"])
def test_words_are_cut_anew_at_random(tmp_path, kind):
    codec, _ = learn(settings(kind, tmp_path), ENGLISH, GERMAN)
    save_codecs(tmp_path, codec, codec)
    usual = codec.encode([*ENGLISH, *GERMAN, "a cat ☃", ""])
    drawn = codec.cut_anew(usual, 0.3, 5)
    assert drawn == codec.cut_anew(usual, 0.3, 5) != codec.cut_anew(usual, 0.3, 6)
    assert [codec.decode(ids) for ids in drawn] == [codec.decode(ids) for ids in usual]
    assert drawn[:-2] != usual[:-2]
    assert drawn[-2][-1] == UNK
    assert drawn[-1] == []
    assert codec.cut_anew([], 0.3, 5) == []
    command = [sys.executable, "-c", AGAIN, str(tmp_path), "", json.dumps(usual)]
    assert (
        json.loads(subprocess.run(command, capture_output=True, check=True).stdout) == drawn
    )  # in another process, too
    if kind == "bpe":
        assert codec.cut_anew(usual, 1e-9, 5) == usual
        letters = codec.cut_anew(usual[:-2], 1.0, 5)
        assert all(len(piece) == 1 for ids in letters for piece in codec.tokens(ids))


def test_a_word_that_the_vocabulary_lacks_stays_as_it_is(tmp_path):
    codec, _ = learn(settings("bpe", tmp_path, byte_fallback=True, vocabulary_size=310), ENGLISH, GERMAN)
    [usual] = codec.encode(["the dogs é日 bark"])
    [drawn] = codec.cut_anew([usual], 1.0, 2)
    assert codec.decode(drawn) == "the dogs é日 bark"
    own = [piece for piece in codec.tokens(usual) if piece.startswith("<0x")]
    assert [piece for piece in codec.tokens(drawn) if piece.startswith("<0x")] == own != []
    assert len(drawn) > len(usual)


def test_a_merge_is_left_out_with_its_probability(tmp_path):
    codec, _ = learn(settings("bpe", tmp_path, vocabulary_size=8), ["x x x y"], ["x x"])
    [whole] = codec.encode(["x"])
    assert len(whole) == 1
    drawn = codec.cut_anew([whole] * 4000, 0.3, 1)
    assert sum(ids != whole for ids in drawn) / 4000 == pytest.approx(0.3, abs=0.03)  # four standard deviations


def test_a_cut_is_drawn_with_a_power_of_its_probability(tmp_path):
    """Against all cuts of a word, by the scores of their pieces."""
    codec, _ = learn(settings("unigram", tmp_path), ENGLISH, GERMAN)
    processor = codec._processor
    pieces = {processor.id_to_piece(i): i for i in range(4, codec.size)}

    def cuts(text: str) -> list[list[int]]:
        heads = [text[:n] for n in range(1, len(text) + 1) if text[:n] in pieces]
        return [[pieces[head], *rest] for head in heads for rest in (cuts(text[len(head) :]) if head != text else [[]])]

    every = cuts("▁cats")
    weights = [math.exp(0.5 * sum(processor.get_score(i) for i in cut)) for cut in every]
    counts = Counter(map(tuple, codec.cut_anew(codec.encode(["cats"]) * 4000, 0.5, 3)))
    assert len(every) > 2
    assert set(counts) <= set(map(tuple, every))
    for cut, weight in zip(every, weights, strict=True):
        assert counts[tuple(cut)] / 4000 == pytest.approx(weight / sum(weights), abs=0.032)


@pytest.mark.parametrize("kind", ["codes", "words"])
def test_words_of_other_kinds_have_one_cut(tmp_path, kind):
    codec, _ = learn(settings(kind, tmp_path), ENGLISH, GERMAN)
    assert code_of(lambda: codec.cut_anew([], 0.1, 1)) == "X229"


@pytest.mark.parametrize("kind", KINDS)
def test_learning_is_deterministic(tmp_path, kind):
    for name in ("a", "b"):
        (tmp_path / name).mkdir()
        save_codecs(tmp_path / name, *learn(settings(kind, tmp_path), ENGLISH, GERMAN))
    files = sorted(f.name for f in (tmp_path / "a").iterdir())
    assert files == sorted(f.name for f in (tmp_path / "b").iterdir())
    assert all((tmp_path / "a" / f).read_bytes() == (tmp_path / "b" / f).read_bytes() for f in files)


def test_odd_white_space_belongs_to_words(tmp_path):
    line = "a\u0085b c\u00a0d"
    codec, _ = learn(DataSettings(subwords="words", vocabulary_size=0), [line], [line])
    assert codec.decode(codec.encode([line])[0]) == line
    assert codec.size == len(SPECIALS) + 2


def test_sentencepiece_does_not_rewrite_characters(tmp_path):
    line = "½ … ﬁn Å Ａ"  # NFKC would change each
    codec, _ = learn(settings("bpe", tmp_path, vocabulary_size=18), [line] * 5, [line])
    assert codec.decode(codec.encode([line])[0]) == line


def subword_nmt(codes: str):
    apply_bpe = pytest.importorskip("subword_nmt.apply_bpe")
    return apply_bpe.BPE(io.StringIO(codes))


@pytest.mark.parametrize("version", ["#version: 0.2\n", "#version: 0.1\n", ""])
@pytest.mark.parametrize("seed", range(20))
def test_merges_are_those_of_subword_nmt(tmp_path, version, seed):
    rng = random.Random(seed)
    # Merges that build on each other, in any order, with repetitions.
    symbols = [*"abc", "a</w>", "b</w>", *(["</w>"] if "0.2" not in version else [])]
    merges = []
    for _ in range(30):
        left, right = rng.choice([s for s in symbols if "</w>" not in s]), rng.choice(symbols)
        merges.append((left, right))
        symbols.append(left + right)
    codes = version + "".join(f"{a} {b}\n" for a, b in rng.sample(merges, len(merges)))
    path = tmp_path / "codes"
    path.write_text(codes, encoding="utf-8")
    ours, theirs = Merges.read(path), subword_nmt(codes)
    for _ in range(200):
        word = "".join(rng.choice("aaabbc") for _ in range(rng.randint(1, 12)))
        want = [piece.removesuffix("@@") for piece in theirs.segment_tokens([word])]
        assert ours.apply(word) == want, word


def test_codes_codec_segments_like_subword_nmt(tmp_path):
    codec, _ = learn(settings("codes", tmp_path), ENGLISH, GERMAN)
    for line in ENGLISH + GERMAN:
        segmented = subword_nmt(CODES).segment(line).split(" ")
        assert codec.pieces(line) == segmented
        assert codec.tokens(codec.encode([line])[0]) == segmented


@given(
    st.dictionaries(st.text("abcdé", min_size=1, max_size=3), st.integers(1, 4)), st.integers(4, 12), st.integers(1, 3)
)
def test_vocabulary_keeps_the_most_frequent(counts, size, minimum):
    kept = Vocabulary.count(counts, size, minimum).tokens[len(SPECIALS) :]
    assert len(kept) == min(size - len(SPECIALS), sum(n >= minimum for n in counts.values()))
    out = [n for token, n in counts.items() if token not in kept and n >= minimum]
    assert not kept or not out or min(counts[t] for t in kept) >= max(out)
    backwards = dict(reversed(counts.items()))
    assert Vocabulary.count(backwards, size, minimum).tokens[len(SPECIALS) :] == kept


def test_minimum_count_and_size_reach_the_codec(tmp_path):
    counts = Counter(word for line in ENGLISH + GERMAN for word in line.split(" "))
    codec, _ = learn(settings("words", tmp_path, minimum_count=2), ENGLISH, GERMAN)
    assert codec.size == len(SPECIALS) + sum(n >= 2 for n in counts.values())
    codec, _ = learn(settings("words", tmp_path, vocabulary_size=7), ENGLISH, GERMAN)
    assert [counts[t] for t in codec.tokens(range(4, 7))] == [n for _, n in counts.most_common(3)]
    assert codec.size == 7
    separate = learn(settings("words", tmp_path, joint=False), ENGLISH, GERMAN)
    assert [c.size - 4 for c in separate] == [
        len({w for x in lines for w in x.split(" ")}) for lines in (ENGLISH, GERMAN)
    ]


@pytest.mark.parametrize("kind", ["bpe", "unigram"])
def test_vocabulary_too_large_names_a_size_that_works(tmp_path, kind):
    with pytest.raises(CalqueError) as raised:
        learn(settings(kind, tmp_path, vocabulary_size=5000), ENGLISH, GERMAN)
    [found] = raised.value.diagnostics
    assert found.code == "D201"
    assert f"{found.fields['largest']} or less" in str(raised.value)
    largest = int(found.fields["largest"])
    assert learn(settings(kind, tmp_path, vocabulary_size=largest), ENGLISH, GERMAN)[0].size == largest


def test_vocabulary_too_small_names_a_size_that_works(tmp_path):
    with pytest.raises(CalqueError) as raised:
        learn(settings("unigram", tmp_path, vocabulary_size=8), ENGLISH, GERMAN)
    [found] = raised.value.diagnostics
    assert found.code == "D205"
    smallest = int(found.fields["smallest"])
    assert learn(settings("bpe", tmp_path, vocabulary_size=smallest), ENGLISH, GERMAN)[0].size == smallest


@pytest.mark.parametrize(
    ("body", "line"),
    [("#version: 0.2\na b\na b c\n", 3), ("a b\n\nc d\n", 2), ("x\n", 1), ("", None), ("#version: 0.2\n", None)],
)
def test_bad_merges(tmp_path, body, line):
    path = tmp_path / "bad"
    path.write_text(body, encoding="utf-8")
    with pytest.raises(CalqueError) as raised:
        learn(DataSettings(subwords="codes", codes="bad"), ENGLISH, GERMAN, tmp_path)
    assert [(d.code, d.where.line) for d in raised.value.diagnostics] == [("D202", line)]


def test_settings_that_cannot_be_met(tmp_path):
    assert code_of(lambda: learn(DataSettings(subwords="codes"), ENGLISH, GERMAN)) == "D203"
    assert code_of(lambda: learn(DataSettings(subwords="codes", codes="none"), ENGLISH, GERMAN, tmp_path)) == "D101"
    for kind in KINDS:
        assert code_of(lambda k=kind: learn(settings(k, tmp_path), ["", " "], [])) == "D206"
    assert code_of(lambda: learn(settings("bpe", tmp_path, vocabulary_size=0), ENGLISH, GERMAN)) == "D207"
    for few in ({"vocabulary_size": 4}, {"vocabulary_size": 0, "minimum_count": 10**6}):
        for kind in ("codes", "words"):
            assert code_of(lambda k=kind, f=few: learn(settings(k, tmp_path, **f), ENGLISH, GERMAN)) == "D208"


def test_damaged_codecs(tmp_path):
    bodies = {"codec.json": [b"{", b"[]", b'{"format": 9}', b'{"format": 1, "joint": true, "source": [], "target": 1}']}
    for kind in KINDS:
        folder = tmp_path / f"saved {kind}"
        folder.mkdir()
        save_codecs(folder, *learn(settings(kind, tmp_path), ENGLISH, GERMAN))
        for file in sorted(folder.iterdir()):
            good = file.read_bytes()
            for bad in bodies.get(file.name, [b"", good[:-5] + good[:20]]):
                file.write_bytes(bad)
                assert code_of(lambda f=folder: load_codecs(f)) in ("D204", "D202")
            file.unlink()
            assert code_of(lambda f=folder: load_codecs(f)) == "D101"
            file.write_bytes(good)
        load_codecs(folder)


@pytest.mark.parametrize("kind", ["bpe", "unigram"])
def test_long_lines_are_learned_from(tmp_path, kind):
    """sentencepiece alone ignores lines of more than 4,192 bytes."""
    greek = " ".join(["το μικρό γατάκι κοιμάται"] * 120)
    assert len(greek.encode()) > 4192
    codec, _ = learn(replace(settings(kind, tmp_path), vocabulary_size=40), ENGLISH, [greek] * 9)
    (ids,) = codec.encode([greek])
    assert UNK not in ids
    assert codec.decode(ids) == greek


@pytest.mark.parametrize("kind", ["bpe", "unigram"])
def test_tabs_are_spaces(tmp_path, kind):
    tabs = [line.replace(" ", "\t") for line in ENGLISH]
    codec, _ = learn(settings(kind, tmp_path), tabs, GERMAN)
    assert codec.encode(["\t", " \t "]) == [[], []]
    assert codec.encode(tabs) == codec.encode(ENGLISH)
    assert [codec.decode(ids) for ids in codec.encode(tabs)] == ENGLISH
    assert codec.pieces(tabs[0]) == codec.pieces(ENGLISH[0])


def test_the_first_entry_in_which_vocabularies_differ():
    one, other = (WordCodec(Vocabulary.count(Counter(words.split()), 0, 1)) for words in ("a a b", "a a b c"))
    assert difference(one, one) is None
    assert difference(one, WordCodec(one.vocabulary)) is None
    assert difference(one, other) == difference(other, one) == one.size
    third = WordCodec(Vocabulary.count(Counter(["a", "a", "d"]), 0, 1))
    assert difference(one, third) == one.size - 1
