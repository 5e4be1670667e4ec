"""What a page in the browser does with text in JavaScript is what Calque does in Python."""

import random
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from page_codecs import TEXT, imported, pieces_of
from sentencepiece import sentencepiece_model_pb2
from web_pages import Page, opened, text_page

from calque.data.codecs import Codec
from calque.data.imported_codec import ImportedCodec
from calque.data.recased_codec import RecasedCodec
from calque.data.spaced_codec import SpacedCodec
from calque.data.tagged_codec import TaggedCodec
from calque.decode.divided import between, sentences_in
from calque.exchange.page_text import text_of
from calque.ground.diagnostics import CalqueError, Place

ODD = [
    "",
    " ",
    "  two  spaces  and a\ttab ",
    "▁ marks ▁▁ of the library ▁",
    "unknown: 犬が走る ßẞ Ω … №5 😀👍🏽",
    "a no\u00a0break space, a nar\u202frow one, a soft\u00adhyphen, no\u200bwidth \ufeffhere\u2028there",
    "control \x1c and \x85 characters",
    "TWO DOGS RUN THROUGH THE SNOW.",
    "ZWEI HUNDE RENNEN DURCH DEN SCHNEE! EIN ALTER MANN LIEST DIE ZEITUNG",
    "KINDER SPIELEN FUßBALL IM PARK, 3 km",
    "Two Dogs Run Through The Snow",
    "Children Are Playing Football: The Dog's Hat Is Blue",
    "A TAG <unk> IN THE LINE <2fr>",
    "<2fr> Two dogs run.",
    "</s> <s> <pad> <unk>",
    "<2fr>dogs<2de><2fr>run",
    "ΣΊΣΥΦΟΣ İstanbul ǅ ŉ ﬁ",
    "HENRY Ⅷ AND Ⓐ",
    "A DOG RUNS.\x85A man sleeps.\x1cTwo men. \ufeffA dog.",
    "\ufeffTwo Dogs\ufeffRun Through\ufeff The Snow \ufeff",
    "a ▁ ▁",
]
"""Lines on which readers of text may differ."""
SENTENCES = [
    "One. Two! Three?  Four",
    'He said "no." Then (yes!) he went... home. And J. Smith came. e.g. this',
    "Wait... What?! Ünder. über. Änder. 3. 4 of 5.",
    "今日は。明日は！ええ？「はい。」それ",
    "Mixed。 English. 日本語. ok",
    "",
    " . ",
    "¿Qué? ¡Sí! No",
    "One.\x85Two.\x1cThree.\ufeffFour. \ufeffFive",
    "One! 𐐨two. 𐐀three. 𝐀. four 𝐚. 5 J. 6",
    "\ufeff. a",
    "Dr. Smith and Mrs. Jones met on 3. May. At 24. December? Room 101. Then BBC. And TV. Then Hmm. Xylphs. So",
    "Am 1. Mai. 12. 2024. The D. The dr. X 𝐀Dr. Y aDr. B 2Dr. C Mr.X. Mr. _Dr. A Straßenbahnnr. Nr. 5",
    "यह एक वाक्य है। यह दूसरा है॥ तीसरा",
    "هل هذا سؤال؟ نعم. یہ جملہ ہے۔ دوسرا",
    "Ողջույն։ Այո։ ሰላም። አዎ፧ እሺ မင်္ဂလာပါ။ ဟုတ်ကဲ့ សួស្តី។ បាទ៕ ok",
]


def lines_like(text: list[str], count: int, seed: int = 1) -> list[str]:
    """Lines made of the words of a text, some in other letters, some with other characters between them."""
    draw, words = random.Random(seed), " ".join(text).split()
    odd = "\u00a0\ufeff\x85\x1c\u3000\u200bⅧⓐⒶ𝐚𐐨𐐀½⺀.!?…。 "
    change = (
        str,
        str,
        str.upper,
        str.title,
        str.lower,
        lambda word: word[::-1],
        lambda word: word + draw.choice(odd) + "!",
    )
    joined = (
        " ".join(draw.choice(change)(word) for word in draw.choices(words, k=draw.randint(1, 9))) for _ in range(count)
    )
    return [draw.choice((str, str, str.upper, str.title))(line) for line in joined]


