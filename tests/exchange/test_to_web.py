"""Exported pages translate as their runs do."""

import json
import shutil
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import small_models
from comparisons import CASES, build
from page_codecs import TEXT, pieces_of
from small_runs import PRE, draw_lines, export_apart, make_run, piece_codec
from web_pages import opened

from calque.data.vocabulary import EOS
from calque.decode.divided import DividedLines
from calque.exchange import graph_numbers
from calque.exchange.export import export
from calque.exchange.import_run import import_hf
from calque.exchange.to_web import RUNTIME, _kept
from calque.exchange.weights import Options
from calque.ground.diagnostics import CalqueError
from calque.ground.languages import LanguagePair
from calque.workflow.api import load

pytest.importorskip("onnxruntime", reason="the package onnxruntime is not installed")
pytest.importorskip("onnxscript", reason="the package onnxscript is not installed")


def runtime(folder: Path) -> Path:
    """A folder with the names of the library's files."""
    (folder / "dist").mkdir(parents=True)
    for name in RUNTIME:
        (folder / "dist" / name).write_text("not run here")
    return folder


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


@pytest.mark.medium
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
    make_run(tmp_path / "run", FAMILIES[family], codec=piece_codec())
    npm, languages = runtime(tmp_path / "npm"), ("--source-language", "en", "--target-language", "de")
    export_apart(tmp_path / "run", tmp_path / "page", "web", "--runtime", str(npm), *languages)
    check_translations(tmp_path / "page", tmp_path / "run")


@pytest.mark.medium
@pytest.mark.parametrize(
    "name", ["m2m_100", *(pytest.param(name, marks=pytest.mark.slow) for name in ("marian", "nllb", "mbart", "t5"))]
)
def test_pages_of_imported_models_translate(name: str, tmp_path: Path) -> None:
    pytest.importorskip("transformers", reason="the package transformers is not installed")
    kind, settings, asked = CASES[name]
    build(kind, tmp_path / "hf", 3.0, **settings)
    import_hf(tmp_path / "hf", tmp_path / "run", asked)
    options = Options(("en", "de"), runtime=runtime(tmp_path / "npm"), beam=3)
    page = export(tmp_path / "run", "web", tmp_path / "page", "float32", [], print, options)
    how = {"beam": 3, "max_length_factor": 1.5, "max_length_offset": 3}
    check_translations(changed(page, tmp_path / "other", how), tmp_path / "run", small_models.lines(12), **how)


def check_translations(page: Path, run: Path, lines: Sequence[str] = tuple(draw_lines(12)), **rule: Any) -> None:
    """The best three translations of a page are those of its run, with other keys of [decode]."""
    loaded = load(run)
    loaded.loaded = replace(loaded.loaded, decode=replace(loaded.loaded.decode, **rule))
    count = min(3, loaded.loaded.decode.beam)
    ours = [[one.text for one in each] for each in loaded.candidates(lines, n_best=count)]
    with opened(page) as other:
        theirs = other.ask("translate", [[line, count] for line in lines])
    assert theirs == [list(dict.fromkeys(each)) for each in ours]
    assert len({each[0] for each in ours}) > 3


TAGS = {LanguagePair("en", "de"): "<2de>", LanguagePair("en", "fr"): "<2fr>", LanguagePair("fr", "en"): ""}


@pytest.mark.medium
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


@pytest.mark.medium
def test_texts_keep_what_stands_between_their_sentences(pages: Pages) -> None:
    with opened(pages()) as page:
        one, two = (texts[0] for texts in page.ask("translate", [["w1 w2 .", 1], ["X w3 w4", 1]]))
        text = "  w1 w2 .  X w3 w4\r\n\n X w3 w4 "
        found = page.ask("translate", [[text, 1], ["", 2], [" \n", 1]])
    assert found == [[f"  {one}  {two}\r\n\n {two} "], [""], [" \n"]]


def test_a_sentence_that_is_too_long_is_translated_in_parts(pages: Pages) -> None:
    words = draw_lines(1, longest=1)[0].split() * 40
    with opened(pages()) as page:
        halves = page.ask("translate", [[" ".join([*words, ","]), 1], [" ".join(words), 1]])
        whole = page.ask("translate", [[" ".join([*words, ",", *words]), 1]])
    assert whole == [[" ".join(texts[0] for texts in halves)]]


@pytest.mark.slow
def test_numbers_of_eight_bits_are_fewer_bytes(pages: Pages, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(graph_numbers, "TABLE", 100)  # or it has none
    both = pages(), pages(precision="int8")
    sizes = [sum(file.stat().st_size for file in page.glob("model/weights.bin")) for page in both]
    assert sizes[1] < 0.5 * sizes[0]
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
