"""Lines in capitals through `calque translate` and Python: read in small letters, and translated in capitals."""

import sys
from pathlib import Path

import pytest
from command import Outcome, Run
from tiny import experiment

import calque as package
from calque import cli

KNOWN = ["a b c", "", "a e f h e", "d h d e g"]
SHOUTED = ["A B C", "", "A E F H E", "D H D E G"]


@pytest.fixture(scope="module")
def run(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Trained on letters backwards, none of them a capital."""
    folder = tmp_path_factory.mktemp("letters")
    path = experiment(folder, data__symbols=["<2x>"], max_updates=120, validate_every_updates=60)
    with pytest.MonkeyPatch.context() as m:
        m.setattr(sys, "argv", ["calque", "train", str(path), "--out", str(folder / "run")])
        cli.main()
    return folder / "run"


def out(found: Outcome) -> list[str]:
    assert found.status == 0, found.err
    return found.out.split("\n")[:-1]


def stdin(lines: list[str]) -> bytes:
    return "".join(f"{line}\n" for line in lines).encode()


WAYS = [[], ["--workers", 2], ["--sentences"], ["--beam", 1], ["--invariant"], ["--n-best", 3], ["--tag", "<2x>"]]


@pytest.mark.medium
@pytest.mark.parametrize("way", WAYS)
def test_a_line_in_capitals_has_the_translation_of_small_letters(calque: Run, run: Path, way: list[object]) -> None:
    small = out(calque("translate", run, *way, stdin=stdin(KNOWN)))
    assert len(set(small)) > 2
    capitals = [line.upper().replace("<2X>", "<2x>").replace("<UNK>", "<unk>") for line in small]
    assert out(calque("translate", run, *way, stdin=stdin(SHOUTED))) == capitals


@pytest.mark.medium
def test_recase_is_a_key(calque: Run, run: Path) -> None:
    small = out(calque("translate", run, stdin=stdin(KNOWN)))
    as_written = out(calque("translate", run, "--set", "decode.recase=false", stdin=stdin(SHOUTED)))
    assert all(a not in (b, b.upper()) for a, b in zip(as_written, small, strict=True) if b)
    assert out(calque("translate", run, "--set", "decode.recase=false", stdin=stdin(KNOWN))) == small


def test_given_words_stay_as_they_are(calque: Run, run: Path, tmp_path: Path) -> None:
    path = tmp_path / "prefixes"
    path.write_text("h\n\n\n\n")
    forced = out(calque("translate", run, "--prefix", path, stdin=stdin(SHOUTED)))
    assert forced[0].startswith("h ")
    assert forced[2:] == out(calque("translate", run, stdin=stdin(SHOUTED)))[2:]
    assert "h" in package.load(run).translate("A B C", required=["h"]).split()


def test_a_term_is_found_in_capitals_and_written_in_capitals(run: Path, tmp_path: Path) -> None:
    terms = tmp_path / "terms.tsv"
    terms.write_text("b\th\nD\ta\n")
    loaded = package.load(run, terms=terms)
    first, *_, last = loaded.translate(SHOUTED)
    assert "H" in first.split()
    assert "A" in last.split()


def test_scores_and_alignments_read_lines_as_translations_do(run: Path) -> None:
    loaded = package.load(run)
    assert loaded.score([("A B C", "c b a")]) == loaded.score([("a b c", "c b a")])
    assert loaded.score([("A B C", "C B A")]) == loaded.score([("a b c", "c b a")])
    assert loaded.score([("a b c", "C B A")]) != loaded.score([("a b c", "c b a")])
    [one], [other] = loaded.candidates(["A B C"]), loaded.candidates(["a b c"])
    assert [x._replace(text="") for x in one] == [x._replace(text="") for x in other]
