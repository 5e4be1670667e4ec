"""Every architecture of the papers, made narrow and shallow: it keeps every law, and learns from an update."""

import re

import pytest
import torch

from calque import zoo
from calque.adl.check import CheckedDefinition, check
from calque.adl.dialect import reader
from calque.adl.settings import parse_settings
from calque.data.batches import collate
from calque.data.corpus import Pairs
from calque.experiment import TrainSettings
from calque.ground.diagnostics import CalqueError
from calque.layers.registry import builtin
from calque.model import Model, Shape
from calque.prove import prove_text
from calque.train.initialise import initialise
from calque.train.optimise import Updater
from calque.train.update import update
from parts import some

WORDS = 11
SMALL = {"d": 8, "heads": 2, "n": 3, "m": 1, "h": 8}
"""Settings that make a row small, where it has them."""


def small(name: str) -> CheckedDefinition:
    text = zoo.read(name)
    named = [k for k in SMALL if k in ("d", "heads") or re.search(rf"^{k} = ", text.body, re.MULTILINE)]
    for left_out in ("", "heads"):  # a setting that nothing reads is an error
        try:
            return check(
                text, builtin(), reader("calque", parse_settings([f"{k}={SMALL[k]}" for k in named if k != left_out]))
            )
        except CalqueError as fault:
            if {d.code for d in fault.diagnostics} != {"C127"}:
                raise
    raise AssertionError(name)


@pytest.mark.medium
@pytest.mark.usefixtures("shapes_unchecked")
@pytest.mark.parametrize("name", some(zoo.distinct(), of=24))
def test_an_architecture_of_the_zoo_keeps_every_law_and_learns(name: str) -> None:
    checked = small(name)
    report = prove_text(checked.text, builtin(), seed=1)
    assert report.passed, str(report)
    torch.manual_seed(1)
    model = Model(checked, Shape(WORDS, WORDS, "none")).double()  # else the smallest steps are lost in rounding
    initialise(model, "glorot", 0.1, 1)
    before = {path: p.detach().clone() for path, p in model.named_parameters()}
    batch = collate(Pairs.of([[4, 5, 6], [7]], [[5, 6], [8, 9, 4]]), [0, 1], True)
    settings = TrainSettings(optimiser="sgd", label_smoothing=0.0)
    done = update(model, Updater(model, settings, "float32"), [batch], settings, 0.1)
    assert torch.isfinite(done.loss)
    assert done.norm > 0
    still = [path for path, p in model.named_parameters() if torch.equal(p, before[path])]
    assert not still, "nothing of these was learnt"
