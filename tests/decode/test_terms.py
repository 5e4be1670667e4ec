"""Lists of terms: where a line has one, and what is wrong with a bad list."""

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

import pytest
from decode_oracle import varied

from calque.data.codecs import Codec, MergeCodec, WordCodec
from calque.data.merges import Merges
from calque.data.subwords import learn
from calque.data.vocabulary import BOS, UNK, Vocabulary
from calque.decode.again import lacking
from calque.decode.required import distinct, lacks
from calque.decode.sentences import Sentence, Translation, Translator
from calque.decode.terms import Cuts, edges_of, load_terms, stands_in, words_of
from calque.decode.translate import translate_lines
from calque.experiment import DataSettings, DecodeSettings
from calque.ground.diagnostics import CalqueError, Place

WORDS = WordCodec(Vocabulary(["Haus", "Hauses", "Boot", "Bootshaus", "das", "Das", "US", "uns", "Zug"]))


def forms_of(texts: list[str], codec: Codec, place: Place | None = None):
    return Cuts(codec, texts).forms(texts, place or Place("list", 1))


def load(tmp_path: Path, text: str, codec: Codec = WORDS):
    path = tmp_path / "terms.tsv"
    path.write_text(text, encoding="utf-8")
    return load_terms(path, codec)


def test_words_are_whole_and_characters_where_a_script_has_no_spaces() -> None:
    assert words_of("The boat-house, e.g. №5 'x'") == (
        *("The", "boat", "-", "house", ",", "e", ".", "g", ".", "№", "5", "'", "x", "'"),
    )
    assert words_of("GPU机器 เรือ")[:3] == ("GPU", "机", "器")
    assert words_of("किताब कि") == ("किताब", "कि")  # marks belong to their letters
    assert words_of("cafe\u0301 a_b") == ("caf\u00e9", "a_b")


def test_the_longest_terms_count_from_left_to_right(tmp_path: Path) -> None:
    terms = load(tmp_path, "boat\tBoot\nboat house\tBootshaus\n\nhouse\tHaus\tHauses\nus\tuns\nUS\tUS\n")

    def found(line: str) -> list[str]:
        return [WORDS.decode(forms[0]) for forms in terms.of(line)]

    assert found("a Boat, a boat house; houses and HOUSE!") == ["Boot", "Bootshaus", "Haus"]
    assert found("the US and us, Us") == ["US", "uns", "uns"]
    assert found("boathouse") == []
    assert found("") == []
    assert terms.of("house") == [tuple(map(tuple, WORDS.encode(["Haus", "Hauses"])))]


def test_a_term_with_a_capital_letter_is_found_as_it_is_written(tmp_path: Path) -> None:
    terms = load(tmp_path, "Polish\tZug\n")
    assert terms.of("Polish it")
    assert not terms.of("polish it")
    assert terms.of("POLISH IT!")  # all of the line is in capitals
    assert not terms.of("POLISH it")


def test_a_form_may_begin_a_sentence() -> None:
    assert forms_of(["das"], WORDS) == (tuple(WORDS.encode(["das"])[0]), (BOS, *WORDS.encode(["Das"])[0]))
    assert forms_of(["uns"], WORDS) == (tuple(WORDS.encode(["uns"])[0]),)  # the vocabulary has no `Uns`


def test_every_wrong_line_is_told(tmp_path: Path) -> None:
    with pytest.raises(CalqueError) as caught:
        load(tmp_path, "boat Boot\nboat\tBoot\t\t\nboat\tZug\ntrain\tBahn\n\tHaus\nhouse\t\tHaus\nus\tuns\n!?\n")
    told = [(one.code, one.where.line) for one in caught.value.diagnostics if one.code != "D110"]
    assert told == [("D608", 1), ("D609", 3), ("D610", 4), ("D608", 5), ("D608", 6)]
    assert caught.value.diagnostics[-1].code == "D110"
    assert caught.value.diagnostics[-1].fields["more"] == 1


@pytest.mark.parametrize("text", ["", "\n \n"])
def test_a_list_without_terms_is_told(tmp_path: Path, text: str) -> None:
    with pytest.raises(CalqueError, match="D106"):
        load(tmp_path, text)


def test_terms_of_lines_are_in_their_translations(tmp_path: Path) -> None:
    source, target = WordCodec(Vocabulary("abcdefghi")), WordCodec(Vocabulary("ABCDEFGHI"))
    decode = DecodeSettings(beam=3, max_length_factor=1.3, max_length_offset=1)
    loaded = Translator(varied("rnmt"), source, target, decode)
    terms = load(tmp_path, "a b\tI H\nd\tG\tF\n", target)
    lines = ["a b c", "d a b", "c", "", "d"]
    free = translate_lines(loaded, lines)
    found = translate_lines(replace(loaded, terms=terms), lines)
    for line, each, before in zip(lines, found, free, strict=True):
        required = terms.of(line)
        assert not lacks(tuple(required), each[0].ids, edges_of(target))
        if not required:
            assert each == before
    assert [each[0].text for each in found] != [each[0].text for each in free]


def test_a_phrase_stands_behind_other_text_where_a_script_has_no_spaces() -> None:
    text = ["机器 学习 。", "深度 学习 机器 。", "我 学习 。", "机器 深度 。"] * 20
    lines = [line.replace(" ", "") for line in text]
    settings = DataSettings(vocabulary_size=30, subwords="bpe")
    codec = learn(settings, lines, lines)[0]
    begin, behind = forms_of(["机器"], codec)
    assert codec.decode(begin) == codec.decode(behind) == "机器"
    assert codec.tokens(begin)[0].startswith("▁")
    assert not codec.tokens(behind)[0].startswith("▁")
    assert UNK not in begin + behind


