"""The expanded tree: definitions and settings are resolved, arguments are bound, repetitions are kept as such.

Canonical text is printed from it. Numbers that depend on the copy of a repetition are expressions in its `Index`.
"""

import operator
from collections.abc import Mapping
from dataclasses import dataclass, field, replace

from calque.adl.limits import MAX_NUMBER
from calque.adl.signature import Signature
from calque.ground.diagnostics import Span


@dataclass(frozen=True, slots=True)
class Index:
    """The number of the copy, from 1, of one repetition. `depth` counts the repetitions around it, itself included."""

    depth: int


class InputWidth:
    """The width that enters a chain, written `d_in` in its text.

    Expansion attaches it to the first call of the chain (`Call.enters`) where the text reads it. The walk sets `width` when it
    comes to that call: None before, 0 where a fault hides the width.
    """

    __slots__ = ("read", "width")

    def __init__(self) -> None:
        self.width: int | None = None
        self.read = False


class UnknownWidth(Exception):
    """A number depends on a width that is not known. `hidden`: a fault that is reported already hides it."""

    def __init__(self, hidden: bool):
        self.hidden = hidden
        super().__init__()


class TooLarge(Exception):
    """A number is computed that is larger than numbers may be."""

    def __init__(self, found: int):
        self.found = found if abs(found) < 10**30 else "more"
        super().__init__()


@dataclass(frozen=True, slots=True)
class Sum:
    """`left op right`, at least one side depending on an index or on the width that enters a chain."""

    op: str
    left: "Expression"
    right: "Expression"


Expression = int | Index | InputWidth | Sum


@dataclass(frozen=True, slots=True)
class CoreSource:
    """An encoder point and the chain after it."""

    label: str
    index: Expression | None
    chain: tuple["Call", ...]
    span: Span = field(compare=False)


@dataclass(frozen=True, slots=True)
class Call:
    """A layer or `repeat` with every argument bound, defaults included. `spans` are the places of written arguments.

    A call of the signature `HOLE` replaces a faulty term, so that its neighbours are still checked. `outer` is the outermost call
    of a user's definition that led here. `enters` are the widths that chains beginning with this call read.
    """

    signature: Signature
    args: Mapping[str, "Bound"]
    label: str | None
    span: Span = field(compare=False)
    spans: Mapping[str, Span] = field(compare=False)
    depth: int = 0
    outer: Span | None = field(default=None, compare=False)
    enters: tuple[InputWidth, ...] = field(default=(), compare=False)

    @property
    def name(self) -> str:
        """The primitive's name."""
        return self.signature.name

    def at(self, parameter: str | None) -> Span:
        """Where an argument was written; the call itself where it was left out."""
        return self.spans.get(parameter or "", self.span)


CallChain = tuple[Call, ...]
HOLE = Signature("?", ())
Bound = Expression | float | bool | str | None | CoreSource | CallChain | tuple[CallChain, ...] | tuple[Expression, ...]


def chains_in(bound: "Bound") -> tuple[CallChain, ...]:
    """The chains of layers in an argument: one body or several. A source has none."""
    if not isinstance(bound, tuple) or not bound:
        return ()
    calls = tuple(part for part in bound if isinstance(part, Call))
    return (calls,) if calls else tuple(part for part in bound if isinstance(part, tuple))


def numbers_in(bound: "Bound") -> tuple[Expression | float, ...]:
    """The numbers in an argument, one or several."""
    parts = bound if isinstance(bound, tuple) else (bound,)
    return tuple(part for part in parts if isinstance(part, int | float | Index | InputWidth | Sum))


def evaluate(expression: Expression, indices: tuple[int, ...]) -> int:
    """The value of an expression in one copy; `indices[k]` is the copy of the repetition of depth k + 1.

    Raises `ArithmeticError` for a division that is not exact, `UnknownWidth` where a width is not known, and `TooLarge`.
    """
    if isinstance(expression, int):
        return expression
    if isinstance(expression, InputWidth):
        if not expression.width:
            raise UnknownWidth(hidden=expression.width == 0)
        return expression.width
    if isinstance(expression, Index):
        return indices[expression.depth - 1]
    return apply(expression.op, evaluate(expression.left, indices), evaluate(expression.right, indices))


def is_known(expression: Expression, depth: int = 0) -> bool:
    """Whether a number has one value in all copies of the repetitions that are deeper than `depth`."""
    if isinstance(expression, InputWidth):
        return expression.width is not None
    if isinstance(expression, Index):
        return expression.depth <= depth
    return isinstance(expression, int) or (is_known(expression.left, depth) and is_known(expression.right, depth))


def known_parts(expression: Expression | float) -> tuple[Expression, ...]:
    """The largest parts of a number that are the same in all copies."""
    if isinstance(expression, float) or is_known(expression):
        return () if isinstance(expression, float) else (expression,)
    return known_parts(expression.left) + known_parts(expression.right) if isinstance(expression, Sum) else ()


def apply(op: str, a: int, b: int) -> int:
    """Whole-number arithmetic; `/` must be exact. Raises `TooLarge`."""
    if op == "/" and (b == 0 or a % b):
        raise ArithmeticError(f"{a} / {b}")
    result = {"+": operator.add, "-": operator.sub, "*": operator.mul, "/": operator.floordiv}[op](a, b)
    if abs(result) > MAX_NUMBER:
        raise TooLarge(result)
    return int(result)


def entered(chain: CallChain, width: InputWidth) -> CallChain:
    """The chain, whose first call sets the width that its text reads."""
    if not (width.read and chain):
        return chain
    return (replace(chain[0], enters=(width, *chain[0].enters)), *chain[1:])


def has_index(bound: "Bound | Call", above: int, below: int = 0) -> bool:
    """Whether a value uses the index of a repetition whose depth is in (`below`, `above`]."""
    if isinstance(bound, Index):
        return below < bound.depth <= above
    if isinstance(bound, Sum):
        return has_index(bound.left, above, below) or has_index(bound.right, above, below)
    if isinstance(bound, CoreSource):
        return (bound.index is not None and has_index(bound.index, above, below)) or has_index(
            bound.chain, above, below
        )
    if isinstance(bound, Call):
        return any(has_index(v, above, below) for v in bound.args.values())
    return isinstance(bound, tuple) and any(has_index(part, above, below) for part in bound)
