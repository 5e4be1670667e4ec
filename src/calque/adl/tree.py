"""The checked tree: every name bound, every width known, every copy of a repetition by itself; nothing built yet."""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any


@dataclass(frozen=True, slots=True)
class Node:
    """One layer where it stands.

    `path` is its address (`decoder.1[3].0`), the prefix of its parameters' names; `text` its canonical text with the
    numbers of this copy; `args` an instance of its class's `Args`; `parts` its bodies and source chains by name; `label`
    the key under which its output can be read.
    """

    name: str
    path: str
    text: str
    args: Any
    width_in: int
    width_out: int
    parameters: int
    parts: Mapping[str, "Chain"]
    label: str | None
    side: str


@dataclass(frozen=True, slots=True)
class Chain:
    """Layers one behind the other. Items are named as in paths: `0`, `1[3]`; a repetition stands here as its copies."""

    items: Mapping[str, "Node | Chain"]
    labels: Mapping[str, str]
    width_in: int
    width_out: int
    path: str
    side: str

    def nodes(self) -> Iterator[Node]:
        """Every layer below, in order, bodies and sources included."""
        for item in self.items.values():
            if isinstance(item, Chain):
                yield from item.nodes()
            else:
                yield item
                for part in item.parts.values():
                    yield from part.nodes()

    @property
    def parameters(self) -> int:
        """How many numbers the layers below learn."""
        return sum(node.parameters for node in self.nodes())
