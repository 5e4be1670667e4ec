"""Gradients by graphs of an accelerator. On a processor a graph is the step itself, run again on the same tensors."""

import re
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
import torch
from torch import Tensor

import calque
from calque.data.batches import Batch, collate
from calque.data.corpus import Pairs
from calque.experiment import TrainSettings
from calque.model import Model
from calque.native.graphs import NotCapturable
from calque.train import captured
from calque.train.captured import CapturedGradients, padded, room, updater_of
from calque.train.loss import batch_loss
from calque.train.objective import Objective
from calque.train.optimise import Updater
from calque.train.update import update

FAMILIES = Path(__file__).resolve().parents[2] / "benchmarks" / "families"
NAMES = sorted(file.stem for file in FAMILIES.glob("*.adl"))
WORDS = 40


def pairs() -> Pairs:
    drawn = np.random.default_rng(1)
    return Pairs.of(*([drawn.integers(4, WORDS, n).tolist() for n in drawn.integers(0, 20, 40)] for _ in range(2)))


def batch(first: int, count: int) -> Batch:
    return collate(pairs(), np.arange(first, first + count), True)


def model(name: str = "transformer", dropout: float = 0.0) -> Model:
    torch.manual_seed(1)
    text = re.sub(r"^d = .*", "d = 32", (FAMILIES / f"{name}.adl").read_text(), flags=re.MULTILINE)
    text = re.sub(r"^(p|drop) = .*", rf"\1 = {dropout}", text, flags=re.MULTILINE)
    return calque.build(text, WORDS, WORDS).train()


def gradients(of: Model) -> dict[str, Tensor]:
    return {name: p.grad.clone() for name, p in of.named_parameters() if p.grad is not None}


def eagerly(made: Model, data: Batch) -> tuple[Tensor, Tensor, dict[str, Tensor]]:
    made.zero_grad(set_to_none=True)
    loss, nll = batch_loss(made, data, Objective(0.1))
    torch.autograd.backward(loss)
    found = gradients(made)
    made.zero_grad(set_to_none=True)
    return loss.detach(), nll, found


@pytest.mark.medium
@pytest.mark.parametrize("name", NAMES)
def test_gradients_are_those_of_the_batch_without_spare_sentences(name: str) -> None:
    made = model(name).double()
    graphs = CapturedGradients(made, TrainSettings(label_smoothing=0.1))
    for data in (batch(0, 19), batch(5, 19), batch(11, 19), batch(3, 2)):
        loss, nll, expected = eagerly(made, data)
        part = graphs(data, 7)
        assert part.tokens == data.target_tokens
        torch.testing.assert_close((part.loss, part.nll), (loss, nll))
        found = gradients(made)
        assert found.keys() == expected.keys()
        for key, value in expected.items():
            torch.testing.assert_close(found[key], value, rtol=1e-7, atol=1e-9)
    assert sum(graph is not None for graph in graphs._graphs.values()) == 1
    assert not graphs.refused


@pytest.mark.parametrize("size", [1, 7, 15, 16, 17, 33, 100, 127, 128, 1000])
def test_sizes_come_again_and_little_is_spare(size: int) -> None:
    assert size <= room(size) <= size * 9 / 8
    assert room(room(size)) == room(size)
    assert len({room(n) for n in range(size, 2 * size)}) <= 16


def test_a_spare_sentence_has_one_symbol_on_each_side_and_does_not_count() -> None:
    data = batch(0, 17)
    found = padded(data)
    assert found.shape == (18, room(data.source.shape[1]), room(data.target_in.shape[1]))
    for mask in (found.source_mask, found.target_mask):
        assert mask[17].sum() == mask[17, 0] == 1
    assert found.counted.sum() == data.target_tokens
    assert torch.equal(found.source[:17, : data.source.shape[1]], data.source)


def test_dropout_follows_from_the_seed_whether_a_graph_is_there_or_not() -> None:
    again, first = model(dropout=0.3), model(dropout=0.3)
    graphs, settings = CapturedGradients(again, TrainSettings()), TrainSettings()
    for seed in (1, 2, 3):
        part = graphs(batch(0, 9), seed)
        new = CapturedGradients(first, settings)(batch(0, 9), seed)  # for which every shape is new
        assert torch.equal(part.loss, new.loss)
        for name, value in gradients(first).items():
            assert torch.equal(gradients(again)[name], value)
    assert list(graphs._graphs.values()) != [None]


