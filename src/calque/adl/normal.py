"""The normal form of a checked definition: what it computes, whichever way it is written.

The checked tree has no definitions, settings or defaults any more. In addition, chains are flat here, `id` disappears, a `repeat`
is its copies, and an encoder point is a path, whatever the name of its label. `docs/spec.md`, section 12.
"""

from collections.abc import Callable, Hashable
from dataclasses import dataclass
from operator import attrgetter

from calque.adl.check import CheckedDefinition
from calque.adl.declaration import SourceArg
from calque.adl.signature import Body, Parameter, Point, SourceDefault
from calque.adl.tree import CheckedChain, Node

WEIGHTS, OWN = "weights", "own"
"""What each layer of a normal form has beside its arguments: whose weights it has."""

PointPath = tuple[Hashable, ...]
"""A point of the encoder: the path to its chain, and the number of layers before the point in that chain."""


@dataclass(frozen=True, eq=False, slots=True)
class NormalSource:
    """A source of a layer: the encoder point, the chain after it, and its text."""

    place: PointPath
    chain: "Items"
    text: str
    width: int


@dataclass(frozen=True, eq=False, slots=True)
class Item:
    """A layer. `args` are its arguments without chains and sources.

    `own` counts its own parameters, `total` also those of layers below it; `size` counts the layer and those below. `widths` are
    its input widths: from the layer before it, then from its sources. `place` is the point before it.
    """

    name: str
    args: tuple[tuple[str, Hashable], ...]
    parts: "tuple[tuple[str, Items], ...]"
    sources: tuple[tuple[str, NormalSource | None], ...]
    widths: tuple[int, ...]
    own: int
    total: int
    size: int
    path: str
    place: PointPath
    defaults: tuple[tuple[str, object], ...]


@dataclass(frozen=True, eq=False, slots=True)
class Items:
    """A chain: layers in a row, none of them `id` or `repeat`; `first` is the number of layers of the chain before these."""

    items: tuple[Item, ...]
    place: PointPath
    first: int = 0

    @property
    def size(self) -> int:
        """The number of layers, including those below."""
        return sum(item.size for item in self.items)


@dataclass(frozen=True, eq=False, slots=True)
class Normal:
    """A definition in normal form."""

    width: int
    encoder: Items
    decoder: Items

    @property
    def parameters(self) -> int:
        """The number of parameters of both sides."""
        return sum(item.total for side in (self.encoder, self.decoder) for item in side.items)


def normal(checked: CheckedDefinition) -> Normal:
    """The normal form of a checked definition."""
    maker = _Maker()
    encoder = maker.chain(checked.encoder, ("encoder",))
    maker.places["end"] = (*encoder.place, len(encoder.items))
    return Normal(checked.width, encoder, maker.chain(checked.decoder, ("decoder",)))


class _Sharing:
    """Whose weights the layers of a flat chain have: for each, how many layers before it the first one with these weights stands.

    `back`: in a copy of a repetition with shared weights, how many layers before it the first copy begins; 0 elsewhere.
    """

    def __init__(self, around: int):
        self.around, self.back = around, 0
        self.first: list[int] = []

    def of_next(self) -> int:
        """Of the next layer of the chain; what is said of a layer around the chain holds for all of it."""
        at = len(self.first)
        self.first.append(self.first[at - self.back] if self.back else at)
        return self.around or at - self.first[at]


