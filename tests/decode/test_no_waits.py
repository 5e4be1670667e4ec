"""No architecture of the zoo waits for an accelerator in a search, or mixes its tensors with those of the processor.

The accelerator here is an imagined one: its tensors have shapes and no numbers, so that asking for one is an error.
"""

import re

import pytest
import torch
from torch._subclasses.fake_tensor import FakeTensorMode

from calque import zoo
from calque.adl.check import check
from calque.decode.captured import Captured
from calque.decode.captured_steps import CapturedBeginning, CapturedSteps
from calque.decode.rule import Sampling, SearchSettings
from calque.decode.scorer import Models, SourceBatch
from calque.ground.diagnostics import Text
from calque.layers.contract import Layer
from calque.layers.registry import builtin
from calque.model import Model, Shape
from imagined import accelerator, moved
from parts import some


@pytest.fixture(scope="module")
def device() -> str:
    return accelerator()


def decodes(name: str, precision: torch.dtype, settings: SearchSettings, device: str) -> None:
    text = zoo.read(name)
    narrow = Text(text.name, re.sub(r"^d = \d+", "d = 64", text.body, flags=re.MULTILINE))
    model = Model(check(narrow, builtin()), Shape(100, 100)).eval().requires_grad_(False).to(precision)
    for layer in model.modules():
        if isinstance(layer, Layer):
            layer.fuse(exact=precision == torch.float32)
    with FakeTensorMode() as mode, torch.no_grad():
        moved(model, mode, device)
        model.programs = Captured()
        source = torch.ones(6, 16, dtype=torch.int64, device=device)
        scorer = Models([SourceBatch(model, source, source > 0)])
        beginning = CapturedBeginning(scorer, settings, 6, 32)
        progress = beginning.first()
        assert all(x.device.type == device for x in (progress.t, progress.limit, progress.chosen))
        steps = CapturedSteps(beginning.scorer, beginning.rule, settings, progress, None)
        beginning.capture(steps)
        beginning()
        steps.prepare(2)


NAMES = [*zoo.distinct()]


@pytest.mark.medium
@pytest.mark.parametrize("name", [*some(NAMES, 2, 24)])
def test_no_architecture_waits_for_an_accelerator(name: str, device: str) -> None:
    decodes(name, torch.bfloat16, SearchSettings(3), device)


@pytest.mark.medium
@pytest.mark.parametrize(
    "settings", [SearchSettings(1), SearchSettings(1, scores=False), SearchSettings(2, sampling=Sampling(top_k=4))]
)
def test_no_rule_waits_for_an_accelerator(settings: SearchSettings, device: str) -> None:
    decodes("domhan2018/rnmt", torch.float32, settings, device)


def test_a_wait_is_found(device: str, monkeypatch: pytest.MonkeyPatch) -> None:
    step = Model.step
    monkeypatch.setattr(Model, "step", lambda self, words, *rest: step(self, words + int(words.max()), *rest))
    with pytest.raises(Exception, match="_local_scalar_dense"):
        decodes("domhan2018/rnmt", torch.float32, SearchSettings(1), device)
