"""`calque reproduce --corpus FILE.toml`: tables on text of the user's own, and what is wrong with such a file."""

import json
import re
import shutil
from collections.abc import Callable
from pathlib import Path

import pytest
from click.testing import CliRunner, Result
from reproduced import sentences, words

from calque.cli import root
from calque.evaluate import bleu
from calque.experiment import load as load_experiment
from calque.ground.diagnostics import CalqueError, Span
from calque.ledger import entry as ledger

SMALL = [
    *("--rows", "rnn", "--seeds", 1, "--d", 16, "--set", "n=1", "--set", "train.batch_tokens=64"),
    *("--set", "train.threads=1", "--set", "model.tying=target", "--updates", 3, "--trials", 100),
]
SMALL_TIMED = [
    *("--rows", "base", "--repeats", 1, "--d", 16, "--set", "n=1", "--set", "train.batch_tokens=64"),
    *("--set", "train.threads=1", "--set", "model.tying=target", "--updates", 3),
]
GOOD = """name = "news"
title = "News En-De"
source = "en"
target = "de"

[data]
train = ["train.en", "train.de"]
valid = ["text/valid.en", "text/valid.de"]
test = ["test.en", "test.de"]
subwords = "words"
vocabulary_size = 40
joint = false
"""
Call = Callable[..., Result]


@pytest.fixture
def corpus(tmp_path: Path) -> Path:
    """The file, in a folder beside the one that the command is called from."""
    folder = tmp_path / "corpus"
    (folder / "text").mkdir(parents=True)
    for seed, (name, count) in enumerate({"train": 60, "text/valid": 8, "test": 12}.items()):
        for language, text in zip(("en", "de"), sentences(count, seed), strict=True):
            (folder / f"{name}.{language}").write_text(text, encoding="utf-8")
    file = folder / "news.toml"
    file.write_text(GOOD, encoding="utf-8")
    return file


