"""Layers in models with random weights, their weights as arrays, and a comparison with a loop, sentence by sentence."""

from collections.abc import Callable
from typing import Any

import numpy as np
import torch
from naive import Sequence_, Vector
from torch import Tensor, nn

from calque.adl.check import check
from calque.ground.diagnostics import Text
from calque.layers.contract import ENCODER
from calque.layers.registry import builtin
from calque.prove.case import SENTENCES, ProofCase


class Bench:
    """One layer, or chain, on one side, width 8; `encoder` is what it reads where it stands in the decoder."""

    def __init__(self, text: str, side: str = ENCODER, encoder: str = "id", seed: int = 0):
        self.side = side
        whole = f"encoder = {text}\ndecoder = id\n" if side == ENCODER else f"encoder = {encoder}\ndecoder = {text}\n"
        self.subject = ProofCase(check(Text("bench", "d = 8\n" + whole), builtin()), builtin(), seed)

    def weight(self, name: str) -> Vector:
        """A parameter by its path below its side, such as `0.project.weight`."""
        parameter: Tensor = self.subject.model.get_parameter(f"{self.side}.{name}")
        return parameter.detach().numpy()

    def weights(self, *names: str) -> list[Vector]:
        return [self.weight(name) for name in names]

    def module(self, name: str) -> Any:
        return self.subject.model.get_submodule(f"{self.side}.{name}")

    def source(self, row: int, key: str = "end") -> Sequence_:
        """An encoder point of one sentence, padding left out."""
        n = int(self.subject.source_mask[row].sum())
        return list(self.subject.sources[key].value[row, :n].numpy())

    def state(self, row: int, key: str) -> list[Vector]:
        return [s[row].numpy() for s in self.subject.sources[key].state or ()]

    def run(self) -> tuple[Tensor, Tensor, Tensor]:
        """Input, output and mask."""
        s = self.subject
        with torch.no_grad():
            if self.side == ENCODER:
                return s.source, s.encode(s.source, s.source_mask)["end"].value, s.source_mask
            return s.x, s.forward(s.x, s.sources, s.mask), s.mask

    def agrees(self, loop: Callable[[Sequence_, int], Sequence_]) -> None:
        """The layer's output and the loop's, given the sentence and its row, differ by less than 1e-9."""
        x, y, mask = self.run()
        for row in range(SENTENCES):
            n = int(mask[row].sum())
            expected = np.stack(loop(list(x[row, :n].numpy()), row))
            np.testing.assert_allclose(y[row, :n].numpy(), expected, rtol=0, atol=1e-9)

    def agrees_with(self, module: Callable[[Tensor], Tensor]) -> None:
        """The same against a function of torch on one sentence [1, T, d]."""
        x, y, mask = self.run()
        for row in range(SENTENCES):
            n = int(mask[row].sum())
            with torch.no_grad():
                torch.testing.assert_close(y[row : row + 1, :n], module(x[row : row + 1, :n]), rtol=0, atol=1e-9)


def load(module: nn.Module, **weights: Vector | Tensor) -> Any:
    """A module of torch in float64, its parameters replaced."""
    module = module.double().eval()
    with torch.no_grad():
        for name, value in weights.items():
            module.get_parameter(name).copy_(torch.as_tensor(value))
    return module
