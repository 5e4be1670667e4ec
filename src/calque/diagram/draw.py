"""A definition drawn: both sides, and arrows from the encoder's points to the layers that read them."""

from collections.abc import Iterator
from typing import NamedTuple

from calque.adl.check import CheckedDefinition
from calque.adl.tree import Node
from calque.diagram.blocks import Block, FeedBlock, FrameBlock, JoinBlock, Leaf, Mark, Pipe, Tap
from calque.diagram.shapes import HEAD, SMALL, Box, Drawing, Rectangle, TextLine, width_of
from calque.diagram.view import (
    LayerView,
    Repeat,
    Step,
    Steps,
    argument_texts,
    label_of,
    nodes_below,
    readings,
    several,
    view,
)
from calque.explain.node_table import short
from calque.layers.cost import BACKWARDS, FED

MARGIN, TRUNK, TOP = 14, 10, 52
LEFT, RIGHT = -1, 1
KINDS = {
    "reads": "reads the source",
    "mixes": "mixes positions",
    "learns": "learns per position",
    "plain": "learns nothing",
}
"""Kinds of boxes, each with its own colour, and their meanings."""


class DrawingPlace(NamedTuple):
    """The surroundings of a block: its outer side, the model's width, the largest number of characters across a box, and the paths
    of repetitions that are one box.
    """

    outer: int
    width: int
    columns: int = 24
    folded: frozenset[str] = frozenset()

    @property
    def beside(self) -> "DrawingPlace":
        """The same, for one of several branches."""
        return self._replace(columns=18)


def picture(checked: CheckedDefinition, title: str, folded: frozenset[str] = frozenset()) -> Drawing:
    """The picture of a definition. Repetitions whose paths are `folded` are one box each."""
    encoder, decoder = view([checked.encoder]), view([checked.decoder])
    sides = {
        "encoder": _side(encoder, checked.encoder.parameters, DrawingPlace(LEFT, checked.width, folded=folded)),
        "decoder": _side(decoder, checked.decoder.parameters, DrawingPlace(RIGHT, checked.width, folded=folded)),
    }
    read = list(dict.fromkeys(r.label for layer in nodes_below(decoder) for r in readings(layer, checked.width)))
    gutter = TRUNK * (len(read) + 1)
    on = Drawing()
    left, right = sides["encoder"], sides["decoder"]
    x = MARGIN + left.left
    left.draw(on, x, TOP)
    second = x + left.right + gutter + right.left
    right.draw(on, second, TOP)
    _arrows(on, x + left.right)
    about = f"hash {checked.hash}, d = {checked.width}"
    on.words.append(TextLine(MARGIN, 22, title, HEAD, bold=True))
    on.words.append(TextLine(MARGIN, 39, about, SMALL, colour="#666666"))
    ends = [second + right.right, *(w.room.x + w.room.w for w in on.words)]
    on.width = max(ends) + MARGIN
    on.height = _legend(on, TOP + max(left.height, right.height) + 12)
    return on


def _side(steps: Steps, parameters: int, at: DrawingPlace) -> FrameBlock:
    outer = at.outer
    name = "encoder" if outer == LEFT else "decoder"
    start = "source embeddings" if outer == LEFT else "target embeddings"
    inner = -outer
    first = Leaf(start, (), "join", f"{start}, {steps.widths[0][0]} wide")
    parts: list[Block] = [first, Mark(str(steps.widths[0][0]), inner), *_pipe(steps, at).parts]
    if outer == LEFT:
        parts.append(Tap("end", inner, last=True))
    else:
        parts.append(Leaf("output layer", (), "join", "scores of every word of the vocabulary"))
    return FrameBlock(Pipe(parts), f"{name}, {short(parameters)} parameters", "side", outer)


def _pipe(steps: Steps, at: DrawingPlace) -> Pipe:
    """A chain, with its labels, and widths where they change."""
    parts: list[Block] = []
    for step in steps.steps:
        block = _block(step.item, at)
        parts += [] if block is None else [block]
        before, after = step.item.widths
        if after != before and not (isinstance(block, FrameBlock) and block.body.shown == several(after)):
            parts.append(Mark(several(after), -at.outer))
        parts += [Tap(label, -at.outer) for label in dict.fromkeys(map(label_of, _keys(step, at)))]
    return Pipe(parts)


