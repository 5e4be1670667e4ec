"""What source attentions share: where keys and values come from, once per sentence, and how beams read them together."""

from abc import abstractmethod
from typing import Any, Protocol, cast, runtime_checkable

import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor, nn

from calque.layers.contract import DECODER, Context, Layer, Parts, Site, SourceArg
from calque.layers.dot import normalised
from calque.layers.local import Local, Near
from calque.layers.state import Memory, State
from calque.native.kernels import kernels_for


@runtime_checkable
class SourceArgs(Protocol):
    """The arguments of a source attention that has keys and values."""

    @property
    def from_(self) -> SourceArg | None: ...
    @property
    def keys(self) -> SourceArg | None: ...
    @property
    def values(self) -> SourceArg | None: ...


def widths(args: SourceArgs) -> tuple[int, int]:
    """The widths of keys and values."""
    if args.from_ is not None:
        return args.from_.width, args.from_.width
    return cast("SourceArg", args.keys).width, cast("SourceArg", args.values).width


def weigh(scores: Float[Tensor, "S H T N"], memory: Memory, near: Near | None) -> Float[Tensor, "S H T N"]:
    """The weights that scores become: through a window, or over the whole sentence."""
    if near is not None:
        return near.weights(scores)
    return normalised(scores, None if memory.blocked is None else memory.blocked[:, None, None])


class RealPositions:
    """The positions of a source that are real, one after the other, where a layer has Calque's own products, as it is for decoding.

    No row of those depends on the others. Torch's would come out otherwise beside other sentences, so that they take padding too.
    """

    def __init__(self, like: Tensor, mask: Bool[Tensor, "S N"] | None, layer: nn.Module):
        own = not isinstance(layer, nn.Linear | nn.Identity) and kernels_for(like) is not None
        self._shape = like.shape[:2]
        self._places = mask.flatten().nonzero()[:, 0] if own and mask is not None else None

    def of(self, x: Float[Tensor, "S N D"]) -> Float[Tensor, "..."]:
        """The rows that are real; where padding stays, x itself."""
        return x if self._places is None else x.flatten(0, 1)[self._places]

    def back(self, rows: Float[Tensor, "..."]) -> Float[Tensor, "S N E"]:
        """What was made of `of`, with zeros for padding."""
        if self._places is None:
            return rows
        whole = rows.new_zeros(self._shape.numel(), rows.shape[1])
        return whole.index_copy_(0, self._places, rows).view(*self._shape, -1)


class SourceAttention(Layer):
    """A layer that reads encoder points. It writes `remember` and `look`; both forms and the sharing among beams follow.

    One that can look through a window sets `local` to it.
    """

    sides = (DECODER,)

    def __init__(self, args: Any, site: Site, parts: Parts):
        super().__init__(args, site, parts)
        named = {name.rstrip("_"): getattr(args, name, None) for name in ("from_", "keys", "values")}
        self._keys_of = {name: source.key for name, source in named.items() if source is not None}
        self.local: Local | None = None

    @abstractmethod
    def remember(
        self, keys: Float[Tensor, "S N D"], values: Float[Tensor, "S N E"], mask: Bool[Tensor, "S N"] | None
    ) -> tuple[Tensor, Tensor]:
        """What is kept of a sentence: computed once, before its first word; of padding any numbers that are finite."""

    @abstractmethod
    def look(
        self, x: Float[Tensor, "S T D"], memory: Memory, near: Near | None
    ) -> tuple[Tensor, Float[Tensor, "S H T N"]]:
        """The output at each position, and the weights; `near` is what a window leaves."""

    def forward(self, x: Float[Tensor, "B T D"], ctx: Context) -> Float[Tensor, "B T E"]:
        return self.read(x, self._memory(ctx), ctx)

    def init_state(self, batch: int, capacity: int, ctx: Context) -> State:
        return self._memory(ctx)

    def step(self, x: Float[Tensor, "B n D"], state: State, ctx: Context) -> tuple[Tensor, State]:
        return self.read(x, cast("Memory", state), ctx), state

    def _memory(self, ctx: Context) -> Memory:
        keys, values, mask = self._points(ctx)
        return Memory(*self.remember(keys, values, mask), None if mask is None else (~mask).contiguous())

    def _points(self, ctx: Context) -> tuple[Tensor, Tensor, Tensor | None]:
        """What keys and values are made of, and which positions of it are real."""
        read = {}
        for name, key in self._keys_of.items():
            point = ctx.sources[key]
            read[name] = self.part(name)(point.value, Context(mask=point.mask, like=ctx.like, record=ctx.record))
        keys, values = (read["from"], read["from"]) if "from" in read else (read["keys"], read["values"])
        return keys, values, ctx.sources[next(iter(self._keys_of.values()))].mask

    def read(self, x: Float[Tensor, "R n D"], memory: Memory, ctx: Context) -> Tensor:
        """The output at each position of every row."""
        # The beams of a sentence become further queries of the one memory, instead of copies of it.
        batch, n, _ = x.shape
        folded = x.reshape(batch // ctx.beams, ctx.beams * n, -1)
        near = None
        if self.local is not None:
            near = self.local(folded, _places(x, ctx), memory.values.shape[-2], memory.blocked)
        y, weights = self.look(folded, memory, near)
        if ctx.record is not None:
            by_row = weights.view(*weights.shape[:2], ctx.beams, n, -1).transpose(1, 2).flatten(0, 1)
            ctx.record(self.path, by_row)
        return y.reshape(batch, n, -1)


def _places(x: Float[Tensor, "B n D"], ctx: Context) -> Int[Tensor, "#S q"]:
    """The positions of the queries, folded as they are."""
    if ctx.chunk is None:
        return torch.arange(x.shape[1], device=x.device).repeat(ctx.beams)[None]
    return ctx.chunk.positions.reshape(-1, ctx.beams * x.shape[1])
