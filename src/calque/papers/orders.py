"""A table of orders (Zhang 2018, table 1): orders as printed, numbers that the cost code computes, and whether these grow so."""

import math
import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cache

import numpy as np

from calque.adl.check import CheckedDefinition, check
from calque.explain.averages import registry_of
from calque.explain.node_costs import figures
from calque.explain.paths import path_length, waits
from calque.ground.diagnostics import Text
from calque.papers.paper import ComputedRow, ComputedTable

LENGTHS, WIDTHS = (25, 50, 100), (256, 512)
HEADS = 8
_GRID = tuple(2**k for k in range(3, 9))
_FAR = 2**13
"""Where exponents are taken: so far that one term outweighs the others."""
_EXACT = 1e-9
_FACTOR = re.compile(r"(?P<log>log )?(?P<of>[nd])(?:\^(?P<power>\d+))?|1")

Term = Callable[[float, float], float]
"""Of n and d."""


def terms_of(order: str) -> list[Term]:
    """The terms of an order: `n^2 d + n d^2`, `log n`, `1`. Raises ValueError."""
    return [_term(text.strip()) for text in order.split("+")]


def _term(text: str) -> Term:
    factors = []
    rest = text
    while rest:
        match = _FACTOR.match(rest)
        if match is None:
            raise ValueError(f"{text} is no term of an order")
        factors.append(match)
        rest = rest[match.end() :].lstrip()

    def term(n: float, d: float) -> float:
        found = 1.0
        for match in factors:
            if match["of"]:
                value = {"n": n, "d": d}[match["of"]]
                found *= math.ceil(math.log2(value)) if match["log"] else value ** int(match["power"] or 1)
        return found

    return term


@dataclass(frozen=True)
class Growth:
    """What a column of a row computes: `at` by length and width, the exponents of n and d far out, and the order it grows with."""

    at: dict[tuple[int, int], float]
    exponents: tuple[float, float]
    order: str
    as_printed: bool | None
    """None where the paper prints nothing."""


@dataclass(frozen=True)
class ComputedOrders:
    """A row and, by column, what it computes."""

    row: ComputedRow
    columns: dict[str, Growth]


class CostAt:
    """What the cost code says of a row at any length and width."""

    def __init__(self, row: ComputedRow):
        self.row = row
        self._checked = cache(self._read)

    def _read(self, width: int) -> CheckedDefinition:
        text = f"adl = 0\nd = {width}\nheads = {math.gcd(HEADS, width)}\nencoder = mh_dot_self_att\ndecoder = {self.row.decoder}\n"
        return check(Text(self.row.label, text), registry_of(self.row.form))

    def complexity(self, n: int, d: int) -> float:
        """Multiply-adds of n positions."""
        return n * figures(self._checked(d).decoder).products.per_position(n, 0)

    def sequential(self, n: int, d: int) -> float:
        """Operations that wait for each other."""
        return waits(self._checked(d).decoder, n)

    def path(self, n: int, d: int) -> float:
        """The most operations on the shortest way between two positions."""
        return path_length(self._checked(d).decoder, n)


CANDIDATES = {
    "complexity": ("n d^2", "n^2 d + n d^2"),
    "sequential": ("1", "log n", "n"),
    "path": ("1", "n"),
}
"""The orders that are tried after the printed one, by column."""


def compute(
    table: ComputedTable, lengths: Sequence[int] = LENGTHS, widths: Sequence[int] = WIDTHS
) -> list[ComputedOrders]:
    """All rows of a table of orders."""
    return [
        ComputedOrders(row, {name: _grown(row, name, k, lengths, widths) for k, name in enumerate(table.columns)})
        for row in table.rows
    ]


def _grown(row: ComputedRow, name: str, k: int, lengths: Sequence[int], widths: Sequence[int]) -> Growth:
    of: Callable[[int, int], float] = getattr(CostAt(row), name)
    printed = row.figures[k] if row.figures else None
    tried = [one for one in (printed, *CANDIDATES[name]) if one is not None]
    order = next((one for one in tried if grows_with(of, one, name != "complexity")), "another")
    # Along n everything else is small, and along d too.
    far = (_slope(of(_FAR, 8), of(2 * _FAR, 8)), _slope(of(8, _FAR), of(8, 2 * _FAR)))
    return Growth(
        {(n, d): of(n, d) for d in widths for n in lengths}, far, order, None if printed is None else order == printed
    )


def _slope(before: float, after: float) -> float:
    return math.log2(after / before)


def grows_with(of: Callable[[int, int], float], order: str, offset: bool) -> bool:
    """Whether a number is a sum of an order's terms, each with a factor above zero, over a grid of lengths and widths.

    `offset`: besides, a constant may be in it, as where layers that do not wait stand behind one that does.
    """
    places = [(n, d) for n in _GRID for d in _GRID]
    columns = terms_of(order)
    values = np.array([of(n, d) for n, d in places])
    matrix = np.array([[term(n, d) for term in columns] + [1.0] * (offset and order != "1") for n, d in places])
    scaled = matrix / values[:, None]  # relative errors count
    factors, *_ = np.linalg.lstsq(scaled, np.ones(len(places)), rcond=None)
    return bool(np.abs(scaled @ factors - 1).max() < _EXACT and (factors[: len(columns)] > 0).all())
