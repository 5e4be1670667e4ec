"""Lines in capitals and titles, read in the letters that a vocabulary knows."""

from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st
from test_subwords import ENGLISH, GERMAN, KINDS, settings

from calque.data.codecs import Codec, WordCodec
from calque.data.imported_codec import ImportedCodec, ImportedPieces
from calque.data.recased_codec import RecasedCodec, in_capitals
from calque.data.subwords import learn
from calque.data.tagged_codec import TaggedCodec
from calque.data.vocabulary import SPECIALS, Vocabulary
from calque.experiment import DataSettings

TEXT = [
    *("The man walks to the house of Anna in Berlin .", "A dog and the man see a red house with Anna ."),
    *("Anna walks with the dog to Berlin .", "The US has a dog . I see it . I do .", "What does a man do with a dog ?"),
    *("Does a man see a red house and a dog ?", "He has a dog and a house and a man .", "It has a man and a dog ."),
    *("Der Hund sieht das Haus in Berlin .", "Das große Haus der Anna und der Hund ."),
] * 9
SYMBOLS = ("<2de>",)


@pytest.fixture(scope="module")
def codec() -> Codec:
    made = learn(DataSettings(subwords="bpe", vocabulary_size=150, symbols=SYMBOLS), TEXT, TEXT)[0]
    assert len(made.encode(["house"])[0]) == len(made.encode(["Anna"])[0]) == len(made.encode(["US"])[0]) == 1
    return made


@pytest.mark.parametrize(
    ("line", "expected"),
    [
        ("THE MAN WALKS TO THE HOUSE OF ANNA .", "The man walks to the house of Anna ."),
        ("THE US HAS A DOG. I SEE IT", "The US has a dog. I see it"),
        ("A DOG ! THE MAN ?  WHAT", "A dog ! The man ?  What"),
        ("3 DOGS SEE IT", "3 dogs see it"),
        ("“THE DOG,” I SEE.", "“The dog,” I see."),
        ("<2de> THE MAN WALKS", "<2de> The man walks"),
        ("DER HUND SIEHT DAS HAUS", "Der Hund sieht das Haus"),
        ("THE GROßE HUND", "The große Hund"),
        ("ßA THE MAN", "ßa the man"),
        ("THE MAN SEES THE DOG m² WITH IT", "The man sees the dog m² with it"),  # a few small letters
        ("THE MAN\u00a0WALKS", "The man\u00a0walks"),
        ("The Man Walks With The Dog...", "The man walks with the dog..."),
        ("\tTHE  MAN ", "\tThe  man "),
        ("The Man Walks With The Dog", "The man walks with the dog"),
        ("<2de> The Man Walks With The Dog", "<2de> The man walks with the dog"),
        ("The Man of the House Walks With McAnna", "The man of the house walks with McAnna"),
    ],
)
def test_a_line_is_read_in_the_letters_that_the_vocabulary_knows(codec: Codec, line: str, expected: str) -> None:
    read = RecasedCodec(codec)
    assert read.line(line) == expected
    assert read.encode([line, "x"]) == codec.encode([expected, "x"])
    assert read.pieces(line) == codec.pieces(expected)
    assert read.words(line) == codec.words(expected)


@pytest.mark.parametrize(
    "line",
    [
        *(
            "",
            "  ",
            "US",
            "A",
            "1 2 3",
            "?!",
            "東京 US 会議",
            "The US has a dog",
            "WHAT does the man do",
            "US and USA in the NATO",
        ),
        "Ⅷ ⓐ Ⓐ Ⅷ Ⅷ",  # with capitals, and no letters
        *("The Man Walks With The Dog .", "The Man Walks With The Dog."),  # a sentence
        *("The Man Walks", "The Man Walks dog", "The Man walks With The Dog"),  # too short; words in small letters
        "Berlin, Berlin, Anna, Anna, Berlin",  # names
        "Das Haus der Anna und der Hund in Berlin",  # German nouns
        "The Man of a House in it to do a Dog",  # more than a third in small letters
    ],
)
def test_every_other_line_stays_as_it_is(codec: Codec, line: str) -> None:
    read = RecasedCodec(codec)
    assert read.line(line) == line
    assert read.in_letters_of(line, "Der Hund") == "Der Hund"


