"""The contract every layer keeps: one meaning in two forms.

`forward` maps all positions at once, `step` a chunk of positions with an explicit state, and both compute the same function.
The laws in `Layer`'s docstring are proved by `calque.prove` for every registered layer and for random compositions.
"""

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Mapping, MutableMapping, Sequence
from dataclasses import dataclass, field
from typing import ClassVar, NamedTuple, cast

import torch
from jaxtyping import Bool, Float
from torch import Tensor, nn

from calque.adl.declaration import (
    BOTH,
    DECODER,
    ENCODER,
    HERE,
    BodyArg,
    Cost,
    Fault,
    Held,
    LayerArguments,
    PointInfo,
    Products,
    Reach,
    Site,
    SourceArg,
    StateShape,
)
from calque.adl.signature import Signature, read_signature
from calque.layers.history import Chunk
from calque.layers.state import Empty, State, States
from calque.native.program import NoProgram, Program, Value

__all__ = [
    "BOTH",
    "DECODER",
    "ENCODER",
    "HERE",
    "NO_CELL",
    "OWN_CELL",
    "WHOLE_CELL",
    "BodyArg",
    "Context",
    "Cost",
    "Example",
    "Fault",
    "Held",
    "Layer",
    "LayerArguments",
    "Merge",
    "NoArgs",
    "Parts",
    "Point",
    "PointInfo",
    "Products",
    "Reach",
    "Recorder",
    "Registry",
    "Site",
    "SourceArg",
    "StateShape",
    "Stateless",
]

NO_CELL, OWN_CELL, WHOLE_CELL = "none", "own", "whole"


class Point(NamedTuple):
    """What a labelled encoder point holds after a run: its output, which positions are real, a cell's final state."""

    value: Float[Tensor, "B S D"]
    mask: Bool[Tensor, "B S"] | None
    state: tuple[Tensor, ...] | None = None


Recorder = Callable[[str, Tensor], None]


class Context(NamedTuple):
    """What a call needs beside its input. Frozen: whoever needs another one uses `_replace`.

    mask      which positions of `x` are real, True first in every row ([B, T], or None: all of them)
    chunk     in `step`: which positions of every row these are, and what follows from it; None in `forward`
    beams     how many rows of `x` share one source sentence
    sources   the encoder's points by label (`end`, `block[3]`), one row per sentence
    taps      where labelled encoder terms write their points; None: nowhere
    like      an empty tensor of the type and on the device that states are made of
    record    called with the path of an attention layer and its weights [B, heads, T, S]; None: the fast path. A layer in a
              source's chain tells its own once, [sentences, heads, S, S], when `init_state` or `forward` reads the source
    """

    mask: Bool[Tensor, "B T"] | None = None
    chunk: Chunk | None = None
    beams: int = 1
    sources: Mapping[str, Point] = {}
    taps: MutableMapping[str, Point] | None = None
    like: Tensor = torch.empty(0)
    record: Recorder | None = None

    @property
    def now(self) -> Chunk:
        """The chunk of a call of `step`."""
        if self.chunk is None:
            raise ValueError("there is a chunk in `step` alone")
        return self.chunk


@dataclass(frozen=True)
class NoArgs:
    """The arguments of a layer that takes none."""


@dataclass(frozen=True)
class Example:
    """A text that shows a layer at work; the contract suite runs it on each of `sides`."""

    text: str
    sides: tuple[str, ...] = BOTH
    encoder: str = field(default="id")


Parts = Mapping[str, "Layer"]
"""A layer's bodies and source chains, by name."""


