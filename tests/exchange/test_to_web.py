"""Exported pages translate as their runs do; what the page does in JavaScript is what Calque does in Python."""

import json
import random
import shutil
from collections.abc import Callable, Iterator, Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from small_runs import PRE, draw_lines, make_run, piece_codec
from web_pages import Page, opened

from calque.data.codecs import PieceCodec
from calque.data.recased_codec import RecasedCodec
from calque.data.spaced_codec import SpacedCodec
from calque.data.subwords import learn
from calque.data.tagged_codec import TaggedCodec
from calque.data.vocabulary import EOS
from calque.decode.divided import DividedLines, between, sentences_in
from calque.exchange.export import export
from calque.exchange.to_web import RUNTIME, _kept, _pieces
from calque.exchange.weights import Options
from calque.experiment import DataSettings
from calque.ground.diagnostics import CalqueError, Place
from calque.ground.languages import LanguagePair
from calque.workflow.api import load

pytest.importorskip("onnxruntime", reason="the package onnxruntime is not installed")
pytest.importorskip("onnxscript", reason="the package onnxscript is not installed")

TEXT = """
A dog runs. Two dogs run through the snow. The man is walking with his dog on the beach.
A woman in a red coat is standing by the sea. Children are playing football in the park.
An old man reads the newspaper. The girl's hat is blue, and the boy's is green (or not).
Ein Hund läuft. Zwei Hunde rennen durch den Schnee. Der Mann geht mit seinem Hund am Strand spazieren.
Eine Frau im roten Mantel steht am Meer. Kinder spielen Fußball im Park. Ein alter Mann liest die Zeitung.
Le chien court dans la neige ! Où est-il ? Là-bas, à côté de l'école.
""".strip().split("\n")
"""What codecs of these tests learn from."""
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


def pieces_of(kind: str, size: int, bytes_too: bool = False, symbols: tuple[str, ...] = ()) -> PieceCodec:
    """A codec of sentencepiece, learned from `TEXT`."""
    settings = DataSettings(subwords=kind, vocabulary_size=size, byte_fallback=bytes_too, symbols=symbols)
    codec, _ = learn(settings, TEXT * 4, TEXT * 4)
    assert isinstance(codec, PieceCodec)
    return codec


def runtime(folder: Path) -> Path:
    """A folder with the names of the library's files."""
    (folder / "dist").mkdir(parents=True)
    for name in RUNTIME:
        (folder / "dist" / name).write_text("not run here")
    return folder


KINDS = {
    "unigram": lambda: pieces_of("unigram", 120),
    "unigram with bytes": lambda: pieces_of("unigram", 370, bytes_too=True),
    "unigram with symbols": lambda: pieces_of("unigram", 120, symbols=("<2fr>", "<2de>", "<2")),
    "bpe": lambda: pieces_of("bpe", 300),
    "bpe with bytes": lambda: pieces_of("bpe", 600, bytes_too=True),
    "bpe with symbols": lambda: pieces_of("bpe", 300, symbols=("<2fr>", "<2de>", "<2")),
}
LINES = [*TEXT, *ODD, *lines_like(TEXT, 300)]
Pages = Callable[..., Path]
SMALL = "d = 32\nheads = 4\nencoder = pos -> tenc -> norm\ndecoder = pos -> tdec -> norm\n"


def exported(folder: Path, text: str, precision: str = "float32", beam: int | None = None, **decode: object) -> Path:
    """The page of a small run that writes lines backwards, in the folder `page` beside `run`."""
    make_run(folder / "run", text, codec=piece_codec(), decode=decode)
    options = Options(("en", "de"), runtime=runtime(folder / "npm"), beam=beam)
    return export(folder / "run", "web", folder / "page", precision, [], print, options)


@pytest.fixture(scope="module")
def pages(tmp_path_factory: pytest.TempPathFactory) -> Pages:
    """Makes pages of a Transformer, each once: to write graphs takes long."""
    made: dict[str, Path] = {}

    def page(**given: Any) -> Path:
        key = json.dumps(given, sort_keys=True)
        if key not in made:
            made[key] = exported(tmp_path_factory.mktemp("pages"), SMALL, **given)
        return made[key]

    return page


