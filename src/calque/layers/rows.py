"""What layers share that add a learned row of a table to their input."""

from dataclasses import dataclass

import torch
from jaxtyping import Float, Int
from torch import Tensor, nn

from calque.adl.signature import Int as Whole
from calque.adl.signature import arg
from calque.layers.contract import Layer, Parts, Site
from calque.layers.cost import HERE, Cost, Held, Products


class LearnedRows(Layer):
    """A table of `length` learned rows, each as wide as the input; numbers past the table take its last row."""

    @dataclass(frozen=True)
    class Args:
        length: int = arg(Whole(), 1024, "rows of the table", known_as=("max_len", "max_length", "max_seq_len"))

    def __init__(self, args: Args, site: Site, parts: Parts):
        super().__init__(args, site, parts)
        self.table = nn.Parameter(torch.randn(args.length, site.width) * 0.05)

    @classmethod
    def cost(cls, args: Args, site: Site) -> Cost:
        return Cost(args.length * site.width, Products(), Held(), HERE)

    def row(self, number: Int[Tensor, "*n"]) -> Float[Tensor, "*n D"]:
        """The rows of these numbers, from 0; the first row for negative ones."""
        return self.table[number.clamp(0, self.table.shape[0] - 1)]
