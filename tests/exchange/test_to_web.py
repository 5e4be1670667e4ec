"""Exported pages translate as their runs do; what the page does in JavaScript is what Calque does in Python."""

import io
import json
import random
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from sentencepiece import SentencePieceTrainer
from small_runs import PRE, draw_lines, make_run, piece_codec
from web_pages import Page, opened

from calque.data.codecs import PieceCodec
from calque.data.recased_codec import RecasedCodec
from calque.data.spaced_codec import SpacedCodec
from calque.data.tagged_codec import TaggedCodec
from calque.decode.divided import between, sentences_in
from calque.exchange.export import export
from calque.exchange.to_web import RUNTIME
from calque.exchange.weights import Options
from calque.ground.diagnostics import CalqueError
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
]


def lines_like(text: list[str], count: int, seed: int = 1) -> list[str]:
    """Lines made of the words of a text, some in other letters, some with other characters between them."""
    draw, words = random.Random(seed), " ".join(text).split()
    change = (str, str, str.upper, str.title, str.lower, lambda word: word[::-1], lambda word: word + "\u00a0!")
    joined = (
        " ".join(draw.choice(change)(word) for word in draw.choices(words, k=draw.randint(1, 9))) for _ in range(count)
    )
    return [draw.choice((str, str, str.upper, str.title))(line) for line in joined]


def pieces_of(kind: str, size: int, bytes_too: bool = False, symbols: tuple[str, ...] = ()) -> PieceCodec:
    """A codec of sentencepiece, learned from `TEXT`."""
    model = io.BytesIO()
    SentencePieceTrainer.train(
        sentence_iterator=iter(TEXT * 4),
        model_writer=model,
        model_type=kind,
        vocab_size=size,
        byte_fallback=bytes_too,
        user_defined_symbols=list(symbols),
        normalization_rule_name="identity",
        pad_id=0,
        bos_id=1,
        eos_id=2,
        unk_id=3,
        unk_surface="<unk>",
        hard_vocab_limit=False,
        minloglevel=3,
    )
    codec = PieceCodec(model.getvalue(), kind)
    codec.symbols = symbols
    return codec


def runtime(folder: Path) -> Path:
    """A folder with the names of the library's files."""
    (folder / "dist").mkdir(parents=True)
    for name in RUNTIME:
        (folder / "dist" / name).write_text("not run here")
    return folder


KINDS = {
    "unigram": lambda: pieces_of("unigram", 150),
    "unigram with bytes": lambda: pieces_of("unigram", 400, bytes_too=True),
    "unigram with symbols": lambda: pieces_of("unigram", 150, symbols=("<2fr>", "<2de>", "<2")),
    "bpe": lambda: pieces_of("bpe", 300),
    "bpe with bytes": lambda: pieces_of("bpe", 600, bytes_too=True),
    "bpe with symbols": lambda: pieces_of("bpe", 300, symbols=("<2fr>", "<2de>", "<2")),
}
LINES = [*TEXT, *ODD, *lines_like(TEXT, 300)]


@pytest.fixture(scope="module", params=KINDS)
def read(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[PieceCodec, Page]]:
    """A codec, and a page that reads text by it: its graphs are those of a network that was never trained."""
    codec = KINDS[request.param]()
    with opened(exported(tmp_path_factory.mktemp("page"), PRE, codec, updates=0)) as page:
        yield codec, page


def exported(
    folder: Path,
    text: str,
    codec: PieceCodec,
    updates: int = 100,
    precision: str = "float32",
    beam: int = 5,
    **decode: object,
) -> Path:
    """The page of a small run, in the folder `page` beside `run`."""
    make_run(folder / "run", text, updates, codec, decode={"beam": beam, **decode})
    npm = runtime(folder / "npm")
    return export(folder / "run", "web", folder / "page", precision, [], print, Options(("en", "de"), npm))


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
    for line, found in zip(LINES, page.ask("read", LINES), strict=True):
        assert (found["ids"], found["lowers"]) == (reader.encode([line])[0], reader.lowers(line)), line
    assert any(reader.line(line) != line for line in LINES)


def test_a_tag_stands_in_front_of_every_line_without_a_symbol(tmp_path: Path) -> None:
    codec = pieces_of("unigram", 150, symbols=("<2fr>", "<2de>"))
    reader = TaggedCodec(RecasedCodec(SpacedCodec(codec)), "<2fr>", others=True)
    with opened(exported(tmp_path, PRE, codec, updates=0, tag="<2fr>")) as page:
        for line, found in zip(LINES, page.ask("read", LINES), strict=True):
            assert found["ids"] == reader.encode([line])[0], line


def test_sentences_end_where_calque_ends_them(tmp_path: Path) -> None:
    with opened(exported(tmp_path, PRE, piece_codec(), updates=0)) as page:
        lines = [*SENTENCES, *LINES]
        for line, found in zip(lines, page.ask("sentences", lines), strict=True):
            assert [tuple(pair) for pair in found] == list(sentences_in(line)), line
        parts = [(one, space, other) for one in SENTENCES for other in SENTENCES for space in ("", " ", "\u3000")]
        assert page.ask("between", parts) == [between(*part) for part in parts]


