"""The kernels as functions of tensors. Each is the same function as torch's operators, which stand beside it where it is used."""

import contextlib
import ctypes
import functools
from collections.abc import Iterator
from contextvars import ContextVar
from ctypes import c_float, c_int, c_int64, c_void_p
from typing import NamedTuple

import torch
from jaxtyping import Bool, Float, Int, Int8
from torch import Tensor

from calque.native.build import library
from calque.native.packed import TYPES, WIDEST, PackedWeight, Screen, beginning, quantised
from calque.native.training_calls import address

_PLAIN = (Tensor, torch.nn.Parameter)


class _Attention(ctypes.Structure):
    _fields_ = (
        *((name, c_int64) for name in ("rows", "per", "heads", "width", "value_width", "visible", "q_next")),
        *((name, c_int64) for name in ("key_sentence", "key_head", "value_sentence", "value_head")),
        ("key_next", c_int64),
        ("value_next", c_int64),
        ("beams", c_int64),
        ("origin_next", c_int64),
        ("new_key_next", c_int64),
        ("new_value_next", c_int64),
        ("out_next", c_int64),
        ("group", c_int64),
        ("scale", c_float),
        ("places", c_void_p),
    )


class Best(NamedTuple):
    """The best words of each row, the best first, of equals the one with the lower id.

    `end`: the logit of the end symbol; `total`: the logarithm of the sum of the exponentials of all logits.
    """

    logits: Float[Tensor, "R n"]
    words: Int[Tensor, "R n"]
    end: Float[Tensor, " R"]
    total: Float[Tensor, " R"]


class Continued(NamedTuple):
    """The best continuations of each sentence's hypotheses, the best first, of equals the one of the first hypothesis."""

    logp: Float[Tensor, "b n"]
    parents: Int[Tensor, "b n"]
    words: Int[Tensor, "b n"]
    ends: bool
    """whether an end symbol is among them"""
    moved: bool
    """whether one of the first K, for K hypotheses of a sentence, does not extend the hypothesis of its own place"""


