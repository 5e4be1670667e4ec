"""`r_drop` of [train]: batches are read twice, and both predictions are drawn to each other."""

from collections.abc import Callable

import pytest
import torch
from test_gradient_graphs import NAMES, batch, gradients, model
from torch import Tensor

from calque.data.batches import Batch
from calque.experiment import TrainSettings
from calque.model import Model
from calque.train.captured import CapturedGradients
from calque.train.loss import Part, parts
from calque.train.objective import Objective
from calque.train.optimise import Updater
from calque.train.update import update

Found = tuple[float, float, int, dict[str, Tensor]]
"""Loss, negative log-likelihood, words, gradients."""


def learnt(made: Model, data: Batch, objective: Objective, words: int) -> Found:
    """Of all parts of a batch together."""
    made.zero_grad(set_to_none=True)
    found: list[Part] = []
    for part in parts(made, data, objective, words):
        torch.autograd.backward(part.loss)
        found.append(part)
    loss, nll = (float(sum(x.detach() for x in each)) for each in ([p.loss for p in found], [p.nll for p in found]))
    return loss, nll, sum(part.tokens for part in found), gradients(made)


def same(one: Found, other: Found) -> None:
    assert one[:3] == pytest.approx(other[:3], rel=1e-9)
    assert one[3].keys() == other[3].keys()
    for key, value in other[3].items():
        torch.testing.assert_close(one[3][key], value, rtol=1e-7, atol=1e-9)


@pytest.mark.medium
@pytest.mark.parametrize("words", [0, 3])
@pytest.mark.parametrize("name", NAMES)
def test_two_passes_that_are_equal_are_one(name: str, words: int) -> None:
    made, data = model(name).double(), batch(0, 7)
    same(learnt(made, data, Objective(0.1, 2.0), words), learnt(made, data, Objective(0.1), words))


def test_two_passes_that_are_equal_are_one_in_graphs() -> None:
    made = model().double()
    graphs = CapturedGradients(made, TrainSettings(label_smoothing=0.1, r_drop=2.0))
    for data in (batch(0, 19), batch(5, 19), batch(3, 2)):  # with spare sentences behind each pass
        expected = learnt(made, data, Objective(0.1), 0)
        part = graphs(data, 7)
        same((float(part.loss.detach()), float(part.nll), part.tokens, gradients(made)), expected)


def seeded(made: Model, data: Batch) -> Callable[[float], float]:
    """The loss of a batch by the weight of R-Drop, with the same dropout each time."""

    def loss(r_drop: float) -> float:
        torch.manual_seed(3)
        return learnt(made, data, Objective(0.1, r_drop), 0)[0]

    return loss


def test_passes_differ_in_dropout_and_the_weight_is_that_of_their_divergence() -> None:
    loss = seeded(model(dropout=0.3).double(), batch(0, 7))
    apart = loss(1.0) - loss(1e-12)
    assert apart > 0.01
    assert loss(3.0) - loss(1e-12) == pytest.approx(3 * apart)


def test_an_update_counts_each_word_once() -> None:
    sums = []
    for r_drop in (0.0, 1.0):
        made = model(dropout=0.3)
        settings = TrainSettings(optimiser="sgd", r_drop=r_drop)
        updater = Updater(made, settings, "float32")
        sums.append(update(made, updater, [batch(0, 7), batch(7, 5)], settings, 0.1, seeds=[1, 2]))
    one, two = sums
    assert (two.source_tokens, two.target_tokens) == (one.source_tokens, one.target_tokens)
    assert float(two.nll) == pytest.approx(float(one.nll), rel=0.05)
    assert two.norm == pytest.approx(one.norm, rel=0.3)  # divided by the words of one pass
