"""What changes when a run is resumed is recorded, and a training is repeated as it was."""

import json
import re
import shlex
import shutil
from pathlib import Path
from typing import Any

import pytest
from command import Run
from tiny import everything, experiment, log, stop_after, weights

from calque.experiment import load
from parts import some

WITHOUT_LIMIT = {"max_updates": 0, "max_epochs": 1000}


def done(calque: Run, *arguments: object, status: int = 0) -> str:
    """What a command that ends so writes to stderr."""
    found = calque(*arguments)
    assert found.status == status, found
    assert "Traceback" not in found.err
    return found.err


def phases(run: Path) -> list[str]:
    return sorted(path.name for path in (run / "phases").iterdir())


def test_a_change_is_an_event_and_a_phase(calque: Run, tmp_path: Path) -> None:
    run = tmp_path / "run"
    made = experiment(tmp_path)
    done(calque, "train", made, "--out", run, "--set", "train.max_updates=4")
    assert phases(run) == ["0001-from-update-0.toml"]
    assert "phase" not in (run / "experiment.toml").read_text().split("[data]")[0]
    told = done(calque, "train", made, "--out", run, "--set", "train.lr=0.003")
    assert "from update 4 on: train.lr = 0.003, was 0.01" in told
    assert "from update 4 on: train.max_updates = 8, was 4" in told
    assert phases(run) == ["0001-from-update-0.toml", "0002-from-update-4.toml"]
    assert load(run / "phases" / "0001-from-update-0.toml").train.lr == 0.01
    assert load(run / "phases" / "0002-from-update-4.toml") == load(run / "experiment.toml")
    assert load(run / "experiment.toml").train.lr == 0.003
    assert "phase 2 of this training, after update 4" in " ".join((run / "experiment.toml").read_text().split("\n# "))
    first, second = log(run, "phase")
    assert (first["update"], first["changes"]) == (0, {})
    assert (second["update"], second["phase"]) == (4, 2)
    assert second["changes"] == {"train.lr": [0.01, 0.003], "train.max_updates": [4, 8]}
    about = json.loads((run / "model.json").read_text())
    assert [phase["from"] for phase in about["phases"]] == [0, 4]
    assert about["phases"][1]["experiment"] == about["experiment"]
    # The same again changes nothing.
    assert "from update" not in done(calque, "train", run)
    assert len(phases(run)) == len(log(run, "phase")) == 2
    rates = {line["update"]: line["lr"] for line in log(run, "train")}
    assert rates[8] < 0.0031 < rates[4]


def test_a_key_of_the_file_itself_is_a_change_too(calque: Run, tmp_path: Path) -> None:
    run = tmp_path / "run"
    done(calque, "train", experiment(tmp_path), "--out", run)
    file = run / "experiment.toml"
    file.write_text(file.read_text().replace("max_updates = 8", "max_updates = 10"))
    assert "train.max_updates = 10, was 8" in done(calque, "train", run)
    assert log(run, "phase")[-1]["changes"] == {"train.max_updates": [8, 10]}


@pytest.mark.medium
@pytest.mark.parametrize(
    "key", some(["max_updates=6", "max_epochs=2", "max_seconds=0.001", "patience=1", "min_lr=0.0099"], of=5)
)
def test_a_limit_of_one_call_does_not_stick(
    calque: Run, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, key: str
) -> None:
    run, made = tmp_path / "run", experiment(tmp_path, max_updates=150)
    with monkeypatch.context() as m:
        stop_after(m, 3)
        done(calque, "train", made, "--out", run, status=130)
    before = (run / "experiment.toml").read_bytes()
    told = done(calque, "train", run, "--set", f"train.{key}")
    name = key.partition("=")[0]
    assert f"for this call: train.{name} = " in told
    figures = json.loads((run / "model.json").read_text())["figures"]
    assert figures["limit"] == name
    assert 3 <= figures["update"] < 150
    assert (run / "experiment.toml").read_bytes() == before
    assert len(phases(run)) == 1
    assert list(log(run, "start")[-1]["limits"]) == [name]
    assert "150 updates" in done(calque, "train", run)


