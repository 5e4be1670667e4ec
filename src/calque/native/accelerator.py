"""Kernels of a decoding step on an accelerator. Each is the same function as torch's operators, beside which it is used.

They are written in Triton, which comes with torch for CUDA; without it, or with CALQUE_NATIVE=off, torch computes the same.
"""

import functools
import importlib.util
import os
from types import ModuleType

import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor
from torch.nn import functional as F

from calque.native.build import OFF
from calque.native.kernels import Best, Continued, off

BLOCK = {2: 64, 4: 32}
"""Slots that the queries of a sentence are compared with at a time, by the bytes of a number; registers do not hold more."""
WIDEST = 256
"""The widest head of attention whose blocks a multiprocessor's own memory holds on every device that Triton supports."""
LEAST = 16
"""The least number of rows and columns of a product."""
CHUNKS, CHUNK = 32, 64
"""Chunks of the output layer that one program looks through, and words of one; see `calque.decode.best_words`."""
MOST = 32
"""The most words of a row that are chosen one after the other; with more, sorting is faster."""
_TYPES = (torch.float32, torch.bfloat16, torch.float16)


class AcceleratorKernels:
    """The kernels; nothing in them waits for the device."""

    def __init__(self, kernels: ModuleType):
        self._kernels = kernels

    def attend(
        self,
        q: Float[Tensor, "R HK"],
        keys: Float[Tensor, "S G C B K"],
        values: Float[Tensor, "S G C B V"],
        scale: float,
        new: tuple[Float[Tensor, "R GK"], Float[Tensor, "R GV"]] | None = None,
        positions: Int[Tensor, " R"] | None = None,
        origin: Int[Tensor, "S B C"] | None = None,
        blocked: Bool[Tensor, "S C"] | None = None,
    ) -> Float[Tensor, "R HV"]:
        """softmax(scale q k) v, one query a row, over all positions, or over those before the row's own, and that one.

        Position t of a row lies in slot `origin`, else in slot 0; those in `blocked` have no weight. `new`: the key and the value
        of a row's own position, which are written into its own slot. H heads of queries may share G of keys.
        """
        sentences, shared, length, slots, width = keys.shape
        rows, heads, value_width = len(q), q.shape[1] // width, values.shape[4]
        out = q.new_empty(rows, heads * value_width)
        new_keys, new_values = new or (q, q)
        hidden = None if blocked is None else blocked.contiguous().view(torch.int8)
        per = rows // sentences
        kinds = {"APPENDS": new is not None, "MOVES": origin is not None, "BLOCKS": hidden is not None}
        self._kernels.attend[(sentences, heads)](
            *(q, keys, values, new_keys, new_values, q if origin is None else origin),
            *(q if positions is None else positions, q if hidden is None else hidden, out),
            *(per, heads // shared, length, scale, q.stride(0), new_keys.stride(0), new_values.stride(0)),
            *(0 if origin is None else origin.stride(1), 0 if hidden is None else hidden.stride(0), out.stride(0)),
            *keys.stride()[:4],
            *values.stride()[:4],
            **_rooms(per, slots if origin is not None else 1, width, value_width, q.itemsize),
            **kinds,
            num_warps=4,
        )
        return out

    def best(
        self,
        x: Float[Tensor, "R D"],
        weight: Float[Tensor, "E D"],
        bias: Float[Tensor, " E"] | None,
        n: int,
        first: int,
        end: int,
        reward: float = 0.0,
        forbidden: Bool[Tensor, "S E"] | None = None,
    ) -> Best:
        """As `Kernels.best`; logits are float32."""
        logits = _product(x, weight)
        rows, size = logits.shape
        parts = -(-size // (CHUNKS * CHUNK))
        chunks = logits.new_empty(rows, parts * CHUNKS)
        highest, sums = logits.new_empty(2, rows, parts)
        best = Best(logits.new_empty(rows, n), logits.new_empty(rows, n, dtype=torch.int64), *logits.new_empty(2, rows))
        hidden = None if forbidden is None else forbidden.contiguous().view(torch.int8)
        given = logits, logits if bias is None else bias, logits if hidden is None else hidden
        rule = first, end, reward, 1 if forbidden is None else rows // len(forbidden)
        kinds = {"CHUNK": CHUNK, "BIASED": bias is not None, "FORBIDS": hidden is not None}
        sizes = {"N": n, "N_ROOM": _room(n), "ROOM": _room(parts * CHUNKS), "PARTS_ROOM": _room(parts)}
        self._kernels.best_of_chunks[(rows, parts)](
            *(*given, chunks, highest, sums, logits.stride(0), size, *rule), **kinds, CHUNKS=CHUNKS, num_warps=4
        )
        self._kernels.best_of_rows[(rows,)](
            *(chunks, highest, sums, *given, best.logits, best.words, best.end, best.total),
            *(logits.stride(0), size, *rule, parts, parts * CHUNKS),
            **kinds,
            **sizes,
            num_warps=4,
        )
        return best

    def continued(
        self,
        values: Float[Tensor, "R n"],
        words: Int[Tensor, "R n"],
        live: Float[Tensor, "b K"],
        total: Float[Tensor, " R"] | None,
    ) -> Continued:
        """As `Kernels.continued`. Whether hypotheses end or move would cost more to ask than it saves: they may."""
        (sentences, beam), each = live.shape, values.shape[1]
        logp, parents = live.new_empty(sentences, 2 * beam), words.new_empty(sentences, 2 * beam)
        chosen = torch.empty_like(parents)
        values, words, live = values.contiguous(), words.contiguous(), live.contiguous()
        self._kernels.continued[(sentences,)](
            *(values, words, live, values if total is None else total, logp, parents, chosen, beam, each),
            N=2 * beam,
            ROOM=_room(beam * each),
            TOTAL=total is not None,
            num_warps=1,
        )
        return Continued(logp, parents, chosen, True, True)


def _product(x: Float[Tensor, "R D"], weight: Float[Tensor, "E D"]) -> Float[Tensor, "R E"]:
    """x W^T in float32, whatever the factors."""
    if x.is_cuda and x.dtype != torch.float32:
        return torch.mm(x, weight.t(), out_dtype=torch.float32)
    return F.linear(x.float(), weight.float())


def _rooms(rows: int, slots: int, width: int, value_width: int, item: int) -> dict[str, int]:
    """What a kernel of attention is compiled for."""
    sizes = {"ROWS": rows, "KEY_ROOM": width, "VALUE_ROOM": value_width}
    rooms = {name: max(LEAST, _room(size)) for name, size in sizes.items()}
    return rooms | {"KEY": width, "VALUE": value_width, "SLOTS": slots, "BLOCK": BLOCK[item]}


def _room(size: int) -> int:
    """The least power of two that is not below a size, which Triton's ranges have."""
    return 1 << (size - 1).bit_length()


@functools.cache
def _loaded() -> AcceleratorKernels | None:
    if os.environ.get("CALQUE_NATIVE") == OFF or importlib.util.find_spec("triton") is None:
        return None
    from calque.native import triton_kernels

    return AcceleratorKernels(triton_kernels)


def accelerator_kernels() -> str | None:
    """What the kernels of an accelerator are written in; None where there are none."""
    return None if off() or _loaded() is None else "triton"


def _on_accelerator(x: Tensor) -> bool:
    return x.is_cuda


def accelerator_kernels_for(x: Tensor, head: int = 0) -> AcceleratorKernels | None:
    """The kernels, where they can take x: whole numbers, or of at most 32 bits, on an accelerator, without gradients.

    `head`: the width of the keys or values of a head of attention.

    A tensor of another class stands for numbers that are not there, as while a model is exported.
    """
    if not _on_accelerator(x) or off() or torch.is_grad_enabled() or type(x) not in (Tensor, torch.nn.Parameter):
        return None
    return _loaded() if head <= WIDEST and (x.dtype in _TYPES or not x.is_floating_point()) else None
