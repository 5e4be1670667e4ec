"""What a layer costs, known before it is built: values that `Layer.cost` returns and `calque explain` adds up.

Multiply-adds are those of products with matrices, of weights with inputs, of queries with keys, of attention weights with
values: half of what `torch.utils.flop_counter` counts. Work element by element (norms, activations, gates, sums, scans,
windows of fixed weights) is not counted. What is None is not declared, and nothing is claimed of it.
"""

import math
from typing import NamedTuple


class Products(NamedTuple):
    """Multiply-adds of one row.

    position  per position
    visible   besides, per position and position that it looks at: n of them in `forward`, t at step t
    source    besides, per position and source position
    memory    once per sentence, per source position
    among     once per sentence, per pair of source positions
    ahead     once per sentence, per position that it may come to: of the capacity in decoding
    across    once per sentence, per pair of such a position and a source position
    """

    position: int = 0
    visible: int = 0
    source: int = 0
    memory: int = 0
    among: int = 0
    ahead: int = 0
    across: int = 0

    def plus(self, other: "Products") -> "Products":
        """Both together."""
        return Products(*(a + b for a, b in zip(self, other, strict=True)))

    def per_position(self, length: int, source: int) -> int:
        """Of one position that looks at `length` positions and `source` source positions; what is done once left out."""
        return self.position + self.visible * length + self.source * source

    def per_source(self, source: int) -> int:
        """Of the memory, for one of `source` source positions."""
        return self.memory + self.among * source

    def per_place(self, source: int) -> int:
        """Of what is foreseen, for one of the positions that a sentence of `source` source positions may come to."""
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
        """Both together."""
        return Held(*(a + b for a, b in zip(self, other, strict=True)))

    def bytes(
        self, capacity: int, source: int, item: int = 4, rows: int = 1, sentences: int = 1, padded: bool = False
    ) -> int:
        """Bytes of a state, numbers of the type of the weights being `item` bytes long."""
        own = self.row * item + self.exact * max(4, item) + self.place * (capacity + 1) * item
        shared = source * (self.memory * item + self.masks * padded) + self.ahead * capacity * item
        return rows * own + sentences * shared


class Reach(NamedTuple):
    """Which positions of its input an output sees, relative to its own, and how a signal comes from there.

    first, last  the earliest and the latest position; infinite where there is no bound
    sequential   operations that wait for each other over n positions, at least: `1`, `log n` or `n`
    path         operations between an input and an output as far apart as can be: `1` or `n`
    """

    first: float = 0
    last: float = 0
    sequential: str = "1"
    path: str = "1"


HERE = Reach()
"""The position itself alone."""
BEFORE = Reach(-math.inf, 0)
"""Every position up to its own, each directly."""
EVERYWHERE = Reach(-math.inf, math.inf)
"""Every position, each directly."""

TOGETHER, FED, BACKWARDS = "together", "fed", "backwards"
"""How a layer runs its bodies: side by side on its input; one position after the other, on the last output too; reversed."""


COMPUTED, INPUT, SUM = "computed", "input", "sum"
"""What a layer's output is: something that it computes; its input as it came; the sum of its bodies' outputs."""


class Cost(NamedTuple):
    """What a layer costs, its bodies left out; None: not declared.

    parameters  numbers it learns
    products    multiply-adds
    state       numbers in its decoding state
    reach       what an output sees besides what its bodies see
    bodies      how it runs them
    output      what its output is
    """

    parameters: int = 0
    products: Products | None = None
    state: Held | None = None
    reach: Reach | None = None
    bodies: str = TOGETHER
    output: str = COMPUTED