FAMILIES = {
    "transformer": PRE,
    "recurrent with input feeding": (
        "d = 32\nencoder = dropout -> birnn -> res_d(rnn)\n"
        "decoder = feed(dropout -> rnn -> dropout -> res_d(rnn) -> concat(id, mlp_src_att) -> ff)\n"
    ),
    "convolutions": (
        "d = 32\nencoder = pos -> res(cnn(glu) -> dropout)\n"
        "decoder = pos -> res(dropout -> cnn(glu) -> dropout -> res(dot_src_att(s=1, project=none)))\n"
    ),
}
SEARCHES: dict[str, dict[str, object]] = {
    "beam 5": {},
    "greedy": {"beam": 1},
    "greedy, longer": {"beam": 1, "word_penalty": 0.5},
    "no normalisation": {"normalise": "none", "word_penalty": 0.4},
    "no normalisation, shorter": {"normalise": "none", "word_penalty": -0.3},
    "gnmt, full": {"normalise": "gnmt", "alpha": 0.6, "stop": "full", "beam": 4, "word_penalty": 0.2},
    "ended by the limit": {"max_length_offset": 2, "beam": 3},
}
CASES = [
    *((name, "transformer") for name in SEARCHES),
    *(("beam 5", name) for name in FAMILIES if name != "transformer"),
]


@pytest.mark.parametrize(("search", "family"), CASES)
def test_a_page_translates_as_its_run_does(search: str, family: str, tmp_path: Path) -> None:
    folder = exported(tmp_path, FAMILIES[family], piece_codec(), **SEARCHES[search])
    run = load(tmp_path / "run")
    lines = draw_lines(12)
    count = min(3, run.loaded.decode.beam)
    ours = [[one.text for one in each] for each in run.candidates(lines, n_best=count)]
    with opened(folder) as page:
        theirs = page.ask("translate", [[line, count] for line in lines])
    assert theirs == [list(dict.fromkeys(each)) for each in ours]
    assert len({each[0] for each in ours}) > 3


def test_a_page_may_have_another_beam(tmp_path: Path) -> None:
    make_run(tmp_path / "run", PRE, codec=piece_codec())
    options = Options(("en", "de"), runtime(tmp_path / "npm"), beam=1)
    folder = export(tmp_path / "run", "web", tmp_path / "page", "float32", [], print, options)
    lines = draw_lines(12)
    with opened(folder) as page:
        theirs = page.ask("translate", [[line, 3] for line in lines])
    assert theirs == [[text] for text in load(tmp_path / "run", beam=1).translate(lines)]


def test_texts_keep_what_stands_between_their_sentences(tmp_path: Path) -> None:
    with opened(exported(tmp_path, PRE, piece_codec())) as page:
        one, two = (texts[0] for texts in page.ask("translate", [["w1 w2 .", 1], ["X w3 w4", 1]]))
        text = "  w1 w2 .  X w3 w4\r\n\n X w3 w4 "
        assert page.ask("translate", [[text, 1], ["", 2], [" \n", 1]]) == [
            [f"  {one}  {two}\r\n\n {two} "],
            [""],
            [" \n"],
        ]


def test_a_sentence_that_is_too_long_is_translated_in_parts(tmp_path: Path) -> None:
    words = draw_lines(1, longest=1)[0].split() * 40
    line = " ".join([*words, ",", *words])
    with opened(exported(tmp_path, PRE, piece_codec())) as page:
        halves = page.ask("translate", [[" ".join([*words, ","]), 1], [" ".join(words), 1]])
        assert page.ask("translate", [[line, 1]]) == [[" ".join(texts[0] for texts in halves)]]


def test_numbers_of_eight_bits_are_fewer_bytes(tmp_path: Path) -> None:
    whole, small = (tmp_path / name for name in ("float32", "int8"))
    pages = exported(whole, PRE, piece_codec()), exported(small, PRE, piece_codec(), precision="int8")
    sizes = [sum(file.stat().st_size for file in page.glob("model/*.onnx")) for page in pages]
    assert sizes[1] < sizes[0]
    lines = draw_lines(20)
    with opened(pages[0]) as one, opened(pages[1]) as other:
        asked = [[line, 1] for line in lines]
        both = zip(one.ask("translate", asked), other.ask("translate", asked), strict=True)
        assert sum(a == b for a, b in both) > 8


def test_everything_on_the_page_is_kept(tmp_path: Path) -> None:
    folder = exported(tmp_path, PRE, piece_codec(), updates=0)
    version, files = (folder / "keep.js").read_text().split("\n")[:2]
    listed = json.loads(files.removeprefix("const FILES = ").removesuffix(";"))
    there = {file.relative_to(folder).as_posix() for file in folder.rglob("*") if file.is_file()}
    assert set(listed) == {"./", *there} - {"keep.js", "README.md"}
    other = exported(tmp_path / "other", PRE, piece_codec(), updates=1)
    assert (other / "keep.js").read_text().split("\n")[0] != version


@pytest.mark.parametrize(
    ("change", "code"),
    [
        ({"precision": "bfloat16"}, "X503"),
        ({"languages": ("", "")}, "X519"),
        ({"runtime": None}, "X523"),
        ({"runtime": Path("absent")}, "X523"),
    ],
)
def test_what_is_missing_is_said_before_anything_is_written(
    change: dict[str, object], code: str, tmp_path: Path
) -> None:
    make_run(tmp_path / "run", PRE, 0, piece_codec())
    options = replace(Options(("en", "de"), runtime(tmp_path / "npm")), **change)
    with pytest.raises(CalqueError, match=code):
        export(tmp_path / "run", "web", tmp_path / "page", precision, [], print, options)
    assert not (tmp_path / "page").exists()


def test_words_alone_have_no_page(tmp_path: Path) -> None:
    make_run(tmp_path / "run", PRE, 0)
    with pytest.raises(CalqueError, match="X520"):
        export(tmp_path / "run", "web", None, "float32", [], print, Options(("en", "de"), runtime(tmp_path / "npm")))
