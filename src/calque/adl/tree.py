"""The checked tree: every name bound, every width known, every copy of a repetition separate; no module is built yet."""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, fields
from itertools import zip_longest

from calque.adl.canonical import call_text
from calque.adl.core import Call
from calque.adl.declaration import Cost, LayerArguments, SourceArg
from calque.adl.signature import Parameter, value_of


@dataclass(frozen=True, slots=True)
class Node:
    """One layer at its position.

    path     its address (`decoder.1[3].0`), the prefix of its parameters' names
    args     an instance of its class's `Args`
    cost     the declared cost of the layer itself
    parts    its bodies and source chains by name
    label    the key under which its output can be read
    call     the term as written
    indices  the numbers of the copies around it
    shared   its weights are those of its place in the first copy of a repetition
    """

    name: str
    path: str
    args: LayerArguments
    width_in: int
    width_out: int
    cost: Cost
    parts: Mapping[str, "CheckedChain"]
    label: str | None
    side: str
    call: Call
    indices: tuple[int, ...]
    shared: bool = False

    @property
    def parameters(self) -> int:
        """The number of parameters of the layer itself, without its parts; none where it has those of another copy."""
        return 0 if self.shared else self.cost.parameters

    def value(self, parameter: Parameter) -> object:
        """The value of one of its arguments."""
        return value_of(self.args, parameter.name)

    @property
    def text(self) -> str:
        """Its canonical text, with the indices of this copy as numbers."""
        return call_text(self.call, self.indices)


@dataclass(frozen=True, slots=True)
class CheckedChain:
    """Layers in a row. Items are named as in paths: `0`, `1[3]`; a repetition is its copies.

    `owners`: the items that have no weights of their own, and the copy whose weights each of them has.
    """

    items: Mapping[str, "Node | CheckedChain"]
    labels: Mapping[str, str]
    width_in: int
    width_out: int
    path: str
    side: str
    owners: Mapping[str, str] = field(default_factory=dict)

    def nodes(self) -> Iterator[Node]:
        """Every layer below, in order, bodies and sources included."""
        for item in self.items.values():
            if isinstance(item, CheckedChain):
                yield from item.nodes()
            else:
                yield item
                for part in item.parts.values():
                    yield from part.nodes()

    @property
    def parameters(self) -> int:
        """The number of parameters of all layers below."""
        return sum(node.parameters for node in self.nodes())


def unlike(one: CheckedChain, two: CheckedChain) -> tuple[Node | None, Node | None] | None:
    """The first layers in which two copies of a chain differ, so that they cannot have the same weights; None where they are alike.

    Only labels and the points that sources read may differ.
    """
    for a, b in zip_longest(one.nodes(), two.nodes()):
        if a is None or b is None or _form(a, one.path) != _form(b, two.path):
            return a, b
    return None


def _form(node: Node, base: str) -> tuple[object, ...]:
    """What a layer computes with its weights, whatever it reads."""
    args = [getattr(node.args, f.name) for f in fields(node.args)]
    known = tuple((a.point, a.width) if isinstance(a, SourceArg) else a for a in args)
    return node.name, node.path.removeprefix(base), node.width_in, node.width_out, known
