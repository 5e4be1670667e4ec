"""Programs of kernel calls: what a chain of layers does to rows, written down once and run by one call for every batch or step.

A layer writes its part in `Layer.program`. Values are known by buffers; where these lie is decided when the program is closed:
buffers that are not needed at the same time share their place. Tensors that change from call to call, such as states, are known by
their order.
"""

import ctypes
import enum
from collections.abc import Callable, Sequence
from ctypes import c_float, c_int64, c_void_p
from typing import NamedTuple

import torch
from jaxtyping import Float, Int
from torch import Tensor, nn

from calque.native.kernels import PackedWeight

LINE = 64
"""Bytes that buffers begin at multiples of, and rows that the space for them grows by."""


class Kind(enum.IntEnum):
    """The operations of `program.cpp`, in its order."""

    EMBED = 0
    POSITION = enum.auto()
    NORM = enum.auto()
    PRODUCT = enum.auto()
    ATTEND = enum.auto()
    ATTEND_SOURCE = enum.auto()
    ATTEND_SELF = enum.auto()
    ACT = enum.auto()
    JOIN = enum.auto()
    GLU = enum.auto()
    COPY = enum.auto()
    READ = enum.auto()
    WRITE = enum.auto()
    AVERAGE = enum.auto()
    SIMPLE_RECURRENT = enum.auto()
    LSTM = enum.auto()
    GRU = enum.auto()
    WINDOW = enum.auto()
    BAND = enum.auto()
    FORESEEN = enum.auto()
    ATTEND_MLP = enum.auto()
    NEIGHBOURS = enum.auto()
    BAND_SELF = enum.auto()


FUNCTIONS = ("id", "relu", "tanh", "sigmoid", "gelu", "gelu_tanh", "silu", "relu2")
ADD, MULTIPLY = 0, 1


class NoProgram(Exception):
    """A layer, or what it is asked for, has no kernels: layers then run one by one."""


class Value(NamedTuple):
    """Numbers of every row: `width` of those of a buffer, from `column` on."""

    buffer: int
    column: int
    width: int

    def part(self, start: int, width: int) -> "Value":
        """Some of them."""
        return Value(self.buffer, self.column + start, width)

    def chunk(self, parts: int) -> "tuple[Value, ...]":
        """Equal parts, side by side."""
        each = self.width // parts
        return tuple(self.part(i * each, each) for i in range(parts))


class Made(NamedTuple):
    """A tensor that a program makes anew at every call, as large as the tensor from outside that has this number."""

    like: int
    number: int
    """which of those that are made it is"""


class _Place(ctypes.Structure):
    _fields_ = tuple((name, c_int64) for name in ("base", "next", "column", "width"))


class _Operation(ctypes.Structure):
    _fields_ = (
        ("kind", c_int64),
        *((name, _Place) for name in "xyz"),
        ("out", _Place),
        ("n", c_int64 * 8),
        ("p", c_void_p * 4),
        ("f", c_float * 2),
    )


class Bound(ctypes.Structure):
    """A tensor from outside, as the kernels see it."""

    _fields_ = (("data", c_void_p), ("next", c_int64 * 3), ("size", c_int64))

    def take(self, x: Tensor) -> None:
        """Stand for this tensor."""
        strides = x.stride()[:3]
        self.data = x.data_ptr()
        self.next = (*strides, *(0,) * (3 - len(strides)))
        self.size = x.shape[-2]


class Frame(ctypes.Structure):
    """What a call is about; as `Frame` of `program.cpp`."""

    _fields_ = (
        *((name, c_int64) for name in ("rows", "beams", "visible", "room", "origin_next", "sentences", "threads")),
        *((name, c_void_p) for name in ("arena", "words", "positions", "starts", "origin", "bound")),
    )


class _Step(NamedTuple):
    """An operation before its buffers have places."""

    kind: Kind
    reads: tuple[Value | None, ...]
    out: Value | None
    n: tuple[int, ...] = ()
    p: tuple[Tensor | None, ...] = ()
    f: tuple[float, ...] = ()


Rows = Callable[[int], Float[Tensor, "T D"]]
"""The first so many rows of a table, or more; None of them changes when the table grows."""


