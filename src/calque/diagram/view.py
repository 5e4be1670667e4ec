"""The content of a picture: a checked tree in which the copies of a repetition are one.

A layer of the picture is that layer in all copies, so that the differences between copies can be written beside it.
"""

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import pairwise

from calque.adl.declaration import SourceArg
from calque.adl.signature import REQUIRED, Body, Parameter, Point, Setting, Word
from calque.adl.tree import CheckedChain, Node
from calque.explain import default_text
from calque.layers.cost import FED, HERE, INPUT, SUM

COPY = re.compile(r"^(.*)\[(\d+)\]$")


@dataclass(frozen=True)
class LayerView:
    """A layer in all copies that are drawn here, and its bodies."""

    nodes: tuple[Node, ...]
    bodies: tuple["Steps", ...]

    @property
    def first(self) -> Node:
        """The node of the first copy."""
        return self.nodes[0]

    @property
    def widths(self) -> tuple[tuple[int, ...], tuple[int, ...]]:
        """The input widths and the output widths, copy by copy."""
        return tuple(n.width_in for n in self.nodes), tuple(n.width_out for n in self.nodes)

    @property
    def kind(self) -> str:
        """`reads` the source, `mixes` positions, `learns` at each position separately, or `plain`."""
        node = self.first
        if any(isinstance(p.kind, Point) and p.kind.chain and node.value(p) is not None for p in _parameters(node)):
            return "reads"
        reach = node.cost.reach
        if reach is not None and (reach.first, reach.last) != (HERE.first, HERE.last):
            return "mixes"
        return "learns" if node.parameters else "plain"

    @property
    def is_identity(self) -> bool:
        """Whether its output is its input; it is then drawn as a line."""
        return bool(self.first.cost.output == INPUT)

    @property
    def is_sum(self) -> bool:
        """Whether its output is the sum of its bodies' outputs; a body that is the identity is then drawn as an arc."""
        return bool(self.first.cost.output == SUM)

    @property
    def passes(self) -> bool:
        """Whether its input joins the outputs of its bodies."""
        return bool(self.bodies) and self.first.cost.reach is not None and self.first.cost.bodies != FED


@dataclass(frozen=True)
class Repeat:
    """A repetition: the number of copies in each copy of the chain around it, and all copies together.

    `shared`: they have one set of weights. `path` is that of the first copy without the copy's number.
    """

    counts: tuple[int, ...]
    body: "Steps"
    shared: bool = False
    path: str = ""

    @property
    def widths(self) -> tuple[tuple[int, ...], tuple[int, ...]]:
        """The input and output widths of the repetitions that have a copy."""
        ends = [0]
        for count in self.counts:
            ends.append(ends[-1] + count)
        runs = [(a, b - 1) for a, b in pairwise(ends) if b > a]
        return tuple(self.body.widths[0][a] for a, _ in runs), tuple(self.body.widths[1][b] for _, b in runs)


@dataclass(frozen=True)
class Step:
    """A layer or repetition in a chain, and the keys under which its output can be read, copy by copy."""

    item: LayerView | Repeat
    keys: tuple[str, ...]


@dataclass(frozen=True)
class Steps:
    """A chain in all copies."""

    steps: tuple[Step, ...]
    widths: tuple[tuple[int, ...], tuple[int, ...]]

    @property
    def bare(self) -> bool:
        """Whether it is the identity without a label."""
        return all(not s.keys and isinstance(s.item, LayerView) and s.item.is_identity for s in self.steps)


@dataclass(frozen=True)
class Reading:
    """An encoder point that a layer reads: the argument, the label, the point in words, and the chain after it."""

    argument: str
    label: str
    words: tuple[str, ...]
    chain: tuple[str, ...]


def view(chains: Sequence[CheckedChain]) -> Steps:
    """Chains that are copies of each other, as one."""
    stems = list(dict.fromkeys(_stem(name) for chain in chains for name in chain.items))
    steps = tuple(_step(stem, chains) for stem in stems)
    return Steps(steps, (tuple(c.width_in for c in chains), tuple(c.width_out for c in chains)))


def _stem(name: str) -> str:
    copy = COPY.match(name)
    return copy[1] if copy else name


def _step(stem: str, chains: Sequence[CheckedChain]) -> Step:
    nodes: list[Node] = []
    copies: list[CheckedChain] = []
    counts: list[int] = []
    keys: list[str] = []
    for chain in chains:
        named = [name for name in chain.items if _stem(name) == stem]
        items = [chain.items[name] for name in named]
        nodes += [item for item in items if isinstance(item, Node)]
        copies += [item for item in items if isinstance(item, CheckedChain)]
        counts.append(sum(isinstance(item, CheckedChain) for item in items))
        keys += [chain.labels[name] for name in named if name in chain.labels]
    if copies:
        path = _stem(copies[0].path)
        return Step(Repeat(tuple(counts), view(copies), _shared(stem, chains), path), tuple(keys))
    return Step(
        LayerView(tuple(nodes), _views(nodes)),
        tuple(dict.fromkeys([*keys, *(n.label for n in nodes if n.label)])),
    )