def test_a_translation_of_a_line_in_capitals_is_in_capitals(codec: Codec) -> None:
    read = RecasedCodec(codec)
    for line in ("THE MAN WALKS", "<2de> THE MAN WALKS"):
        assert read.in_letters_of(line, "Der große Hund <unk> <2de> x") == "DER GROSSE HUND <unk> <2de> X"
    assert read.in_letters_of("The Man Walks With The Dog", "Der Hund") == "Der Hund"
    assert codec.in_letters_of("THE MAN WALKS", "Der Hund") == "Der Hund"
    tagged = TaggedCodec(read, "<2de>", others=True)
    assert tagged.in_letters_of("THE MAN WALKS", "Der Hund") == "DER HUND"
    assert tagged.encode(["THE MAN WALKS"]) == codec.encode(["<2de> The man walks"])


def test_a_vocabulary_of_capitals_reads_them(tmp_path: Path) -> None:
    capitals = [line.upper() for line in TEXT]
    made = learn(DataSettings(subwords="bpe", vocabulary_size=90), capitals, capitals)[0]
    read = RecasedCodec(made)
    assert [read.line(line) for line in capitals] == capitals
    assert read.in_letters_of(capitals[0], "der Hund") == "der Hund"


def test_a_vocabulary_without_capitals_reads_small_letters_alone() -> None:
    small = [line.lower() for line in TEXT]
    for kind in ("words", "bpe"):
        made = learn(DataSettings(subwords=kind, vocabulary_size=90 if kind == "bpe" else 0), small, small)[0]
        assert RecasedCodec(made).line("THE MAN WALKS. A DOG") == "the man walks. a dog"


def test_words_that_a_vocabulary_lacks_count_first() -> None:
    read = RecasedCodec(WordCodec(Vocabulary(["The", "the", "man", "Anna", "NATO"])))
    assert read.line("THE MAN NATO ANNA UNKNOWN") == "The man NATO Anna unknown"


def test_bytes_are_read_in_small_letters() -> None:
    """Ids of bytes do not tell which letters are more frequent."""
    made = learn(DataSettings(subwords="bpe", vocabulary_size=267, byte_fallback=True), ["x y z"], ["x y z"])[0]
    assert RecasedCodec(made).line("THE MAN") == "THE MAN"  # as many bytes
    pieces = made.tokens(range(made.size))
    assert "▁x" in pieces
    assert RecasedCodec(made).line("THE MAN X Y Z") == "The man x y z"


def test_an_imported_codec_with_ids_around_each_line(codec: Codec) -> None:
    tokens = (*SPECIALS, ">>de<<", *codec.tokens(range(5, codec.size)), "__en__", "</x>")
    end = len(tokens) - 1
    pieces = ImportedPieces(tokens, hidden=(end - 1, end), first=(end - 1,), last=(end,), marks=True)
    read = RecasedCodec(ImportedCodec(codec.model, pieces))
    assert read.line(">>de<< THE MAN WALKS") == ">>de<< The man walks"
    assert read.encode(["THE MAN WALKS"]) == read.encode(["The man walks"])


def test_in_capitals() -> None:
    for line in ("A", "ÄÖ ß", "Б", "A 1", "ª A"):
        assert in_capitals(line) == (line != "ª A")
    assert in_capitals("ABCDEFGHIJKLMN op")
    for line in ("", "1", "a", "Aa", "ß", "Å 中", "ABCdEF", "ABCDEFGHIJK lmn", "ABCDEFGHIJKLMN 中 o"):
        assert not in_capitals(line)


@pytest.mark.parametrize("kind", KINDS)
def test_any_text_keeps_its_words(tmp_path: Path, kind: str) -> None:
    read = RecasedCodec(learn(settings(kind, tmp_path), ENGLISH, GERMAN)[0])

    @given(st.text(st.sampled_from("abcABC ßİıſǅΣσςﬁⅧⓐ.?!'\t-é中\u0301<unk>"), max_size=30))
    def check(line: str) -> None:
        seen = read.line(line)
        assert len(seen.split(" ")) == len(line.split(" "))
        assert seen.lower() == line.lower()
        assert len(read.words(line)) == len(read.encode([line])[0])
        assert read.in_letters_of(line, "x") in ("x", "X")

    check()