class Program:
    """Operations in order. `outside`: the tensors that change from call to call, in their order, as they are at first."""

    def __init__(self, dtype: torch.dtype, outside: Sequence[Tensor | None] = ()):
        self.dtype = dtype
        self.widths: list[int] = []
        self.steps: list[_Step] = []
        self.made: list[Made] = []
        self.labels: dict[str, Value] = {}
        """what an encoder's labelled points hold"""
        self._known = {id(x): i for i, x in enumerate(outside) if x is not None}
        self._outside = len(outside)
        self._results = 0
        self._tables: list[tuple[int, Rows]] = []

    def new(self, width: int) -> Value:
        """A buffer."""
        self.widths.append(width)
        return Value(len(self.widths) - 1, 0, width)

    def number(self, x: Tensor) -> int:
        """Which of the tensors from outside this one is. Raises `NoProgram` where it is none."""
        if id(x) not in self._known:
            raise NoProgram("a tensor that comes from elsewhere")
        return self._known[id(x)]

    def make(self, like: Tensor) -> tuple[Made, int]:
        """A tensor that takes the place of one from outside, and its number."""
        self.made.append(Made(self.number(like), len(self.made)))
        return self.made[-1], self._outside + len(self.made) - 1

    def add(
        self,
        kind: Kind,
        reads: Sequence[Value | None],
        width: int,
        n: Sequence[int] = (),
        p: Sequence[Tensor | None] = (),
        f: Sequence[float] = (),
    ) -> Value:
        """An operation and its result."""
        out = self.new(width)
        self.steps.append(_Step(kind, tuple(reads), out, tuple(n), tuple(p), tuple(f)))
        return out

    def embed(self, table: Float[Tensor, "V D"]) -> Value:
        """The rows of the words."""
        return self.add(Kind.EMBED, (), table.shape[1], p=(self._fit(table),))

    def position(self, x: Value, rows: Rows, factor: float = 1.0, last: int | None = None) -> Value:
        """factor x + the row of a table for each position; positions from `last` on have the row before it."""
        self._tables.append((len(self.steps), rows))
        return self.add(Kind.POSITION, (x,), x.width, (last or 2**62,), (None,), (factor,))

    def norm(self, x: Value, gain: Tensor, shift: Tensor, epsilon: float) -> Value:
        """Layer norm."""
        return self.add(Kind.NORM, (x,), x.width, p=(self._fit(gain), self._fit(shift)), f=(epsilon,))

    def linear(self, x: Value, module: nn.Module | None) -> Value:
        """W x + b, by a product with packed weights; `nn.Identity` is x itself."""
        if isinstance(module, nn.Identity):
            return x
        weight, bias = getattr(module, "_packed", None), getattr(module, "bias", None)
        if not isinstance(weight, PackedWeight):
            raise NoProgram("a product that no kernel makes")
        tensors = weight.data, weight.scale, weight.sums, bias
        return self.add(Kind.PRODUCT, (x, None), weight.out, (weight.item, 0), tensors)

    def act(self, x: Value, function: str) -> Value:
        """A non-linearity."""
        if function == "glu":
            return self.add(Kind.GLU, (x,), x.width // 2)
        return x if function == "id" else self.add(Kind.ACT, (x,), x.width, (FUNCTIONS.index(function),))

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
    ) -> Value:
        """Attention of q to k and v and those before them in keys and values `held`; of an encoder to all of the sentence.

        `heads`: of q, and of k and v.
        """
        q, _, v = projected
        kind, states = (Kind.ATTEND_SELF, (0, 0)) if held is None else (Kind.ATTEND, tuple(map(self.number, held)))
        widths = q.width // heads[0], v.width // heads[1]
        return self.add(kind, projected, heads[0] * widths[1], (*states, *heads, *widths, -1), f=(scale,))

    def attend_source(self, q: Value, keys: Tensor, values: Tensor, blocked: Tensor | None, scale: float) -> Value:
        """Attention of q to the keys and values [S, H, N, K] of its sentence."""
        heads, widths = q.width // keys.shape[3], (keys.shape[3], values.shape[3])
        hidden = -1 if blocked is None else self.number(blocked)
        n = (self.number(keys), self.number(values), heads, keys.shape[1], *widths, hidden)
        return self.add(Kind.ATTEND_SOURCE, (q,), heads * widths[1], n, f=(scale,))

    def attend_mlp(self, q: Value, keys: Tensor, values: Tensor, blocked: Tensor | None, score: Tensor) -> Value:
        """The sum of values [S, N, E], weighted by w . tanh(q + k)."""
        hidden = -1 if blocked is None else self.number(blocked)
        n = self.number(keys), self.number(values), hidden
        return self.add(Kind.ATTEND_MLP, (q,), values.shape[2], n, (self._fit(score),))

    def scan(
        self, kind: Kind, reads: Sequence[Value], state: Float[Tensor, "R D"], constant: float = 0.0
    ) -> tuple[Value, Made]:
        """An operation with a state in float32, and the state behind it."""
        made, number = self.make(state)
        return self.add(kind, reads, state.shape[1], (self.number(state), number), f=(constant,)), made

    def window(self, x: Value, last: Float[Tensor, "R w D"], length: int, apart: int) -> tuple[Value, Made]:
        """Every `apart`-th of the last inputs, and this one, side by side, and the window behind this one."""
        made, number = self.make(last)
        n = self.number(last), number, length, apart
        return self.add(Kind.WINDOW, (x,), (length // apart + 1) * x.width, n), made

    def band(self, x: Value, last: Float[Tensor, "R w D"], weights: Float[Tensor, "w1 D"]) -> tuple[Value, Made]:
        """The last inputs and this one, added up with fixed weights, and the window behind this one."""
        made, number = self.make(last)
        n = self.number(last), number, last.shape[1]
        return self.add(Kind.BAND, (x,), x.width, n, (weights.contiguous(),)), made

    def neighbours(self, x: Value, before: int, behind: int, apart: int) -> Value:
        """Of an encoder: the inputs around each position, `apart` from one another, side by side."""
        return self.add(Kind.NEIGHBOURS, (x,), ((before + behind) // apart + 1) * x.width, (before, behind, apart))

    def band_self(self, x: Value, before: int, behind: int, weights: Float[Tensor, "w D"]) -> Value:
        """Of an encoder: the inputs around each position, added up with fixed weights."""
        return self.add(Kind.BAND_SELF, (x,), x.width, (before, behind), (weights.contiguous(),))

    def foreseen(self, outputs: Float[Tensor, "S C D"]) -> Value:
        """The outputs that were computed before, at this position."""
        return self.add(Kind.FORESEEN, (), outputs.shape[2], (self.number(outputs),))

    def concat(self, parts: Sequence[Value]) -> Value:
        """Side by side."""
        out, at = self.new(sum(part.width for part in parts)), 0
        for part in parts:
            self.steps.append(_Step(Kind.COPY, (part,), out.part(at, part.width)))
            at += part.width
        return out

    def read(self, x: Float[Tensor, "R D"]) -> Value:
        """A tensor from outside."""
        return self.add(Kind.READ, (), x.shape[-1], (self.number(x),))

    def write(self, x: Value, like: Float[Tensor, "R D"]) -> Made:
        """A new tensor with these numbers, as large as one from outside."""
        made, number = self.make(like)
        self.steps.append(_Step(Kind.WRITE, (x,), None, (number,)))
        return made

    def leave(self, x: Value) -> None:
        """A result: leave it in the next tensor from outside, behind those known at first and those made."""
        self.steps.append(_Step(Kind.WRITE, (x,), None, (self._outside + len(self.made) + self._results,)))
        self._results += 1

    def _fit(self, x: Tensor) -> Tensor:
        if x.dtype != self.dtype or not x.is_contiguous():
            raise NoProgram("weights in another type")
        return x.detach()

    def close(self) -> "Closed":
        """The program, ready to run."""
        return Closed(self.dtype, _fused(self.steps, self.widths), self.widths, self._tables, self.steps)


class Closed:
    """A program whose buffers have places."""

    def __init__(
        self,
        dtype: torch.dtype,
        steps: Sequence[_Step],
        widths: Sequence[int],
        tables: Sequence[tuple[int, Rows]],
        before: Sequence[_Step],
    ):
        self.dtype, self._steps = dtype, steps
        bases, self.row_bytes = _places(steps, widths, dtype.itemsize)
        self._operations = (_Operation * len(steps))()
        for operation, step in zip(self._operations, steps, strict=True):
            _fill(operation, step, bases, widths)
        where = {id(step): i for i, step in enumerate(steps)}
        self._tables = [(where[id(before[i])], rows) for i, rows in tables]
        self._kept: list[Tensor] = []
        self._reach = 0

    def run(self, call: Callable[..., None], frame: Frame, arena: "Arena", longest: int) -> None:
        """Runs it on `frame.rows` rows; no position is beyond `longest`."""
        if longest > self._reach:
            self._extend(longest)
        frame.arena, frame.room = arena.space(frame.rows, self.row_bytes)
        frame.threads = torch.get_num_threads()
        call(self._operations, len(self._operations), ctypes.addressof(frame), self.dtype.itemsize)

    def _extend(self, longest: int) -> None:
        """Tables of positions, as long as needed and then some."""
        self._reach = 2 * longest
        for i, rows in self._tables:
            table = rows(self._reach).to(self.dtype).contiguous()
            self._kept.append(table)  # another thread may still read the one before
            self._operations[i].p[0] = table.data_ptr()
            self._operations[i].n[0] = min(self._operations[i].n[0], len(table))


class Arena:
    """Memory for buffers; it grows."""

    def __init__(self) -> None:
        self._space = torch.empty(0, dtype=torch.uint8)
        self._room = 0
        self._line = 0

    def space(self, rows: int, row_bytes: int) -> tuple[int, int]:
        """Its address, and for how many rows it has room."""
        if rows > self._room or row_bytes > self._line:
            self._room, self._line = max(self._room, -(-rows // LINE) * LINE), max(self._line, row_bytes)
            self._space = torch.empty(self._room * self._line + LINE, dtype=torch.uint8)
        address = self._space.data_ptr()
        return address + -address % LINE, self._room


def _fused(steps: Sequence[_Step], widths: Sequence[int]) -> list[_Step]:
    """The operations, where a non-linearity or a sum behind a product is made together with it."""
    uses: dict[int, int] = {}
    for step in steps:
        for value in filter(None, step.reads):
            uses[value.buffer] = uses.get(value.buffer, 0) + 1
    kept: list[_Step] = []
    maker: dict[int, int] = {}  # of a buffer, where it is made
    for step in steps:
        place = _product_of(step, kept, maker, uses)
        if place is None:
            kept.append(step)
            place = len(kept) - 1
        else:
            kept[place] = _with(kept[place], step)
        if step.out is not None:
            maker[step.out.buffer] = place
    return kept


def _product_of(step: _Step, kept: Sequence[_Step], maker: dict[int, int], uses: dict[int, int]) -> int | None:
    """The product behind which a step belongs, the last one made, if nothing else reads it."""
    candidates = {Kind.ACT: step.reads[:1], Kind.JOIN: step.reads[::-1]}.get(step.kind, ())
    if step.kind == Kind.JOIN and step.n != (ADD,):
        return None
    for value in filter(None, candidates):
        place = maker.get(value.buffer, -1)
        made = kept[place] if place >= 0 else None
        if made is None or made.kind != Kind.PRODUCT or made.out != value or uses[value.buffer] > 1 or made.reads[1]:
            continue
        others = [v for v in filter(None, step.reads) if v != value]
        if all(maker.get(v.buffer, -1) < place for v in others) and (step.kind == Kind.JOIN or not made.n[1]):
            return place
    return None


def _with(product: _Step, step: _Step) -> _Step:
    """A product with what comes behind it."""
    if step.kind == Kind.ACT:
        return product._replace(out=step.out, n=(product.n[0], step.n[0]))
    (other,) = [value for value in step.reads if value != product.out]
    return product._replace(out=step.out, reads=(product.reads[0], other))


def _places(steps: Sequence[_Step], widths: Sequence[int], item: int) -> tuple[dict[int, int], int]:
    """Where each buffer begins, for one row, and how much all of them take."""
    last: dict[int, int] = {}
    for i, step in enumerate(steps):
        for value in filter(None, (*step.reads, step.out)):
            last[value.buffer] = i
    bases: dict[int, int] = {}
    ends: dict[int, int] = {}
    total = 0
    for i, step in enumerate(steps):
        if step.out is not None and step.out.buffer not in bases:
            size = widths[step.out.buffer] * item
            # The lowest gap between the buffers that are still needed.
            live = sorted((bases[b], ends[b]) for b in bases if last[b] >= i)
            base = 0
            for begin, end in live:
                if base + size <= begin:
                    break
                base = max(base, end)
            bases[step.out.buffer], ends[step.out.buffer] = base, base + size
            total = max(total, base + size)
    return bases, total


def _fill(operation: _Operation, step: _Step, bases: dict[int, int], widths: Sequence[int]) -> None:
    operation.kind = step.kind
    reads = (*step.reads, None, None, None)[:3]
    for name, value in zip((*"xyz", "out"), (*reads, step.out), strict=True):
        place = getattr(operation, name)
        if value is None:
            place.base = -1
        else:
            place.base, place.next = bases[value.buffer], widths[value.buffer]
            place.column, place.width = value.column, value.width
    operation.n[: len(step.n)] = step.n
    for i, tensor in enumerate(step.p):
        operation.p[i] = None if tensor is None else tensor.data_ptr()
    operation.f[: len(step.f)] = step.f


def starts_of(lengths: Int[Tensor, " S"]) -> tuple[Int[Tensor, " S1"], Int[Tensor, " R"]]:
    """Where each sentence begins among rows without padding, with their number behind; and each row's position."""
    starts = torch.zeros(len(lengths) + 1, dtype=torch.int64)
    torch.cumsum(lengths, 0, out=starts[1:])
    return starts, torch.arange(int(starts[-1])) - torch.repeat_interleave(starts[:-1], lengths)