KINDS = {
    "unigram": lambda: pieces_of("unigram", 120),
    "unigram with bytes": lambda: pieces_of("unigram", 370, bytes_too=True),
    "unigram with symbols": lambda: pieces_of("unigram", 120, symbols=("<2fr>", "<2de>", "<2")),
    "unigram with symbols like words": lambda: pieces_of(
        "unigram", 120, symbols=("▁▁", "dogs", "a▁dog", "Ein", "ä", "Straße")
    ),
    "bpe": lambda: pieces_of("bpe", 300),
    "bpe with bytes": lambda: pieces_of("bpe", 600, bytes_too=True),
    "bpe with symbols": lambda: pieces_of("bpe", 300, symbols=("<2fr>", "<2de>", "<2")),
}
IMPORTED = {
    "imported, NFKC": lambda: imported("unigram", 110),
    "imported, BPE with bytes, small letters": lambda: imported(
        "bpe", 560, byte_fallback=True, normalization_rule_name="nfkc_cf", user_defined_symbols=["<x>", "Hund"]
    ),
    "imported, spaces stay": lambda: imported(
        "unigram", 110, normalization_rule_name="identity", remove_extra_whitespaces=False, unk_surface="?"
    ),
    "imported, no space in front": lambda: imported("bpe", 300, add_dummy_prefix=False),
    "imported, nothing is normalised": lambda: imported(
        "unigram", 110, add_dummy_prefix=False, remove_extra_whitespaces=False, normalization_rule_name="identity"
    ),
    "imported, with marks": lambda: imported("unigram", 110, {"marks": True}, user_defined_symbols=["<x>"]),
    "imported, text in front": lambda: imported("unigram", 110, {"text": "translate: ", "last": (2, 5)}),
    "imported, ids in front": lambda: imported("unigram", 110, {"begins": (5,), "first": (4, 5)}),
}
"""Ways to cut text of models that were imported."""
NORMALISED = [
    "ﬁne ①②③ Ｆｕｌｌ ｗｉｄｔｈ ﾊﾝｶｸ ｶﾞ ½ ㎏ ™ …",
    "e\u0301 E\u0308 n\u0303 한글 \u1112\u1161\u11ab 각",
    "a\u3000wide\u00a0space\u2009thin\u200bnone \u00ad\ufeff\ufffd",
    "ÄÖÜ ẞ ǅ İI ıi ΑΣ ς Straße",
    ">>deu<< A dog runs.",
    ">>deu<<A dog",
    ">>fra<< Two dogs <x> run",
    "<x><x>dog<x> Hundehund Hund",
    "a dog <unk> </s> <0x41> ▁elsewhere __de__ <s2>",
    "\x00\x01\x7f\x9f\ue000\U0001f600\U000e0001",
]
"""Lines that are normalised."""
LINES = [*TEXT, *ODD, *NORMALISED, *lines_like(TEXT, 300)]


@pytest.fixture(scope="module", params=[*KINDS, *IMPORTED])
def read(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[Codec, Page]]:
    """A codec, and a page that reads text by it."""
    codec = {**KINDS, **IMPORTED}[request.param]()
    with opened(text_page(tmp_path_factory.mktemp("read"), codec)) as page:
        yield codec, page


@pytest.mark.medium
def test_text_is_cut_as_the_library_cuts_it(read: tuple[Codec, Page]) -> None:
    codec, page = read
    for line, ids in zip(LINES, page.ask("cut", LINES), strict=True):
        assert ids == codec.encode([line])[0], line


def test_pieces_are_joined_as_the_library_joins_them(read: tuple[Codec, Page]) -> None:
    codec, page = read
    draw = random.Random(3)
    given = [[draw.randrange(codec.size) for _ in range(draw.randint(0, 12))] for _ in range(200)]
    some = [*codec.encode(LINES), *given]
    for ids, text in zip(some, page.ask("join", some), strict=True):
        assert text == codec.decode(ids), ids


