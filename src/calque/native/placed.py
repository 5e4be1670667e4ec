"""A closed program: its buffers have places in memory, its operations are as the kernels read them."""

import ctypes
import enum
import threading
from collections.abc import Callable, Sequence
from ctypes import c_float, c_int64, c_void_p
from typing import NamedTuple

import torch
from jaxtyping import Float
from torch import Tensor

LINE = 64
"""Bytes that buffers begin at multiples of, and rows that the space for them grows by."""


ADD, MULTIPLY = 0, 1
"""How two values are joined."""


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
    GATED = enum.auto()
    LSTM = enum.auto()
    GRU = enum.auto()
    WINDOW = enum.auto()
    BAND = enum.auto()
    FORESEEN = enum.auto()
    ATTEND_MLP = enum.auto()
    NEIGHBOURS = enum.auto()
    BAND_SELF = enum.auto()
    ROOT_NORM = enum.auto()
    TURN = enum.auto()
    NOT_FIRST = enum.auto()
    REAL_GATED = enum.auto()
    MATRIX = enum.auto()
    ATTEND_NEAR = enum.auto()
    ATTEND_LOCATION = enum.auto()
    FLIP = enum.auto()
    SWEEP = enum.auto()
    GATHER = enum.auto()
    SCATTER = enum.auto()
    SCALE = enum.auto()
    MIX = enum.auto()


CLAMPED = {Kind.POSITION, Kind.TURN, Kind.MATRIX}
"""Operations that read a table by positions, of which it has n[0]."""


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
        *(
            (name, c_void_p)
            for name in ("arena", "words", "positions", "starts", "origin", "bound", "parents", "places")
        ),
    )


class Step(NamedTuple):
    """An operation before its buffers have places."""

    kind: Kind
    reads: tuple[Value | None, ...]
    out: Value | None
    n: tuple[int, ...] = ()
    p: tuple[Tensor | None, ...] = ()
    f: tuple[float, ...] = ()


Rows = Callable[[int], Float[Tensor, "T D"]]
"""The first so many rows of a table, or more, in the type that its operation reads; none of them changes when the table grows."""


class Closed:
    """A program whose buffers have places."""

    def __init__(
        self, dtype: torch.dtype, written: Sequence[Step], widths: Sequence[int], tables: Sequence[tuple[int, Rows]]
    ):
        self.dtype = dtype
        steps = self.steps = _fused(written)
        bases, self.row_bytes = _places(steps, widths, dtype.itemsize)
        self._operations = (_Operation * len(steps))()
        for operation, step in zip(self._operations, steps, strict=True):
            _fill(operation, step, bases, widths)
        where = {id(step): i for i, step in enumerate(steps)}
        self._tables = [(where[id(written[i])], rows) for i, rows in tables]
        self._kept: list[Tensor] = []
        self._reach, self._growing = 0, threading.Lock()

    def run(self, call: Callable[..., int], frame: Frame, arena: "Arena", longest: int) -> None:
        """Runs it on `frame.rows` rows; no position is beyond `longest`. Raises IndexError for words that are not there."""
        if longest > self._reach:
            with self._growing:
                if longest > self._reach:
                    self._extend(2 * longest)
        frame.arena, frame.room = arena.space(frame.rows, self.row_bytes)
        frame.threads = torch.get_num_threads()
        if call(self._operations, len(self._operations), ctypes.addressof(frame), self.dtype.itemsize):
            raise IndexError("the number of a word is not of its vocabulary")

    def _extend(self, reach: int) -> None:
        """Tables of so many positions. Another thread may run on those before: new ones come first, and then what says so."""
        for i, rows in self._tables:
            table = rows(reach).contiguous()
            self._kept.append(table)
            self._operations[i].p[0] = table.data_ptr()
            if self.steps[i].kind in CLAMPED:
                self._operations[i].n[0] = min(self.steps[i].n[0], len(table))
        self._reach = reach


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


def _fused(steps: Sequence[Step]) -> list[Step]:
    """The operations, where a non-linearity or a sum behind a product is made together with it."""
    uses: dict[int, int] = {}
    for step in steps:
        for value in filter(None, step.reads):
            uses[value.buffer] = uses.get(value.buffer, 0) + 1
    kept: list[Step] = []
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
    for i, last in _sweeps(kept):
        kept[i] = kept[i]._replace(n=(last - i,))
    return kept


def _sweeps(steps: Sequence[Step]) -> list[tuple[int, int]]:
    """Where operations that are repeated begin and end."""
    begins = (i for i, step in enumerate(steps) if step.kind == Kind.SWEEP)
    return [(i, next(j for j in range(i, len(steps)) if steps[j].kind == Kind.SCATTER)) for i in begins]


def _product_of(step: Step, kept: Sequence[Step], maker: dict[int, int], uses: dict[int, int]) -> int | None:
    """The product behind which a step belongs: nothing else reads it, and what is added to it is there before."""
    if step.kind == Kind.ACT:
        candidates = step.reads[:1]
    elif step.kind == Kind.JOIN and step.n == (ADD,):
        candidates = step.reads[::-1]
    else:
        return None
    for value in filter(None, candidates):
        place = maker.get(value.buffer, -1)
        if place >= 0 and uses[value.buffer] == 1 and _open(kept[place], value, step.kind):
            others = [other for other in filter(None, step.reads) if other != value]
            if all(maker.get(other.buffer, -1) < place for other in others):
                return place
    return None


def _open(made: Step, value: Value, kind: Kind) -> bool:
    """Whether an operation is a product that gives this value and that something can still be made of."""
    whole = made.kind == Kind.PRODUCT and made.out == value and not made.reads[1]
    return whole and (kind == Kind.JOIN or not made.n[1])


def _with(product: Step, step: Step) -> Step:
    """A product with what comes behind it."""
    if step.kind == Kind.ACT:
        return product._replace(out=step.out, n=(product.n[0], step.n[0]))
    (other,) = [value for value in step.reads if value != product.out]
    return product._replace(out=step.out, reads=(product.reads[0], other))


def _places(steps: Sequence[Step], widths: Sequence[int], item: int) -> tuple[dict[int, int], int]:
    """Where each buffer begins, for one row, and how much all of them take."""
    last: dict[int, int] = {}
    for i, step in enumerate(steps):
        for value in filter(None, (*step.reads, step.out)):
            last[value.buffer] = i
    for first, end in _sweeps(steps):  # what is read again is needed until the last time
        for value in (value for step in steps[first:end] for value in filter(None, step.reads)):
            last[value.buffer] = max(last[value.buffer], end)
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


def _fill(operation: _Operation, step: Step, bases: dict[int, int], widths: Sequence[int]) -> None:
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
