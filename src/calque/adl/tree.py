"""The checked tree: every name bound, every width known, every copy of a repetition separate; no module is built yet."""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass

from calque.adl.canonical import call_text
from calque.adl.core import Call
from calque.adl.declaration import Cost, LayerArguments


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

    @property
    def parameters(self) -> int:
        """The number of parameters of the layer itself, without its parts."""
        return self.cost.parameters

    @property
    def text(self) -> str:
        """Its canonical text, with the indices of this copy as numbers."""
        return call_text(self.call, self.indices)


@dataclass(frozen=True, slots=True)
class CheckedChain:
    """Layers in a row. Items are named as in paths: `0`, `1[3]`; a repetition is its copies."""

    items: Mapping[str, "Node | CheckedChain"]
    labels: Mapping[str, str]
    width_in: int
    width_out: int
    path: str
    side: str

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
