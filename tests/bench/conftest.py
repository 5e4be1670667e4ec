"""A text and a model so small that a measurement takes no time."""

from pathlib import Path

import pytest
import torch

import calque
from calque.bench import limit
from calque.model import Model

TINY = """\
d = 16
heads = 2
encoder = pos -> repeat(2, tenc) -> norm
decoder = pos -> repeat(2, tdec) -> norm
"""


@pytest.fixture(autouse=True)
def _brief(monkeypatch: pytest.MonkeyPatch) -> None:
    """Limits of the machine are measured once each, on little memory: no figure of a clock is compared.

    The command that entries hold is not that of the tests.
    """
    monkeypatch.setattr("sys.argv", ["calque", "bench"])
    monkeypatch.setattr(limit, "_BUDGET", 0.0)


@pytest.fixture
def text(tmp_path: Path) -> Path:
    file = tmp_path / "tiny.adl"
    file.write_text(TINY, encoding="utf-8")
    return file


@pytest.fixture
def model() -> Model:
    torch.manual_seed(3)
    return calque.build(TINY, 40, 40).eval().requires_grad_(False)
