import math
from dataclasses import dataclass

import torch
from jaxtyping import Float, Int
from torch import Tensor

from calque.adl.signature import Flag, Real, Setting, Word, arg
from calque.adl.signature import Int as Whole
from calque.layers.contract import Context, Example, Fault, Layer, Parts, Site
from calque.layers.cost import HERE, Cost, Held, Products
from calque.layers.drop import drop
from calque.layers.state import Empty, State
from calque.native.program import Program, Value


class Position(Layer):
    """pos(h_t) = dropout(sqrt(d) h_t + p_t), p_t sinusoids of t = 0, 1, ... (Domhan 2018, section 2.3; Vaswani et al. 2017).

    t counts from `start`, 0 in the paper; M2M100 counts from 2.

    The rates are 10000^(-2i/d), i = 0 .. d/2 - 1, or 10000^(-i/(d/2 - 1)) with `endpoint`, as tensor2tensor has them. The paper
    prints sin and cos interleaved; its code, and tensor2tensor, hold a block of sines and a block of cosines (`halves`).
    """

    name = "pos"
    known_as = ("PositionalEncoding(_, dropout)", "position_encoding", "pos_enc", "pe", "sinusoidal")
    examples = (Example("pos"), Example("pos(0, layout=interleaved, endpoint=yes)"), Example("pos(scale=no, start=3)"))

    @dataclass(frozen=True)
    class Args:
        dropout: float = arg(Real(0.0, 1.0, below=True), Setting("p"), "probability of a zero in the sum")
        scale: bool = arg(Flag(), True, "multiply h by sqrt(d) first")
        layout: str = arg(Word(choices=("halves", "interleaved")), "halves", "where sines and cosines stand")
        endpoint: bool = arg(Flag(), False, "let the slowest rate be exactly 1/10000")
        start: int = arg(Whole(0, 65535), 0, "the number of the first position", known_as=("offset",), later=True)

    def __init__(self, args: Args, site: Site, parts: Parts):
        super().__init__(args, site, parts)
        self.width, self.args = site.width, args
        self.factor = math.sqrt(site.width) if args.scale else 1.0
        # Not a buffer: a cast of the module would round it, where `_rows` makes it anew.
        self.table = torch.empty(0, site.width)

    @classmethod
    def infer(cls, args: Args, site: Site) -> int:
        if site.width % 2:
            raise Fault("C203", layer="pos", what="two halves, for sines and cosines", width=site.width)
        return site.width

    @classmethod
    def cost(cls, args: Args, site: Site) -> Cost:
        return Cost(0, Products(), Held(), HERE)

    def forward(self, x: Float[Tensor, "B T D"], ctx: Context) -> Float[Tensor, "B T D"]:
        return self._add(x, self._rows(x.shape[1], x)[: x.shape[1]])

    def init_state(self, batch: int, capacity: int, ctx: Context) -> State:
        return Empty()

    def step(self, x: Float[Tensor, "B n D"], state: State, ctx: Context) -> tuple[Tensor, State]:
        chunk, n = ctx.now, x.shape[1]
        # Idle positions may count past the bound; nobody reads their output.
        rows = self._rows(chunk.visible + n, x)
        at = chunk.history.at
        return self._add(x, rows[chunk.positions] if at is None else rows[at : at + n]), state

    def program(self, p: Program, x: Value, state: State | None) -> tuple[Value, State | None]:
        like = torch.empty(0, dtype=p.dtype)
        return p.position(x, lambda length: self._rows(length, like), self.factor), state

    def _add(self, x: Tensor, rows: Tensor) -> Tensor:
        y = torch.add(rows, x, alpha=self.factor)
        return drop(y, self.args.dropout, self.training)

    def _rows(self, length: int, like: Tensor) -> Tensor:
        table = self.table
        if table.shape[0] < length or table.dtype != like.dtype or table.device != like.device:
            rows = max(64, 2 * length)
            table = sinusoids(
                torch.arange(rows) + self.args.start, self.width, self.args.layout, self.args.endpoint
            ).to(like)
            self.table = table
        return table


def sinusoids(t: Int[Tensor, " T"], width: int, layout: str, endpoint: bool) -> Float[Tensor, "T D"]:
    """The sinusoids of positions `t`, computed in float64."""
    half = width // 2
    i = torch.arange(half, dtype=torch.float64)
    rate = 10000.0 ** -(i / max(1, half - 1) if endpoint else 2 * i / width)
    angle = t.double()[:, None] * rate
    parts = (angle.sin(), angle.cos())
    return torch.cat(parts, 1) if layout == "halves" else torch.stack(parts, 2).flatten(1)
