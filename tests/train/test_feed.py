"""Training on several texts with weights, and on a stream: continued exactly, and bounded."""

import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest
from test_loop import Interrupt, lines, same_weights

from calque.adl.check import CheckedDefinition
from calque.data.compiled import prepare
from calque.data.corpus import PreparedCorpus
from calque.experiment import Experiment, load, write
from calque.experiment.training_text import TrainingText
from calque.ground.diagnostics import CalqueError
from calque.train.call import TrainingCall
from calque.train.loop import FinishedTraining, StoppedTraining, train
from calque.train.phases import phases_of

Make = Callable[..., Experiment]


@pytest.fixture(autouse=True)
def _every_update_is_watched(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("calque.train.progress.WATCH_SECONDS", -1.0)


@pytest.fixture
def mixture(prepared: PreparedCorpus, experiment: Make) -> tuple[Experiment, PreparedCorpus]:
    """Two texts, the second with a validation text of its own."""
    base = prepared.folder.parent
    for side in ("source", "target"):
        text = (base / f"train.{side}").read_text().splitlines(keepends=True)
        (base / f"a.{side}").write_text("".join(text[:900]))
        (base / f"b.{side}").write_text("".join(text[900:1000]))
    made = experiment()
    texts = (
        TrainingText("a.source", "a.target"),
        TrainingText("b.source", "b.target", 0.5, ("valid.source", "valid.target"), "small"),
    )
    data = replace(made.data, train=texts)
    return replace(made, data=data), prepare(data, base / "mixture", base)


def stopping(made: Experiment, run: Path, held: PreparedCorpus, checked: CheckedDefinition, *stops: int) -> None:
    """Trains, stopped by a signal after each of these updates."""
    for stop in stops:
        stopped = train(made, run, held, checked, None, Interrupt(stop, signal.SIGTERM))
        assert stopped == StoppedTraining(stop, signal.SIGTERM)


@pytest.mark.medium
def test_a_mixture_is_continued_exactly_and_validated_apart(
    tmp_path: Path, mixture: tuple[Experiment, PreparedCorpus], checked: CheckedDefinition
) -> None:
    made, held = mixture
    made = replace(made, train=replace(made.train, max_updates=70))
    train(made, tmp_path / "one", held, checked)
    stopping(made, tmp_path / "two", held, checked, 3, 40)
    assert isinstance(train(made, tmp_path / "two", held, checked), FinishedTraining)
    assert same_weights(tmp_path / "one" / "model", tmp_path / "two" / "model")
    assert lines(tmp_path / "one", "train")[-1]["epoch"] > 1
    apart = [line for line in lines(tmp_path / "one", "valid") if "set" in line]
    assert {line["set"] for line in apart} == {"small"}
    assert len(apart) == len(lines(tmp_path / "one", "valid")) / 2


def test_other_weights_are_a_new_phase(
    tmp_path: Path, mixture: tuple[Experiment, PreparedCorpus], checked: CheckedDefinition
) -> None:
    made, held = mixture
    stopping(made, tmp_path / "run", held, checked, 5)
    texts = (made.data.texts[0], replace(made.data.texts[1], weight=3.0))
    other = replace(made, data=replace(made.data, train=texts))
    train(other, tmp_path / "run", held, checked)
    assert [phase.update for phase in phases_of(tmp_path / "run")] == [0, 5]
    [_, phase] = lines(tmp_path / "run", "phase")
    assert phase["changes"] == {"data.train: weights": [[1.0, 0.5], [1.0, 3.0]]}
    assert load(tmp_path / "run" / "experiment.toml").data.weights == (1.0, 3.0)


def streamed(made: Experiment, base: Path, count: int) -> Experiment:
    """Its training pairs come from a stream of so many lines."""
    pairs = zip(*((base / f"train.{side}").read_text().splitlines() for side in ("source", "target")), strict=True)
    (base / "stream.tsv").write_text("".join(f"{a}\t{b}\n" for a, b in list(pairs)[:count]))
    data = replace(made.data, stream=str(base / "stream.tsv"), stream_window=300)
    return replace(made, data=data, train=replace(made.train, max_updates=0))


@pytest.mark.medium
def test_a_stream_ends_the_training_and_is_skipped_when_it_continues(
    tmp_path: Path, prepared: PreparedCorpus, checked: CheckedDefinition, experiment: Make
) -> None:
    made = streamed(experiment(), prepared.folder.parent, 1000)
    done = train(made, tmp_path / "one", prepared, checked)
    assert isinstance(done, FinishedTraining)
    assert done.limit == "stream"
    stopping(made, tmp_path / "two", prepared, checked, 4, 21)
    assert train(made, tmp_path / "two", prepared, checked) == replace(done, seconds=_seconds(tmp_path / "two"))
    assert same_weights(tmp_path / "one" / "model", tmp_path / "two" / "model")
    # The same stream again: all of it has been used. A longer one is read on.
    assert train(made, tmp_path / "two", prepared, checked).update == done.update
    longer = streamed(experiment(), prepared.folder.parent, 1500)
    assert train(longer, tmp_path / "two", prepared, checked).update > done.update


def test_a_stream_without_a_pair_says_why(
    tmp_path: Path, prepared: PreparedCorpus, checked: CheckedDefinition, experiment: Make
) -> None:
    made = streamed(experiment(), prepared.folder.parent, 0)
    (prepared.folder.parent / "stream.tsv").write_text("a b\t\n\tb a\n" * 400)
    with pytest.raises(CalqueError) as raised:
        train(made, tmp_path / "run", prepared, checked)
    (one,) = raised.value.diagnostics
    assert (one.code, one.fields["lines"], one.fields["reasons"]) == ("D313", 800, "800 blank")
    assert not (tmp_path / "run" / "model").exists()


def test_what_a_stream_leaves_out_is_told_of_the_lines_that_were_read(
    tmp_path: Path, prepared: PreparedCorpus, checked: CheckedDefinition, experiment: Make
) -> None:
    made = streamed(experiment(), prepared.folder.parent, 1000)
    path = prepared.folder.parent / "stream.tsv"
    kept = path.read_text().splitlines(keepends=True)
    path.write_text("".join(["a\t\n" * 100, *kept[100:300], *kept[300:600], "a\t\n" * 90, *kept[690:1000]]))
    told: list[str] = []
    stopping(made, tmp_path / "run", prepared, checked, 2)
    train(made, tmp_path / "run", prepared, checked, call=TrainingCall(tell=told.append))
    said = [line for line in told if "left out" in line]
    assert said == [
        "stream: of 300 lines left out: 100 blank",
        "stream: of 1,000 lines left out: 190 blank",
    ]


def _seconds(run: Path) -> float:
    return float(json.loads((run / "model.json").read_text())["figures"]["seconds"])


@pytest.mark.parametrize("change", [{"stream": ""}, {"stream_window": 200}])
def test_a_stream_cannot_become_something_else(
    tmp_path: Path, prepared: PreparedCorpus, checked: CheckedDefinition, experiment: Make, change: dict[str, object]
) -> None:
    made = streamed(experiment(), prepared.folder.parent, 1000)
    stopping(made, tmp_path / "run", prepared, checked, 4)
    other = replace(
        made,
        data=replace(made.data, **change),  # type: ignore[arg-type]
        train=replace(made.train, max_updates=20),
    )
    with pytest.raises(CalqueError) as raised:
        train(other, tmp_path / "run", prepared, checked)
    assert raised.value.diagnostics[0].code == "K201"


@pytest.mark.medium
@pytest.mark.parametrize("more", [{}, {"min_lr": 1e-12}])
def test_ctrl_c_while_a_pipe_gives_nothing_stops_at_once(
    tmp_path: Path, prepared: PreparedCorpus, experiment: Make, more: dict[str, float]
) -> None:
    """The pipe gives one window and is silent then. With `min_lr` the rate, and so the window, is asked for before each update."""
    base = prepared.folder.parent
    made = experiment(max_updates=0, batch_tokens=64, log_every_updates=1, **more)
    files = {key: tuple(str(base / name) for name in getattr(made.data, key)) for key in ("train", "valid")}
    made = replace(made, data=replace(made.data, **files, stream="-", stream_window=40))  # type: ignore[arg-type]
    write(made, tmp_path / "experiment.toml")
    command = [sys.executable, "-m", "calque", "train", tmp_path / "experiment.toml", "--out", tmp_path / "run"]
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(p for p in sys.path if p)}
    pipes = {"stdin": subprocess.PIPE, "stderr": subprocess.PIPE, "stdout": subprocess.DEVNULL}
    with subprocess.Popen(command, env=environment, **pipes) as process:  # type: ignore[call-overload]
        process.stdin.write(b"a b\tb a\n" * 40)
        process.stdin.flush()
        until = time.monotonic() + 60
        while time.monotonic() < until and not _logged(tmp_path / "run"):
            time.sleep(0.05)
        time.sleep(0.3)  # the next window is awaited now
        os.kill(process.pid, signal.SIGINT)
        err = process.stderr.read()
        assert process.wait(30) == 130, err
    assert b"continues" in err
    assert b"Traceback" not in err


def _logged(run: Path) -> bool:
    return (run / "log.jsonl").exists() and bool(lines(run, "train"))
