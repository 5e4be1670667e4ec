"""Figures of papers by `reproduce` and by `analyse`: one path, and what is drawn without a run against what papers print."""

import json
import re
from pathlib import Path

import pytest
import torch
from click.testing import CliRunner, Result

from calque import zoo
from calque.adl.check import check
from calque.cli import root
from calque.diagram import diagram
from calque.ground.diagnostics import CalqueError
from calque.layers.registry import builtin
from calque.papers import drawing as papers
from calque.papers.drawing import runs_in
from calque.papers.figures import DIAGRAM, paper_figures


def call(*words: object) -> Result:

    return CliRunner().invoke(root, [str(word) for word in words])


@pytest.mark.medium
def test_the_mask_is_the_papers() -> None:
    """Zhang 2018, figure 3: row j is 1/j up to column j."""
    (drawn,) = papers.average_mask(4)
    weights = torch.tensor(drawn.table.numbers("weight")).view(4, 4)
    rows = [[1.0, 0, 0, 0], [1 / 2, 1 / 2, 0, 0], [1 / 3, 1 / 3, 1 / 3, 0], [1 / 4, 1 / 4, 1 / 4, 1 / 4]]
    torch.testing.assert_close(weights, torch.tensor(rows), rtol=0, atol=1e-6)


def test_hard_coded_heads_are_the_papers() -> None:
    """You 2020, footnote 1."""
    before, here, behind = papers.hard_coded_weights(len(papers.WORDS))[:, papers.PLACE]
    assert [round(w, 3) for w in here.tolist()] == pytest.approx([0.054, 0.24, 0.40, 0.24, 0.054], abs=0.0025)
    assert before[:-1].tolist() == here[1:].tolist()
    assert behind[1:].tolist() == here[:-1].tolist()


def test_every_row_that_a_figure_names_has_a_run() -> None:
    """Rows that decode another row's model have none, and would be left out without a word."""
    for figure in paper_figures().values():
        for name in figure.rows if figure.piece != DIAGRAM else ():
            table, _, key = name.partition("/")
            assert not key or key in {row.key for row in figure.tables[table]}, f"{figure.name}: {name}"


def test_architectures_are_those_of_explain() -> None:
    figures = [figure for figure in paper_figures().values() if figure.piece == DIAGRAM]
    assert len(figures) == 8
    for name in {name for figure in figures for name in figure.rows}:
        (drawn,) = papers.architectures([name])
        assert drawn.svg.decode() == diagram(check(zoo.read(name), builtin()), name)


@pytest.mark.medium
@pytest.mark.parametrize("name", ["zhang2018/figure2", "zhang2018/figure3", "you2020/figure1"])
def test_without_runs_both_commands_draw_the_same(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, name: str) -> None:
    monkeypatch.chdir(tmp_path)
    one, two = tmp_path / "one", tmp_path / "two"
    found = call("reproduce", "draw", *name.split("/"), "--out", one)
    assert found.exit_code == 0, found.output
    assert call("analyse", "--figure", name, "--out", two).exit_code == 0
    files = {file.name for file in one.iterdir() if file.is_file()}
    assert files == {file.name for file in two.iterdir() if file.is_file()}
    assert any(file.endswith(".svg") for file in files)
    for file in files - {"report.html"}:
        assert (one / file).read_bytes() == (two / file).read_bytes()
    page = (one / "report.html").read_text(encoding="utf-8")
    assert f"--figure {name}" in re.sub("<[^>]+>", "", page)


@pytest.mark.medium
def test_with_runs_both_commands_draw_the_same(tmp_path: Path, runs: dict[str, Path]) -> None:
    one, two = tmp_path / "one", tmp_path / "two"
    name, run = "you2020/figure1", runs["transformer"]
    found = call("reproduce", "draw", *name.split("/"), "--from", run, "--out", one)
    assert found.exit_code == 0, found.output
    assert call("analyse", run, "--figure", name, "--out", two).exit_code == 0
    (table,) = (file.name for file in one.glob("query*.csv"))
    body = (one / table).read_text(encoding="utf-8")
    assert body == (two / table).read_text(encoding="utf-8")
    assert "learned,head 2" in body
    assert "hard-coded,offset -1" in body


def test_hard_coded_heads_are_not_called_learned(tmp_path: Path, runs: dict[str, Path]) -> None:
    found = call("analyse", runs["hard-coded"], "--figure", "you2020/figure1", "--out", tmp_path)
    assert found.exit_code == 0, found.output
    assert "has no self-attention in its encoder" in (tmp_path / "report.html").read_text(encoding="utf-8")
    assert not any("learned" in file.read_text(encoding="utf-8") for file in tmp_path.glob("query*.csv"))


