"""Packages for Argos Translate: their files say all that the library needs, and it translates as the run does."""

import importlib.util
import json
import zipfile
from pathlib import Path

import pytest
from click.testing import CliRunner
from sentencepiece import SentencePieceProcessor
from small_runs import PRE, WORDS, draw_lines, make_run, piece_codec

from calque.cli import root
from calque.data.codecs import MergeCodec
from calque.data.merges import Merges
from calque.data.vocabulary import Vocabulary
from calque.exchange.export import export
from calque.exchange.weights import Options
from calque.ground.diagnostics import CalqueError
from calque.workflow.api import load

ctranslate2 = pytest.importorskip("ctranslate2", reason="the package ctranslate2 is not installed")
CODES = ("en", "de")


def package(run: Path, out: Path) -> Path:
    """The unpacked folder of an exported run."""
    export(run, "argos", out, "float32", (), str, Options(CODES))
    with zipfile.ZipFile(out) as archive:
        archive.extractall(out.parent / "packages")
    (folder,) = (out.parent / "packages").iterdir()
    return folder


def by_the_rules(folder: Path, lines: list[str], beam: int) -> list[str]:
    """What the library does with a sentence, by its documentation: one model of sentencepiece around CTranslate2."""
    cut = SentencePieceProcessor(model_file=str(folder / "sentencepiece.model"))
    translator = ctranslate2.Translator(str(folder / "model"), intra_threads=1)
    options = {"beam_size": beam, "length_penalty": 0.2, "replace_unknowns": True, "max_decoding_length": 61}
    results = translator.translate_batch([cut.encode(line, out_type=str) for line in lines], **options)
    texts = [cut.decode_pieces(one.hypotheses[0]).replace("\u2581", " ") for one in results]
    return [text.removeprefix(" ") for text in texts]


@pytest.mark.medium
@pytest.mark.parametrize("joint", [True, pytest.param(False, marks=pytest.mark.slow)])
def test_the_files_of_a_package_translate(joint: bool, tmp_path: Path) -> None:
    source = piece_codec()
    target = source if joint else piece_codec([*WORDS[3:], "extra", *WORDS[:3]])
    text, tying = PRE.replace("repeat(2", "repeat(1"), "three-way" if joint else "target"
    make_run(tmp_path / "run", text, 80, source, tying, target=target)
    folder = package(tmp_path / "run", tmp_path / "small.argosmodel")
    assert folder.name == "translate-en_de-1_0"
    about = json.loads((folder / "metadata.json").read_text())
    assert (about["from_code"], about["to_code"]) == CODES
    assert (about["from_name"], about["to_name"]) == ("English", "German")
    assert "target_prefix" not in about
    lines = draw_lines(40)
    pairs = list(zip(load(tmp_path / "run", beam=1).translate(lines), by_the_rules(folder, lines, 1), strict=True))
    assert len(set(pairs)) > 15
    assert not [pair for pair in pairs if pair[0] != pair[1] and len(pair[0].split()) < 55]


@pytest.mark.skipif(not importlib.util.find_spec("argostranslate"), reason="argostranslate is not installed")
@pytest.mark.filterwarnings("ignore")
def test_the_library_itself_translates(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("HOME", "XDG_DATA_HOME", "XDG_CONFIG_HOME", "XDG_CACHE_HOME"):
        monkeypatch.setenv(name, str(tmp_path / "home"))
    make_run(tmp_path / "run", PRE.replace("repeat(2", "repeat(1"), 80, piece_codec())
    export(tmp_path / "run", "argos", tmp_path / "small.argosmodel", "int8", (), str, Options(CODES))
    from argostranslate import package, translate

    package.install_from_path(tmp_path / "small.argosmodel")
    (installed,) = package.get_installed_packages()
    assert "Calque" in (installed.get_readme() or "")
    translation = translate.get_translation_from_codes("en", "de")

    class Lines:
        """One sentence in each text, instead of the model that the library would fetch."""

        def split_sentences(self, text: str) -> list[str]:
            return [text]

    inner = translation.underlying if hasattr(translation, "underlying") else translation
    inner.sentencizer = Lines()
    lines = draw_lines(20)
    ours = load(tmp_path / "run", beam=4, alpha=0.2).translate(lines)
    same = [translation.translate(line) == one for line, one in zip(lines, ours, strict=True)]
    assert sum(same) >= 18  # 8 bits


def test_merges_go_as_they_are(tmp_path: Path) -> None:
    codes = tmp_path / "codes"
    codes.write_text("#version: 0.2\nw 1\nw 2</w>\n")
    codec = MergeCodec(Merges.read(codes), Vocabulary(["w@@", "2", *WORDS]))
    make_run(tmp_path / "run", PRE, 0, codec)
    folder = package(tmp_path / "run", tmp_path / "small.argosmodel")
    assert (folder / "bpe.model").read_text() == codes.read_text()
    assert not (folder / "sentencepiece.model").exists()
    assert "Moses" in (folder / "README.md").read_text()


def test_what_a_package_cannot_hold_is_an_error_and_leaves_nothing(tmp_path: Path) -> None:
    make_run(tmp_path / "run", PRE, 0)
    for languages, code in ((("", ""), "X519"), (("en", "en"), "X519"), (("../x", "de"), "X519"), (CODES, "X520")):
        with pytest.raises(CalqueError, match=code):
            export(tmp_path / "run", "argos", None, "float32", (), str, Options(languages))
    assert [path.name for path in tmp_path.iterdir()] == ["run"]
    result = CliRunner().invoke(root, ["export", str(tmp_path / "run"), "--to", "argos"])
    assert isinstance(result.exception, CalqueError)
    assert "--source-language" in str(result.exception)