@pytest.fixture
def call(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Call:

    (tmp_path / "here").mkdir()
    monkeypatch.chdir(tmp_path / "here")

    def run(*arguments: object, spec: tuple[str, str] = ("domhan2018", "table3")) -> Result:
        given = [*words(spec, arguments), "--data", str(tmp_path / "none"), "--out", str(tmp_path / "out")]
        return CliRunner().invoke(root, given)

    return run


def codes(found: Result) -> list[str]:
    assert isinstance(found.exception, CalqueError), found.output
    return [fault.code for fault in found.exception.diagnostics]


@pytest.mark.medium
def test_a_table_on_own_text(call: Call, corpus: Path, tmp_path: Path) -> None:
    out = tmp_path / "out"
    found = call("--corpus", "../corpus/news.toml", *SMALL)
    assert found.exit_code == 0, found.output
    (entry,) = ledger.read(out / "cells")
    assert entry.id == "domhan2018-table3-rnn-news-budget-3-updates-seed-1"
    assert entry.conditions["corpus"] == "News En-De"
    assert "--corpus ../corpus/news.toml" in entry.command
    data = load_experiment(out / "runs" / "rnn" / "1" / "experiment.toml").data
    assert data.train == (str(corpus.parent / "train.en"), str(corpus.parent / "train.de"))
    assert (data.subwords, data.vocabulary_size, data.joint) == ("words", 40, False)
    said, meant = (
        (out / name).read_text(encoding="utf-8").splitlines() for name in ("hypotheses/rnn/1.txt", "reference.txt")
    )
    assert meant == (corpus.parent / "test.de").read_text(encoding="utf-8").splitlines()
    assert entry.figures["BLEU"] == pytest.approx(bleu(said, meant, tokenize="13a").value, abs=1e-3)
    assert "tok:13a" in str(entry.conditions["BLEU signature"])
    assert "Here: News En-De." in found.stdout
    # Called again nothing is trained; the report alone needs neither the file nor the text.
    trained = (out / "runs" / "rnn" / "1" / "model.safetensors").stat().st_mtime_ns
    assert call("--corpus", corpus, *SMALL).stdout == found.stdout
    assert (out / "runs" / "rnn" / "1" / "model.safetensors").stat().st_mtime_ns == trained
    shutil.rmtree(corpus.parent)
    alone = call("report", "--trials", 100)
    assert alone.exit_code == 0, alone.output
    assert alone.stdout == found.stdout


@pytest.mark.medium
def test_entries_in_a_ledger_are_called_as_the_corpus_not_as_its_file(call: Call, corpus: Path, tmp_path: Path) -> None:
    file, docs = corpus.rename(corpus.parent / "mine.toml"), tmp_path / "docs"
    names = []
    for name in ("news", "talks"):
        file.write_text(GOOD.replace('name = "news"', f'name = "{name}"'), encoding="utf-8")
        shutil.rmtree(tmp_path / "out", ignore_errors=True)
        assert call("--corpus", file, *SMALL).exit_code == 0
        recorded = CliRunner().invoke(root, ["reproduce", "record", str(tmp_path / "out"), "--docs", str(docs)])
        assert recorded.exit_code == 0, recorded.output
        names.append(f"domhan2018-table3-rnn-{name}-budget-3-updates-d-16-tying-target-n-1-batch-tokens-64-seed-1")
    assert [entry.id for entry in ledger.read(docs / "results")] == names


@pytest.mark.medium
def test_other_text_is_another_folder(call: Call, corpus: Path) -> None:
    assert call("--corpus", corpus, *SMALL).exit_code == 0
    with (
        open(corpus.parent / "train.en", "a", encoding="utf-8") as source,
        open(corpus.parent / "train.de", "a") as target,
    ):
        source.write("a red dog\n")
        target.write("ein rote hund\n")
    found = call("--corpus", corpus, *SMALL)
    assert codes(found) == ["X705"]
    assert isinstance(found.exception, CalqueError)
    assert found.exception.diagnostics[0].fields["key"] == "text"
    assert set(codes(call(*SMALL))) == {"X703"}  # a public corpus that is not there


def test_files_of_the_user_are_never_replaced(call: Call, corpus: Path, tmp_path: Path) -> None:
    """A corpus file has the name of the copy that an output folder keeps."""
    mine = corpus.rename(corpus.parent / "corpus.toml")
    before = {file: file.read_bytes() for file in corpus.parent.rglob("*.*")}
    shutil.copytree(corpus.parent, tmp_path / "out")
    assert codes(call("--corpus", mine, *SMALL)) == ["X405"]
    assert codes(call("--corpus", tmp_path / "out" / "corpus.toml", *SMALL)) == ["X405"]
    after = {corpus.parent / file.relative_to(tmp_path / "out"): file for file in (tmp_path / "out").rglob("*.*")}
    assert {name: file.read_bytes() for name, file in after.items()} == before


@pytest.mark.medium
def test_how_words_are_cut_is_said_in_the_file(call: Call, corpus: Path, tmp_path: Path) -> None:
    corpus.write_text('tokenize = "none"\n' + GOOD, encoding="utf-8")
    assert call("--corpus", corpus, *SMALL).exit_code == 0
    (entry,) = ledger.read(tmp_path / "out" / "cells")
    assert "tok:none" in str(entry.conditions["BLEU signature"])
    # The machine's folders stand in no entry.
    assert "--corpus news.toml" in entry.command


@pytest.mark.medium
def test_timings_and_counts_of_own_text(call: Call, corpus: Path, tmp_path: Path) -> None:
    found = call("compute", "--corpus", corpus, spec=("you2020", "table1"))
    assert found.exit_code == 0, found.output
    assert "here: News En-De" in found.stdout
    shutil.rmtree(tmp_path / "out")
    rows = ["--rows", "base", *SMALL[2:], "--set", "heads=2", "--set", "h=16"]
    assert call("--corpus", corpus, *rows, spec=("you2020", "table7")).exit_code == 0
    timing = [*SMALL_TIMED, "--set", "heads=2", "--set", "h=16", "--sentences", 2]
    timed = call("time", "--corpus", corpus, *timing, spec=("you2020", "table7"))
    assert timed.exit_code == 0, timed.output
    (entry,) = ledger.read(tmp_path / "out" / "speed")
    assert entry.conditions["weights"] == "trained"


@pytest.mark.parametrize(
    ("old", "new", "expected"),
    [
        ('name = "news"\n', "", ["X852"]),
        ('target = "de"\n', "", ["X852"]),
        ('test = ["test.en", "test.de"]\n', "", ["X852"]),
        ('train = ["train.en", "train.de"]\n', "", ["X852"]),
        ('title = "News En-De"', 'titel = "News En-De"', ["X853"]),
        ("[data]", "[model]\ntying = 'none'\n\n[data]", ["X853"]),
        ('"news"', '"The News"', ["X854"]),
        ('"news"', '"multi30k"', ["X854"]),
        ('"news"', "7", ["X854"]),
        ('source = "en"', 'source = "English"', ["X854"]),
        ('title = "News En-De"', 'tokenize = "moses"', ["X854"]),
        ('"train.de"', '"missing.de"', ["X855"]),
        ('["test.en", "test.de"]', '["test.en"]', ["X201"]),
        ('["test.en", "test.de"]', "[]", ["X201"]),
        ('["train.en", "train.de"]', "[]", ["X201"]),
        ("joint", "jiont", ["X105"]),
        ("joint = false", "joint = 3", ["X106"]),
        ('name = "news"', "name = ", ["X103"]),
        ('target = "de"\n', 'tokenize = "x"\n', ["X852", "X854"]),
    ],
)
def test_what_is_wrong_with_a_file_is_told_before_anything_is_written(
    call: Call, corpus: Path, tmp_path: Path, old: str, new: str, expected: list[str]
) -> None:
    assert old in GOOD
    corpus.write_text(GOOD.replace(old, new, 1), encoding="utf-8")
    found = call("--corpus", corpus, *SMALL)
    assert sorted(codes(found)) == expected
    assert not (tmp_path / "out").exists()
    assert isinstance(found.exception, CalqueError)
    for fault in found.exception.diagnostics:
        file = fault.where.text.name if isinstance(fault.where, Span) else fault.where and fault.where.file
        assert str(file).endswith("news.toml")


@pytest.mark.medium
def test_what_help_says_of_a_missing_key_works(call: Call, corpus: Path) -> None:
    """Each example, written into the file, removes its error."""
    body = "[data]\nsubwords = 'words'\n"
    for _ in range(8):
        corpus.write_text(body, encoding="utf-8")
        found = call("--corpus", corpus, *SMALL)
        if found.exception is None:
            break
        assert isinstance(found.exception, CalqueError), found.output
        first = found.exception.diagnostics[0]
        if first.code == "X855":  # the example names other files than are here
            body = re.sub(r'"valid\.', '"text/valid.', body)
            continue
        assert first.code == "X852"
        line = str(first.fields["example"]) + "\n"
        body = body + line if str(first.fields["key"]).startswith("data.") else line + body
    assert found.exit_code == 0, found.output


def test_text_that_does_not_fit_is_told_once_and_trains_nothing(call: Call, corpus: Path, tmp_path: Path) -> None:
    (corpus.parent / "test.de").write_text("ein hund\n", encoding="utf-8")
    found = call("--corpus", corpus, *SMALL)
    assert codes(found) == ["D102"]
    assert not (tmp_path / "out").exists()


def test_a_corpus_of_no_such_name(call: Call, corpus: Path) -> None:
    found = call("--corpus", "news", *SMALL)
    assert found.exit_code == 2
    assert "multi30k, envi, or a file FILE.toml" in found.output
    assert codes(call("--corpus", "no.toml", *SMALL)) == ["X101"]


@pytest.mark.medium
def test_a_report_says_which_text_it_is_of(call: Call, corpus: Path, tmp_path: Path) -> None:
    assert call("--corpus", corpus, *SMALL).exit_code == 0
    told = json.loads((tmp_path / "out" / "report.json").read_text(encoding="utf-8"))
    assert told["corpus"] == "News En-De"
    assert told["asked"]["corpus"] == "news"
    assert told["asked"]["text"]
