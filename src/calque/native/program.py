"""Programs of kernel calls: what a chain of layers does to rows, written down once and run by one call for every batch or step.

A layer writes its part in `Layer.program`. Values are known by buffers; where these lie is decided when the program is closed:
buffers that are not needed at the same time share their place. Tensors that change from call to call, such as states, are known by
their order.
"""

from collections.abc import Sequence
from typing import NamedTuple

import torch
from jaxtyping import Float
from torch import Tensor, nn

from calque.native.kernels import kernels
from calque.native.packed import PackedWeight
from calque.native.placed import ADD, MULTIPLY, Arena, Bound, Closed, Frame, Kind, Rows, Step, Value
from calque.native.writer import Made, NoProgram, Writer

__all__ = ["Arena", "Band", "Bound", "Closed", "Frame", "Kind", "Made", "NoProgram", "Program", "Value", "Window"]

FUNCTIONS = ("id", "relu", "tanh", "sigmoid", "gelu", "gelu_tanh", "silu", "relu2")


class Window(NamedTuple):
    """A window on the source."""

    centre: Value | None
    """where it stands, before a sigmoid, for each head; none: at the position"""
    reach: int
    form: int
    """bounds at floor(p), round(p) or p: 0, 1, 2; 4 more: what the Gaussian leaves sums to one; 8 more: it multiplies scores"""


class Band(NamedTuple):
    """The weights of inputs side by side."""

    own: Value | None
    """of each position: for each head those of its inputs; none: the same at all positions"""
    how: tuple[int, bool] = (1, False)
    """heads, and whether a softmax makes them sum to one"""
    fixed: tuple[Float[Tensor, "w D"], ...] = ()
    """those of all positions, in float32"""

    @staticmethod
    def same(weights: Float[Tensor, "w D"]) -> "Band":
        """The same at all positions."""
        return Band(None, fixed=(weights.contiguous(),))