def test_a_phrase_may_stand_behind_a_bracket() -> None:
    lines = ["das Haus ( Haus )", "(das) Haus (", "ein Haus ) (", "Hausboot"] * 20
    codec = learn(DataSettings(vocabulary_size=25, subwords="bpe"), lines, lines)[0]
    required, edges = distinct([forms_of(["Haus"], codec)]), edges_of(codec)
    for text, expected in (
        ("(Haus)", True),
        ("das Haus", True),
        ("Hausboot", False),
        ("dasHaus", False),
        ("das", False),
    ):
        assert lacks(required, codec.encode([text])[0], edges) != expected


def test_the_shortest_form_can_begin_anywhere() -> None:
    class Cutter(WordCodec):
        """Writes a space as a piece of its own, but not behind a bracket."""

        def encode(self, lines: Sequence[str]) -> list[list[int]]:
            cuts = {"Haus": "▁ Haus", "(": "▁(", "(Haus": "▁( Haus", "机": "▁ 机", "。": "▁。", "。机": "▁。 机"}
            return super().encode([cuts.get(line, "never-seen") for line in lines])

    codec = Cutter(Vocabulary(["▁", "Haus", "▁(", "机", "▁。"]))
    assert [codec.tokens(form) for form in forms_of(["Haus"], codec)] == [["▁", "Haus"]]
    assert [codec.tokens(form) for form in forms_of(["机"], codec)] == [["▁", "机"], ["机"]]


@pytest.mark.parametrize("kind", ["codes", "bytes"])
def test_no_phrase_is_a_part_of_a_word(kind: str) -> None:
    if kind == "codes":
        pieces = ["in", "with@@", "with", "Sch@@", "in@@", "ein"]
        codec: Codec = MergeCodec(Merges({}, "", False), Vocabulary(pieces))
        wanted, free, inside = ("in",), [("with", "in"), ("in", "ein")], [("with@@", "in"), ("Sch@@", "in@@", "in")]
    else:
        pieces = ["▁Mann", "<0xC3>", "hen", "▁", "."]
        codec = WordCodec(Vocabulary(pieces))
        wanted, free, inside = (
            ("▁Mann",),
            [("▁Mann", "."), ("▁Mann", "▁")],
            [("▁Mann", "<0xC3>", "hen"), ("▁Mann", "hen")],
        )
    ids = {piece: i for i, piece in enumerate(codec.tokens(range(codec.size)))}
    required, edges = ((tuple(ids[p] for p in wanted),),), edges_of(codec)
    assert not any(lacks(required, [ids[p] for p in words], edges) for words in free)
    assert all(lacks(required, [ids[p] for p in words], edges) for words in inside)


def test_the_beginning_of_a_translation_is_behind_what_every_one_begins_with() -> None:
    codec = WordCodec(Vocabulary(["<de>", "das", "Das"]))
    language, *_ = (i for (i,) in codec.encode(["<de>"]))
    form, capital = (i for (i,) in codec.encode(["das", "Das"]))
    codec.begins = (language,)
    required = (((form,), (BOS, capital)),)
    assert edges_of(codec).given == 1
    assert not lacks(required, [language, capital], edges_of(codec))
    assert lacks(required, [language, language, capital], edges_of(codec))


def test_words_end_before_spaces_punctuation_and_characters_of_scripts_without_spaces() -> None:
    pieces = ["\u2581Haus", "es", "\u2581", ".", "(", "机器", "5", "<0xE2>"]
    codec = WordCodec(Vocabulary(pieces))
    edges = edges_of(codec)
    assert edges.begins[: UNK + 1].all()
    assert not edges.opens[: UNK + 1].any()
    begins = dict(zip(pieces, edges.begins[UNK + 1 :].tolist(), strict=True))
    assert begins == {**dict.fromkeys(pieces, True), "es": False, "5": False, "<0xE2>": False}
    opens = dict(zip(pieces, edges.opens[UNK + 1 :].tolist(), strict=True))
    assert opens == {**dict.fromkeys(pieces, True), "▁": False, ".": False, "(": False, "机器": False}
    whole = edges_of(WordCodec(Vocabulary(["Haus", "es"])))
    assert whole.begins.all()
    assert not whole.opens.any()


def test_a_phrase_stands_in_a_text_in_whole_words_however_it_is_cut() -> None:
    assert stands_in("das Haus", "Er sieht (das Haus).")
    assert not stands_in("das Haus", "das Hausboot")
    assert not stands_in("das Haus", "das Haus"[1:])
    assert stands_in("机器", "学习机器。")


def test_a_phrase_in_another_cut_is_not_required_again() -> None:
    """Here a bracket and the word behind it are one piece."""
    codec = WordCodec(Vocabulary(["a", "(a", "A", "(A"]))
    sentence = Sentence((), required=distinct([forms_of(["a"], codec)]))
    line = Sentence(())
    for text, expected in (("(a", []), ("a", []), ("A", []), ("b", [0]), ("(A", [0]), ("b A", [0])):
        ids = tuple(codec.encode([text])[0])
        found = [[Translation(text, ids, 0.0, 0.0)], [Translation(text, ids, 0.0, 0.0)]]
        assert lacking(codec, [sentence, line], found, [0, 1]) == expected


def test_a_place_names_the_line_of_a_phrase() -> None:
    with pytest.raises(CalqueError) as caught:
        forms_of(["Haus", "Bahn"], WORDS, Place("stdin", 7))
    assert [(one.code, one.where.line) for one in caught.value.diagnostics] == [("D610", 7)]