class _Maker:
    def __init__(self) -> None:
        self.places: dict[str, PointPath] = {}

    def chain(self, chain: CheckedChain, place: PointPath, shares: int = 0) -> Items:
        """The chain; `shares`: a layer around it has the weights of the one that many layers before."""
        items: list[Item] = []
        self.flatten(chain, place, items, _Sharing(shares))
        return Items(tuple(items), place)

    def flatten(self, chain: CheckedChain, place: PointPath, items: list[Item], sharing: "_Sharing") -> None:
        starts: dict[str, int] = {}
        for key, part in chain.items.items():
            if isinstance(part, CheckedChain):
                starts[key], back = len(items), sharing.back
                if key in chain.owners and not back:  # a copy around it says whose weights these are
                    sharing.back = len(items) - starts[chain.owners[key]]
                self.flatten(part, place, items, sharing)
                sharing.back = back
            elif part.name != "id":
                items.append(self.item(part, (*place, len(items)), sharing.of_next()))
            if key in chain.labels:
                self.places[chain.labels[key]] = (*place, len(items))

    def item(self, node: Node, place: PointPath, shares: int) -> Item:
        parameters = node.call.signature.parameters
        points = {p.name for p in parameters if isinstance(p.kind, Point)}
        parts = tuple(
            (name, self.chain(part, (*place, name), shares)) for name, part in node.parts.items() if name not in points
        )
        sources = tuple((p.name, self.source(node, p, place, shares)) for p in parameters if p.name in points)
        args = tuple((p.name, node.value(p)) for p in parameters if not isinstance(p.kind, Body | Point))
        chains = [*(part for _, part in parts), *(s.chain for _, s in sources if s is not None)]
        return Item(
            node.name,
            (*args, (WEIGHTS, _owner(node, shares))),
            parts,
            sources,
            (node.width_in, *(s.width for _, s in sources if s is not None)),
            node.parameters,
            node.parameters + sum(item.total for chain in chains for item in chain.items),
            1 + sum(chain.size for chain in chains),
            node.path,
            place,
            (*((p.name, p.default) for p in parameters), (WEIGHTS, OWN)),
        )

    def source(self, node: Node, parameter: Parameter, place: PointPath, shares: int) -> NormalSource | None:
        source = node.value(parameter)
        if not isinstance(source, SourceArg):
            return None
        part = node.parts.get(parameter.name)
        inside = (*place, parameter.name)
        chain = Items((), inside) if part is None else self.chain(part, inside, shares)
        return NormalSource(self.places[source.key], chain, f"@{source.key}", source.width)


def _owner(node: Node, shares: int) -> str:
    return f"of the layer {shares} before" if node.shared and node.cost.parameters else OWN


class Numbering:
    """Numbers for items and chains of several normal forms: equal ones have the same number."""

    def __init__(self) -> None:
        self._known: dict[Hashable, int] = {}
        self._of: dict[int, tuple[object, int]] = {}  # the object is kept, so that its id is not reused

    def chain(self, chain: Items, at: Callable[[NormalSource], Hashable]) -> int:
        """The number of a chain; `at` names the points of sources."""
        if id(chain) not in self._of:
            key = ("chain", *(self.item(item, at) for item in chain.items))
            self._of[id(chain)] = chain, self._known.setdefault(key, len(self._known))
        return self._of[id(chain)][1]

    def item(self, item: Item, at: Callable[[NormalSource], Hashable]) -> int:
        """The number of a layer."""
        if id(item) not in self._of:
            sources = tuple((name, None if s is None else (at(s), self.chain(s.chain, at))) for name, s in item.sources)
            parts = tuple((name, self.chain(part, at)) for name, part in item.parts)
            key = ("item", item.name, item.args, parts, sources, item.widths, item.own)
            self._of[id(item)] = item, self._known.setdefault(key, len(self._known))
        return self._of[id(item)][1]


def equal(a: CheckedDefinition, b: CheckedDefinition) -> bool:
    """Whether two definitions compute the same, with parameters of the same shapes in the same order."""
    one, two, numbers = normal(a), normal(b), Numbering()

    return one.width == two.width and all(
        numbers.chain(x, attrgetter("place")) == numbers.chain(y, attrgetter("place"))
        for x, y in ((one.encoder, two.encoder), (one.decoder, two.decoder))
    )


def brief(item: Item, hole: str | None = None) -> str:
    """A layer's text without arguments that have their defaults; the part `hole` becomes three dots."""
    defaults = dict(item.defaults)
    # One copy stands for all.
    parts = [
        (name, part) for name, part in item.parts if name == hole or not name.endswith("]") or name.endswith("[1]")
    ]
    written = ["..." if name == hole else brief_chain(part) for name, part in parts]
    written += [f"{name}={word(value)}" for name, value in item.args if defaults.get(name) != value]
    for name, source in item.sources:
        if source is not None:
            default = defaults.get(name)
            text = source_text(source)
            if not (isinstance(default, SourceDefault) and text == f"@{default.label}"):
                written.append(f"{name}={text}")
    return item.name + (f"({', '.join(written)})" if written else "")


def brief_chain(chain: Items) -> str:
    """The text of a chain of layers, each as in `brief`."""
    return " -> ".join(brief(item) for item in chain.items) or "id"


def source_text(source: NormalSource) -> str:
    """The text of a source with the chain after it."""
    return source.text + (f" -> {brief_chain(source.chain)}" if source.chain.items else "")


def word(value: object) -> str:
    """The text of an argument's value."""
    if value is None:
        return "none"
    return ("yes" if value else "no") if isinstance(value, bool) else str(value)
