"""The proof is itself proved: every planted fault is reported under the law it breaks, and nothing is reported without one."""

import re
import sys
from pathlib import Path
from typing import NamedTuple

import pytest
import torch
from asking import ASKING, LOOKING, looking
from planted import Mutant
from planted_copies import MUTANTS
from running_sum import Mean, RoundedMean, Sum
from torch import Tensor

from calque.adl.check import check
from calque.ground.diagnostics import Text
from calque.layers.contract import DECODER, ENCODER, Context, Layer, Registry
from calque.layers.registry import builtin
from calque.layers.state import State
from calque.prove import ProofReport, prove_layer, prove_module, prove_text, prover
from calque.prove.case import SOURCE_LENGTH, ProofCase, sentence
from calque.prove.outcome import distance
from calque.prove.prover import definition
from parts import some

# A labelled cell in a backwards chain: its final state is the bridge's business, and no layer's example by itself.
LABELLED = "d = 8\nencoder = concat(rnn(4) @ a, reverse(rnn(4) @ b))\ndecoder = id\n"

SHARED = "d = 8\nencoder = repeat(2, res(linear -> rnn), share=yes)\ndecoder = repeat(3, ff -> linear, share=yes)\n"

pytestmark = pytest.mark.usefixtures("shapes_unchecked", "one_trial")


@pytest.fixture
def one_trial(monkeypatch: pytest.MonkeyPatch) -> None:
    """A single draw has to do: a law that catches a fault by luck is no law."""
    monkeypatch.setattr(prover, "TRIALS", 1)


def proof(name: str) -> ProofReport:
    if name == "birnn-labelled":
        return prove_text(LABELLED, builtin(), side=ENCODER)
    if name == "shared-copies":
        return prove_text(SHARED, builtin())
    return prove_layer(builtin()[name], builtin())


@pytest.mark.medium
@pytest.mark.parametrize("mutant", some(MUTANTS, of=12), ids=lambda m: m.name)
def test_a_planted_fault_is_reported_under_its_law(mutant: Mutant, monkeypatch: pytest.MonkeyPatch) -> None:
    mutant.plant(monkeypatch)
    report = proof(mutant.layer)
    assert mutant.law in report.failed, str(report)
    assert all(v.message for v in report.verdicts if not v.passed)


@pytest.mark.medium
@pytest.mark.parametrize("name", some(sorted({m.layer for m in MUTANTS}), 1, 6))
def test_nothing_is_reported_without_a_fault(name: str) -> None:
    report = proof(name)
    assert report.passed, str(report)


@pytest.mark.medium
def test_there_are_mutants_for_every_law() -> None:
    laws = {v.law for v in proof("mh_dot_self_att").verdicts}
    assert laws - {m.law for m in MUTANTS} <= {"model"}  # the model is its layers: it fails along with them
    assert len({m.name for m in MUTANTS}) >= 15


def test_a_running_sum_kept_in_bfloat16_is_reported() -> None:
    right = prove_layer(Mean, Registry([*builtin().values(), Mean]))
    assert right.passed, str(right)
    rounded = prove_layer(RoundedMean, Registry([*builtin().values(), RoundedMean]))
    assert {"equal", "model"} <= set(rounded.failed), str(rounded)


class Forgetful(Mean):
    """The same, its state lost where a step begins at position 40 or later."""

    name = "mean"

    def step(self, x: Tensor, state: Sum, ctx: Context) -> tuple[Tensor, State]:
        lost = (state.count >= 40)[:, None]
        return super().step(x, state._replace(total=state.total.masked_fill(lost, 0)), ctx)


def test_a_fault_of_late_positions_is_reported_with_the_first_of_them() -> None:
    report = prove_layer(Forgetful, Registry([*builtin().values(), Forgetful]))
    assert report.failed == ("equal",), str(report)
    assert re.search(r"150 positions in chunks, from (4|5|6)\d on: off by", str(report)), str(report)


class Chaotic(Mean):
    """z_t = 0.9 (4 z_{t-1} (1 - z_{t-1})) + 0.1 sigmoid(h_t), which multiplies a change by more than 1. `step` rounds otherwise."""

    name = "mean"

    def forward(self, x: Tensor, ctx: Context) -> Tensor:
        z, outputs = torch.full_like(x[:, 0], 0.3), []
        for t in range(x.shape[1]):
            z = 0.9 * (4 * z * (1 - z)) + 0.1 * x[:, t].sigmoid()
            outputs.append(z)
        return torch.stack(outputs, 1)

    def step(self, x: Tensor, state: Sum, ctx: Context) -> tuple[Tensor, State]:
        mask = x.new_ones(x.shape[:2], dtype=torch.bool) if ctx.mask is None else ctx.mask
        z, outputs = torch.where(state.count[:, None] > 0, state.total, 0.3), []
        for t in range(x.shape[1]):
            z = torch.where(mask[:, t, None], 3.6 * z - 3.6 * z * z + 0.1 * x[:, t].sigmoid(), z)
            outputs.append(z)
        return torch.stack(outputs, 1), Sum(z, state.count + mask.sum(1))