def _views(nodes: Sequence[Node]) -> tuple[Steps, ...]:
    """The bodies of a layer in all copies; copies of one body, such as experts, are one."""
    stems = dict.fromkeys(_stem(name) for name, part in nodes[0].parts.items() if part.side == nodes[0].side)
    return tuple(view([n.parts[name] for n in nodes for name in n.parts if _stem(name) == stem]) for stem in stems)


def _shared(stem: str, chains: Sequence[CheckedChain]) -> bool:
    """Whether the copies of a repetition have one set of weights."""
    return any(_stem(name) == stem for chain in chains for name in chain.owners)


def label_of(key: str) -> str:
    """The label of a point's key: `block` of `block[3]`."""
    return _stem(key)


def several(values: Sequence[object]) -> str:
    """The values of copies: one where they are equal, otherwise all of them, or the first two and the last."""
    distinct = list(dict.fromkeys(values))
    if len(distinct) == 1:
        return str(distinct[0])
    texts = [str(v) for v in (values if len(values) <= 4 else [*values[:2], "…", values[-1]])]
    return ", ".join(texts)


# -- words


def argument_texts(layer: LayerView, width: int) -> list[str]:
    """Arguments that differ from their defaults, as text; the width where it differs from the model's."""
    parameters = [p for p in _parameters(layer.first) if not isinstance(p.kind, Body | Point)]
    return [text for p in parameters for text in _argument_texts(layer, p, width)]


def _argument_texts(layer: LayerView, p: Parameter, width: int) -> list[str]:
    """The texts of one argument: one for each of `many` values, none for the default."""
    values = [_text(node.value(p)) for node in layer.nodes]
    usual = str(width) if p.default == Setting("d") else default_text(p.default)
    always = p.default is REQUIRED or (isinstance(p.default, Setting) and p.default.name != "d")
    if not always and set(values) == {usual}:
        return []
    text = several(values)
    if len(set(values)) > 1:
        text += " by copy"
    elif p.kind.many:
        return text.split(", ")
    first = isinstance(p.kind, Word) and p is _parameters(layer.first)[0]
    return [text if first or p.kind.many else f"{p.name}={text}"]


def readings(layer: LayerView, width: int) -> Iterator[Reading]:
    """The encoder points that a layer reads."""
    for p in _parameters(layer.first):
        keys = [source.key for node in layer.nodes if isinstance(source := node.value(p), SourceArg)]
        if not keys:
            continue
        chains = [node.parts[p.name] for node in layer.nodes if p.name in node.parts]
        behind = tuple(_chain_lines(view(chains), width)) if chains else ()
        yield Reading(p.name, label_of(keys[0]), _read_words(p.name, keys), behind)


def _read_words(argument: str, keys: list[str]) -> tuple[str, ...]:
    """The point in one or two lines: `@end`; `copy i reads`, `@block[7-i]`."""
    named = "" if argument == "from" else f"{argument}: "
    if len(set(keys)) == 1:
        return (f"{named}@{keys[0]}",)
    label = label_of(keys[0])
    numbers = [int(match[2]) if (match := COPY.match(key)) else 0 for key in keys]
    return (f"{named}copy i reads", f"@{label}[{_rule(numbers)}]")


def _rule(numbers: list[int]) -> str:
    """The number of copy i: `i`, `i+2`, `7-i`, or all of them."""
    for sign in (1, -1):
        rest = {number - sign * i for i, number in enumerate(numbers, 1)}
        if len(rest) == 1:
            k = rest.pop()
            if sign == 1:
                return "i" + (f"{k:+d}" if k else "")
            return f"{k}-i"
    return several(numbers)


def _chain_lines(steps: Steps, width: int) -> Iterator[str]:
    for step in steps.steps:
        if isinstance(step.item, Repeat):
            yield f"{several(step.item.counts)} × ({', '.join(_chain_lines(step.item.body, width))})"
            continue
        inner = [" -> ".join(_chain_lines(body, width)) for body in step.item.bodies]
        inside = ", ".join([*inner, *argument_texts(step.item, width)])
        yield step.item.first.name + (f"({inside})" if inside else "")


def _parameters(node: Node) -> tuple[Parameter, ...]:
    return node.call.signature.parameters


def _text(value: object) -> str:
    return ", ".join(map(default_text, value)) if isinstance(value, tuple) else default_text(value)


def nodes_below(steps: Steps) -> Iterator[LayerView]:
    """Every layer that is drawn, in order."""
    for step in steps.steps:
        if isinstance(step.item, Repeat):
            yield from nodes_below(step.item.body)
        else:
            yield step.item
            for body in step.item.bodies:
                yield from nodes_below(body)
