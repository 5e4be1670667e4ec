"""The language pair of a table's column decides on the sizes of what is trained and timed."""

import json
from collections.abc import Callable
from pathlib import Path

import pytest
from click.testing import CliRunner, Result
from reproduced import words

from calque.adl.check import check
from calque.cli import root
from calque.experiment import load as load_experiment
from calque.ground.diagnostics import CalqueError
from calque.layers.registry import builtin
from calque.ledger import entry as ledger
from calque.papers.plan import heads_of
from calque.papers.request import Request
from calque.zoo import read

TINY = ["--set", "n=1", "--set", "train.batch_tokens=64", "--set", "train.threads=1", "--updates", 1, "--trials", 100]
Call = Callable[..., Result]


@pytest.fixture
def call(corpora: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Call:

    monkeypatch.chdir(tmp_path)

    def run(*arguments: object, out: str = "out", spec: tuple[str, str] = ("domhan2018", "table3")) -> Result:
        given = [*words(spec, arguments), "--data", str(corpora), "--out", str(tmp_path / out)]
        return CliRunner().invoke(root, given)

    return run


def code(found: Result) -> str:
    assert isinstance(found.exception, CalqueError), found.output
    return found.exception.diagnostics[0].code


def text(folder: Path, row: str) -> str:
    return (folder / "runs" / row / "1" / "architecture.adl").read_text(encoding="utf-8")


@pytest.mark.slow  # rows of 256 and of 512 are trained
def test_a_row_is_trained_at_the_sizes_of_its_pair(call: Call, tmp_path: Path) -> None:
    short = ["--set", "decode.beam=1", "--set", "decode.max_length_offset=1", "--set", "decode.max_length_factor=1.0"]
    rows = ["--rows", "rnn", "--seeds", 1, *TINY, *short]
    found = call(*rows, "--pair", "wmt17-ende")
    assert found.exit_code == 0, found.output
    out = tmp_path / "out"
    assert "\nd = 256\n" in text(out, "rnn")
    (entry,) = ledger.read(out / "cells")
    assert entry.id == "domhan2018-table3-rnn-wmt17-ende-multi30k-budget-1-updates-seed-1"
    assert entry.conditions["sizes"] == "wmt17-ende"
    assert "--pair wmt17-ende" in entry.command
    assert "23.8 ± 0.1" in found.stdout
    # The report: of its own pair, or of another of the same sizes, and of none of other sizes.
    assert call("report", "--trials", 100).stdout == found.stdout
    assert "15.2 ± 0.1" in call("report", "--trials", 100, "--pair", "wmt17-lven").stdout
    assert code(call("report", "--pair", "iwslt16-ende")) == "X851"
    # So is going on: the same sizes, or another folder.
    assert call(*rows, "--pair", "wmt17-lven").exit_code == 0
    assert code(call(*rows)) == "X705"
    # What the help of X851 says.
    again = call(*rows, "--pair", "iwslt16-ende", out="other")
    assert again.exit_code == 0, again.output
    assert "\nd = 512\n" in text(tmp_path / "other", "rnn")
    (entry,) = ledger.read(tmp_path / "other" / "cells")
    assert entry.id == "domhan2018-table3-rnn-multi30k-budget-1-updates-seed-1"


@pytest.mark.medium
def test_a_size_that_is_set_is_that_of_every_pair(call: Call, tmp_path: Path) -> None:
    assert call("--rows", "rnn", "--seeds", 1, *TINY, "--d", 16).exit_code == 0
    assert "\nd = 16\n" in text(tmp_path / "out", "rnn")
    assert call("report", "--trials", 100, "--pair", "wmt17-ende").exit_code == 0


def test_table_3_of_you_2020_is_timed_at_the_sizes_for_wmt(
    call: Call, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Tables 3 and 7 have the same rows, each at its own sizes."""
    monkeypatch.setattr("calque.papers.speed.LENGTH", 2)
    few = [
        "--rows",
        "base-sa",
        "--sentences",
        1,
        "--repeats",
        1,
        "--set",
        "data.vocabulary_size=30",
        "--set",
        "train.threads=1",
    ]
    for table, expected in {"table3": "you2020/table3/base-sa", "table7": "you2020/table7/base-sa"}.items():
        found = call("time", *few, out=table, spec=("you2020", table))
        assert found.exit_code == 0, found.output
        (entry,) = ledger.read(tmp_path / table / "speed")
        built = check(read(expected), builtin())
        assert entry.conditions["architectures"] == built.hash
        assert built.decoder.width_out == {"table3": 512, "table7": 288}[table]


@pytest.mark.medium
def test_a_folder_of_before_goes_on_where_its_sizes_were_right(call: Call, tmp_path: Path) -> None:
    """Its `reproduce.json` names no pair: its rows have the sizes of the texts."""
    rows = ["--rows", "rnn", "--seeds", 1, *TINY, "--d", 16]
    assert call(*rows).exit_code == 0
    about = tmp_path / "out" / "reproduce.json"
    held = json.loads(about.read_text(encoding="utf-8"))
    about.write_text(json.dumps({k: v for k, v in held.items() if k not in ("pair", "keys", "file", "text")}))
    assert call(*rows).exit_code == 0
    assert call("report", "--trials", 100).exit_code == 0
    wrong = Request("you2020", "table3", "multi30k", "budget")
    assert not wrong.has_sizes_of("wmt16-enro")
    assert Request("you2020", "table7", "multi30k", "budget").has_sizes_of("iwslt16-ende")


def test_heads_are_those_of_the_text_unless_they_are_set() -> None:
    assert heads_of(read("you2020/table7/base"), {}) == 4
    assert heads_of(read("you2020/table3/base"), {}) == 8
    assert heads_of(read("you2020/table3/base"), {"heads": "heads=2"}) == 2
    assert heads_of(read("domhan2018/table3/rnn"), {}) == 8


# -- keys that a paper's rows are trained with, whatever the recipe


@pytest.mark.medium
@pytest.mark.parametrize("recipe", ["budget", "luong2015"])
def test_rows_of_luong_2015_read_no_end_symbol(call: Call, tmp_path: Path, recipe: str) -> None:
    small = ["--rows", "base", "--seeds", 1, *TINY, "--d", 8, "--set", "train.batch_sentences=8"]
    found = call(*small, "--recipe", recipe, spec=("luong2015", "table1"))
    assert found.exit_code == 0, found.output
    data = load_experiment(tmp_path / "out" / "runs" / "base" / "1" / "experiment.toml").data
    assert data.source_end is False
    (entry,) = ledger.read(tmp_path / "out" / "cells")
    assert "data.source_end=false" in str(entry.conditions["keys"])


@pytest.mark.medium
def test_rows_of_other_papers_read_it(call: Call, tmp_path: Path) -> None:
    sizes = ["--d", 8, "--set", "train.batch_tokens=64", "--set", "train.threads=1", "--updates", 1, "--trials", 100]
    found = call("--rows", "lstm", "--seeds", 1, *sizes, spec=("gehring2017", "table1"))
    assert found.exit_code == 0, found.output
    assert load_experiment(tmp_path / "out" / "runs" / "lstm" / "1" / "experiment.toml").data.source_end is True


@pytest.mark.medium
def test_a_folder_of_rows_with_the_end_symbol_is_not_gone_on_with(call: Call, tmp_path: Path) -> None:
    small = ["--rows", "base", "--seeds", 1, *TINY, "--d", 8]
    assert call(*small, spec=("luong2015", "table1")).exit_code == 0
    about = tmp_path / "out" / "reproduce.json"
    held = json.loads(about.read_text(encoding="utf-8"))
    about.write_text(json.dumps({k: v for k, v in held.items() if k not in ("pair", "keys", "file", "text")}))
    found = call(*small, spec=("luong2015", "table1"))
    assert code(found) == "X705"
    (path,) = (tmp_path / "out" / "cells").iterdir()
    path.write_text(path.read_text(encoding="utf-8").replace("data.source_end=false ", ""), encoding="utf-8")
    told = call("report", "--trials", 100, spec=("luong2015", "table1"))
    assert told.exit_code == 0, told.output
    assert "Trained without `data.source_end=false`, which the paper's rows need: base." in told.stdout


@pytest.mark.medium
def test_a_key_of_the_paper_can_be_set_otherwise(call: Call, tmp_path: Path) -> None:
    small = ["--rows", "base", "--seeds", 1, *TINY, "--d", 8, "--set", "data.source_end=true"]
    assert call(*small, spec=("luong2015", "table1")).exit_code == 0
    assert load_experiment(tmp_path / "out" / "runs" / "base" / "1" / "experiment.toml").data.source_end is True
