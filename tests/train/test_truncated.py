"""Truncated back-propagation: against torch's LSTM, against whole sentences, and continued exactly."""

import os
import signal
from pathlib import Path
from typing import Any

import pytest
import torch
import training_faults as faults
from torch import Tensor

from calque.adl.check import check
from calque.data.batches import Batch, collate
from calque.data.corpus import Pairs
from calque.experiment import TrainSettings
from calque.ground.diagnostics import Text
from calque.layers.registry import builtin
from calque.layers.stepping import cut
from calque.model import Model, Shape
from calque.train.initialise import initialise
from calque.train.loop import StoppedTraining
from calque.train.loss import batch_loss, parts
from calque.train.objective import LIKELIHOOD, Objective
from calque.train.optimise import Updater
from calque.train.update import update
from calque.workflow.steps import run_training

FAMILIES = {name: text.replace("p = 0.1", "p = 0") for name, text in faults.FAMILIES.items()}


@pytest.fixture(autouse=True)
def _every_update_is_watched(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("calque.train.progress.WATCH_SECONDS", -1.0)


def make(text: str) -> Model:
    model = Model(check(Text("t", f"d = 16\n{text}"), builtin()), Shape(20, 20, "none"))
    initialise(model, "uniform", 0.5, 3)
    return model.double()


def batch(lengths: tuple[int, ...] = (7, 3, 0, 5)) -> Batch:
    ids = [[4 + (3 * i + j) % 16 for j in range(n)] for i, n in enumerate(lengths)]
    pairs = Pairs.of([row[::-1] for row in ids], ids)
    return collate(pairs, torch.arange(len(lengths)).numpy(), True)


def gradients(model: Model) -> dict[str, Tensor]:
    found = {n: p.grad.clone() for n, p in model.named_parameters() if p.grad is not None}
    model.zero_grad()
    return found


def learnt(model: Model, made: Any) -> tuple[float, dict[str, Tensor]]:
    total = 0.0
    for part in made:
        torch.autograd.backward(part.loss)
        total += float(part.loss.detach())
    return total, gradients(model)


@pytest.mark.parametrize("words", [1, 3, 7])
@pytest.mark.parametrize("family", FAMILIES)
def test_the_losses_of_the_parts_add_up_to_that_of_the_whole(family: str, words: int) -> None:
    model, data = make(FAMILIES[family]), batch()
    made = [part._replace(loss=part.loss.detach()) for part in parts(model, data, Objective(0.1), words)]
    with torch.no_grad():
        loss, nll = batch_loss(model, data, Objective(0.1))
    assert len(made) == -(-8 // words)
    assert sum(part.tokens for part in made) == data.target_tokens
    assert sum(float(part.loss) for part in made) == pytest.approx(float(loss), abs=1e-9)
    assert sum(float(part.nll) for part in made) == pytest.approx(float(nll), abs=1e-9)


@pytest.mark.parametrize("words", [2, 5])
def test_where_no_state_passes_from_word_to_word_nothing_is_cut(words: int) -> None:
    """So each part teaches the encoder too."""
    model, data = make("encoder = birnn\ndecoder = mlp_src_att\n"), batch()
    _, whole = learnt(model, parts(model, data, LIKELIHOOD, 0))
    _, found = learnt(model, parts(model, data, LIKELIHOOD, words))
    assert found.keys() == whole.keys()
    for name, expected in whole.items():
        assert torch.allclose(found[name], expected, atol=1e-9), name


def test_gradients_end_at_the_cut_as_with_a_detached_state_of_torch() -> None:
    model, data = make("encoder = id\ndecoder = rnn\n"), batch((6, 6))
    cell = torch.nn.LSTM(16, 16, batch_first=True).double()
    rnn = next(m for m in model.decoder.modules() if type(m).__name__ == "Recurrent")
    with torch.no_grad():
        cell.weight_ih_l0.copy_(rnn.input.weight)
        cell.weight_hh_l0.copy_(rnn.recurrent.weight)
        cell.bias_ih_l0.copy_(rnn.input.bias)
        cell.bias_hh_l0.zero_()
    state = None
    for start in (0, 3, 6):
        x = model.target_embedding(data.target_in[:, start : start + 3]).detach()
        y, (h, c) = cell(x, state)
        state = h.detach(), c.detach()
        target = data.target_out[:, start : start + 3].flatten()
        torch.nn.functional.cross_entropy(model.output(y).flatten(0, 1), target, reduction="sum").backward()
    model.zero_grad()
    _, found = learnt(model, parts(model, data, LIKELIHOOD, 3))
    named = {id(p): n for n, p in model.named_parameters()}
    for own, torchs in (
        (rnn.input.weight, cell.weight_ih_l0),
        (rnn.recurrent.weight, cell.weight_hh_l0),
        (rnn.input.bias, cell.bias_ih_l0),
    ):
        assert torchs.grad is not None
        assert torch.allclose(found[named[id(own)]], torchs.grad, atol=1e-9)


def test_each_part_is_a_step_with_the_weights_of_the_one_before() -> None:
    """By hand: SGD after each part, divided by the sentences of the batch, where torch's own loop does the same."""
    settings = TrainSettings(optimiser="sgd", normalise="sentences", label_smoothing=0.0, bptt_words=3)
    text, data = "encoder = id\ndecoder = rnn(16, tanh, bias=no)\n", batch((6, 6))
    model, twin = make(text).float(), make(text).float()
    done = update(model, Updater(model, settings, "float32"), [data], settings, 0.1)
    rnn = next(m for m in twin.decoder.modules() if type(m).__name__ == "Recurrent")
    weights = list(twin.parameters())
    h, total = torch.zeros(2, 16), 0.0
    for start in (0, 3, 6):
        h, loss = h.detach(), torch.zeros(())
        for t in range(start, min(start + 3, 7)):
            h = torch.tanh(rnn.input(twin.target_embedding(data.target_in[:, t])) + rnn.recurrent(h))
            logits = twin.output(h)
            loss = loss + torch.nn.functional.cross_entropy(logits, data.target_out[:, t], reduction="sum")
        total += float(loss.detach())
        found = torch.autograd.grad(loss, weights, allow_unused=True)
        with torch.no_grad():
            for w, g in zip(weights, found, strict=True):
                w -= 0 if g is None else 0.1 * g / 2
    assert float(done.loss) == pytest.approx(total, rel=1e-5)
    for p, q in zip(model.parameters(), weights, strict=True):
        assert torch.allclose(p, q, atol=1e-5)


@pytest.mark.medium
@pytest.mark.parametrize("precision", ["float32", "bfloat16"])
@pytest.mark.parametrize("family", ["rnn-feed", "transformer"])
def test_stopped_after_every_update_is_uninterrupted(family: str, precision: str, tmp_path: Path) -> None:
    made = faults.experiment(tmp_path, family, 60, bptt_words=2, max_updates=4, precision=precision, optimiser="sgd")
    assert faults.resumed(made, tmp_path) == {"resumed after an update": 3, "equal": 3}


def test_a_signal_behind_the_first_step_lets_the_update_end(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Weights have changed by then."""
    made = faults.experiment(tmp_path, "rnn-feed", 30, bptt_words=2, max_updates=2, optimiser="sgd")
    run_training(made, tmp_path / "whole")
    with monkeypatch.context() as m:

        def signalled(*three: Any) -> Any:
            os.kill(os.getpid(), signal.SIGTERM)
            m.undo()
            return cut(*three)

        m.setattr("calque.train.loss.cut", signalled)
        assert run_training(made, tmp_path / "run") == StoppedTraining(1, signal.SIGTERM)
    run_training(made, tmp_path / "run")
    assert faults.same(tmp_path / "whole" / "checkpoints" / "state-2", tmp_path / "run" / "checkpoints" / "state-2")


@pytest.mark.medium
@pytest.mark.parametrize("precision", ["float32", "bfloat16"])
def test_and_so_it_is_under_the_other_settings_of_recipes(precision: str, tmp_path: Path) -> None:
    settings: dict[str, Any] = {
        "batch_tokens": 0,
        "batch_sentences": 8,
        "sort_batches": 2,
        "normalise": "batch",
        "clip_counts_embeddings": False,
        "scale_filters": True,
        "schedule": "anneal",
        "min_lr": 1e-9,
        "warmup_updates": 0,
        "validate_every_updates": 0,
        "validate_every_epochs": 1,
        "optimiser": "sgd",
    }
    made = faults.experiment(tmp_path, "cnn", 20, max_updates=7, precision=precision, **settings)
    assert faults.resumed(made, tmp_path) == {"resumed after an update": 6, "equal": 6}