class Layer(nn.Module, ABC):
    """A map from a sequence of hidden states to one of the same length.

    Laws, proved for every registered layer and for random compositions, with and without gradients:

    equal    `step`, fed any partition of x in order, concatenates to `forward(x)`; so do all gradients
    causal   in the decoder, output t does not depend on input > t
    padding  positions where the mask is False may hold any finite value and never affect the others
    batch    rows do not see each other: at equal shapes, changing the neighbours changes no bit of a row
    idle     a step whose position is not valid changes no state and no later output
    reorder  step(x[i], select(s, i)) == step(x, s)[i]; `keep` drops finished sentences, memory included
    shape    the width out is `infer(args, site)`, the parameters are those of `cost`
    cost     so are multiply-adds of both forms, the bytes of the state and what an output sees, where they are declared

    A layer is one class in one file: `name`, `Args`, `sides`, `examples`, the equation in the docstring. `step` consumes its
    state: with gradients off its buffers are written in place, so the caller never touches the old one again.
    """

    name: ClassVar[str]
    Args: ClassVar[type] = NoArgs
    sides: ClassVar[tuple[str, ...]] = BOTH
    examples: ClassVar[tuple[Example, ...]] = ()
    reads: ClassVar[tuple[str, ...]] = ()
    """Linear parts whose weights the layer itself reads, beside calling them; they keep them when they are packed."""
    known_as: ClassVar[tuple[str, ...]] = ()
    """How other notations write the layer, for the help of an error; `calque.adl.advice.aliases` says in which form."""
    labelled = False
    """Whether it writes labelled points of its own: a chain whose items carry labels."""
    fixed: ClassVar[bool] = False
    """The attention weights it records follow from positions alone, and need not sum to one at most."""

    undrawn: ClassVar[tuple[str, ...]] = ()
    """Its own parameters that start as the layer makes them under every scheme of initialisation."""
    joint: ClassVar[tuple[str, ...]] = ()
    """Linear parts that initialisation may take as the rows of one matrix, where all of them map the same width."""
    cell: ClassVar[str] = NO_CELL
    """Which matrices initialisation takes as one recurrent cell's: `OWN_CELL`, its own; `WHOLE_CELL`, those of its bodies too."""

    def __init__(self, args: LayerArguments, site: Site, parts: Parts):
        super().__init__()
        self.path = site.path
        for name, part in parts.items():
            self.add_module(name, part)

    @classmethod
    def signature(cls) -> Signature:
        """The layer's arguments."""
        return read_signature(cls.name, cls.Args, cls.__doc__ or "", cls.known_as)

    @classmethod
    def body_width(cls, args: LayerArguments, site: Site) -> int:
        """The width that the layer hands to its bodies."""
        return site.width

    @classmethod
    def infer(cls, args: LayerArguments, site: Site) -> int:
        """The width out. Raises `Fault` where arguments and site do not fit. Pure."""
        return site.width

    @classmethod
    def cost(cls, args: LayerArguments, site: Site) -> Cost:
        """What the layer itself costs, its bodies left out. Pure."""
        return Cost()

    @classmethod
    def account(cls, args: LayerArguments, site: Site) -> Cost:
        """`cost`, with what follows from the kind of layer where it is not declared."""
        return cls.cost(args, site)

    @classmethod
    def final_state(cls, args: LayerArguments, site: Site) -> StateShape | None:
        """The state that a label on this layer makes available to a bridge."""
        return None

    @abstractmethod
    def forward(self, x: Float[Tensor, "B T D"], ctx: Context) -> Float[Tensor, "B T E"]:
        """All positions at once."""

    @abstractmethod
    def init_state(self, batch: int, capacity: int, ctx: Context) -> State:
        """The state before the first position, for `batch` rows that will hold at most `capacity` positions."""

    @abstractmethod
    def step(self, x: Float[Tensor, "B n D"], state: State, ctx: Context) -> tuple[Float[Tensor, "B n E"], State]:
        """The next n positions. Consumes `state`."""

    def program(self, p: Program, x: Value, state: State | None) -> tuple[Value, State | None]:
        """Write down one position of every row as calls of kernels, with `Made` in place of tensors that are new in the state
        behind it; in the encoder all positions, without padding, and no state.

        By default, and where this raises `NoProgram`, the chain that the layer is in runs layer by layer.
        """
        raise NoProgram(self.name)

    def fuse(self, exact: bool) -> None:
        """Take the same products in fewer calls from now on. Called once, on a layer that only decodes; by default nothing.

        Not `exact`: a row comes to the same bits alone and among others, or products will be rounded to fewer than 32 bits; others
        in their place would come to something else.
        """

    def part(self, name: str) -> "Layer":
        """The body or source chain of that name."""
        return cast("Layer", self._modules[name])