@pytest.mark.medium
def test_a_limit_of_one_call_does_not_bend_the_schedule(calque: Run, tmp_path: Path) -> None:
    made = experiment(tmp_path, schedule="linear", max_updates=8, validate_every_updates=4)
    done(calque, "train", made, "--out", tmp_path / "whole")
    done(calque, "train", made, "--out", tmp_path / "run", "--set", "train.max_updates=8")
    # The first call is the record; it was the same. Stop early and go on:
    other = tmp_path / "other"
    shutil.copytree(tmp_path / "run", other)
    assert "8 updates" in done(calque, "train", other, "--set", "train.max_updates=4")
    assert "10 updates" in done(calque, "train", other, "--set", "train.max_updates=10")
    assert [line["lr"] for line in log(other, "train")][-1] == 0.0  # the line ends at the run's own 8
    assert weights(tmp_path / "whole") == weights(tmp_path / "run")


def test_how_weights_began_cannot_change(calque: Run, tmp_path: Path) -> None:
    run = tmp_path / "run"
    done(calque, "train", experiment(tmp_path), "--out", run)
    before = (run / "experiment.toml").read_bytes()
    told = done(calque, "train", run, "--set", "model.initial_scale=0.2", status=1)
    assert "error[K201]" in told
    assert "`model.initial_scale`" in told
    assert (run / "experiment.toml").read_bytes() == before


def test_settings_of_the_search_are_told_and_no_phase(calque: Run, tmp_path: Path) -> None:
    run = tmp_path / "run"
    made = experiment(tmp_path)
    done(calque, "train", made, "--out", run)
    assert "decode.beam = 7, was 2" in done(calque, "train", run, "--set", "decode.beam=7")
    assert log(run, "start")[-1]["decode"] == {"decode.beam": [2, 7]}
    assert len(phases(run)) == 1
    assert load(run / "experiment.toml").decode.beam == 7


def one_of_everything(calque: Run, folder: Path, monkeypatch: pytest.MonkeyPatch, **keys: Any) -> Path:
    """A run with four phases: a signal within an epoch, other batches, a limit of one call, another optimiser's key."""
    run, made = folder / "run", experiment(folder, **{"max_updates": 20, **keys})
    with monkeypatch.context() as m:
        stop_after(m, 3)
        done(calque, "train", made, "--out", run, status=130)
    done(calque, "train", run, "--set", "train.batch_tokens=90", "--set", "train.max_updates=7")
    done(calque, "train", run, "--set", "train.lr=0.02", "--set", "train.max_updates=9")
    done(calque, "train", run, "--set", "train.beta2=0.9", "--set", "train.max_updates=13")
    assert len(phases(run)) == 4
    return run


@pytest.mark.medium
@pytest.mark.parametrize(
    "keys",
    [
        {},
        {"validate_every_updates": 0, "validate_every_seconds": 0.02, "schedule": "anneal", "decay_patience": 2},
        {"average": "last", "validate_bleu_sentences": 3, "validate_every_updates": 3},
    ],
)
def test_a_training_is_repeated_bit_for_bit(
    calque: Run, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, keys: dict[str, Any]
) -> None:
    run, again = one_of_everything(calque, tmp_path, monkeypatch, **keys), tmp_path / "again"
    told = done(calque, "train", run, "--out", again)
    assert "bit for bit" in told
    assert weights(again) == weights(run)
    assert weights(again, "checkpoints/state-13") == weights(run, "checkpoints/state-13")
    assert phases(again) == phases(run)
    for name in phases(run):
        assert load(again / "phases" / name) == load(run / "phases" / name)
    valid = [[(v["update"], v["perplexity"]) for v in log(r, "valid")] for r in (run, again)]
    assert valid[0] == valid[1]
    assert [v["changes"] for v in log(again, "phase")] == [v["changes"] for v in log(run, "phase")]


