"""No architecture of the zoo waits for an accelerator in training, or mixes its tensors with those of the processor."""

import re

import pytest
import torch
from torch._subclasses.fake_tensor import FakeTensorMode

from calque import zoo
from calque.adl.check import check
from calque.experiment import TrainSettings
from calque.ground.diagnostics import Text
from calque.layers.registry import builtin
from calque.model import Model, Shape
from calque.train.captured import CapturedGradients, PaddedBatch
from imagined import accelerator, moved
from parts import some


@pytest.fixture(scope="module")
def device() -> str:
    return accelerator()


def trains(name: str, device: str) -> None:
    text = zoo.read(name)
    narrow = Text(text.name, re.sub(r"^d = \d+", "d = 64", text.body, flags=re.MULTILINE))
    model = Model(check(narrow, builtin()), Shape(100, 100)).train().requires_grad_(False).to(torch.bfloat16)
    with FakeTensorMode() as mode, torch.no_grad():
        moved(model, mode, device)
        words = torch.ones(6, 16, dtype=torch.int64, device=device)
        batch = PaddedBatch(words, words > 0, words, words, words > 0, words > 0)
        loss, nll = CapturedGradients(model, TrainSettings(label_smoothing=0.1)).loss(batch)
        assert loss.device.type == nll.device.type == device


@pytest.mark.medium
@pytest.mark.parametrize("name", [*some([*zoo.distinct()], 3, 24)])
def test_no_architecture_waits_for_an_accelerator(name: str, device: str) -> None:
    trains(name, device)


def test_a_wait_is_found(device: str, monkeypatch: pytest.MonkeyPatch) -> None:
    encode = Model.encode
    monkeypatch.setattr(Model, "encode", lambda self, words, *rest: encode(self, words + int(words.max()), *rest))
    with pytest.raises(Exception, match="_local_scalar_dense"):
        trains("domhan2018/rnmt", device)
