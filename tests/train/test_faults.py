import json
import os
import shutil
import signal
import threading
import time
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
import training_faults as faults
from torch import Tensor

from calque.data.batches import collate
from calque.experiment import Experiment
from calque.ground.diagnostics import CalqueError
from calque.run.folder import sole_training
from calque.run.model_file import load_model
from calque.run.tensors import read_tensors
from calque.train.log import Progress, Validation
from calque.train.loop import FinishedTraining, StoppedTraining
from calque.workflow.steps import run_training


@pytest.fixture(autouse=True)
def _every_update_is_watched(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("calque.train.progress.WATCH_SECONDS", -1.0)


@pytest.mark.medium
@pytest.mark.parametrize(
    ("family", "precision"), [*((family, "float32") for family in faults.FAMILIES), ("transformer", "bfloat16")]
)
def test_stopped_after_every_update_is_uninterrupted(family: str, precision: str, tmp_path: Path) -> None:
    made = faults.experiment(
        tmp_path,
        family,
        150,
        max_updates=7,
        validate_every_updates=3,
        accumulate=2,
        batch_tokens=128,
        precision=precision,
    )
    whole, run = tmp_path / "whole", tmp_path / "run"
    run_training(made, whole)
    for update in range(1, 7):
        assert run_training(made, run, faults.Interrupt(update)) == StoppedTraining(update, signal.SIGTERM)
    assert isinstance(run_training(made, run), FinishedTraining)
    for name in ("model", "checkpoints/state-7", *(f"checkpoints/{n}" for n in (3, 6, 7))):
        assert (run / f"{name}.json").exists() == (whole / f"{name}.json").exists()
        assert not (run / f"{name}.json").exists() or faults.same(whole / name, run / name), name
    assert faults.standing(run, 7) == faults.standing(whole, 7)
    assert perplexities(run) == perplexities(whole)


def perplexities(run: Path) -> list[float]:
    lines = [json.loads(line) for line in (run / "log.jsonl").read_text().splitlines()]
    return [line["perplexity"] for line in lines if line["kind"] == "valid"]


@pytest.mark.medium
@pytest.mark.parametrize("other", [{}, {"batch_tokens": 300, "accumulate": 3}, {"batch_tokens": 20}])
def test_an_epoch_has_every_pair_once(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, other: dict[str, int]) -> None:
    """Whatever stops training, and in whatever batches it goes on."""
    seen: list[Any] = []

    def noting(pairs: Any, rows: Any, *rest: Any) -> Any:
        if len(pairs) == 150:
            seen.append(rows)
        return collate(pairs, rows, *rest)

    monkeypatch.setattr("calque.train.shared_update.collate", noting)
    made = faults.experiment(
        tmp_path, pairs=150, batch_tokens=100, max_updates=0, max_epochs=2, validate_every_updates=50
    )
    assert run_training(made, tmp_path / "run", faults.Interrupt(3)) == StoppedTraining(3, signal.SIGTERM)
    later = replace(made, train=replace(made.train, **other))
    assert isinstance(run_training(later, tmp_path / "run", faults.Interrupt(5)), StoppedTraining)
    done = run_training(later, tmp_path / "run")
    assert isinstance(done, FinishedTraining)
    assert done.epoch == 2
    order = np.concatenate(seen)
    assert np.array_equal(np.sort(order[:150]), np.arange(150))
    assert np.array_equal(np.sort(order[150:]), np.arange(150))


@pytest.mark.medium
def test_layout_and_accumulation_change_rounding_only(tmp_path: Path) -> None:
    found = []
    for number, settings in enumerate(({}, {"batch_tokens": 100}, {"batch_sentences": 7})):
        # As many batches as an epoch has make one update, so that each sees all pairs.
        every = {"accumulate": 1000, "max_updates": 3, "log_every_updates": 1, "validate_every_updates": 3}
        made = faults.experiment(tmp_path, pairs=80, **{**every, **settings})
        made = replace(made, model=replace(made.model, text=made.model.text.replace("p = 0.1", "p = 0")))
        run_training(made, tmp_path / f"run-{number}")
        lines = [json.loads(line) for line in (tmp_path / f"run-{number}" / "log.jsonl").read_text().splitlines()]
        found.append([line["loss"] for line in lines if line["kind"] == "train"])
    assert found[1] == pytest.approx(found[0], rel=1e-5)
    assert found[2] == pytest.approx(found[0], rel=1e-5)


@pytest.mark.medium
def test_killed_at_random_moments_nothing_is_lost(tmp_path: Path) -> None:
    made = faults.experiment(tmp_path, max_updates=20)
    found = faults.killed(made, tmp_path, kills=6, seed=1)
    assert (found["kills"], found["checkpoints lost or half"], found["equal"]) == (6, 0, found["runs"])


@pytest.mark.medium
@pytest.mark.parametrize("failure", faults.FAILURES[::6], ids=str)
def test_a_write_that_fails_is_one_error(tmp_path: Path, failure: tuple[str, int, int]) -> None:
    made = faults.experiment(tmp_path, max_updates=8)
    found = faults.failed(made, tmp_path, [failure])
    assert found == {"write failures": 1, "one clear error": 1, "checkpoints lost or half": 0, "equal": 1}


def test_a_model_without_its_json_is_made_again(tmp_path: Path) -> None:
    made = faults.experiment(tmp_path, max_updates=4)
    run_training(made, tmp_path / "run")
    before, _ = read_tensors(tmp_path / "run" / "model")
    (tmp_path / "run" / "model.json").unlink()  # as a kill between the two renames leaves it
    (tmp_path / "run" / ".model.json.old").write_text("")
    run_training(made, tmp_path / "run")
    after, _ = read_tensors(tmp_path / "run" / "model")
    assert all(torch.equal(t, after[name]) for name, t in before.items())
    assert not list((tmp_path / "run").glob(".*"))
    load_model(tmp_path / "run")


def test_a_checkpoint_that_was_not_saved_is_made_from_the_state(tmp_path: Path) -> None:
    made = faults.experiment(tmp_path, max_updates=4)
    run_training(made, tmp_path / "run")
    checkpoint = tmp_path / "run" / "checkpoints" / "4"
    before, about = read_tensors(checkpoint)
    for end in ("json", "safetensors"):
        checkpoint.with_suffix(f".{end}").unlink()
    run_training(made, tmp_path / "run")
    after, again = read_tensors(checkpoint)
    assert again == about
    assert all(torch.equal(t, after[name]) for name, t in before.items())


def late(seconds: float = 0.3) -> threading.Timer:
    timer = threading.Timer(seconds, os.kill, (os.getpid(), signal.SIGTERM))
    timer.start()
    return timer


@pytest.mark.medium
@pytest.mark.parametrize("during", ["validation", "translation", "update", "the mean"])
def test_a_signal_ends_what_takes_long(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, during: str) -> None:
    made = faults.experiment(tmp_path, max_updates=4, validate_every_updates=2, validate_bleu_sentences=1)
    run_training(made, tmp_path / "whole")
    with monkeypatch.context() as m:
        slow = {
            "validation": ("calque.train.validate.plan", 2),
            "translation": ("calque.workflow.validation.translate_lines", 0),
            "update": ("calque.train.loss.batch_loss", 2),
            "the mean": ("calque.train.finish.average", 4),
        }
        name, update = slow[during]
        module, attribute = name.rsplit(".", 1)
        plain: Callable[..., Any] = getattr(__import__(module, fromlist=[attribute]), attribute)
        calls = [{"validation": 0, "translation": 0, "update": 2, "the mean": 0}[during]]

        def takes_long(*arguments: Any, **named: Any) -> Any:
            calls[0] -= 1
            if calls[0] < 0:
                for _ in range(6000):
                    time.sleep(0.01)
            return plain(*arguments, **named)

        m.setattr(name, takes_long)
        timer = late(1.0)
        began = time.monotonic()
        stopped = run_training(made, tmp_path / "run")
        timer.join()
        assert stopped == StoppedTraining(update or 2, signal.SIGTERM)
        assert time.monotonic() - began < 10
    assert isinstance(run_training(made, tmp_path / "run"), FinishedTraining)
    for name in ("model", "checkpoints/state-4"):
        assert faults.same(tmp_path / "whole" / name, tmp_path / "run" / name)


def test_an_update_that_is_not_finite_is_skipped_and_counted(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    from calque.train.optimise import Updater

    plain, calls = Updater.backward, [0]

    def poisoned(self: Updater, loss: Tensor) -> None:
        plain(self, loss)
        calls[0] += 1
        if calls[0] in (2, 3):
            next(p for p in self.working.values() if p.grad is not None).grad.view(-1)[0] = float("inf")  # type: ignore[union-attr]

    monkeypatch.setattr(Updater, "backward", poisoned)
    made = faults.experiment(tmp_path, max_updates=4, validate_every_updates=1, log_every_updates=1)
    run_training(made, tmp_path / "run")
    found = perplexities(tmp_path / "run")
    assert found[0] == found[1] == found[2] != found[3]
    assert faults.standing(tmp_path / "run", 4)["skipped"] == 2
    lines = [json.loads(line) for line in (tmp_path / "run" / "log.jsonl").read_text().splitlines()]
    assert [line["skipped"] for line in lines if line["kind"] == "train"] == [0, 1, 2, 2]
    assert [line["best"] for line in lines if line["kind"] == "valid"] == [True, False, False, found[3] < found[0]]
    assert read_tensors(tmp_path / "run" / "model")[1]["figures"]["skipped"] == 2
    assert all(t.isfinite().all() for t in read_tensors(tmp_path / "run" / "model")[0].values())


def refused(made: Experiment, run: Path) -> str:
    with pytest.raises(CalqueError) as caught:
        run_training(made, run)
    assert str(caught.value)
    return caught.value.diagnostics[0].code


def test_two_trainings_in_one_folder_are_refused(tmp_path: Path) -> None:
    made = faults.experiment(tmp_path, max_updates=2)
    with sole_training(tmp_path / "run"):
        assert refused(made, tmp_path / "run") == "K203"
    assert isinstance(run_training(made, tmp_path / "run"), FinishedTraining)


def test_a_state_that_a_killed_process_was_about_to_delete_is_deleted(tmp_path: Path) -> None:
    made, folder = faults.experiment(tmp_path, max_updates=2), tmp_path / "run" / "checkpoints"
    run_training(made, tmp_path / "run")
    for end in ("json", "safetensors"):
        shutil.copy(folder / f"state-2.{end}", folder / f"state-1.{end}")
    run_training(made, tmp_path / "run")
    assert sorted(path.name for path in folder.glob("state-*")) == ["state-2.json", "state-2.safetensors"]


@pytest.mark.parametrize("what", ["removed", "moved", "taken"])
def test_a_training_whose_folder_is_gone_ends(tmp_path: Path, what: str) -> None:
    """It wrote on into what stood there, which may have been another training, and failed behind its last update."""
    made, run, other = faults.experiment(tmp_path, max_updates=9, validate_every_updates=2), tmp_path / "run", []

    def lose_folder(event: Progress | Validation) -> None:
        if isinstance(event, Validation) and event.update == 4:
            run.rename(tmp_path / "elsewhere")
            if what == "removed":
                shutil.rmtree(tmp_path / "elsewhere")
            elif what == "taken":
                other.append(run_training(faults.experiment(tmp_path, max_updates=2), run))

    with pytest.raises(CalqueError) as caught:
        run_training(made, run, lose_folder)
    assert [d.code for d in caught.value.diagnostics] == ["K207"]
    assert run.exists() == bool(other)
    if what == "moved":  # and can be resumed there
        assert isinstance(run_training(made, tmp_path / "elsewhere"), FinishedTraining)
    if what == "taken":
        assert [p.name for p in (run / "checkpoints").glob("state-*.json")] == ["state-2.json"]


@pytest.mark.parametrize("what", ["architecture", "optimiser", "corpus"])
def test_another_run_leaves_the_folder_as_it_is(tmp_path: Path, what: str) -> None:
    made = faults.experiment(tmp_path, max_updates=2)
    run = tmp_path / "run"
    run_training(made, run)
    before = {p: p.read_bytes() for p in sorted(run.rglob("*")) if p.is_file()}
    data = replace(made.data, max_ratio=5.0)  # so that the corpus would be prepared anew
    model = replace(made.model, text=faults.text("cnn")) if what == "architecture" else made.model
    train = replace(made.train, optimiser="sgd") if what == "optimiser" else made.train
    assert refused(replace(made, data=data, model=model, train=train), run) == "K201"
    assert before == {p: p.read_bytes() for p in sorted(run.rglob("*")) if p.is_file()}
