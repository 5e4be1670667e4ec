"""White space that a vocabulary lacks, read as a space: for every kind of vocabulary, and with the word of each piece."""

from itertools import chain

import pytest

from calque.data.codecs import split
from calque.data.spaced_codec import SpacedCodec
from calque.data.subwords import Codec, learn
from calque.experiment import DataSettings
from calque.ground.diagnostics import CalqueError

PLAIN = ["a dog runs over the green field", "a cat sleeps on the red chair", "the old man reads 28 pages"] * 20
FRENCH = ["vous venez\u00a0?", "non\u00a0!", "qui est venu\u00a0?", "le chien mange\u202f!"] * 20


def codec(lines: list[str], **settings: object) -> SpacedCodec:
    """A codec of a small text, with as many pieces as it has room for."""
    given = {"subwords": "unigram", "vocabulary_size": 1000, **settings}
    try:
        made: Codec = learn(DataSettings(**given), lines, lines)[0]  # type: ignore[arg-type]  # keys by name
    except CalqueError as fault:
        largest = {**given, "vocabulary_size": fault.diagnostics[0].fields["largest"]}
        made = learn(DataSettings(**largest), lines, lines)[0]  # type: ignore[arg-type]  # keys by name
    return SpacedCodec(made)


KINDS = pytest.mark.parametrize(
    "settings",
    [
        {},
        {"subwords": "bpe"},
        {"subwords": "words", "vocabulary_size": 0},
        {"byte_fallback": True},
    ],
)


@KINDS
@pytest.mark.parametrize(
    "line",
    [
        "a\u00a0dog\u00a0runs",
        "a\u2009dog runs",
        "a\u3000dog\u202fruns",
        "a\ndog\r\nruns",
        "a \u00a0 dog\u00a0\u00a0runs\u00a0",
        "a\u2028dog\u0085runs",
        "\ufeffa dog\u200b runs",
        "a d\u00adog ru\u00adns",
    ],
)
def test_white_space_that_is_not_known_is_a_space(settings: dict[str, object], line: str) -> None:
    read = codec(PLAIN, **settings)
    assert read.encode([line]) == read.encode(["a dog runs"])
    assert read.pieces(line) == read.pieces("a dog runs")


@KINDS
def test_what_the_vocabulary_knows_stays(settings: dict[str, object]) -> None:
    read = codec(FRENCH, **settings)
    assert [read.line(line) for line in FRENCH] == FRENCH
    assert read.line("le chien mange\u202f! non\u00a0!") == "le chien mange\u202f! non\u00a0!"


@KINDS
def test_pieces_belong_to_the_words_of_the_line(settings: dict[str, object]) -> None:
    read = codec(PLAIN, **settings)
    line = "a\u00a0dog  runs\u200b over\u00a0the\u00a0green field"
    words = split(line)
    assert len(words) == 4
    numbers = read.words(line)
    assert numbers == sorted(numbers)
    assert len(numbers) == len(read.encode([line])[0])
    joined = ["".join(c for c in piece if c.isalpha()) for piece in read.pieces(line)]
    for number, word in enumerate(words):
        own = "".join(piece for piece, of in zip(joined, numbers, strict=True) if of == number)
        assert own == "".join(filter(str.isalpha, word))


def test_other_lines_are_read_as_they_are() -> None:
    read = codec(PLAIN)
    lines = ["", " ", "a\tdog  runs ", "ein ü 走る"]
    assert read.encode(lines) == read.codec.encode(lines)
    assert [read.words(line) for line in lines] == [read.codec.words(line) for line in lines]
    assert read.encode(["\u00a0", "\n"]) == [[], []]


def test_a_line_without_spaces_is_read_in_one_pass() -> None:
    read = codec(PLAIN)
    line = "\u00a0".join(chain.from_iterable([["a", "dog", "runs"]] * 5000))
    assert read.encode([line]) == read.encode([line.replace("\u00a0", " ")])
