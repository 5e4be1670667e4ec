"""Models that another table's output folder has trained, on a corpus of a few words."""

from pathlib import Path

import pytest
from click.testing import CliRunner, Result
from reproduced import words

from calque.cli import root
from calque.ground.diagnostics import CalqueError
from calque.ledger import entry as ledger

SETTINGS = {"d": 8, "n": 1, "train.batch_tokens": 64, "train.threads": 1}
WORDS = {"data.subwords": "words", "data.codes": "", "data.joint": "false", "model.tying": "none"}
SMALL = [
    *("--updates", 3, "--trials", 100, "--seeds", 1),
    *(word for key, value in (SETTINGS | WORDS).items() for word in ("--set", f"{key}={value}")),
]


def train(corpora: Path, out: Path, table: str, *arguments: object) -> Result:
    given = words(("luong2015", table), [*SMALL, *arguments, "--data", corpora, "--out", out])
    return CliRunner().invoke(root, given)


def cells(out: Path) -> dict[str, ledger.Entry]:
    return {str(entry.conditions["row"]): entry for entry in ledger.read(out / "cells")}


@pytest.mark.usefixtures("learned")
@pytest.mark.slow
def test_equal_rows_of_another_table_are_taken_over(corpora: Path, tmp_path: Path) -> None:
    there, here = tmp_path / "there", tmp_path / "here"
    made = train(corpora, there, "table4", "--rows", "global-location,local-p-general")
    assert made.exit_code == 0, made.output
    log = (there / "runs" / "local-p-general" / "1" / "log.jsonl").read_bytes()

    rows = ("--rows", "global+feed,local-p+feed,global", "--from", there)
    found = train(corpora, here, "table1", *rows)
    assert found.exit_code == 0, found.output
    assert "local-p+feed, seed 1: taken over from" in found.output
    assert "global, seed 1: taken over" not in found.output  # no row of the other table is like it
    assert (
        (here / "runs" / "local-p+feed" / "1" / "log.jsonl").read_bytes().startswith(log)
    )  # and says that it was called
    mine, others = cells(here), cells(there)
    for row, of in (("global+feed", "global-location"), ("local-p+feed", "local-p-general")):
        assert mine[row].figures["BLEU"] == others[of].figures["BLEU"]
        assert mine[row].figures["training seconds"] == others[of].figures["training seconds"]
    # Rows that decode models find what was taken over.
    assert {"local-p+feed+unk", "ensemble"} < set(mine)

    again = train(corpora, here, "table1", *rows)
    assert again.exit_code == 0, again.output
    assert "taken over" not in again.output


@pytest.mark.slow
def test_what_was_trained_otherwise_is_not(corpora: Path, tmp_path: Path) -> None:
    there = tmp_path / "there"
    assert train(corpora, there, "table4", "--rows", "global-location").exit_code == 0
    for k, otherwise in enumerate(
        (["--set", "train.lr=0.5"], ["--set", "drop=0.3"], ["--set", "model.initialisation=uniform"])
    ):
        found = train(corpora, tmp_path / f"out-{k}", "table1", "--rows", "global+feed", "--from", there, *otherwise)
        assert found.exit_code == 0, found.output
        assert "taken over" not in found.output, otherwise


def test_a_folder_without_cells(corpora: Path, tmp_path: Path) -> None:
    found = train(corpora, tmp_path / "here", "table1", "--rows", "global+feed", "--from", tmp_path / "nothing")
    assert isinstance(found.exception, CalqueError)
    assert [one.code for one in found.exception.diagnostics] == ["X706"]
    assert not (tmp_path / "here" / "runs").exists()