class Program(Writer):
    """The operations that there are."""

    def embed(self, table: Float[Tensor, "V D"]) -> Value:
        """The rows of the words."""
        return self.add(Kind.EMBED, (), table.shape[1], (len(table),), (self.fit(table),))

    def position(self, x: Value, rows: Rows, factor: float = 1.0, last: int | None = None) -> Value:
        """factor x + the row of a table for each position; positions from `last` on have the row before it."""
        return self.add(Kind.POSITION, (x,), x.width, (last or 2**62,), self.table(rows), (factor,))

    def turn(self, x: Value, rows: Rows, width: int) -> Value:
        """The halves of each `width` numbers turned by the angles of the position, whose cosines and sines are the table's rows."""
        return self.add(Kind.TURN, (x,), x.width, (2**62, width), self.table(rows))

    def norm(self, x: Value, gain: Tensor, shift: Tensor, epsilon: float) -> Value:
        """Layer norm."""
        return self.add(Kind.NORM, (x,), x.width, p=(self.fit(gain), self.fit(shift)), f=(epsilon,))

    def root_norm(self, x: Value, gain: Tensor | None, width: int, epsilon: float) -> Value:
        """Each `width` numbers divided by their root mean square."""
        return self.add(
            Kind.ROOT_NORM, (x,), x.width, (width,), (None if gain is None else self.fit(gain),), (epsilon,)
        )

    def linear(self, x: Value, module: nn.Module | None) -> Value:
        """W x + b, by a product with packed weights; those of few outputs are packed here. `nn.Identity` is x itself."""
        if isinstance(module, nn.Identity):
            return x
        weight, bias = getattr(module, "_packed", None), getattr(module, "bias", None)
        own = kernels()
        if isinstance(module, nn.Linear) and own is not None:
            weight = own.pack(self.fit(module.weight), self.dtype)
            bias = None if bias is None else bias.detach().float()
        if not isinstance(weight, PackedWeight):
            raise NoProgram("a product that no kernel makes")
        changed = weight.item == 4 and self.dtype != torch.float32
        if changed or (bias is not None and bias.dtype != torch.float32):  # moved to another type since
            raise NoProgram("a product of other types")
        return self.product(x, weight, bias)

    def product(self, x: Value, weight: PackedWeight, bias: Tensor | None = None) -> Value:
        """W x + b."""
        tensors = weight.data, weight.scale, weight.sums, bias
        return self.add(Kind.PRODUCT, (x, None), weight.out, (weight.item, 0), tensors)

    def act(self, x: Value, function: str) -> Value:
        """A non-linearity."""
        if function == "glu":
            return self.add(Kind.GLU, (x,), x.width // 2)
        return x if function == "id" else self.add(Kind.ACT, (x,), x.width, (FUNCTIONS.index(function),))

    def scale(self, x: Value, factor: float | Tensor) -> Value:
        """x times a constant, or a factor of each number."""
        if isinstance(factor, Tensor):
            return self.add(Kind.SCALE, (x,), x.width, p=(self.fit(factor),))
        return self.add(Kind.SCALE, (x,), x.width, f=(factor,))

    def mix(self, share: Value, x: Value, y: Value) -> Value:
        """share x + (1 - share) y, number by number."""
        return self.add(Kind.MIX, (share, x, y), x.width)

    def join(self, x: Value, y: Value, how: int = ADD) -> Value:
        """x + y or x y, number by number."""
        return self.add(Kind.JOIN, (x, y), x.width, (how,))

    def multiply(self, x: Value, y: Value) -> Value:
        """x y, number by number."""
        return self.join(x, y, MULTIPLY)

    def attend(
        self,
        projected: tuple[Value, Value, Value],
        held: tuple[Tensor, Tensor] | None,
        heads: tuple[int, int],
        scale: float,
        gain: Rows | None = None,
        near: tuple[int, int] = (-1, -1),
    ) -> Value:
        """Attention of q to k and v and those before them in keys and values `held`; of an encoder to all of the sentence.

        heads  of q, and of k and v
        gain   what scores gain, in float32: for each distance numbers of all heads before the query, and of all behind it
        near   of an encoder: to how many positions before a query and behind it; -1: to all
        """
        q, _, v = projected
        kind, states = (Kind.ATTEND_SELF, (0, 0)) if held is None else (Kind.ATTEND, tuple(map(self.number, held)))
        widths = q.width // heads[0], v.width // heads[1]
        n = (*states, *heads, *widths, *(near if held is None else (-1,)))
        return self.add(kind, projected, heads[0] * widths[1], n, self.table(gain), (scale,))

    def attend_near(
        self,
        projected: tuple[Value, Value, Value],
        last: Float[Tensor, "R w D"],
        heads: tuple[int, int],
        scale: float,
        gain: Rows | None = None,
    ) -> tuple[Value, Made]:
        """Attention of q to k and v and to those of the last positions, side by side in `last`, and the window behind this one.

        `heads` and `gain` as for `attend`.
        """
        made, number = self.make(last)
        _, k, v = projected
        widths = k.width // heads[1], v.width // heads[1]
        n = (self.number(last), number, last.shape[1], *heads, *widths)
        return self.add(Kind.ATTEND_NEAR, projected, heads[0] * widths[1], n, self.table(gain), (scale,)), made

    def attend_source(
        self, q: Value, keys: Tensor, values: Tensor, blocked: Tensor | None, scale: float, near: Window | None = None
    ) -> Value:
        """Attention of q to the keys and values [S, H, N, K] of its sentence, all of them or those near."""
        heads, widths = q.width // keys.shape[3], (keys.shape[3], values.shape[3])
        hidden = -1 if blocked is None else self.number(blocked)
        centre, reach, form = near or Window(None, -1, 0)
        n = (self.number(keys), self.number(values), heads, keys.shape[1], *widths, hidden, reach)
        return self.add(Kind.ATTEND_SOURCE, (q, centre), heads * widths[1], n, f=(scale, form))

    def attend_mlp(
        self, q: Value, memory: tuple[Tensor, Tensor, Tensor | None], score: Tensor, near: Window | None
    ) -> Value:
        """The sum of values [S, N, E], weighted by w . tanh(q + k), all of them or those near.

        `memory`: keys, values and which positions are blocked.
        """
        keys, values, blocked = memory
        hidden = -1 if blocked is None else self.number(blocked)
        centre, reach, form = near or Window(None, -1, 0)
        n = self.number(keys), self.number(values), hidden, reach
        return self.add(Kind.ATTEND_MLP, (q, centre), values.shape[2], n, (self.fit(score),), (form,))

    def attend_location(
        self, scores: Value, values: Tensor, blocked: Tensor | None, near: Window | None, renorm: bool
    ) -> Value:
        """The sum of values [S, N, E] at positions that have scores, of the first ones or of those near."""
        hidden = -1 if blocked is None else self.number(blocked)
        centre, reach, form = near or Window(None, -1, 4 * renorm)
        n = self.number(values), hidden, reach
        return self.add(Kind.ATTEND_LOCATION, (scores, centre), values.shape[2], n, f=(form,))

    def scan(
        self,
        kind: Kind,
        reads: Sequence[Value],
        state: Float[Tensor, "R D"],
        f: Sequence[float] = (),
        p: Sequence[Float[Tensor, " D"]] = (),
        function: str = "id",
    ) -> tuple[Value, Made]:
        """An operation with a state in float32, and the state behind it; `p` are float32, too.

        `function`: of `GATED`, what makes the output of the state.
        """
        made, number = self.make(state)
        return self.add(
            kind, reads, state.shape[1], (self.number(state), number, FUNCTIONS.index(function)), p, f
        ), made

    def matrix(
        self,
        reads: tuple[Value, Value | None, Value | None],
        state: Float[Tensor, "R N"],
        sizes: tuple[int, int, int],
        how: tuple[str, int, bool],
        p: tuple[Float[Tensor, " H"], Float[Tensor, " H"] | None],
        rows: Rows | None,
    ) -> tuple[Value, Made]:
        """What queries read in matrices [H, K, V] behind this position, and those matrices, in float32 as `p` is.

        reads    queries, keys and values side by side; what decays and what the delta rule follow from
        sizes    heads, numbers of a key and of a value
        how      the function of queries and keys, what decays are of (0: given, 1: a head, 2: a channel), whether by the delta rule
        p        of each head: its decay or its rate, its offset
        rows     angles of positions, if queries and keys are turned
        """
        made, number = self.make(state, over=True)
        heads, keys, values = sizes
        function, decay, delta = how
        if rows is not None:
            self.tables.append((len(self.steps), rows))
        n = (
            2**62,
            self.number(state),
            number,
            *sizes,
            -1 if function == "elu" else FUNCTIONS.index(function),
            decay + 4 * delta,
        )
        return self.add(
            Kind.MATRIX, reads, heads * values, n, (None, *p), (keys**-0.5 if function != "elu" else 1.0,)
        ), made

    def window(self, x: Value, last: Float[Tensor, "R w D"], length: int, apart: int) -> tuple[Value, Made]:
        """Every `apart`-th of the last inputs, and this one, side by side, and the window behind this one."""
        made, number = self.make(last)
        n = self.number(last), number, length, apart
        return self.add(Kind.WINDOW, (x,), (length // apart + 1) * x.width, n), made

    def band(self, x: Value, last: Float[Tensor, "R w D"], weights: Band) -> tuple[Value, Made]:
        """The last inputs and this one, added up with weights, and the window behind this one."""
        made, number = self.make(last)
        own, how, fixed = weights
        return self.add(Kind.BAND, (x, own), x.width, (self.number(last), number, last.shape[1], *how), fixed), made

    def neighbours(self, x: Value, before: int, behind: int, apart: int) -> Value:
        """Of an encoder: the inputs around each position, `apart` from one another, side by side."""
        return self.add(Kind.NEIGHBOURS, (x,), ((before + behind) // apart + 1) * x.width, (before, behind, apart))

    def band_self(self, x: Value, before: int, behind: int, weights: Band) -> Value:
        """Of an encoder: the inputs around each position, added up with weights."""
        own, how, fixed = weights
        return self.add(Kind.BAND_SELF, (x, own), x.width, (before, behind, *how), fixed)

    def flip(self, x: Value) -> Value:
        """Of an encoder: every sentence from its last token to its first."""
        return self.add(Kind.FLIP, (x,), x.width)

    def foreseen(self, outputs: Float[Tensor, "S C D"]) -> Value:
        """The outputs that were computed before, at this position."""
        return self.add(Kind.FORESEEN, (), outputs.shape[2], (self.number(outputs),))

    def concat(self, parts: Sequence[Value]) -> Value:
        """Side by side."""
        out, at = self.new(sum(part.width for part in parts)), 0
        for part in parts:
            self.steps.append(Step(Kind.COPY, (part,), out.part(at, part.width)))
            at += part.width
        return out
