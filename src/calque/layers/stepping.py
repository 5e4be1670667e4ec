"""A layer run step by step: its state together with the history of the rows, which all layers below share."""

from collections.abc import Callable, Sequence
from typing import Any, cast

import torch
from jaxtyping import Bool, Float
from torch import Tensor

from calque.layers.contract import Context, Layer
from calque.layers.history import Chunk, History
from calque.layers.state import Scan, State, States, tensors_of
from calque.native.program import Kind, Program, Value


def begin(layer: Layer, rows: int, capacity: int, ctx: Context) -> States:
    """The state before the first of at most `capacity` positions; `ctx.beams` rows share a sentence."""
    history = History.new(rows, capacity, ctx.beams, ctx.like.device)
    return States((history, layer.init_state(rows, capacity, ctx)))


def proceed(
    layer: Layer,
    x: Float[Tensor, "R n D"],
    state: State,
    ctx: Context,
    mask: Bool[Tensor, "R n"] | None = None,
    visible: int = 0,
) -> tuple[Float[Tensor, "R n E"], States]:
    """The next n positions. `visible`: no row holds more after them; needed where the host does not know how many there are."""
    history, inner = cast("tuple[History, State]", cast("States", state).parts)
    history.check_room(x.shape[1])
    if history.at is not None:
        visible = max(visible, history.at + x.shape[1])
    y, inner = layer.step(x, inner, ctx._replace(mask=mask, chunk=Chunk(history, x.shape[1], mask, visible)))
    return y, States((history.advance(x.shape[1], mask), inner))


def at_each_position(
    layer: Layer,
    p: Program,
    reads: Sequence[Value],
    state: State | None,
    one: Callable[[Sequence[Value], State], tuple[Value, State]],
    label: str | None = None,
) -> tuple[Value, State | None]:
    """`one`, which writes down one position of a recurrence; in the encoder, where there is no state, for all of a sentence's.

    layer  whose state begins
    reads  what `one` reads, of all positions
    label  who asks for the state behind the last one, if anybody does
    """
    if state is not None:
        return one(reads, state)
    first = layer.init_state(1, 1, Context(like=torch.empty(0, dtype=p.dtype)))
    tensors = [x for x in tensors_of(first) if x is not None]
    return p.sweep(reads, tensors, lambda now: one(now, first)[0], label), None


def scanned(
    layer: Layer,
    p: Program,
    kind: Kind,
    reads: Sequence[Value],
    state: State | None,
    f: Sequence[float] = (),
    function: str = "id",
    weights: Sequence[Float[Tensor, " D"]] = (),
) -> tuple[Value, State | None]:
    """A scan in a program; see `Program.scan`."""

    def one(now: Sequence[Value], before: State) -> tuple[Value, State]:
        y, h = p.scan(kind, now, cast("Scan", before).h, f, weights, function)
        return y, Scan(cast("Tensor", h))

    return at_each_position(layer, p, reads, state, one)


def cut(before: Any, after: Any, fresh: Any) -> Any:
    """The state `after` some positions, for back-propagation that ends there: what they wrote, without its gradient.

    What they left as it was in `before` belongs to the sentence, such as the memory of an attention; it is taken from `fresh`, the
    state before the first position as newer weights give it. Only of steps with gradients, which write nothing in place.
    """
    if isinstance(after, Tensor):
        return fresh if after is before else after.detach()
    if not isinstance(after, tuple):
        return after
    parts = [cut(*three) for three in zip(before, after, fresh, strict=True)]
    return type(after)(*parts) if hasattr(after, "_fields") else tuple(parts)