class Kernels:
    """The compiled kernels of a set of instructions."""

    def __init__(self, loaded: ctypes.CDLL, instructions: str):
        self.instructions = instructions
        self.short_sums = instructions == "avx2"
        """whether products of int8 numbers are added up in 16 bits, four at a time"""
        self._bytes, self._pack = loaded.calque_packed_bytes, loaded.calque_pack
        self._product = loaded.calque_product
        self._best, self._attend = loaded.calque_best, loaded.calque_attend
        self._bytes.restype, self._bytes.argtypes = c_int64, (c_int64, c_int64, c_int)
        self._pack.argtypes = (c_void_p, c_int64, c_int64, c_int, c_void_p, c_void_p)
        weight = (c_void_p, c_int, c_int64, c_void_p, c_int, c_void_p, c_void_p, c_void_p, c_int64, c_int64)
        self._product.argtypes = (*weight, c_void_p, c_int)
        search = (c_int, c_int64, c_int64, c_float, c_int, c_void_p, c_int64, c_void_p)
        self._best.argtypes = (*weight, *search, c_void_p, c_void_p, c_void_p, c_void_p, c_int)
        self._attend.argtypes = (c_void_p, c_int, *(c_void_p,) * 8, c_int)
        self._continue, self._reorder = loaded.calque_continue, loaded.calque_reorder
        self._continue.restype = c_int
        self._continue.argtypes = (*(c_void_p,) * 4, *(c_int64,) * 4, *(c_void_p,) * 3)
        self._reorder.restype = c_int
        self._reorder.argtypes = (c_void_p, c_void_p, *(c_int64,) * 5, c_void_p)
        self.run = loaded.calque_run
        """runs a program, see `calque.native.program`"""
        self.run.restype, self.run.argtypes = c_int, (c_void_p, c_int64, c_void_p, c_int)
        self.run_steps = loaded.calque_steps
        """runs a program several times, see `calque.native.steps`"""
        self.run_steps.restype, self.run_steps.argtypes = c_int64, (c_void_p,)
        self._norm = loaded.calque_norm
        self._norm.argtypes = (c_void_p, c_int, c_int64, c_int64, c_void_p, c_void_p, c_float, c_void_p, c_int)
        self._weigh = loaded.calque_weigh
        self._weigh.argtypes = (c_void_p, c_int64, c_void_p, c_int, c_int64, c_void_p, *(c_int64,) * 4, c_void_p, c_int)
        for function in (self._norm, self._pack, self._product, self._best, self._attend, self._weigh):
            function.restype = None

    def pack(self, weight: Float[Tensor, "E D"], dtype: torch.dtype) -> PackedWeight:
        """The weights in float32, bfloat16, or in int8 with a scale for each row, see `quantised`."""
        out, width = weight.shape
        if dtype != torch.int8:
            packed = self._packed(weight.to(dtype).contiguous(), None)
            return PackedWeight(packed, None, None, out, width, dtype.itemsize)
        if width > WIDEST:
            raise ValueError(f"rows of {width} numbers: sums of products in int8 have room for {WIDEST}")
        return self._in_int8(*quantised(weight.detach(), self.short_sums))

    def screened(
        self, packed: PackedWeight, weight: Float[Tensor, "E D"], bias: Float[Tensor, " E"] | None
    ) -> PackedWeight:
        """The packed form of a weight in float32 or bfloat16, with what finds the best words by few exact products.

        The weight is read later, too: it must not be changed.
        """
        weight = weight.detach().to(torch.float32 if packed.item == 4 else torch.bfloat16)
        levels, scale = quantised(weight, self.short_sums)
        found = Screen.of(self._in_int8(levels, scale), levels, weight, bias)
        return packed if found is None else packed._replace(screen=found)

    def _in_int8(self, levels: Int8[Tensor, "E D"], scale: Float[Tensor, " F"]) -> PackedWeight:
        sums = torch.zeros(len(scale), dtype=torch.int32)
        out, width = levels.shape
        return PackedWeight(self._packed(levels, sums), scale, sums, out, width, 1)

    def _packed(self, weight: Tensor, sums: Tensor | None) -> Tensor:
        out, width, item = *weight.shape, weight.element_size()
        size = self._bytes(out, width, item)
        start = beginning(item)
        space = torch.empty(size + start, dtype=torch.uint8)
        data = space[-space.data_ptr() % start :][:size]
        self._pack(weight.data_ptr(), out, width, item, data.data_ptr(), address(sums))
        return data

    def product(
        self, x: Float[Tensor, "... D"], weight: PackedWeight, bias: Float[Tensor, " E"] | None
    ) -> Float[Tensor, "... E"]:
        """W x + b. int8: each row of x is rounded to whole multiples of max|x| / 127. `bias` is float32."""
        given = x.dtype
        x, bias = weight.fitting(x, bias)
        y = x.new_empty(*x.shape[:-1], weight.out)
        rows = x.numel() // weight.width
        data, item, scale, sums = weight.addresses
        self._product(
            *(x.data_ptr(), TYPES[x.dtype], rows, data, item, scale, sums, address(bias), weight.out, weight.width),
            *(y.data_ptr(), torch.get_num_threads()),
        )
        return y.to(given)

    def best(
        self,
        x: Float[Tensor, "R D"],
        weight: PackedWeight,
        bias: Float[Tensor, " E"] | None,
        n: int,
        first: int,
        end: int,
        reward: float = 0.0,
        total: bool = True,
        forbidden: Bool[Tensor, "S E"] | None = None,
    ) -> Best:
        """The n best of W x + b from word `first` on, where the logit of `end` counts as less by `reward`.

        `forbidden`: the words that the R / S rows of a sentence may not have; for them it is as if their logits were -inf.
        """
        x, bias = weight.fitting(x, bias)
        rows = x.shape[0]
        words = torch.empty(rows, n, dtype=torch.int64)
        logits, ends, totals = (torch.empty(*size, dtype=torch.float32) for size in ((rows, n), (rows,), (rows,)))
        best = Best(logits, words, ends, totals)
        forbidden = None if forbidden is None else forbidden.contiguous()
        data, item, scale, sums = weight.addresses
        screen = None if weight.screen is None else weight.screen.seen
        self._best(
            *(x.data_ptr(), TYPES[x.dtype], rows, data, item, scale, sums, address(bias), weight.out, weight.width),
            *(
                n,
                first,
                end,
                reward,
                total,
                address(forbidden),
                1 if forbidden is None else rows // forbidden.shape[0],
                None if screen is None else ctypes.addressof(screen),
            ),
            *(best.logits.data_ptr(), best.words.data_ptr(), best.end.data_ptr(), best.total.data_ptr()),
            torch.get_num_threads(),
        )
        return best

    def continued(
        self,
        values: Float[Tensor, "R n"],
        words: Int[Tensor, "R n"],
        live: Float[Tensor, "b K"],
        total: Float[Tensor, " R"] | None,
        end: int,
    ) -> Continued:
        """The n best of each sentence among n candidates of each hypothesis, by (`values` - `total`) + `live`."""
        values, words, live = values.contiguous(), words.contiguous(), live.contiguous()
        (sentences, slots), n = live.shape, values.shape[1]
        logp, parents = values.new_empty(sentences, n), words.new_empty(sentences, n)
        chosen = torch.empty_like(parents)
        kept = self._continue(
            *(values.data_ptr(), words.data_ptr(), live.data_ptr(), address(total), sentences, slots, n, end),
            *(logp.data_ptr(), parents.data_ptr(), chosen.data_ptr()),
        )
        return Continued(logp, parents, chosen, bool(kept & 1), bool(kept & 2))

    def reordered(self, origin: Int[Tensor, "S K C"], rows: Int[Tensor, " Q"], past: int) -> Int[Tensor, "s K C"]:
        """`History.select` where all rows hold `past` positions. Raises `IndexError` for a row that is not there."""
        origin, rows = origin.contiguous(), rows.long().contiguous()
        slots, capacity = origin.shape[1:]
        count = rows.shape[0]
        to = origin.new_empty(count // slots, slots, capacity)
        held = len(origin) * slots
        if self._reorder(origin.data_ptr(), rows.data_ptr(), count, held, slots, capacity, past, to.data_ptr()):
            raise IndexError(f"there are {held} rows to choose from")
        return to

    def attend(
        self,
        q: Float[Tensor, "R HK"],
        keys: Float[Tensor, "S G C B K"],
        values: Float[Tensor, "S G C B V"],
        visible: int,
        scale: float,
        new: tuple[Float[Tensor, "R HK"], Float[Tensor, "R HV"]] | None = None,
        origin: Int[Tensor, "S B C"] | None = None,
        blocked: Bool[Tensor, "S C"] | None = None,
    ) -> Float[Tensor, "R HV"]:
        """softmax(scale q k) v over the first `visible` positions, one query a row.

        Position t of a row lies in slot `origin`, else in slot 0; those in `blocked` have no weight. `new`: the key and the value
        of each row's last visible position, which are written into its own slot first. H heads of queries may share G of keys.
        """
        sentences, shared, _, beams, width = keys.shape
        rows, heads, value_width = len(q), q.shape[1] // width, values.shape[4]
        out = q.new_empty(rows, heads * value_width)
        hidden = None if blocked is None else blocked.contiguous()
        arguments = _Attention(
            *(rows, rows // sentences, heads, width, value_width, visible, q.stride(0)),
            *(keys.stride(0), keys.stride(1), values.stride(0), values.stride(1)),
            *(keys.stride(2) // beams, values.stride(2) // beams),
            *(beams, 0 if origin is None else origin.shape[2]),
            *((0, 0) if new is None else (new[0].stride(0), new[1].stride(0))),
            heads * value_width,
            *(heads // shared, scale),
        )
        new_keys, new_values = new or (None, None)
        self._attend(
            *(ctypes.addressof(arguments), TYPES[q.dtype], q.data_ptr(), keys.data_ptr(), values.data_ptr()),
            *(address(new_keys), address(new_values)),
            *(address(origin), address(hidden), out.data_ptr(), torch.get_num_threads()),
        )
        return out

    def weigh(
        self, weights: Float[Tensor, "S H C N"], values: Float[Tensor, "B N HV"], lengths: Int[Tensor, " B"] | None
    ) -> Float[Tensor, "B C HV"]:
        """Of each head sum_j w_j v_j over the positions of each sentence, in float32 and in their order, however long others are.

        S is B, or 1 where all sentences have the same weights.
        """
        weights, values = weights.float().contiguous(), values.contiguous()
        lengths = None if lengths is None else lengths.contiguous()
        same, heads, places, longest = weights.shape
        sentences, width = len(values), values.shape[2] // heads
        out = values.new_empty(sentences, places, heads * width)
        self._weigh(
            *(weights.data_ptr(), 0 if same == 1 else weights.stride(0), values.data_ptr(), TYPES[values.dtype]),
            *(sentences, address(lengths), heads, places, longest, width, out.data_ptr(), torch.get_num_threads()),
        )
        return out

    def norm(
        self, x: Float[Tensor, "... D"], gain: Float[Tensor, " D"], shift: Float[Tensor, " D"], epsilon: float
    ) -> Float[Tensor, "... D"]:
        """gain (x - mean) / sqrt(var + epsilon) + shift over the width; sums are float32."""
        x = x.contiguous()
        y = torch.empty_like(x)
        width = x.shape[-1]
        self._norm(
            *(x.data_ptr(), TYPES[x.dtype], x.numel() // width, width, gain.data_ptr(), shift.data_ptr(), epsilon),
            *(y.data_ptr(), torch.get_num_threads()),
        )
        return y


_OFF: ContextVar[bool] = ContextVar("off", default=False)


@contextlib.contextmanager
def without_kernels() -> Iterator[None]:
    """Inside, torch computes everything."""
    token = _OFF.set(True)
    try:
        yield
    finally:
        _OFF.reset(token)


def off() -> bool:
    """Whether torch computes everything here."""
    return _OFF.get()


def kernels() -> Kernels | None:
    """The kernels for this processor; None where there are none."""
    return None if off() else _loaded()


@functools.cache
def _loaded() -> Kernels | None:
    loaded = library()
    return None if loaded is None else Kernels(*loaded)


def kernels_for(x: Tensor) -> Kernels | None:
    """The kernels, where they can take x: float32 or bfloat16 on a processor, without gradients.

    A tensor of another class stands for numbers that are not there, as while a model is exported.
    """
    if x.dtype not in TYPES or x.device.type != "cpu" or torch.is_grad_enabled() or type(x) not in _PLAIN:
        return None
    return kernels()


def kernels_for_numbers(x: Int[Tensor, "..."]) -> Kernels | None:
    """The kernels, where they can take x: whole numbers on a processor."""
    return kernels() if x.device.type == "cpu" and type(x) is Tensor else None
