"""Several steps of a search as one call of the kernels: see `steps.cpp`."""

import ctypes
from collections.abc import Sequence
from ctypes import c_float, c_int64, c_void_p
from typing import Any, NamedTuple

import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor

from calque.native.kernels import Best, Kernels
from calque.native.packed import PackedWeight, SeenScreen
from calque.native.placed import Arena, Closed, Frame
from calque.native.training_calls import address


class Choosing(NamedTuple):
    """How the words of a step follow from the output of the decoder, until enough sentences may be done."""

    weight: PackedWeight
    """of the output layer"""
    bias: Float[Tensor, " E"] | None
    n: int
    """best words of a row, as `Kernels.best` has them"""
    first: int
    end: int
    reward: float
    total: bool
    forbidden: Bool[Tensor, "S E"] | None = None
    ids: Int[Tensor, " E"] | None = None
    """the words that the output layer has; None: all"""
    needed: Int[Tensor, " S"] | None = None
    """as in `calque.decode.rule.Onward`"""
    live: Float[Tensor, "S K"] | None = None
    enough: int = 1
    """sentences that may be done, behind which no step is made"""


class StepTensors(NamedTuple):
    """What the steps of a program read and write."""

    bound: Sequence[Any]
    """tensors as the kernels see them: those of the first step, and by turns of those behind it"""
    tensors: int
    """of a state, before new ones"""
    moved_rows: Sequence[int]
    """of each new tensor: bytes of a row if a step writes it over the one before, else 0"""
    z: Float[Tensor, "R D"]
    origin: Int[Tensor, "S K C"] | None


class MadeSteps(NamedTuple):
    """What several steps have chosen."""

    best: list[Best]
    origin: Int[Tensor, "S K C"] | None
    """of the hypotheses that the last step was made for"""


class _Steps(ctypes.Structure):
    _fields_ = (
        ("operations", c_void_p),
        *((name, c_int64) for name in ("count", "type", "most")),
        ("frame", c_void_p),
        ("bound", c_void_p * 3),
        *((name, c_int64) for name in ("tensors", "made")),
        *((name, c_void_p) for name in ("moved_rows", "z", "weight", "scale", "sums", "bias", "screen")),
        *((name, c_int64) for name in ("item", "out", "width", "n", "first", "end", "total")),
        ("reward", c_float),
        ("unused", c_float),
        *((name, c_void_p) for name in ("forbidden", "ids", "needed")),
        ("enough", c_int64),
        ("live", c_void_p),
        ("origin", c_void_p * 2),
        ("moves", c_int64),
        *((name, c_void_p) for name in ("values", "words", "ends", "totals")),
    )
    kept: tuple[Tensor | None, ...]
    """tensors that nobody else may hold"""
    seen: SeenScreen


def make_steps(
    kernels: Kernels, program: Closed, frame: Frame, arena: Arena, given: StepTensors, choosing: Choosing, most: int
) -> MadeSteps:
    """At most `most` steps of a program, and at least one; none behind a step after which enough sentences may be done.

    Raises IndexError for words that are not there.
    """
    rows, n = int(frame.rows), choosing.n
    best = Best(
        torch.empty(most, rows, n, dtype=torch.float32),
        torch.empty(most, rows, n, dtype=torch.int64),
        torch.empty(most, rows, dtype=torch.float32),
        torch.empty(most, rows, dtype=torch.float32),
    )
    origins = [] if given.origin is None else [torch.empty_like(given.origin) for _ in range(2)]
    rows_of = (c_int64 * len(given.moved_rows))(*given.moved_rows)
    call = _Steps(most=most, tensors=given.tensors, made=len(rows_of), moved_rows=ctypes.addressof(rows_of))
    call.z = given.z.data_ptr()
    _choose(call, choosing)
    call.values, call.words, call.ends, call.totals = map(address, best)
    call.bound[:] = [ctypes.addressof(one) for one in given.bound]
    for turn, x in enumerate(origins):
        call.origin[turn] = x.data_ptr()
    made = 0

    def several(operations: Any, count: int, where: int, item: int) -> bool:
        nonlocal made
        call.operations, call.count, call.frame, call.type = ctypes.addressof(operations), count, where, item
        made = kernels.run_steps(ctypes.addressof(call))
        return bool(made < 0)

    program.run(several, frame, arena, int(frame.visible) + most - 1)
    origin = origins[(call.moves - 1) % 2] if call.moves else given.origin
    return MadeSteps([Best(*each) for each in zip(*(x[:made] for x in best), strict=True)], origin)


def _choose(call: _Steps, choosing: Choosing) -> None:
    """Fills in how words are chosen. What a call changes is a copy."""
    weight = choosing.weight
    call.weight, call.item, call.scale, call.sums = weight.addresses
    if weight.screen is not None:
        call.seen = weight.screen.seen
        call.screen = ctypes.addressof(call.seen)
    call.out, call.width, call.n = weight.out, weight.width, choosing.n
    call.first, call.end, call.enough = choosing.first, choosing.end, choosing.enough
    call.reward, call.total = choosing.reward, choosing.total
    read = [None if x is None else x.contiguous() for x in (choosing.bias, choosing.forbidden, choosing.ids)]
    changed = [None if x is None else x.contiguous().clone() for x in (choosing.needed, choosing.live)]
    call.kept = (*read, *changed)
    call.bias, call.forbidden, call.ids, call.needed, call.live = map(address, call.kept)