class Stateless(Layer):
    """A layer that works position by position: it writes `forward` alone."""

    @classmethod
    def cost(cls, args: LayerArguments, site: Site) -> Cost:
        return Cost(products=Products())

    @classmethod
    def account(cls, args: LayerArguments, site: Site) -> Cost:
        cost = cls.cost(args, site)
        return cost._replace(state=cost.state or Held(), reach=cost.reach or HERE)

    def init_state(self, batch: int, capacity: int, ctx: Context) -> State:
        return Empty()

    def step(self, x: Tensor, state: State, ctx: Context) -> tuple[Tensor, State]:
        return self.forward(x, ctx), state


class Merge(Layer):
    """A combinator whose output at a position is a function of its input and its bodies' outputs there: it writes `merge`."""

    def __init__(self, args: LayerArguments, site: Site, parts: Parts):
        super().__init__(args, site, parts)
        self._bodies = list(parts.values())

    @classmethod
    def cost(cls, args: LayerArguments, site: Site) -> Cost:
        return Cost(products=Products())

    @classmethod
    def account(cls, args: LayerArguments, site: Site) -> Cost:
        cost = cls.cost(args, site)
        return cost._replace(state=cost.state or Held())

    @abstractmethod
    def merge(self, x: Tensor, outputs: list[Tensor]) -> Tensor:
        """The output, of the input and the bodies' outputs in order."""

    def merged(self, p: Program, x: Value, outputs: list[Value]) -> Value:
        """`merge` in a program."""
        raise NoProgram(self.name)

    def forward(self, x: Tensor, ctx: Context) -> Tensor:
        return self.merge(x, [body(x, ctx) for body in self._bodies])

    def init_state(self, batch: int, capacity: int, ctx: Context) -> State:
        return States(tuple(body.init_state(batch, capacity, ctx) for body in self._bodies))

    def step(self, x: Tensor, state: State, ctx: Context) -> tuple[Tensor, State]:
        parts = cast("States", state).parts
        pairs = [body.step(x, s, ctx) for body, s in zip(self._bodies, parts, strict=True)]
        return self.merge(x, [y for y, _ in pairs]), States(tuple(s for _, s in pairs))

    def program(self, p: Program, x: Value, state: State | None) -> tuple[Value, State | None]:
        pairs = [
            body.program(p, x, s) for body, s in zip(self._bodies, parts_of(state, len(self._bodies)), strict=True)
        ]
        return self.merged(p, x, [y for y, _ in pairs]), together(state, [s for _, s in pairs])


def parts_of(state: State | None, count: int) -> Sequence[State | None]:
    """The states of so many parts; none in the encoder."""
    return (None,) * count if state is None else cast("States", state).parts


def together(before: State | None, after: Sequence[State | None]) -> State | None:
    """The states of parts as one; none in the encoder."""
    return None if before is None else States(tuple(cast("Sequence[State]", after)))


class Registry(dict[str, type[Layer]]):
    """Layers by name: the library that definitions are checked with and models are built from."""

    def __init__(self, layers: Iterable[type[Layer]] = ()):
        super().__init__()
        for layer in layers:
            self.add(layer)

    def add(self, layer: type[Layer]) -> type[Layer]:
        """Register a class. Raises `ValueError` where another class has its name."""
        if self.setdefault(layer.name, layer) is not layer:
            raise ValueError(f"layer name {layer.name!r} is taken")
        return layer