@pytest.mark.medium
def test_the_papers_figures_stand_beside(tmp_path: Path, runs: dict[str, Path]) -> None:
    found = call("reproduce", "draw", "zhang2018", "figure6", "--from", runs["transformer"], "--out", tmp_path)
    assert found.exit_code == 0, found.output
    page = (tmp_path / "report.html").read_text(encoding="utf-8")
    assert "26.37" in page
    assert "26.31" in page
    # The paper's own buckets: eight of one width, of sentences of 1 to 9 words.
    assert len((tmp_path / "lengths.csv").read_text(encoding="utf-8").splitlines()) <= 1 + 8


def output_folder(at: Path, run: Path, *rows: str, paper: str = "you2020", table: str = "table2") -> Path:
    """As `calque reproduce` leaves it, with unfinished seeds before those that are runs."""
    for row in rows:
        (at / "runs" / row / "1").mkdir(parents=True)
        (at / "runs" / row / "2").symlink_to(run, True)
    asked = {"paper": paper, "table": table, "corpus": "multi30k", "recipe": "budget"}
    (at / "reproduce.json").write_text(json.dumps(asked), encoding="utf-8")
    return at


def test_rows_of_an_output_folder(tmp_path: Path, runs: dict[str, Path]) -> None:
    run, figure = runs["transformer"], paper_figures()["you2020/figure4"]
    here = output_folder(tmp_path / "here", run, "base", "hc-all", "other")
    assert runs_in(here, figure, named=True) == [here / "runs" / row / "2" for row in ("base", "hc-all")]
    other = output_folder(tmp_path / "other", run, "x", "y", paper="domhan2018", table="table3")
    assert runs_in(other, figure, named=True) == [other / "runs" / row / "2" for row in ("x", "y")]
    assert runs_in(run, figure, named=True) == [run]
    assert runs_in(tmp_path / "nowhere", figure, named=False) == []


def test_sweeps_take_the_cells_of_several_folders(tmp_path: Path) -> None:
    for n in (1, 2):
        cells = tmp_path / f"n{n}" / "cells"
        cells.mkdir(parents=True)
        write_cell(cells, n)
    folders = [word for n in (1, 2) for word in ("--from", tmp_path / f"n{n}")]
    found = call("reproduce", "draw", "you2020", "figure3", *folders, "--out", tmp_path / "out")
    assert found.exit_code == 0, found.output
    lines = (tmp_path / "out" / "sweep-n.csv").read_text(encoding="utf-8").splitlines()
    assert [line.split(",")[:3] for line in lines] == [["line", "n", "BLEU"], ["base", "1", "21"], ["base", "2", "22"]]
    assert "1.8 BLEU" in (tmp_path / "out" / "report.html").read_text(encoding="utf-8")


def write_cell(cells: Path, n: int) -> None:
    from calque.ledger.entry import conditions, publish

    where = {**conditions(), "row": "base", "settings": f"n={n}"}
    publish(cells, f"cell-{n}", "t", "quality", "c", {"BLEU": 20.0 + n}, where, seed=1)


@pytest.mark.parametrize(
    ("words", "code"),
    [
        (("you2020", "figure2"), "X841"),
        (("you2020", "figure3", "--from", "empty"), "X841"),
        (("luong2015", "table6"), "X841"),
        (("you2020", "table4"), "X841"),
        (("you2020", "table2"), "X701"),
        (("you2020", "figure2", "--from", "empty"), "X842"),
        (("you2020", "figure22"), "X701"),
    ],
)
def test_bad_input(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, words: tuple[str, ...], code: str) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "empty").mkdir()
    found = call("reproduce", "draw", *words)
    assert isinstance(found.exception, CalqueError), found.output
    assert found.exception.diagnostics[0].code == code
    assert not (tmp_path / "runs").exists()


def test_bad_usage(tmp_path: Path) -> None:
    assert call("reproduce", "report", "zhang2018", "table2", "--from", tmp_path).exit_code == 2
    assert call("reproduce", "draw", "zhang2018", "figure2", "--minutes", 3).exit_code == 2
    assert call("reproduce", "compute", "zhang2018", "table1", "--from", tmp_path).exit_code == 2
    assert call("analyse", "--figure", "you2020/figure2", "--out", tmp_path).exit_code == 2