def changed(page: Path, to: Path, decode: Mapping[str, object], **about: object) -> Path:
    """A copy of a page with other words in model.json, those of `decode` one by one."""
    shutil.copytree(page, to)
    held = json.loads((to / "model" / "model.json").read_text())
    held["decode"] |= decode
    (to / "model" / "model.json").write_text(json.dumps({**held, **about}))
    return to


def read_by(page: Path, to: Path, codec: PieceCodec, **decode: object) -> Path:
    """A copy of a page that cuts and joins text by a codec; its graphs are of another vocabulary."""
    pieces = _pieces(codec, "source", Place("page"))
    return changed(page, to, decode, source=pieces, target=pieces)


@pytest.fixture(scope="module", params=KINDS)
def read(
    request: pytest.FixtureRequest, pages: Pages, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[tuple[PieceCodec, Page]]:
    """A codec, and a page that reads text by it."""
    codec = KINDS[request.param]()
    with opened(read_by(pages(), tmp_path_factory.mktemp("read") / "page", codec)) as page:
        yield codec, page


def test_text_is_cut_as_the_library_cuts_it(read: tuple[PieceCodec, Page]) -> None:
    codec, page = read
    for line, ids in zip(LINES, page.ask("cut", LINES), strict=True):
        assert ids == codec.encode([line])[0], line


def test_pieces_are_joined_as_the_library_joins_them(read: tuple[PieceCodec, Page]) -> None:
    codec, page = read
    draw = random.Random(3)
    given = [[draw.randrange(codec.size) for _ in range(draw.randint(0, 12))] for _ in range(200)]
    plain = [[i for i in ids if not codec.tokens([i])[0].startswith("<0x")] for ids in given]
    some = [*codec.encode(LINES), *plain]
    for ids, text in zip(some, page.ask("join", some), strict=True):
        assert text == codec.decode(ids), ids


def test_lines_are_read_as_a_translator_reads_them(read: tuple[PieceCodec, Page]) -> None:
    codec, page = read
    reader = RecasedCodec(SpacedCodec(codec))
    for line, found in zip(LINES, page.ask("read", [[line, ""] for line in LINES]), strict=True):
        assert (found["ids"], found["lowers"]) == (reader.encode([line])[0], reader.lowers(line)), line
    assert any(reader.line(line) != line for line in LINES)


def test_a_tag_stands_in_front_of_every_line_without_a_symbol(pages: Pages, tmp_path: Path) -> None:
    codec = pieces_of("unigram", 120, symbols=("<2fr>", "<2de>"))
    reader = TaggedCodec(RecasedCodec(SpacedCodec(codec)), "<2fr>", others=True)
    with opened(read_by(pages(), tmp_path / "page", codec)) as page:
        for line, found in zip(LINES, page.ask("read", [[line, "<2fr>"] for line in LINES]), strict=True):
            assert found["ids"] == reader.encode([line])[0], line


def test_letters_may_be_read_as_they_are(pages: Pages, tmp_path: Path) -> None:
    codec = pieces_of("unigram", 120)
    with opened(read_by(pages(), tmp_path / "page", codec, recase=False)) as page:
        found = page.ask("read", [[line, ""] for line in LINES])
    assert [one["ids"] for one in found] == SpacedCodec(codec).encode(LINES)
    assert not any(one["lowers"] for one in found)


def test_sentences_end_where_calque_ends_them(pages: Pages) -> None:
    with opened(pages()) as page:
        lines = [*SENTENCES, *LINES]
        for line, found in zip(lines, page.ask("sentences", lines), strict=True):
            assert [tuple(pair) for pair in found] == list(sentences_in(line)), line
        parts = [(one, space, other) for one in SENTENCES for other in SENTENCES for space in ("", " ", "\u3000")]
        assert page.ask("between", parts) == [between(*part) for part in parts]


FAMILIES = {
    "recurrent with input feeding": (
        "d = 32\nencoder = dropout -> birnn -> res_d(rnn)\n"
        "decoder = feed(dropout -> rnn -> dropout -> res_d(rnn) -> concat(id, mlp_src_att) -> ff)\n"
    ),
    "convolutions": (
        "d = 32\nencoder = pos -> res(cnn(glu) -> dropout)\n"
        "decoder = pos -> res(dropout -> cnn(glu) -> dropout -> res(dot_src_att(s=1, project=none)))\n"
    ),
}
WIDE: dict[str, object] = {}
GREEDY: dict[str, object] = {"beam": 1}
LONGER: dict[str, object] = {"beam": 4, "word_penalty": 0.4}
GNMT: dict[str, object] = {"normalise": "gnmt", "alpha": 0.6, "stop": "full"}
SUM: dict[str, object] = {"normalise": "none"}
SHORT: dict[str, object] = {"max_length_offset": 2}
SEARCHES = [(WIDE, {}), (WIDE, GNMT), (WIDE, SUM), (WIDE, SHORT), (LONGER, SUM)]
MORE = [(GREEDY, {}), (GREEDY, SHORT), (LONGER, {}), (LONGER, GNMT), ({"beam": 3, "word_penalty": -0.3}, SUM)]
"""What is in the graphs, and what is not."""


@pytest.mark.parametrize(
    ("graphs", "rule"), [*SEARCHES, *(pytest.param(*each, marks=pytest.mark.slow) for each in MORE)]
)
def test_a_page_searches_as_its_run_does(
    graphs: dict[str, Any], rule: dict[str, Any], pages: Pages, tmp_path: Path
) -> None:
    page = pages(**graphs)
    both = {"beam": graphs.get("beam", 5), **rule}
    check_translations(changed(page, tmp_path / "page", rule), page.with_name("run"), **both)


@pytest.mark.slow
@pytest.mark.parametrize("family", FAMILIES)
def test_pages_of_other_architectures_translate(family: str, tmp_path: Path) -> None:
    check_translations(exported(tmp_path, FAMILIES[family]), tmp_path / "run")


def check_translations(page: Path, run: Path, **rule: Any) -> None:
    """The best three translations of a page are those of its run, with other keys of [decode]."""
    loaded = load(run)
    loaded.loaded = replace(loaded.loaded, decode=replace(loaded.loaded.decode, **rule))
    lines = draw_lines(12)
    count = min(3, loaded.loaded.decode.beam)
    ours = [[one.text for one in each] for each in loaded.candidates(lines, n_best=count)]
    with opened(page) as other:
        theirs = other.ask("translate", [[line, count] for line in lines])
    assert theirs == [list(dict.fromkeys(each)) for each in ours]
    assert len({each[0] for each in ours}) > 3


TAGS = {LanguagePair("en", "de"): "<2de>", LanguagePair("en", "fr"): "<2fr>", LanguagePair("fr", "en"): ""}


def test_each_pair_of_languages_has_its_symbol(tmp_path: Path) -> None:
    codec = pieces_of("unigram", 120, symbols=("<2fr>", "<2de>"))
    make_run(tmp_path / "run", SMALL, 2, codec, decode={"max_length_offset": 4, "tag": "<2de>"})
    options = Options(tags=TAGS, runtime=runtime(tmp_path / "npm"))
    folder = export(tmp_path / "run", "web", tmp_path / "page", "float32", [], print, options)
    lines = [*TEXT, "<2fr> A dog."]
    divided = DividedLines(lines)
    sentences = list(divided)
    with opened(folder) as page:
        for pair, tag in TAGS.items():
            theirs = page.ask("translate", [[line, 1, pair.target] for line in lines])
            ours = load(tmp_path / "run", tag=tag or "<2de>")
            assert [text for (text,) in theirs] == list(divided.together(ours.translate(sentences)))
            assert page.sources == [[*ids, EOS] for ids in ours.loaded.source.encode(sentences)]
            page.sources.clear()
            list(divided)  # to be put together again
    about = json.loads((folder / "model" / "model.json").read_text())
    assert {one["code"]: one["targets"] for one in about["languages"]} == {"de": [], "en": ["de", "fr"], "fr": ["en"]}


def test_texts_keep_what_stands_between_their_sentences(pages: Pages) -> None:
    with opened(pages()) as page:
        one, two = (texts[0] for texts in page.ask("translate", [["w1 w2 .", 1], ["X w3 w4", 1]]))
        text = "  w1 w2 .  X w3 w4\r\n\n X w3 w4 "
        found = page.ask("translate", [[text, 1], ["", 2], [" \n", 1]])
    assert found == [[f"  {one}  {two}\r\n\n {two} "], [""], [" \n"]]


@pytest.mark.parametrize("text", ["x" * 300, "x，" * 100, "x" * 3000])
def test_text_without_spaces_is_translated_in_parts(text: str, pages: Pages, tmp_path: Path) -> None:
    codec = pieces_of("bpe", 300)
    with opened(read_by(pages(), tmp_path / "page", codec)) as page:
        parts = page.ask("parts", [text])[0]
    assert "".join(one for one, _ in parts) == text
    assert {space for _, space in parts} == {""}
    assert max(len(ids) for ids in codec.encode([one for one, _ in parts])) <= 63
    assert text != "x，" * 100 or all(one.endswith("，") for one, _ in parts)


def test_a_sentence_that_is_too_long_is_translated_in_parts(pages: Pages) -> None:
    words = draw_lines(1, longest=1)[0].split() * 40
    with opened(pages()) as page:
        halves = page.ask("translate", [[" ".join([*words, ","]), 1], [" ".join(words), 1]])
        whole = page.ask("translate", [[" ".join([*words, ",", *words]), 1]])
    assert whole == [[" ".join(texts[0] for texts in halves)]]


@pytest.mark.slow
def test_numbers_of_eight_bits_are_fewer_bytes(pages: Pages) -> None:
    both = pages(), pages(precision="int8")
    sizes = [sum(file.stat().st_size for file in page.glob("model/*.onnx")) for page in both]
    assert sizes[1] < sizes[0]
    asked = [[line, 1] for line in draw_lines(20)]
    with opened(both[0]) as one, opened(both[1]) as other:
        found = zip(one.ask("translate", asked), other.ask("translate", asked), strict=True)
    assert sum(a == b for a, b in found) > 8


def test_everything_on_the_page_is_kept(pages: Pages, tmp_path: Path) -> None:
    page = pages()
    version, files = (page / "keep.js").read_text().split("\n")[:2]
    listed = json.loads(files.removeprefix("const FILES = ").removesuffix(";"))
    there = {file.relative_to(page).as_posix() for file in page.rglob("*") if file.is_file()}
    assert set(listed) == {"./", *there} - {"keep.js", "README.md"}
    shutil.copytree(page, tmp_path / "page")
    (tmp_path / "page" / "index.html").write_text("another page")
    assert _kept(tmp_path / "page", "").split("\n")[0] != version


@pytest.mark.parametrize(
    ("precision", "change", "code"),
    [
        ("bfloat16", {}, "X503"),
        ("float32", {"languages": ("", "")}, "X519"),
        ("float32", {"tags": {LanguagePair("en", "de"): "<2de>"}}, "D209"),
        ("float32", {"runtime": None}, "X523"),
        ("float32", {"runtime": Path("absent")}, "X523"),
    ],
)
def test_what_is_missing_is_said_before_anything_is_written(
    precision: str, change: dict[str, Any], code: str, tmp_path: Path
) -> None:
    make_run(tmp_path / "run", PRE, 0, piece_codec())
    options = replace(Options(("en", "de"), runtime=runtime(tmp_path / "npm")), **change)
    with pytest.raises(CalqueError, match=code):
        export(tmp_path / "run", "web", tmp_path / "page", precision, [], print, options)
    assert not (tmp_path / "page").exists()


def test_words_alone_have_no_page(tmp_path: Path) -> None:
    make_run(tmp_path / "run", PRE, 0)
    options = Options(("en", "de"), runtime=runtime(tmp_path / "npm"))
    with pytest.raises(CalqueError, match="X520"):
        export(tmp_path / "run", "web", None, "float32", [], print, options)