@pytest.mark.medium
def test_rates_that_followed_the_clock_are_repeated(
    calque: Run, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    run, again = tmp_path / "run", tmp_path / "again"
    keys = {
        "max_updates": 0,
        "max_seconds": 1.0,
        "schedule": "linear",
        "warmup_share": 0.2,
        "validate_every_updates": 3,
    }
    made = experiment(tmp_path, **keys)
    with monkeypatch.context() as m:
        stop_after(m, 4)
        done(calque, "train", made, "--out", run, status=130)
    done(calque, "train", run)
    assert "bit for bit" in done(calque, "train", run, "--out", again)
    rates = [[rate for line in log(r, "train") for rate in line["rates"]] for r in (run, again)]
    assert rates[0] == rates[1]
    assert len(rates[0]) == log(run, "train")[-1]["update"]


@pytest.mark.medium
def test_without_its_phases_it_would_be_another_model(
    calque: Run, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    run = one_of_everything(calque, tmp_path, monkeypatch)
    limit = ("--set", "train.max_updates=13")
    done(calque, "train", run / "experiment.toml", "--out", tmp_path / "other", *limit)
    assert weights(tmp_path / "other") != weights(run)


@pytest.mark.medium
def test_a_repetition_that_was_stopped_goes_on(calque: Run, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    run, again = one_of_everything(calque, tmp_path, monkeypatch), tmp_path / "again"
    for update in (2, 5, 8, 12):
        with monkeypatch.context() as m:
            stop_after(m, update)
            done(calque, "train", run, "--out", again, status=130)
    assert "bit for bit" in done(calque, "train", run, "--out", again)
    assert weights(again) == weights(run)
    # It is there now; one more call says so, and changes nothing.
    assert "bit for bit" in done(calque, "train", run, "--out", again)
    assert phases(again) == phases(run)


@pytest.mark.medium
def test_a_run_that_is_not_finished_is_repeated_and_trained_on(
    calque: Run, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    run, made = tmp_path / "run", experiment(tmp_path, max_updates=9)
    with monkeypatch.context() as m:
        stop_after(m, 3)
        done(calque, "train", made, "--out", run, status=130)
    with monkeypatch.context() as m:
        stop_after(m, 5)
        done(calque, "train", run, "--set", "train.lr=0.02", status=130)
    shutil.copytree(run, tmp_path / "copy")
    done(calque, "train", tmp_path / "copy", "--out", tmp_path / "again")
    assert "9 updates" in done(calque, "train", run)
    assert weights(tmp_path / "again") == weights(run)


@pytest.mark.medium
def test_a_repetition_needs_no_text(calque: Run, tmp_path: Path) -> None:
    done(calque, "train", experiment(tmp_path), "--out", tmp_path / "run")
    for path in [*tmp_path.glob("*.source"), *tmp_path.glob("*.target")]:
        path.write_text("another text\n" * 30)
    assert "bit for bit" in done(calque, "train", tmp_path / "run", "--out", tmp_path / "again")
    # What is repeated stands by itself, too.
    shutil.rmtree(tmp_path / "run")
    assert "text of the corpus has changed" in done(calque, "train", tmp_path / "again")


@pytest.mark.medium
def test_another_folder_is_no_repetition(calque: Run, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    run = tmp_path / "run"
    done(calque, "train", experiment(tmp_path), "--out", run)
    done(calque, "train", experiment(tmp_path, "other", lr=0.02), "--out", tmp_path / "other")
    before = weights(tmp_path / "other")
    told = done(calque, "train", run, "--out", tmp_path / "other", status=1)
    assert "error[K206]" in told
    assert weights(tmp_path / "other") == before
    assert "bit for bit" in done(calque, "train", run, "--out", tmp_path / "other", "--restart")
    assert weights(tmp_path / "other" / "replaced-0001") == before


@pytest.mark.medium
def test_other_threads_are_told(calque: Run, tmp_path: Path) -> None:
    run = tmp_path / "run"
    done(calque, "train", experiment(tmp_path), "--out", run)
    lines = (run / "log.jsonl").read_text()
    (run / "log.jsonl").write_text(lines.replace('"threads": 1', '"threads": 3'))
    file = run / "model.json"  # as it would be of other sums
    from calque.data.corpus import seal

    about = {**json.loads(file.read_text()), "sha256": "0" * 64}
    file.write_text(json.dumps({**about, "seal": seal(about)}))
    told = done(calque, "train", run, "--out", tmp_path / "again")
    assert "not bit for bit" in told
    assert "threads 3 there, 1 here" in told


def old(run: Path) -> None:
    """Makes of a run folder what an earlier version wrote."""
    shutil.rmtree(run / "phases")
    log_file = run / "log.jsonl"
    lines = [
        line
        for line in log_file.read_text().splitlines(keepends=True)
        if json.loads(line)["kind"] in ("train", "valid")
    ]
    log_file.write_text("".join(lines))
    file = run / "experiment.toml"
    file.write_text(re.sub(r"^(vocabulary|parent) = .*\n", "", file.read_text(), flags=re.MULTILINE))


@pytest.mark.medium
@pytest.mark.parametrize("how", ["run", "experiment"])
def test_an_old_folder_is_resumed_and_says_what_it_does_not_know(calque: Run, tmp_path: Path, how: str) -> None:
    whole, run, made = tmp_path / "whole", tmp_path / "run", experiment(tmp_path)
    done(calque, "train", made, "--out", whole, "--set", "train.max_updates=4")
    shutil.copytree(whole, run)
    old(run)
    told = done(calque, "train", run, "--out", tmp_path / "again", status=1)
    assert "error[K205]" in told
    done(calque, "train", whole, "--set", "train.max_updates=8")
    source = [run] if how == "run" else [made, "--out", run]
    done(calque, "train", *source, "--set", "train.max_updates=8")
    assert weights(run) == weights(whole)
    second = "0002-from-update-4.toml"
    assert phases(run) == ["0001-before-update-4.toml", second]
    assert log(run, "phase")[0]["known"] is False
    told = done(calque, "train", run, "--out", tmp_path / "again", status=1)
    assert "error[K205]" in told
    assert "before update 4" in told
    # What the help says to type works.
    (command,) = re.findall(r"`calque (train .* --out) NEW`", told)
    done(calque, *shlex.split(command), tmp_path / "again", "--set", "train.max_updates=2")


@pytest.mark.medium
def test_set_makes_no_one_experiment_of_phases(calque: Run, tmp_path: Path) -> None:
    run = tmp_path / "run"
    done(calque, "train", experiment(tmp_path), "--out", run)
    # Of one phase it does: another seed is another training.
    seed = ("--set", "train.seed=2")
    done(calque, "train", run, "--out", tmp_path / "seed-2", *seed)
    assert weights(tmp_path / "seed-2") != weights(run)
    done(calque, "train", run, "--set", "train.lr=0.02")
    told = done(calque, "train", run, "--out", tmp_path / "again", *seed, status=2)
    assert "error[X440]" in told
    assert not (tmp_path / "again").exists()
    (command,) = re.findall(r"`calque (train .*) --set", told)
    done(calque, *shlex.split(command), *seed, "--out", tmp_path / "again")


@pytest.mark.parametrize("missing", ["log.jsonl", "data"])
def test_what_cannot_be_repeated_is_refused(calque: Run, tmp_path: Path, missing: str) -> None:
    run = tmp_path / "run"
    done(calque, "train", experiment(tmp_path), "--out", run)
    shutil.copytree(run, tmp_path / "whole")
    if missing == "data":
        shutil.rmtree(run / "data")
        (tmp_path / "train.source").write_text("another text\n" * 120)
    else:
        (run / missing).unlink()
    other = tmp_path / "other"
    shutil.copytree(tmp_path / "whole", other)
    for options in ((), ("--restart",)):
        assert "error[K205]" in done(calque, "train", run, "--out", tmp_path / "again", *options, status=1)
        assert "error[K205]" in done(calque, "train", run, "--out", other, *options, status=1)
    assert everything(other) == everything(tmp_path / "whole")
    assert not (tmp_path / "again" / "model.json").exists()


def test_a_change_that_was_cut_off_is_recorded_by_the_next_call(
    calque: Run, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Killed after any of the files that record it; the log is written last."""
    run, made = tmp_path / "run", experiment(tmp_path, max_updates=4)
    done(calque, "train", made, "--out", run)
    import calque.train.phases as history

    plain = history.write_run_experiment

    def killed(*arguments: Any) -> None:
        plain(*arguments)
        raise KeyboardInterrupt

    with monkeypatch.context() as m:
        m.setattr(history, "write_run_experiment", killed)
        done(calque, "train", run, "--set", "train.lr=0.02", status=130)
    assert len(phases(run)) == 1
    done(calque, "train", run)
    assert log(run, "phase")[-1]["changes"] == {"train.lr": [0.01, 0.02]}
    with monkeypatch.context() as m:
        m.setattr(history.PhaseHistory, "events", lambda *_: (_ for _ in ()).throw(KeyboardInterrupt))
        done(calque, "train", run, "--set", "train.lr=0.03", status=130)
    done(calque, "train", run)
    assert [line["changes"] for line in log(run, "phase")[1:]] == [
        {"train.lr": [0.01, 0.02]},
        {"train.lr": [0.02, 0.03]},
    ]


def test_readers_of_the_log_pass_over_its_events(calque: Run, tmp_path: Path) -> None:
    from calque.analyse.curves import learning_curves
    from calque.run.log import read_log

    run = tmp_path / "run"
    done(calque, "train", experiment(tmp_path), "--out", run)
    done(calque, "train", run, "--set", "train.lr=0.02", "--set", "train.max_updates=10")
    lines = read_log(run)
    measured = [line for line in lines if line["kind"] in ("train", "valid")]
    assert len(measured) < len(lines)
    assert learning_curves({"run": lines}).rows == learning_curves({"run": measured}).rows