@pytest.mark.medium
@pytest.mark.parametrize("accumulate", [1, 3])
@pytest.mark.parametrize("precision", ["float32", "bfloat16"])
def test_updates_are_those_without_graphs(precision: str, accumulate: int) -> None:
    settings = TrainSettings(precision=precision, accumulate=accumulate, clip_norm=1.0, optimiser="sgd")
    models = [model(), model()]
    found, expected = (Updater(made, settings, precision) for made in models)
    found.graphs = CapturedGradients(models[0], settings)
    for table in found._tables:  # only those on a processor hand over rows
        table.rows = None
    found._tables = []
    for number in range(4):
        group = [batch(3 * (number % 2) + k, 11) for k in range(accumulate)]
        sums = [
            update(made, updater, group, settings, 0.01, seeds=range(3))
            for made, updater in zip(models, (found, expected), strict=True)
        ]
        assert sums[0].norm == pytest.approx(sums[1].norm, rel=1e-3 if precision == "float32" else 0.1)
        assert sums[0].target_tokens == sums[1].target_tokens
        assert float(sums[0].loss) == pytest.approx(float(sums[1].loss), rel=1e-4 if precision == "float32" else 0.02)
    if precision == "float32":
        for name, weight in expected.state().items():
            torch.testing.assert_close(found.state()[name], weight, rtol=1e-2, atol=2e-3)


def refusing(fault: Exception) -> Callable[..., Callable[[], None]]:
    def refuse(step: Callable[[], None], device: torch.device) -> Callable[[], None]:
        step()
        raise fault

    return refuse


@pytest.mark.parametrize("fault", [NotCapturable("it waits"), torch.OutOfMemoryError("full")])
def test_what_cannot_be_a_graph_runs_layer_by_layer(fault: Exception, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(captured, "captured", refusing(fault))
    made = model(dropout=0.3)
    told = list[str]()
    graphs, plain = (
        CapturedGradients(made, TrainSettings(), told.append),
        CapturedGradients(twin := model(dropout=0.3), TrainSettings()),
    )
    plain.refused = "from the start"
    for seed in (1, 2, 3):
        assert torch.equal(graphs(batch(0, 9), seed).loss, plain(batch(0, 9), seed).loss)
        assert all(torch.equal(gradients(made)[name], value) for name, value in gradients(twin).items())
    assert graphs.refused in ("it waits", captured.FULL)
    assert len(told) == 1  # however many batches follow
    assert told[0].endswith(graphs.refused)


def test_where_memory_ends_graphs_are_given_up_first(monkeypatch: pytest.MonkeyPatch) -> None:
    made = model()
    graphs = CapturedGradients(made, TrainSettings(label_smoothing=0.1))
    for _ in range(2):
        graphs(batch(0, 9), 1)
    make, faults = graphs._make, [torch.OutOfMemoryError("full")]

    def fails_once(given: object) -> None:
        if faults:
            raise faults.pop()
        make(given)  # type: ignore[arg-type]  # what it was given

    monkeypatch.setattr(graphs, "_make", fails_once)
    loss, _, _ = eagerly(made, batch(2, 30))
    assert float(graphs(batch(2, 30), 1).loss) == pytest.approx(float(loss), rel=1e-5)
    assert graphs.refused
    assert not graphs._graphs
    faults.append(torch.OutOfMemoryError("full again"))
    with pytest.raises(torch.OutOfMemoryError, match="full again"):
        graphs(batch(2, 30), 1)


def test_the_graphs_that_came_last_are_kept(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(captured, "KEPT", 2)
    monkeypatch.setattr(captured, "SEEN", 3)
    graphs = CapturedGradients(model(), TrainSettings())
    sizes, captured_sizes = [1, 3, 5, 7, 9], []
    for count in [*sizes[:3], *sizes[:3], *sizes[3:], *sizes[3:]]:  # what was seen long ago is captured, too
        graphs(batch(0, count), 1)
        if graphs._graphs[padded(batch(0, count)).shape] is not None:
            captured_sizes.append(count)
    assert captured_sizes == sizes
    assert [shape[0] for shape in graphs._graphs] == sizes[-3:]
    assert [graph is not None for graph in graphs._graphs.values()] == [False, True, True]


def test_a_processor_has_no_graphs_and_truncated_back_propagation_has_none() -> None:
    assert updater_of(model(), TrainSettings(), "float32").graphs is None
    meta = model().to("meta")
    assert updater_of(meta, TrainSettings(bptt_words=5), "float32").graphs is None
    assert updater_of(meta, TrainSettings(), "float32").graphs is not None