def test_a_recurrence_that_is_chaotic_breaks_no_law() -> None:
    """Its two forms differ at late positions, as the outputs of two inputs do that differ in the last digits."""
    layers = Registry([*builtin().values(), Chaotic])
    report = prove_layer(Chaotic, layers)
    assert "equal" not in report.failed, str(report)
    s = ProofCase(check(Text("text", definition(Chaotic.examples[0], DECODER)), layers), layers, 0)
    x, alone = s.normal(1, 150, 8), sentence(s.tamed, 0, SOURCE_LENGTH)
    with torch.no_grad():
        assert distance(s.stepped(x, alone, [1] * 150), s.forward(x, alone)) > 0.01


GROWING = "d = 8\nencoder = id\ndecoder = feed(mul(linear(8), linear(8)) -> scale(9)) -> mh_dot_self_att(heads=2)\n"


def test_a_recurrence_whose_numbers_grow_without_bound_breaks_no_law() -> None:
    report = prove_text(GROWING, builtin())
    assert report.passed, str(report)


class Late(Mean):
    """The same, NaN from position 100 on in both forms."""

    name = "mean"

    def forward(self, x: Tensor, ctx: Context) -> Tensor:
        late = torch.arange(x.shape[1]) >= 100
        return super().forward(x, ctx).masked_fill(late[:, None], torch.nan)

    def step(self, x: Tensor, state: Sum, ctx: Context) -> tuple[Tensor, State]:
        late = state.count[:, None] + torch.arange(x.shape[1]) >= 100
        y, after = super().step(x, state, ctx)
        return y.masked_fill(late[:, :, None], torch.nan), after


def test_numbers_that_end_without_having_grown_are_reported() -> None:
    report = prove_layer(Late, Registry([*builtin().values(), Late]))
    assert report.failed == ("equal",), str(report)


def test_a_module_is_proved_layer_by_layer(monkeypatch: pytest.MonkeyPatch) -> None:
    module = sys.modules[Mean.__module__]
    monkeypatch.delattr(module, "RoundedMean")  # of the same name
    (report,) = prove_module(module)
    assert (report.name, report.side, report.passed) == ("mean", "decoder", True)
    assert "ok" in str(report)


class Counted(NamedTuple):
    """The same state, and how many steps were made."""

    held: Sum
    steps: int

    def select(self, rows: Tensor) -> "Counted":
        return Counted(self.held.select(rows), self.steps)

    def keep(self, rows: Tensor, sentences: Tensor) -> "Counted":
        return self.select(rows)

    def bytes(self) -> int:
        return self.held.bytes()


class Counting(Mean):
    """The same with that state."""

    name = "mean"

    def init_state(self, batch: int, capacity: int, ctx: Context) -> State:
        return Counted(super().init_state(batch, capacity, ctx), 0)

    def step(self, x: Tensor, state: Counted, ctx: Context) -> tuple[Tensor, State]:
        y, after = super().step(x, state.held, ctx)
        return y, Counted(after, state.steps + 1)


@pytest.mark.medium
@pytest.mark.parametrize(
    ("layer", "why"),
    [
        (Mean, None),
        *((looking(look), r"asking.py:\d+ asks for numbers that the accelerator has") for look in ASKING.values()),
        *((looking(look), None) for look in LOOKING.values()),
        (Counting, "a state has a number beside its tensors that changes from step to step"),
    ],
    ids=["none", *(f"asks: {name}" for name in ASKING), *(f"looks: {name}" for name in LOOKING), "counts"],
)
def test_a_proof_says_why_searches_are_no_graphs(layer: type[Layer], why: str | None) -> None:
    report = prove_layer(layer, Registry([*builtin().values(), layer]))
    assert report.passed, str(report)
    if why is None:
        assert not report.notes
    else:
        (note,) = report.notes
        assert re.search(f"note on an accelerator searches go step by step, not as graphs: {why}", str(report)), note


def test_a_layer_without_examples_is_not_proved() -> None:
    class Unproved(Mean):
        name = "unproved"
        examples = ()

    report = prove_layer(Unproved, Registry([*builtin().values(), Unproved]))
    assert report.failed == ("shape",)


def test_an_example_with_a_fault_is_a_failure_and_no_traceback() -> None:
    class Wrong(Mean):
        name = "wrong"
        examples = (*Mean.examples[:0], type(Mean.examples[0])("wrong(7)"))

    report = prove_layer(Wrong, Registry([*builtin().values(), Wrong]))
    assert not report.passed
    assert "C105" in report.verdicts[0].message


def test_an_exception_is_told_with_its_line() -> None:
    """The last one that is neither torch's nor this package's."""

    class Broken(Mean):
        name = "broken"
        examples = (type(Mean.examples[0])("broken", (DECODER,)),)

        def forward(self, x, ctx):
            return torch.matmul(super().forward(x, ctx), x)  # fails inside torch

    line = Broken.forward.__code__.co_firstlineno + 1
    report = prove_layer(Broken, Registry([*builtin().values(), Broken]))
    message = next(v.message for v in report.verdicts if v.law == "shape")
    assert message.startswith(f"{Path(__file__).name}:{line}: RuntimeError: ")
