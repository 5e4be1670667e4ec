"""Pairs that are cut off: whole words, in proportion, the same ones for the same seed."""

import pytest

from calque.data.codecs import Codec, MergeCodec, WordCodec
from calque.data.merges import Merges
from calque.data.prefix_pairs import beginnings, word_ends
from calque.data.subwords import learn
from calque.data.vocabulary import Vocabulary
from calque.experiment import DataSettings

WORDS = WordCodec(Vocabulary("abcdefghi"))
SOURCE, TARGET = WORDS.encode(["a b c d e f"])[0], WORDS.encode(["a b c d e f g h i"])[0]


def test_both_sides_are_cut_in_proportion() -> None:
    sources, targets = beginnings([SOURCE] * 300, [TARGET] * 300, (WORDS, WORDS), 1.0, 1)
    pairs = set(zip(map(len, sources), map(len, targets), strict=True))
    assert pairs == {(1, 1), (2, 3), (3, 4), (4, 6), (5, 7)}
    assert all(one == SOURCE[: len(one)] for one in sources)
    assert all(one == TARGET[: len(one)] for one in targets)


def test_a_share_of_them_drawn_by_the_seed() -> None:
    many = [SOURCE] * 1000
    first, again, other = (beginnings(many, many, (WORDS, WORDS), 0.3, seed)[0] for seed in (1, 1, 2))
    assert first == again != other
    assert 230 < sum(one != SOURCE for one in first) < 370
    assert beginnings(many, many, (WORDS, WORDS), 0.0, 1) == (many, many)


def test_one_word_stays_and_few_words_may_become_none() -> None:
    one = SOURCE[:1]
    assert beginnings([one, []], [TARGET, one], (WORDS, WORDS), 1.0, 1) == ([one, []], [TARGET, one])
    _, targets = beginnings([SOURCE] * 20, [one] * 20, (WORDS, WORDS), 1.0, 1)
    assert targets == [[]] * 20


@pytest.fixture(scope="module")
def pieces() -> Codec:
    lines = ["der Hund bellt laut, und der Kahn schaukelt.", "das Hausboot schaukelt, und der Hund schläft."] * 20
    settings = DataSettings(train=("x", "y"), valid=("x", "y"), subwords="bpe", vocabulary_size=60)
    return learn(settings, lines, lines)[0]


def test_pieces_of_a_word_stay_together(pieces: Codec) -> None:
    line = "das Hausboot schläft, und der Hund bellt."
    (ids,) = pieces.encode([line])
    assert len(ids) > len(line.split())
    assert [pieces.decode(ids[:end]) for end in word_ends(pieces, ids)] == [
        " ".join(line.split()[: n + 1]) for n in range(len(line.split()))
    ]
    codes = MergeCodec(Merges({}, "", False), Vocabulary(["Haus@@", "boot", "und"]))
    number = {token: i for i, token in enumerate(codec_tokens(codes))}
    assert word_ends(codes, [number[t] for t in ("Haus@@", "boot", "und", "Haus@@", "boot")]) == [2, 3, 5]


def codec_tokens(codec: Codec) -> list[str]:
    return codec.tokens(range(codec.size))


def test_symbols_are_no_words() -> None:
    codec = WordCodec(Vocabulary(["<2de>", *"abcdefghi"]))
    codec.symbols = ("<2de>",)
    (tagged,), (target,) = codec.encode(["<2de> a b c"]), codec.encode(["a b c d e f"])
    sources, targets = beginnings([tagged] * 50, [target] * 50, (codec, codec), 1.0, 1)
    assert {(codec.decode(a), codec.decode(b)) for a, b in zip(sources, targets, strict=True)} == {
        ("<2de> a", "a b"),
        ("<2de> a b", "a b c d"),
    }


class Closed(WordCodec):
    """Its sentences begin and end with ids of their own, as those of imported models."""

    begins, closes = (2,), (3, 3)


def test_what_every_sentence_begins_and_ends_with_stays() -> None:
    codec = Closed(Vocabulary("abcdefghi"))
    whole = [2, *SOURCE, 3, 3]
    assert word_ends(codec, whole) == [2, 3, 4, 5, 6, 7]
    sources, targets = beginnings([whole] * 50, [whole] * 50, (codec, codec), 1.0, 1)
    assert sources == targets
    assert {len(one) for one in sources} == {4, 5, 6, 7, 8}
    assert all(one == [2, *SOURCE[: len(one) - 3], 3, 3] for one in sources)
    assert codec.cut(whole, 5) == [2, *SOURCE[:2], 3, 3]
    assert word_ends(codec, []) == []
