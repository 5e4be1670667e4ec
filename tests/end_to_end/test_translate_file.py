"""`calque translate-file`: a document in, the same document out, and nothing written where something is wrong."""

import zipfile
from pathlib import Path

import pytest
from command import Run
from test_ways_to_translate import make_run

import calque as package

WORD = "http://schemas.openxmlformats.org/wordprocessingml/2006/main"


@pytest.fixture(scope="module")
def run(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return make_run(tmp_path_factory.mktemp("runs"), "two", 2)


def test_a_document_has_the_translations_of_its_sentences(calque: Run, run: Path, tmp_path: Path) -> None:
    text = (
        f'<w:document xmlns:w="{WORD}"><w:body><w:p><w:r><w:t xml:space="preserve">b b </w:t></w:r><w:r><w:rPr><w:b/></w:rPr>'
        "<w:t>i c</w:t></w:r></w:p><w:p><w:r><w:t>b b i c</w:t></w:r></w:p></w:body></w:document>"
    )
    with zipfile.ZipFile(tmp_path / "a.docx", "w") as made:
        made.writestr("word/document.xml", text)
    done = calque("translate-file", run, tmp_path / "a.docx", "--out", tmp_path / "b.docx")
    assert (done.status, done.out, done.err) == (0, "", "")
    expected = package.load(run).translate("b b i c")
    with zipfile.ZipFile(tmp_path / "b.docx") as made:
        filled = made.read("word/document.xml").decode()
    paragraphs = filled.split("<w:p>")[1:]
    assert (filled.count("<w:b/>"), len(paragraphs)) == (1, 2)
    for paragraph in paragraphs:
        assert "".join(part.partition("</w:t>")[0] for part in paragraph.split('xml:space="preserve">')[1:]) == expected


@pytest.mark.parametrize(
    ("name", "text", "filled"),
    [
        ("a.html", "<p>b b i</p><p>i c d d g</p>", "<p>{0}</p><p>{1}</p>"),
        ("a.md", "# b b i\n\n- i c d\n  d g\n", "# {0}\n\n- {1}\n"),
        (
            "a.po",
            'msgid "b b i"\nmsgstr ""\nmsgid "i c d d g"\nmsgstr ""',
            'msgid "b b i"\nmsgstr "{0}"\nmsgid "i c d d g"\nmsgstr "{1}"\n',
        ),
        (
            "a.xlf",
            '<xliff version="2.0"><segment><source>b b i</source></segment><segment><source>i c d d g</source></segment></xliff>',
            '<xliff version="2.0"><segment><source>b b i</source><target>{0}</target></segment>'
            "<segment><source>i c d d g</source><target>{1}</target></segment></xliff>",
        ),
    ],
)
def test_in_python_and_over_itself(run: Path, tmp_path: Path, name: str, text: str, filled: str) -> None:
    file = tmp_path / name
    file.write_text(text)
    loaded = package.load(run)
    loaded.translate_file(file, file)
    assert file.read_text() == filled.format(*loaded.translate(["b b i", "i c d d g"]))


@pytest.mark.parametrize(
    ("name", "body", "out", "code"),
    [
        ("a.doc", b"", "b.doc", "D540"),
        ("a.docx", b"no package", "b.docx", "D541"),
        ("a.srt", b"\xff", "b.srt", "D541"),
        ("a.po", b"b b i", "b.po", "D541"),
        ("a.xlf", b"<tmx/>", "b.xlf", "D541"),
        ("a.html", None, "b.html", "D101"),
        ("a.html", b"<p>b</p>", "none/b.html", "X408"),
        ("a.html", b"<p>b</p>", ".", "X408"),
        ("a.html", b"<p>b</p>", "b.docx", "X408"),
    ],
)
def test_bad_files_are_one_error(
    calque: Run, run: Path, tmp_path: Path, name: str, body: bytes | None, out: str, code: str
) -> None:
    if body is not None:
        (tmp_path / name).write_bytes(body)
    (tmp_path / "b.docx").write_bytes(b"before")
    done = calque("translate-file", run, tmp_path / name, "--out", tmp_path / out)
    assert done.status in (1, 2)
    assert done.err.startswith(f"error[{code}]"), done.err
    assert done.err.count("error[") == 1
    assert (tmp_path / "b.docx").read_bytes() == b"before"


def test_sentences_that_are_too_long_are_reported(calque: Run, run: Path, tmp_path: Path) -> None:
    (tmp_path / "a.html").write_text("<p>" + "b i " * 20 + "</p>")
    options = ["--set", "decode.max_source_tokens=5"]
    done = calque("translate-file", run, tmp_path / "a.html", "--out", tmp_path / "b.html", *options)
    assert "warning[D606]" in done.err
    assert "a.html" in done.err
    assert (done.status, (tmp_path / "b.html").exists()) == (0, True)
