"""The chain: layers one behind the other. It is what every body, source and side of a model is made of."""

from collections.abc import Mapping
from typing import cast

from jaxtyping import Float
from torch import Tensor

from calque.layers.contract import Context, Layer, NoArgs, Point, Site, parts_of, together
from calque.layers.state import State, States
from calque.native.program import Program, Value


class Chain(Layer):
    """l_1 -> ... -> l_n: the output of each layer is the input of the next (Domhan 2018, section 2.2).

    An item that carries a label writes its output to `ctx.taps`. An empty chain is the identity.
    """

    name = "->"

    def __init__(self, site: Site, items: Mapping[str, Layer], labels: Mapping[str, str]):
        super().__init__(NoArgs(), site, items)
        self.labelled = bool(labels)
        self._items: list[tuple[Layer, str | None]] = [(item, labels.get(name)) for name, item in items.items()]

    def forward(self, x: Float[Tensor, "B T D"], ctx: Context) -> Float[Tensor, "B T E"]:
        for item, label in self._items:
            x = item(x, ctx)
            if label is not None and ctx.taps is not None:
                # A cell has written its final state under its label already.
                state = ctx.taps[label].state if label in ctx.taps else None
                ctx.taps[label] = Point(x, ctx.mask, state)
        return x

    def init_state(self, batch: int, capacity: int, ctx: Context) -> State:
        return States(tuple(item.init_state(batch, capacity, ctx) for item, _ in self._items))

    def step(self, x: Float[Tensor, "B n D"], state: State, ctx: Context) -> tuple[Tensor, State]:
        after = []
        for (item, _), before in zip(self._items, cast("States", state).parts, strict=True):
            x, new = item.step(x, before, ctx)
            after.append(new)
        return x, States(tuple(after))

    def program(self, p: Program, x: Value, state: State | None) -> tuple[Value, State | None]:
        after = []
        for (item, label), before in zip(self._items, parts_of(state, len(self._items)), strict=True):
            x, new = item.program(p, x, before)
            after.append(new)
            if label is not None:
                p.labels[label] = x
        return x, together(state, after)