def _block(item: LayerView | Repeat, at: DrawingPlace) -> Block | None:
    if isinstance(item, Repeat):
        if item.path in at.folded:
            return _one_box(item, at)
        shared = ", one set of weights" if item.shared else ""
        title = f"{several(item.counts)} ×{shared}"
        return FrameBlock(_pipe(item.body, at), title, "repeat", at.outer, item.path)
    node = item.first
    if item.is_identity:
        return None
    if not item.bodies:
        read = list(readings(item, at.width))
        return Leaf(node.name, argument_texts(item, at.width), item.kind, _about(node), node.path, read, at.columns)
    if node.cost.bodies == FED:
        return FeedBlock(_body(item, item.bodies[0], at), at.outer, node.path)
    if node.cost.bodies == BACKWARDS:
        return FrameBlock(_body(item, item.bodies[0], at), node.name, "reverse", at.outer, node.path)
    return _join(item, at)


def _keys(step: Step, at: DrawingPlace) -> tuple[str, ...]:
    """The keys under which the output of a step can be read; of a folded repetition, also those inside it."""
    if not (isinstance(step.item, Repeat) and step.item.path in at.folded):
        return step.keys
    return (*_keys_below(step.item.body), *step.keys)


def _keys_below(steps: Steps) -> Iterator[str]:
    for step in steps.steps:
        inside = (step.item.body,) if isinstance(step.item, Repeat) else step.item.bodies
        for body in inside:
            yield from _keys_below(body)
        yield from step.keys


def _one_box(repeat: Repeat, at: DrawingPlace) -> Leaf:
    """A folded repetition: the layers in it that learn or mix positions, and the points that they read."""
    layers = list(nodes_below(repeat.body))
    shown = [layer for layer in layers if layer.kind != "plain" and not layer.bodies] or layers
    read = list(dict.fromkeys(r for layer in layers for r in readings(layer, at.width)))
    kinds = [kind for kind in KINDS if any(layer.kind == kind for layer in layers)]
    names = list(dict.fromkeys(layer.first.name for layer in shown))
    about = "\n".join([repeat.path, *(layer.first.text for layer in shown)])
    return Leaf(f"{several(repeat.counts)} ×", names, kinds[0], about, repeat.path, read, at.columns)


def _about(node: Node) -> str:
    """The text that a pointer over a box shows."""
    widths = f"{node.width_in} -> {node.width_out}, {node.parameters:,} parameters"
    return "\n".join([node.path, node.text, widths])


def _join(item: LayerView, at: DrawingPlace) -> JoinBlock:
    """A layer that joins its bodies; the identity of a residual sum is an arc."""
    node, bodies, arc = item.first, list(item.bodies), item.passes
    bare = [body for body in bodies if body.bare]
    if item.is_sum and len(bodies) > 1 and bare:
        bodies.remove(bare[0])
        arc = True
    pipes = [_body(item, body, at.beside if len(bodies) > 1 else at) for body in bodies]
    plus = item.is_sum and len(pipes) == 1
    name = "+" if plus else " ".join([node.name, *argument_texts(item, at.width)])
    kind = "join" if item.is_sum or not node.parameters else item.kind
    return JoinBlock(pipes, name, kind, _about(node), arc, at.outer, node.path)


def _body(item: LayerView, body: Steps, at: DrawingPlace) -> Pipe:
    """A body, with its input width where it differs from the layer's."""
    pipe = _pipe(body, at)
    if body.widths[0] == item.widths[0]:
        return pipe
    return Pipe([Mark(several(body.widths[0]), -at.outer), *pipe.parts])


def _arrows(on: Drawing, edge: float) -> None:
    """Draws arrows from each point that is read, along its own vertical line between the sides, to the layers that read it."""
    points = {dot.label: dot for dot in on.dots}
    read = sorted({end.label for end in on.endings}, key=lambda label: (points[label].y, label))
    for k, label in enumerate(read):
        trunk, dot = edge + TRUNK * (k + 1), points[label]
        for end in on.endings:
            if end.label == label:
                on.line((dot.x, dot.y), (trunk, dot.y), (trunk, end.y), (end.x, end.y), head=True, kind="source")


def _legend(on: Drawing, y: float) -> float:
    """Draws the meanings of the colours in one or more lines; returns where they end."""
    used = [kind for kind in KINDS if any(box.kind == kind for box in on.boxes)]
    x: float = MARGIN
    for kind in used:
        room = 16 + width_of(KINDS[kind])
        if x > MARGIN and x + room > on.width - MARGIN:
            x, y = MARGIN, y + 16
        on.boxes.append(Box(Rectangle(x, y, 12, 10), (), kind, round=2))
        on.words.append(TextLine(x + 16, y + 9, KINDS[kind]))
        x += room + 8
    return y + 10 + MARGIN