@pytest.mark.medium
def test_lines_are_read_as_a_translator_reads_them(read: tuple[Codec, Page]) -> None:
    codec, page = read
    reader = RecasedCodec(SpacedCodec(codec))
    for line, found in zip(LINES, page.ask("read", [[line, ""] for line in LINES]), strict=True):
        assert (found["ids"], found["lowers"]) == (reader.encode([line])[0], reader.lowers(line)), line
    assert any(reader.line(line) != line for line in LINES) or codec.encode(["A"]) == codec.encode(["a"])


def test_a_tag_stands_in_front_of_every_line_without_a_symbol(tmp_path: Path) -> None:
    codec = pieces_of("unigram", 120, symbols=("<2fr>", "<2de>"))
    reader = TaggedCodec(RecasedCodec(SpacedCodec(codec)), "<2fr>", others=True)
    with opened(text_page(tmp_path, codec)) as page:
        for line, found in zip(LINES, page.ask("read", [[line, "<2fr>"] for line in LINES]), strict=True):
            assert found["ids"] == reader.encode([line])[0], line


def test_letters_may_be_read_as_they_are(tmp_path: Path) -> None:
    codec = pieces_of("unigram", 120)
    with opened(text_page(tmp_path, codec, recase=False)) as page:
        found = page.ask("read", [[line, ""] for line in LINES])
    assert [one["ids"] for one in found] == SpacedCodec(codec).encode(LINES)
    assert not any(one["lowers"] for one in found)


@pytest.mark.parametrize(
    ("change", "reason"),
    [
        (lambda model: setattr(model.trainer_spec, "model_type", 3), "words or characters"),
        (lambda model: setattr(model.trainer_spec, "treat_whitespace_as_suffix", True), "the space before a word"),
        (lambda model: setattr(model.pieces[9], "type", 5), "not used"),
        (lambda model: model.denormalizer_spec.CopyFrom(model.normalizer_spec), "rewrites the text"),
    ],
)
def test_a_model_that_a_page_cannot_follow_is_refused(change: Callable[[Any], None], reason: str) -> None:
    codec = imported("unigram", 110)
    proto = sentencepiece_model_pb2.ModelProto.FromString(codec.model)
    change(proto)
    with pytest.raises(CalqueError, match=f"X520.*imported.*{reason}"):
        text_of(ImportedCodec(proto.SerializeToString(), codec.listed), "source", "a web page", Place("run"))


def test_bytes_may_stand_in_any_order(tmp_path: Path) -> None:
    codec = imported("bpe", 560, byte_fallback=True)
    proto = sentencepiece_model_pb2.ModelProto.FromString(codec.model)
    of_bytes = [one for one in proto.pieces if one.type == 6]
    names = [one.piece for one in of_bytes]
    for one, name in zip(of_bytes, reversed(names), strict=True):
        one.piece = name
    turned = ImportedCodec(proto.SerializeToString(), codec.listed)
    some = turned.encode(ODD)
    with opened(text_page(tmp_path, turned)) as page:
        assert page.ask("cut", ODD) == some
        assert page.ask("join", some) == [turned.decode(ids) for ids in some]


def test_sentences_end_where_calque_ends_them(tmp_path: Path) -> None:
    with opened(text_page(tmp_path, pieces_of("bpe", 300))) as page:
        lines = [*SENTENCES, *LINES]
        for line, found in zip(lines, page.ask("sentences", lines), strict=True):
            assert [tuple(pair) for pair in found] == list(sentences_in(line)), line
        parts = [(one, space, other) for one in SENTENCES for other in SENTENCES for space in ("", " ", "\u3000")]
        assert page.ask("between", parts) == [between(*part) for part in parts]


@pytest.mark.parametrize("text", ["x" * 300, "x，" * 100, "x" * 3000])
def test_text_without_spaces_is_translated_in_parts(text: str, tmp_path: Path) -> None:
    codec = pieces_of("bpe", 300)
    with opened(text_page(tmp_path, codec)) as page:
        parts = page.ask("parts", [text])[0]
    assert "".join(one for one, _ in parts) == text
    assert {space for _, space in parts} == {""}
    assert max(len(ids) for ids in codec.encode([one for one, _ in parts])) <= 63
    assert text != "x，" * 100 or all(one.endswith("，") for one, _ in parts)
