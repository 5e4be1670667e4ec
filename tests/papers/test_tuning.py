"""`calque reproduce tune`: a recipe found by successive halving, its journal, and the recipe file."""

import json
import math
import os
import signal
import tomllib
from collections.abc import Callable
from pathlib import Path

import pytest
from click.testing import CliRunner, Result
from reproduced import words

from calque.cli import root
from calque.experiment import Experiment
from calque.experiment import load as load_experiment
from calque.ground.diagnostics import CalqueError
from calque.ledger import entry as ledger
from calque.papers import cells, halving
from calque.papers.commands import request_of
from calque.papers.trials import Journal, SettingGrid, TrialRecord, TrialSetting
from calque.train.finish import FinishedTraining
from calque.train.log import Validation
from calque.workflow.show import Show

SMALL = ["--d", 16, "--set", "n=1", "--set", "heads=2", "--set", "train.batch_tokens=64", "--set", "train.threads=1"]
GRID = ["--lr", 0.001, "--lr", 0.02, "--lr", 0.01, "--warmup-share", 0.1, "--dropout", 0.1, "--dropout", 0]
SPEC = ("domhan2018", "table3")
Call = Callable[..., Result]


@pytest.fixture
def call(corpora: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Call:
    monkeypatch.chdir(tmp_path)

    def run(*arguments: object, spec: tuple[str, ...] = SPEC, verb: str = "tune", out: str = "out") -> Result:
        given = [*words(spec, arguments, verb), "--data", str(corpora), "--out", str(tmp_path / out)]
        return CliRunner().invoke(root, given)

    return run


def tune(call: Call, *more: object, row: str = "rnn") -> Result:
    return call(row, "--updates", 2, "--eta", 2, "--rungs", 3, *GRID, *SMALL, *more)


def journal(tmp_path: Path) -> list[TrialRecord]:
    return Journal(tmp_path / "out" / "tune.jsonl").records()


def code(found: Result) -> str:
    assert isinstance(found.exception, CalqueError), found.output
    return found.exception.diagnostics[0].code


def test_a_grid_has_every_combination_once_and_knows_its_edges() -> None:
    grid = SettingGrid((0.1, 0.2, 0.1, 0.15), (0.0, 0.3, 0.1), (0.1, 0.2))
    assert len(grid.settings) == 18
    assert SettingGrid((1.0,), (0.1,)).settings == [TrialSetting(1.0, 0.1, None)]
    assert grid.edges(TrialSetting(0.2, 0.0, 0.1)) == ["--lr 0.2 is the highest tried"]
    assert grid.edges(TrialSetting(0.1, 0.3, 0.1)) == [
        "--lr 0.1 is the lowest tried",
        "--warmup-share 0.3 is the highest tried",
    ]


@pytest.mark.medium
def test_a_recipe_is_found_written_and_trained_with(call: Call, tmp_path: Path) -> None:
    found = tune(call)
    assert found.exit_code == 0, found.output
    records = journal(tmp_path)
    # 6 settings, the best half of them with twice the updates, then 2 with four times as many.
    assert [one["rung"] for one in records] == [1] * 6 + [2] * 3 + [3] * 2
    assert {(one["rung"], one["updates"], one["budget"]) for one in records} == {
        (1, 2, "2 updates"),
        (2, 4, "4 updates"),
        (3, 8, "8 updates"),
    }
    first, second, third = ([one for one in records if one["rung"] == rung] for rung in (1, 2, 3))
    assert {one["lr"] for one in second} <= {one["lr"] for one in first}

    def ranked(some: list[TrialRecord]) -> list[TrialSetting]:
        return [halving.setting_of(one) for one in sorted(some, key=lambda one: one["perplexity"] or math.inf)]

    assert {halving.setting_of(one) for one in second} == set(ranked(first)[:3])
    assert {halving.setting_of(one) for one in third} == set(ranked(second)[:2])
    best = min(third, key=lambda one: one["perplexity"] or math.inf)
    # Every trial is a whole training with a schedule of its own; its dropout stands in the definition.
    run = tmp_path / "out" / "runs" / "rnn" / halving.setting_of(best).name
    for budget, updates in (("2-updates", 2), ("8-updates", 8)):
        experiment = load_experiment(run / budget / "experiment.toml")
        assert (experiment.train.schedule, experiment.train.max_updates, experiment.train.final_lr) == (
            "linear",
            updates,
            0.0,
        )
        assert (experiment.train.lr, experiment.train.warmup_share) == (best["lr"], best["warmup_share"])
        assert not (run / budget / "checkpoints").exists()
        log = [json.loads(line) for line in (run / budget / "log.jsonl").read_text().splitlines()]
        assert len([line for line in log if line["kind"] == "valid"]) == updates
    # The table: the best first, what lost with it.
    lines = found.stdout.split("\n")
    assert lines[0].split()[:3] == ["lr", "warm-up", "dropout"]
    assert lines[1].split()[-1] == "best"
    assert [line.split()[-1] for line in lines[2:7]] == ["lost"] * 5
    assert lines[2].count("-") == 0
    assert lines[6].split()[-2] == "-"
    # The recipe: comments from the journal, and keys that train.
    path = tmp_path / "out" / "rnn-multi30k.toml"
    assert str(path) in found.stdout
    text = path.read_text(encoding="utf-8")
    for part in (
        "the best of 6 settings",
        f"{best['perplexity']:.3f} after 8 updates",
        best["data"],
        f"commit {best['conditions']['commit']}",
        "Multi30k En-De, test2016",
        "Base: the recipe `linear`",
    ):
        assert part in " ".join(text.replace("\n# ", " ").split()), part
    for line in lines[:7]:
        assert f"#     {line}" in text
    recipe = tomllib.loads(text)
    assert recipe["settings"] == {"p": best["dropout"]}
    assert recipe["train"]["lr"] == best["lr"]
    assert recipe["train"]["batch_tokens"] == 64
    assert not {"max_updates", "seed"} & recipe["train"].keys()
    # With the budget of the last rung it trains the same model.
    small = ["--d", 16, "--set", "n=1", "--set", "heads=2", "--trials", 100]
    trained = call("--rows", "rnn", "--seeds", 1, "--recipe", path, "--updates", 8, *small, verb="train", out="table")
    assert trained.exit_code == 0, trained.output
    (cell,) = ledger.read(tmp_path / "table" / "cells")
    assert cell.figures["validation perplexity"] == best["perplexity"]
    assert cell.conditions["recipe"] == "rnn-multi30k"
    assert "rnn-multi30k" in cell.id
    # Its report needs the file no more; another file of that name is another recipe.
    path.rename(tmp_path / "elsewhere.toml")
    assert call("report", "--trials", 100, verb="report", out="table").exit_code == 0
    path.write_text(text.replace("beam = 5", "beam = 4"))
    again = call("--rows", "rnn", "--seeds", 1, "--recipe", path, "--updates", 8, *small, verb="train", out="table")
    assert code(again) == "X705"
    asked = request_of(cell.command)
    assert asked is not None
    assert (asked.recipe, asked.updates, "p=" in " ".join(asked.settings)) == ("rnn-multi30k", 8, True)


@pytest.mark.slow
def test_a_second_call_trains_nothing_and_a_larger_grid_only_what_is_new(
    call: Call, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    trained: list[str] = []

    def counted(folder: object, experiment: Experiment, run: Path, title: str) -> object:
        trained.append(title)
        return cells.train_run(folder, experiment, run, title)  # type: ignore[arg-type]

    monkeypatch.setattr(halving, "train_run", counted)
    first = tune(call)
    assert len(trained) == 11
    again = tune(call)
    assert again.stdout == first.stdout
    assert len(trained) == 11
    assert "beyond it" in first.stderr or "edge" not in (tmp_path / "out" / "rnn-multi30k.toml").read_text()
    tune(call, "--lr", 1e-5)
    assert len(trained) >= 13
    assert all("1e-05" in title for title in trained[11:13])
    # A lost line of the journal costs its trial alone.
    file = tmp_path / "out" / "tune.jsonl"
    lines = file.read_text().splitlines()
    file.write_text("\n".join([*lines[:3], lines[3][:40], *lines[4:]]) + "\n")
    before = len(trained)
    assert tune(call).stdout == first.stdout
    assert len(trained) == before + 1


@pytest.mark.medium
def test_a_trial_that_fails_or_diverges_loses_and_ends_nothing(
    call: Call, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def sometimes(folder: object, experiment: Experiment, run: Path, title: str) -> object:
        if experiment.train.lr == 0.02:
            raise RuntimeError("out of memory")
        if experiment.train.lr == 0.01:
            return FinishedTraining(2, 0, 1.0, math.nan, None, "max_updates", ())
        return cells.train_run(folder, experiment, run, title)  # type: ignore[arg-type]

    monkeypatch.setattr(halving, "train_run", sometimes)
    found = tune(call)
    assert found.exit_code == 0, found.output
    assert found.stdout.count("failed") == found.stdout.count("diverged") == 2
    assert journal(tmp_path)[0]["failure"] == ""
    assert {one["failure"] for one in journal(tmp_path)} == {"", "diverged", "RuntimeError: out of memory"}
    assert {one["lr"] for one in journal(tmp_path) if one["rung"] > 1} == {0.001}
    text = (tmp_path / "out" / "rnn-multi30k.toml").read_text()
    assert "RuntimeError: out of memory" in " ".join(text.replace("\n# ", " ").split())
    # Where nothing learns there is no recipe.
    nothing = call("rnn", "--updates", 1, "--lr", 0.02, "--rungs", 1, *SMALL, out="none")
    assert nothing.exit_code == 1
    assert not list((tmp_path / "none").glob("*.toml"))


@pytest.mark.medium
def test_a_rate_that_is_far_too_high_loses(call: Call, tmp_path: Path) -> None:
    found = call("rnn", "--updates", 3, "--lr", 1e38, "--lr", 0.01, "--warmup-share", 0, "--dropout", 0, *SMALL)
    assert found.exit_code == 0, found.output
    assert found.stdout.split("\n")[1].split()[0] == "0.01"


@pytest.mark.slow
def test_a_signal_stops_it_and_the_next_call_resumes(
    call: Call, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    seen = 0

    def interrupting(self: Show, event: object) -> None:
        nonlocal seen
        if isinstance(event, Validation) and event.update == 2:
            seen += 1
            if seen == 9:  # the third trial of the second rung
                os.kill(os.getpid(), signal.SIGTERM)

    with monkeypatch.context() as patched:
        patched.setattr(Show, "__call__", interrupting)
        stopped = tune(call)
    assert stopped.exit_code == 128 + signal.SIGTERM, stopped.output
    assert "stopped after update 2 of rung 2" in stopped.stderr
    assert stopped.stdout == ""
    assert len(journal(tmp_path)) == 8
    resumed = tune(call)
    assert resumed.exit_code == 0
    told = [{**one, "seconds": 0} for one in journal(tmp_path)]
    (tmp_path / "out").rename(tmp_path / "stopped")
    assert tune(call).stdout == resumed.stdout
    assert [{**one, "seconds": 0} for one in journal(tmp_path)] == told


@pytest.mark.slow
def test_limits_and_schedule_of_the_base_recipe_do_not_end_a_trial(call: Call, tmp_path: Path) -> None:
    """Gehring's recipe anneals and ends below a rate; Luong's ends after ten epochs."""
    grid = ["--lr", 0.01, "--lr", 0.02, "--warmup-share", 0.1, "--dropout", 0.1]
    found = call("rnn", "--recipe", "gehring2017", "--updates", 3, "--rungs", 1, *grid, *SMALL)
    assert found.exit_code == 0, found.output
    assert [one["updates"] for one in journal(tmp_path)] == [3, 3]
    luong = call("rnn", "--recipe", "luong2015", "--epochs", 12, "--rungs", 1, *grid, *SMALL, out="luong")
    assert luong.exit_code == 0, luong.output
    assert {one["epochs"] for one in Journal(tmp_path / "luong" / "tune.jsonl").records()} == {12.0}
    recipe = tomllib.loads((tmp_path / "luong" / "rnn-multi30k.toml").read_text())
    assert (recipe["train"]["schedule"], recipe["data"]["max_tokens"]) == ("linear", 50)
    assert "max_epochs" not in recipe["train"]


def test_what_cannot_be_tuned(call: Call, tmp_path: Path) -> None:
    assert tune(call, "--epochs", 1).exit_code == 2
    assert call("rnn", *SMALL).exit_code == 2
    assert code(tune(call, row="rnm")) == "X702"
    assert code(tune(call, "--set", "train.lr=0.1")) == "X856"
    assert code(tune(call, "--set", "train.lrr=0.1")) == "X105"
    assert code(call("hc-sa", "--updates", 1, "--dropout", 0.1, spec=("zhang2018", "table1"))) == "X701"
    assert not list((tmp_path / "out").glob("runs/*"))
    bad = tmp_path / "Bad.toml"
    bad.write_text("")
    assert call("--recipe", bad, verb="train").exit_code == 2
    assert call("--recipe", "budget.toml", verb="train").exit_code == 2
    assert code(call("--recipe", "missing.toml", "--updates", 1, verb="train")) == "X101"


@pytest.mark.medium
def test_budgets_in_epochs_and_a_row_without_dropout(call: Call, tmp_path: Path) -> None:
    spec = ("luong2015", "table1")
    small = ["--d", 8, "--set", "n=1", "--set", "train.threads=1", "--set", "train.batch_tokens=64"]
    grid = ["--lr", 0.01, "--lr", 0.02, "--warmup-share", 0.1]
    found = call("base", "--epochs", 1, "--eta", 2, "--rungs", 2, *grid, *small, spec=spec)
    assert found.exit_code == 0, found.output
    # One setting is left after the first rung, so there is no second one; Luong's base has no dropout.
    assert [(one["budget"], one["epochs"], one["dropout"]) for one in journal(tmp_path)] == [("1 epoch", 1.0, None)] * 2
    assert "settings" not in tomllib.loads((tmp_path / "out" / "base-multi30k.toml").read_text())
    assert code(call("base", "--epochs", 1, "--dropout", 0.1, *grid, *small, spec=spec)) == "X856"
    dropped = call("base+dropout", "--epochs", 1, "--rungs", 1, *grid, *small, spec=spec, out="dropped")
    assert dropped.exit_code == 0, dropped.output
    (file,) = (tmp_path / "dropped").glob("base_*.toml")
    assert tomllib.loads(file.read_text())["settings"].keys() == {"drop"}


@pytest.mark.medium
def test_the_command_in_the_journal_names_the_grid(call: Call, tmp_path: Path) -> None:
    tune(call, "--rungs", 1)
    command = journal(tmp_path)[0]["command"]
    assert command.startswith(
        "calque reproduce tune domhan2018 table3 rnn --corpus multi30k --recipe linear --updates 2"
    )
    assert "--lr 0.001 --lr 0.02 --lr 0.01 --warmup-share 0.1 --dropout 0.1 --dropout 0 --eta 2 --rungs 1" in command
