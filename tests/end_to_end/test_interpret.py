"""`calque interpret` on tiny runs: files, words that come one by one, delays, and what is refused."""

import json
from pathlib import Path

import pytest
from command import Run
from test_ways_to_translate import make_run

import calque as package

LINES = ["b b i", "", "i c d d g", "e e e h f f d b", "never-seen b e f g i i"]
"""Translations differ, and so does what policies write."""


@pytest.fixture(scope="module")
def run(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return make_run(tmp_path_factory.mktemp("runs"), "two", 2)


def test_as_many_lines_out_as_in_and_delays_for_evaluate(calque: Run, run: Path, tmp_path: Path) -> None:
    delays, out, ref = (tmp_path / name for name in ("delays", "out", "ref"))
    done = calque("interpret", run, "--policy", "wait-2", "--delays", delays, stdin="\n".join([*LINES, ""]).encode())
    assert (done.status, done.err) == (0, "")
    texts = done.out.split("\n")[:-1]
    assert len(texts) == len(LINES)
    rows = [json.loads(line) for line in delays.read_text().splitlines()]
    assert [row["prediction"] for row in rows] == texts
    assert [row["source_length"] for row in rows] == [len(line.split()) for line in LINES]
    assert all(len(row["delays"]) == len(text.split()) for row, text in zip(rows, texts, strict=True))
    loaded = package.load(run)
    found = loaded.interpret(LINES, "wait-2")
    assert [one.delays for one in found] == [row["delays"] for row in rows]
    assert len({*texts}) == len(LINES)
    assert [one.text for one in loaded.interpret(LINES, "agree-2")] != texts
    out.write_text(done.out)
    ref.write_text(done.out)
    scored = calque("evaluate", out, ref, "--delays", delays)
    assert [line.split()[0] for line in scored.out.splitlines()] == ["BLEU", "LAAL", "AL", "AP", "DAL"]
    assert calque("evaluate", out, ref, "--delays", ref).status == 1


@pytest.mark.parametrize("end", ["\n\n", ""])
def test_words_that_come_one_by_one(calque: Run, run: Path, end: str) -> None:
    """Together the answers are the translation; the last sentence ends with an empty line, or with the input."""
    sentences = ["i c d d", "e e e h f"]
    stdin = "\n\n".join("\n".join(line.split()) for line in sentences) + end
    done = calque("interpret", run, "--pieces", stdin=stdin.encode())
    answers = done.out.split("\n")[:-1]
    assert len(answers) == 4 + 1 + 5 + 1
    expected = [one.text for one in package.load(run).interpret(sentences)]
    assert ["".join(answers[:5]), "".join(answers[5:])] == expected


def test_white_space_and_a_byte_that_is_no_text(calque: Run, run: Path) -> None:
    done = calque("interpret", run, stdin=b" i  c\td \r\n\xff b\n")
    assert done.status == 1
    assert "error[D120]" in done.err
    assert done.out.split("\n")[0] == package.load(run).interpret(["i c d"])[0].text
    assert calque("interpret", run, stdin=b"").out == ""


@pytest.mark.parametrize(
    ("options", "said"),
    [
        (["--policy", "soon"], "error[X808]"),
        (["--set", "decode.sample=true"], "error[X809]"),
        (["--pieces", "--delays", "x"], "--pieces answers at once"),
        (["--delays", "no/such/folder/x"], "error[X408]"),
        (["--every", "0"], "--every"),
    ],
)
def test_what_is_refused(calque: Run, run: Path, options: list[str], said: str) -> None:
    done = calque("interpret", run, *options, stdin=b"a b\n")
    assert done.status != 0
    assert said in done.err
    assert done.out == ""


def test_python(run: Path) -> None:
    loaded = package.load(run)
    interpreter = loaded.interpreter("agree-2")
    text = interpreter.read("i c") + interpreter.read("d d g") + interpreter.end()
    assert text == loaded.interpret(["i c d d g"], "agree-2")[0].text
    with pytest.raises(TypeError, match="one string"):
        loaded.interpret("a b c")


def test_a_list_of_terms_holds_here_too(calque: Run, run: Path, tmp_path: Path) -> None:
    terms = tmp_path / "terms.tsv"
    terms.write_text("c\tB\n")
    asked = ["interpret", run, "--policy", "wait-1"]
    assert "B" not in calque(*asked, stdin=b"i c d d g\n").out.split()
    assert "B" in calque(*asked, "--terms", terms, stdin=b"i c d d g\n").out.split()
