"""The values that the language and the layers exchange. Nothing here imports torch.

The checker creates a `Site` for every layer, and a `BodyArg` or `SourceArg` for every chain and source among its arguments. The
layer returns its width, a `StateShape` where a label makes its state available, and a `Cost`, or it raises a `Fault`.

A cost is known before the layer is built; `calque explain` adds costs up. Multiply-adds are those of matrix products: of weights
with inputs, of queries with keys, of attention weights with values; half of what `torch.utils.flop_counter` counts. Elementwise
work (norms, activations, gates, sums, scans, windows of fixed weights) is not counted. None means not declared.
"""

import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, NamedTuple, Protocol, TypeAlias, runtime_checkable

from calque.adl.signature import Signature

ENCODER = "encoder"
DECODER = "decoder"
BOTH = (ENCODER, DECODER)

LayerArguments: TypeAlias = Any
"""An instance of a layer's own `Args`: only the layer knows its fields, so the language passes it on as it is."""


class StateShape(NamedTuple):
    """The state that a cell passes to another one: the kind of cell and its width."""

    kind: str
    width: int


class PointInfo(NamedTuple):
    """What the checker knows about an encoder point: its width and, for a cell, its final state."""

    width: int
    state: StateShape | None = None


class SourceArg(NamedTuple):
    """A bound source: the point's key in `Context.sources`, the point, and the width after the chain that follows it."""

    key: str
    point: PointInfo
    width: int


class BodyArg(NamedTuple):
    """A bound chain: its output width."""

    width: int


@dataclass(frozen=True)
class Site:
    """The position of a layer: its side, its input width, its path, and its label.

    `gamma` is a constant of the training data: the mean length of sources divided by the mean length of targets.
    """

    side: str
    width: int
    path: str = ""
    label: str | None = None
    gamma: float = 1.0


class Fault(Exception):
    """Raised by a layer whose arguments do not fit each other or the site: a code and its fields; the checker adds the place."""

    def __init__(self, code: str, at: str | None = None, **fields: object):
        self.code, self.at, self.fields = code, at, fields
        super().__init__(code, fields)


class Products(NamedTuple):
    """Multiply-adds of one row.

    position  per position
    visible   in addition, per position and visible position: n of them in `forward`, t at step t
    source    in addition, per position and source position
    memory    once per sentence, per source position
    among     once per sentence, per pair of source positions
    ahead     once per sentence, per target position reserved for it: the capacity of the state
    across    once per sentence, per pair of a reserved target position and a source position
    """

    position: int = 0
    visible: int = 0
    source: int = 0
    memory: int = 0
    among: int = 0
    ahead: int = 0
    across: int = 0

    def plus(self, other: "Products") -> "Products":
        """The sum of both."""
        return Products(*(a + b for a, b in zip(self, other, strict=True)))

    def per_position(self, length: int, source: int) -> int:
        """Of one position that sees `length` positions and `source` source positions, without the parts computed once."""
        return self.position + self.visible * length + self.source * source

    def per_source(self, source: int) -> int:
        """Once per sentence, for each of its `source` source positions."""
        return self.memory + self.among * source

    def per_place(self, source: int) -> int:
        """Once per sentence of `source` source positions, for each reserved target position."""
        return self.ahead + self.across * source


class Held(NamedTuple):
    """Numbers in a decoding state.

    row     per row, in the type of the weights
    exact   per row, in float32 at least
    place   per row and position of the capacity, one place more than that
    memory  per sentence and source position, in the type of the weights
    masks   bytes per sentence and source position, where the source is padded
    ahead   per sentence and position of the capacity, in the type of the weights
    """

    row: int = 0
    exact: int = 0
    place: int = 0
    memory: int = 0
    masks: int = 0
    ahead: int = 0

    def plus(self, other: "Held") -> "Held":
        """The sum of both."""
        return Held(*(a + b for a, b in zip(self, other, strict=True)))

    def bytes(
        self, capacity: int, source: int, item: int = 4, rows: int = 1, sentences: int = 1, padded: bool = False
    ) -> int:
        """Bytes of a state. A number of the weights' type takes `item` bytes."""
        own = self.row * item + self.exact * max(4, item) + self.place * (capacity + 1) * item
        shared = source * (self.memory * item + self.masks * padded) + self.ahead * capacity * item
        return rows * own + sentences * shared


class Reach(NamedTuple):
    """The input positions that an output sees, relative to its own, and the operations between them.

    first, last  the earliest and the latest position; infinite where there is no bound
    sequential   operations over n positions that must run one after the other, at least: `1`, `log n` or `n`
    path         operations between the most distant input and output: `1` or `n`
    """

    first: float = 0
    last: float = 0
    sequential: str = "1"
    path: str = "1"


HERE = Reach()
"""Only the position itself."""
BEFORE = Reach(-math.inf, 0)
"""Every position up to its own, each directly."""
EVERYWHERE = Reach(-math.inf, math.inf)
"""Every position, each directly."""

TOGETHER, FED, BACKWARDS = "together", "fed", "backwards"
"""How a layer runs its bodies: side by side on its input; position by position, with the last output as input; reversed."""


COMPUTED, INPUT, SUM = "computed", "input", "sum"
"""The output of a layer: computed; its unchanged input; the sum of its bodies' outputs."""


class Cost(NamedTuple):
    """The cost of a layer without its bodies; None: not declared.

    parameters  learned numbers
    products    multiply-adds
    state       numbers in its decoding state
    reach       positions that an output sees, apart from those that its bodies see
    bodies      how it runs its bodies
    output      how its output is made
    whole       multiply-adds of `forward`, where it takes other products than steps do; None: the same
    used        how many of its bodies, which are copies of one chain, a position uses; None: all
    """

    parameters: int = 0
    products: Products | None = None
    state: Held | None = None
    reach: Reach | None = None
    bodies: str = TOGETHER
    output: str = COMPUTED
    whole: Products | None = None
    used: int | None = None


@runtime_checkable
class LayerType(Protocol):
    """The members of a layer's class that the checker uses; `calque.layers.contract.Layer` describes them."""

    @property
    def name(self) -> str: ...
    @property
    def sides(self) -> tuple[str, ...]: ...
    @property
    def Args(self) -> type: ...

    def signature(self) -> Signature: ...
    def body_width(self, args: LayerArguments, site: Site) -> int: ...
    def infer(self, args: LayerArguments, site: Site) -> int: ...
    def account(self, args: LayerArguments, site: Site) -> Cost: ...
    def final_state(self, args: LayerArguments, site: Site) -> StateShape | None: ...


Library: TypeAlias = Mapping[str, LayerType]
"""The layers that a definition may use, by name."""
