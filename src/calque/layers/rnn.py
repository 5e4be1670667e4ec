import math
import warnings
from collections.abc import Sequence
from dataclasses import dataclass
from typing import cast

import torch
from jaxtyping import Bool, Float
from torch import Tensor, nn
from torch.nn import functional as F

from calque.adl.signature import Flag, Int, Point, Real, Setting, Word, arg
from calque.layers.contract import DECODER, OWN_CELL, Context, Example, Fault, Layer, Parts, Site, SourceArg, StateShape
from calque.layers.contract import Point as PointValue
from calque.layers.cost import Cost, Held, Products, Reach
from calque.layers.drop import drop
from calque.layers.projections import Projection, loop
from calque.layers.state import Cell, State, accumulated, columns
from calque.layers.stepping import at_each_position
from calque.native.program import Kind, NoProgram, Program, Value
from calque.native.training import training_kernels_for

GATES = {"lstm": 4, "gru": 3, "tanh": 1}
VALUES = {"lstm": 2, "gru": 1, "tanh": 1}
"""Vectors in the state of a cell."""
EPS = 1e-6
"""Added to variances inside a cell."""
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

    dropout  in training, U h_{t-1} becomes U (m h_{t-1}), where each number of m is 0 with
             this probability, else 1 / (1 - dropout).
             A sentence has one m, the same at every position (Gal and Ghahramani 2016, section 4; one m for all gates), and
             each part of it where `bptt_words` cuts it. Their masks of inputs are not this layer's: a `dropout` before it
             draws anew at each position
    norm     layer normalisation inside the cell (Ba et al. 2016, section 3.1 and appendix):
             N(a) = g (a - mean(a)) / deviation(a),
             each N with its own g. lstm: N(W x_t) + N(U h_{t-1}) + b, all gates at once, and h_t = sig(o) tanh(N(c_t) + b').
             gru: the same sum, r and z together and n apart. tanh: N(W x_t + U h_{t-1}) + b. The paper has a bias in each N; of
             those that only act as their sum there is one, and the one inside the reset product is left out here as well
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
    undrawn = ("gain", "gain_of_state", "gain_of_cell", "shift_of_cell")
    examples = (
        Example("rnn"),
        Example("rnn(6, gru)"),
        Example("rnn(5, tanh, bias=no)"),
        Example("rnn(bias=no, forget=1.0)"),
        Example("rnn(6, dropout=0.3, norm=yes)"),
        Example("rnn(6, gru, bias=no, norm=yes)"),
        Example("rnn(6, tanh, dropout=0.5, norm=yes)"),
        Example("rnn(6, start=@e)", (DECODER,), "rnn(6) @ e"),
        Example("rnn(6, dropout=0.4, start=@e)", (DECODER,), "rnn(6, dropout=0.4) @ e"),
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
            Real(-100.0, 100.0),
            0.0,
            "lstm: a constant added to the forget gate",
            known_as=("forget_bias",),
            only=("cell", ("lstm",)),
        )
        start: SourceArg | None = arg(
            Point(optional=True, chain=False),
            None,
            "a labelled cell of the encoder whose final state comes first",
            known_as=("initial_state", "state", "h0"),
        )
        dropout: float = arg(
            Real(0.0, 1.0, below=True),
            0.0,
            "probability of a zero in h_{t-1} before U, the same zeros at every position of a sentence",
            known_as=("recurrent_dropout",),
            later=True,
        )
        norm: bool = arg(Flag(), False, "layer normalisation inside the cell", known_as=("layer_norm",), later=True)

    def __init__(self, args: Args, site: Site, parts: Parts):
        super().__init__(args, site, parts)
        rows = GATES[args.cell] * args.width
        self.input = Projection(site.width, rows, bias=args.bias and not args.norm)
        self.recurrent = Projection(args.width, rows, bias=False)
        self.kind, self.width, self.forget, self.label = args.cell, args.width, args.forget, site.label
        self.dropout, self.norm = args.dropout, args.norm
        if args.norm:
            self._add_norms(rows, args.bias)
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
                    "C208",
                    "start",
                    expected=f"rnn({needed.width}, {needed.kind})",
                    found=f"rnn({held.width}, {held.kind})",
                )
        return args.width

    @classmethod
    def cost(cls, args: Args, site: Site) -> Cost:
        rows, seen = GATES[args.cell] * args.width, site.width + args.width
        held = Held(row=args.width, exact=args.width if args.cell == "lstm" else 0)
        reach = Reach(-math.inf, 0, sequential="n", path="n")
        norms = args.norm * {"lstm": 2 * rows + args.width * (1 + args.bias), "gru": 2 * rows, "tanh": rows}[args.cell]
        return Cost(rows * (seen + args.bias) + norms, Products(rows * seen), held, reach)

    @classmethod
    def final_state(cls, args: Args, site: Site) -> StateShape | None:
        return StateShape(args.cell, args.width)

    def forward(self, x: Float[Tensor, "B T D"], ctx: Context) -> Float[Tensor, "B T E"]:
        keeps = self.label is not None and ctx.taps is not None
        start = self._start(x.shape[0], ctx._replace(like=x.new_empty(0)))
        plain = self.kind == "lstm" and not self.norm and len(start.values) == VALUES["lstm"]
        # Nobody reads the state behind a sentence, unless it is handed over.
        if plain and not keeps and x.dtype in FUSED and not torch.compiler.is_exporting():
            return self._fused(x, start)
        y, state = self._run(x, start, ctx.mask if keeps else None)
        if keeps and ctx.taps is not None and self.label is not None:
            ctx.taps[self.label] = PointValue(y, ctx.mask, state.values[: VALUES[self.kind]])
        return y

    def init_state(self, batch: int, capacity: int, ctx: Context) -> State:
        return self._start(batch, ctx)

    def step(self, x: Float[Tensor, "B n D"], state: State, ctx: Context) -> tuple[Tensor, State]:
        return self._run(x, cast("Cell", state), ctx.mask)

    def program(self, p: Program, x: Value, state: State | None) -> tuple[Value, State | None]:
        if self.norm:
            raise NoProgram(self.name)
        driven = p.linear(x, self.input)

        def one(now: Sequence[Value], before: State) -> tuple[Value, State]:
            return self._moved(p, now[0], cast("Cell", before))

        return at_each_position(self, p, (driven,), state, one, self.label)

    def _moved(self, p: Program, driven: Value, state: Cell) -> tuple[Value, State]:
        """One position in a program."""
        h, *rest = state.values
        before = p.read(h)
        said = driven, p.linear(before, self.recurrent)
        if self.kind == "tanh":
            y = p.act(p.join(*said), "tanh")
        elif self.kind == "gru":
            y = p.add(Kind.GRU, (*said, before), self.width)
        else:
            y, cell = p.scan(Kind.LSTM, said, rest[0], (self.forget,))
            return y, Cell(cast("tuple[Tensor, ...]", (p.write(y, h), cell)))
        return y, Cell(cast("tuple[Tensor, ...]", (p.write(y, h),)))

    def _start(self, batch: int, ctx: Context) -> Cell:
        """The state before the first position; in training with dropout, the mask is its last value."""
        if self.start is not None:
            values = cast("tuple[Tensor, ...]", ctx.sources[self.start].state)
            values = tuple(v.repeat_interleave(ctx.beams, 0) for v in values)
        else:
            h = ctx.like.new_zeros(batch, self.width)
            values = (h, _cell_zeros(h)) if self.kind == "lstm" else (h,)
        if self.training and self.dropout:
            values = (*values, drop(torch.ones_like(values[0]), self.dropout, True))
        return Cell(values)

    def _add_norms(self, rows: int, bias: bool) -> None:
        """The gains of the three norms and what is added behind them."""
        self.gain = nn.Parameter(torch.ones(rows))
        self.bias = nn.Parameter(torch.zeros(rows)) if bias else None
        if self.kind != "tanh":
            self.gain_of_state = nn.Parameter(torch.ones(rows))
        if self.kind == "lstm":
            self.gain_of_cell = nn.Parameter(torch.ones(self.width))
            self.shift_of_cell = nn.Parameter(torch.zeros(self.width)) if bias else None

    def _run(self, x: Float[Tensor, "B T D"], state: Cell, mask: Bool[Tensor, "B T"] | None) -> tuple[Tensor, Cell]:
        if torch.compiler.is_exporting() and x.shape[1] > 1:
            return self._as_scan(x, state, mask)
        # One product for all positions; indexing would cost O(T^2) in the gradient.
        driven = self._driven(x).unbind(1)
        real = columns(mask, len(driven))
        outputs = []
        with loop():
            for now, valid in zip(driven, real, strict=True):
                state = state.write(self._next(now, state.values), valid)
                outputs.append(state.values[0])
        return torch.stack(outputs, 1), state

    def _as_scan(self, x: Float[Tensor, "B T D"], state: Cell, mask: Bool[Tensor, "B T"] | None) -> tuple[Tensor, Cell]:
        """The loop of `_run` as one operator of an exported graph, which would hold every position of it otherwise."""
        from torch._higher_order_ops.scan import scan

        def one(before: Sequence[Tensor], position: Sequence[Tensor]) -> tuple[list[Tensor], Tensor]:
            now, valid = position
            values = Cell(tuple(before)).write(self._next(now, tuple(before)), valid).values
            return [value.clone() for value in values], values[0].clone()  # no two results may share memory

        valid = x.new_ones(x.shape[:2], dtype=torch.bool) if mask is None else mask
        steps = self._driven(x).transpose(0, 1), valid.transpose(0, 1)
        values, outputs = scan(one, list(state.values), steps)
        return outputs.transpose(0, 1), Cell(tuple(values))

    def _fused(self, x: Float[Tensor, "B T D"], start: Cell) -> Float[Tensor, "B T E"]:
        """The loop of `_run` over an LSTM as one operator of torch."""
        h, c = start.values
        constant = x.new_zeros(4, self.width)
        constant[1] = self.forget
        bias = torch.zeros_like(constant).flatten() if self.input.bias is None else self.input.bias
        weights = [self.input.weight, self.recurrent.weight, bias, constant.flatten()]
        # One layer from left to right, biases, no dropout; what a gradient needs is kept wherever one may be asked for.
        how = weights, True, 1, 0.0, torch.is_grad_enabled(), False, True
        with warnings.catch_warnings():  # the library of an accelerator says that it has to put the weights together
            warnings.filterwarnings("ignore", message="RNN module weights are not part of single contiguous chunk")
            y, *_ = torch.lstm(x, (h[None], c[None]), *how)
        return y

    def _driven(self, x: Float[Tensor, "B T D"]) -> Float[Tensor, "B T G"]:
        """What the inputs say, normalised where the sum with the state is not."""
        driven: Tensor = self.input(x)
        if not self.norm or self.kind == "tanh":
            return driven
        driven = self._normed(driven, self.gain)
        return driven if self.bias is None else driven + self.bias

    def _pushed(self, before: tuple[Tensor, ...]) -> Float[Tensor, "B G"]:
        """What the state says."""
        h, count = before[0], VALUES[self.kind]
        pushed: Tensor = self.recurrent(h if len(before) == count else h * before[count])
        return self._normed(pushed, self.gain_of_state) if self.norm and self.kind != "tanh" else pushed

    def _normed(self, a: Float[Tensor, "... G"], gain: Tensor) -> Float[Tensor, "... G"]:
        """All gates at once; of a GRU the two gates, and the new state apart."""
        if self.kind != "gru":
            return F.layer_norm(a, a.shape[-1:], gain, None, EPS)
        n = 2 * self.width
        pairs = (a[..., :n], gain[:n]), (a[..., n:], gain[n:])
        return torch.cat([F.layer_norm(part, part.shape[-1:], g, None, EPS) for part, g in pairs], -1)

    def _next(self, driven: Float[Tensor, "B G"], before: tuple[Tensor, ...]) -> tuple[Tensor, ...]:
        """The state behind a position; the mask stays as it is."""
        h, pushed, mask = before[0], self._pushed(before), before[VALUES[self.kind] :]
        if self.kind == "tanh":
            a = driven + pushed
            if self.norm:
                a = F.layer_norm(a, a.shape[-1:], self.gain, self.bias, EPS)
            return torch.tanh(a), *mask
        if self.kind == "gru":
            r, z, n = driven.chunk(3, -1)
            r2, z2, n2 = pushed.chunk(3, -1)
            keep = torch.sigmoid(z + z2)
            new = torch.tanh(n + torch.sigmoid(r + r2) * n2)
            return new + keep * (h - new), *mask
        c = before[1]
        if not self.norm and (kernels := training_kernels_for(pushed, driven)) is not None:
            return *kernels.lstm(driven, pushed, c, self.forget), *mask
        i, f, g, o = (driven + pushed).to(c.dtype).chunk(4, -1)
        c = torch.sigmoid(f + self.forget) * c + torch.sigmoid(i) * torch.tanh(g)
        return (torch.sigmoid(o) * torch.tanh(self._seen(c))).to(h.dtype), c, *mask

    def _seen(self, c: Float[Tensor, "B D"]) -> Float[Tensor, "B D"]:
        """The cell of an LSTM as its output reads it."""
        if not self.norm:
            return c
        shift = None if self.shift_of_cell is None else self.shift_of_cell.to(c.dtype)
        return F.layer_norm(c, c.shape[-1:], self.gain_of_cell.to(c.dtype), shift, EPS)


def _cell_zeros(h: Tensor) -> Tensor:
    return torch.zeros_like(h, dtype=accumulated(h.dtype))
