import math
from dataclasses import dataclass
from typing import cast

import torch
from jaxtyping import Bool, Float
from torch import Tensor

from calque.adl.signature import Flag, Int, Point, Real, Setting, Word, arg
from calque.layers.contract import DECODER, OWN_CELL, Context, Example, Fault, Layer, Parts, Site, SourceArg, StateShape
from calque.layers.contract import Point as PointValue
from calque.layers.cost import Cost, Held, Products, Reach
from calque.layers.projections import Projection, loop
from calque.layers.state import Cell, State

GATES = {"lstm": 4, "gru": 3, "tanh": 1}
FUSED = (torch.float32, torch.float64)
"""Where torch's LSTM is this one. In bfloat16 it rounds the cell at each step."""


class Recurrent(Layer):
    """rnn(h_t) = f_o(h_t, s_{t-1}), s_t = f_h(h_t, s_{t-1}), from left to right (Domhan 2018, section 2.3).

    lstm  [i; f; g; o] = W x_t + U h_{t-1} + b;  c_t = sig(f + forget) c_{t-1} + sig(i) tanh(g);  h_t = sig(o) tanh(c_t)
    gru   [r; z; n] = W x_t + b, [r'; z'; n'] = U h_{t-1};  h_t = (1 - u) m + u h_{t-1},
          u = sig(z + z'), m = tanh(n + sig(r + r') n')
    tanh  h_t = tanh(W x_t + U h_{t-1} + b)

    One bias, where some libraries carry two that only ever act as their sum (in `gru`, a second one inside the reset product is
    left out). The state is zero before the first position, or with `start` the final state of a labelled cell of the
    encoder, after its last real token. The cell of an LSTM is float32 in every precision.
    """

    name = "rnn"
    known_as = (
        "LSTM(_, width) -> cell=lstm",
        "GRU(_, width) -> cell=gru",
        "LSTMCell(_, width) -> cell=lstm",
        "GRUCell(_, width) -> cell=gru",
        "recurrent",
    )
    reads = ("input", "recurrent")
    cell = OWN_CELL
    examples = (
        Example("rnn"),
        Example("rnn(6, gru)"),
        Example("rnn(5, tanh, bias=no)"),
        Example("rnn(bias=no, forget=1.0)"),
        Example("rnn(6, start=@e)", (DECODER,), "rnn(6) @ e"),
        Example("rnn(6, gru, start=@e[2])", (DECODER,), "repeat(3, rnn(6, gru) @ e)"),
    )

    @dataclass(frozen=True)
    class Args:
        width: int = arg(Int(), Setting("d"), "width of the state, and out")
        cell: str = arg(
            Word(choices=("lstm", "gru", "tanh")), "lstm", "the recurrence", known_as=("type", "cell_type", "rnn_type")
        )
        bias: bool = arg(Flag(), True, "add b")
        forget: float = arg(
            Real(-100.0, 100.0), 0.0, "lstm: a constant added to the forget gate", known_as=("forget_bias",)
        )
        start: SourceArg | None = arg(
            Point(optional=True, chain=False),
            None,
            "a labelled cell of the encoder whose final state comes first",
            known_as=("initial_state", "state", "h0"),
        )

    def __init__(self, args: Args, site: Site, parts: Parts):
        super().__init__(args, site, parts)
        rows = GATES[args.cell] * args.width
        self.input = Projection(site.width, rows, bias=args.bias)
        self.recurrent = Projection(args.width, rows, bias=False)
        self.kind, self.width, self.forget, self.label = args.cell, args.width, args.forget, site.label
        self.start = None if args.start is None else args.start.key

    @classmethod
    def infer(cls, args: Args, site: Site) -> int:
        if args.start is not None:
            if site.side != DECODER:
                raise Fault("C304", "start")
            held, needed = args.start.point.state, StateShape(args.cell, args.width)
            if held is None:
                raise Fault("C207", "start", label=args.start.key)
            if held != needed:
                raise Fault(
                    "C208", "start", expected=f"{needed.kind} of {needed.width}", found=f"{held.kind} of {held.width}"
                )
        return args.width

    @classmethod
    def cost(cls, args: Args, site: Site) -> Cost:
        rows, seen = GATES[args.cell] * args.width, site.width + args.width
        held = Held(row=args.width, exact=args.width if args.cell == "lstm" else 0)
        reach = Reach(-math.inf, 0, sequential="n", path="n")
        return Cost(rows * (seen + args.bias), Products(rows * seen), held, reach)

    @classmethod
    def final_state(cls, args: Args, site: Site) -> StateShape | None:
        return StateShape(args.cell, args.width)

    def forward(self, x: Float[Tensor, "B T D"], ctx: Context) -> Float[Tensor, "B T E"]:
        keeps = self.label is not None and ctx.taps is not None
        start = self._start(x.shape[0], ctx._replace(like=x.new_empty(0)))
        # Nobody reads the state behind a sentence, unless it is handed over.
        if self.kind == "lstm" and not keeps and x.dtype in FUSED:
            return self._fused(x, start)
        y, state = self._run(x, start, ctx.mask if keeps else None)
        if keeps and ctx.taps is not None and self.label is not None:
            ctx.taps[self.label] = PointValue(y, ctx.mask, state.values)
        return y

    def init_state(self, batch: int, capacity: int, ctx: Context) -> State:
        return self._start(batch, ctx)

    def step(self, x: Float[Tensor, "B n D"], state: State, ctx: Context) -> tuple[Tensor, State]:
        return self._run(x, cast("Cell", state), ctx.mask)

    def _start(self, batch: int, ctx: Context) -> Cell:
        if self.start is not None:
            values = cast("tuple[Tensor, ...]", ctx.sources[self.start].state)
            return Cell(tuple(v.repeat_interleave(ctx.beams, 0) for v in values))
        h = ctx.like.new_zeros(batch, self.width)
        return Cell((h, _cell_zeros(h))) if self.kind == "lstm" else Cell((h,))

    def _run(self, x: Float[Tensor, "B T D"], state: Cell, mask: Bool[Tensor, "B T"] | None) -> tuple[Tensor, Cell]:
        driven = self.input(x).unbind(1)  # one product for all positions; indexing would cost O(T^2) in the gradient
        real = [None] * len(driven) if mask is None else mask.unbind(1)
        outputs = []
        with loop():
            for now, valid in zip(driven, real, strict=True):
                state = state.write(self._next(now, state.values), valid)
                outputs.append(state.values[0])
        return torch.stack(outputs, 1), state

    def _fused(self, x: Float[Tensor, "B T D"], start: Cell) -> Float[Tensor, "B T E"]:
        """The loop of `_run` over an LSTM as one operator of torch."""
        h, c = start.values
        constant = x.new_zeros(4, self.width)
        constant[1] = self.forget
        bias = torch.zeros_like(constant).flatten() if self.input.bias is None else self.input.bias
        weights = [self.input.weight, self.recurrent.weight, bias, constant.flatten()]
        # One layer from left to right, biases, no dropout; what a gradient needs is kept wherever one may be asked for.
        y, *_ = torch.lstm(x, (h[None], c[None]), weights, True, 1, 0.0, torch.is_grad_enabled(), False, True)
        return y

    def _next(self, driven: Float[Tensor, "B G"], before: tuple[Tensor, ...]) -> tuple[Tensor, ...]:
        h = before[0]
        pushed = self.recurrent(h)
        if self.kind == "tanh":
            return (torch.tanh(driven + pushed),)
        if self.kind == "gru":
            r, z, n = driven.chunk(3, -1)
            r2, z2, n2 = pushed.chunk(3, -1)
            keep = torch.sigmoid(z + z2)
            new = torch.tanh(n + torch.sigmoid(r + r2) * n2)
            return (new + keep * (h - new),)
        c = before[1]
        i, f, g, o = (driven + pushed).to(c.dtype).chunk(4, -1)
        c = torch.sigmoid(f + self.forget) * c + torch.sigmoid(i) * torch.tanh(g)
        return (torch.sigmoid(o) * torch.tanh(c)).to(h.dtype), c


def _cell_zeros(h: Tensor) -> Tensor:
    return torch.zeros_like(h, dtype=h.dtype if h.dtype == torch.float64 else torch.float32)
