"""The costs of a layer or a chain, with everything in it.

Costs add up along chains and over branches. Fields add up along a chain; the field of branches is that of the widest. A layer that
declares no cost makes the figure unknown, and its name is given.
"""

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from functools import reduce

from calque.adl.tree import CheckedChain, Node
from calque.layers.cost import BACKWARDS, FED, Cost, Held, Products

ORDERS = ("1", "log n", "n")
_NO_PRODUCTS = Products()


@dataclass(frozen=True)
class Figures:
    """The costs of a part of a definition, and the positions that it sees.

    parameters   learned numbers
    products     multiply-adds of a row
    state        numbers in its decoding state
    field        the earliest and the latest position that an output sees, relative to its own
    order        sequential operations over n positions, at least: `1`, `log n` or `n`
    undeclared   names of layers whose products, state or reach are unknown; the figures are then lower bounds
    whole        multiply-adds of a row, all positions at once
    active       learned numbers that an output depends on: those of experts that a position does not choose left out
    """

    parameters: int
    products: Products
    state: Held
    field: tuple[float, float]
    order: str
    undeclared: frozenset[str] = frozenset()
    whole: Products = _NO_PRODUCTS
    active: int = 0


NOTHING = Figures(0, Products(), Held(), (0, 0), "1")


def figures(of: CheckedChain | Node) -> Figures:
    """The figures of a chain, or of a layer with its bodies and source chains."""
    return _layer(of) if isinstance(of, Node) else _along(figures(item) for item in of.items.values())


def _along(parts: Iterable[Figures]) -> Figures:
    total = NOTHING
    for part in parts:
        total = _sum(total, part, (total.field[0] + part.field[0], total.field[1] + part.field[1]))
    return total


def _sum(a: Figures, b: Figures, field: tuple[float, float]) -> Figures:
    return Figures(
        a.parameters + b.parameters,
        a.products.plus(b.products),
        a.state.plus(b.state),
        field,
        max(a.order, b.order, key=ORDERS.index),
        a.undeclared | b.undeclared,
        a.whole.plus(b.whole),
        a.active + b.active,
    )


def _layer(node: Node) -> Figures:
    cost: Cost = node.cost
    bodies = [figures(part) for part in node.parts.values() if part.side == node.side]
    known = None not in (cost.products, cost.state) and (cost.reach is not None or bool(bodies))
    products = cost.products or _NO_PRODUCTS
    total = Figures(
        node.parameters,
        products,
        cost.state or Held(),
        (0, 0),
        "1" if cost.reach is None else cost.reach.sequential,
        frozenset() if known else frozenset({node.name}),
        cost.whole or products,
        node.parameters,
    )
    total = reduce(lambda some, body: _sum(some, body, (0, 0)), bodies, total)
    active = node.parameters + sum(body.active for body in bodies[: cost.used])
    total = replace(total, field=_field(cost, bodies), active=active)
    if cost.bodies == FED:  # its `forward` is the loop over steps
        total = replace(total, order="n", whole=total.products)
    for part in node.parts.values():
        if part.side != node.side:
            total = replace(_sum(total, _remembered(figures(part)), total.field), order=total.order)
    return total


def _field(cost: Cost, bodies: Sequence[Figures]) -> tuple[float, float]:
    """The earliest and the latest position that a layer sees, itself and through its bodies."""
    fields = [body.field for body in bodies]
    if cost.reach is not None:
        fields.append((cost.reach.first, cost.reach.last))
    first = min((f for f, _ in fields), default=0)
    last = max((f for _, f in fields), default=0)
    if cost.bodies == BACKWARDS:
        return -last, -first
    return (-math.inf if cost.bodies == FED else first), last


def _remembered(chain: Figures) -> Figures:
    """The costs of a source's chain, which runs once per sentence and has no state."""
    products = Products(memory=chain.products.position, among=chain.products.visible)
    return Figures(chain.parameters, products, Held(), (0, 0), "1", chain.undeclared, products, chain.active)
