"""The blocks of a picture: each knows its extents from its axis and its height, and draws itself at a place.

The flow goes down an axis. Arcs and loops are on its outer side (left in the encoder, right in the decoder); widths, labels and
arrows are on the inner side. Every block covers everything that belongs to it, words included, so that blocks do not overlap.
"""

from abc import ABC, abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass, field

from calque.diagram.shapes import (
    LINE,
    NAME,
    SMALL,
    Box,
    Dot,
    Drawing,
    Ending,
    Frame,
    Rectangle,
    TextLine,
    width_of,
    wrapped,
)
from calque.diagram.view import Reading

GAP, PAD, ARC, TITLE, JOIN, APART = 13, 9, 13, 17, 16, 16
"""Space between boxes; inside frames; between a body and its arc; for a frame's title; height of a join; between branches."""
SOURCE = "#9a4a08"


class Block(ABC):
    """A part of a picture: extents left and right of its axis, height, and whether its entry has an arrowhead."""

    left: float = 0
    right: float = 0
    height: float = 0
    arrives: bool = False

    @abstractmethod
    def draw(self, on: Drawing, x: float, y: float) -> None:
        """Draws the block with its axis at x and its entry at y; its exit is at y + height."""

    def reach(self, outer: int) -> float:
        """The extent on the outer side, where `outer` is -1 for the left and 1 for the right."""
        return self.left if outer < 0 else self.right

    def widen(self, side: int, to: float) -> None:
        """Extends the block to `to` on one side, where it is smaller."""
        if side < 0:
            self.left = max(self.left, to)
        else:
            self.right = max(self.right, to)


class IdentityBlock(Block):
    """The identity, drawn as a line."""

    height = 6

    def draw(self, on: Drawing, x: float, y: float) -> None:
        on.line((x, y), (x, y + self.height))


class Mark(Block):
    """The width of the hidden states here, on the inner side."""

    height = 15

    def __init__(self, text: str, inner: int):
        self.text, self.inner = text, inner
        self.widen(inner, 6 + width_of(text))

    def draw(self, on: Drawing, x: float, y: float) -> None:
        on.line((x, y), (x, y + self.height))
        anchor = "start" if self.inner > 0 else "end"
        on.words.append(TextLine(x + 6 * self.inner, y + 11, self.text, SMALL, anchor, colour="#666666"))


class Tap(Block):
    """A labelled point; arrows leave it on the inner side, below its label. The line ends at the `last` one."""

    height = 21

    def __init__(self, label: str, inner: int, last: bool = False):
        self.label, self.inner, self.last = label, inner, last
        self.widen(inner, 6 + width_of("@" + label))

    def draw(self, on: Drawing, x: float, y: float) -> None:
        on.line((x, y), (x, y + (17 if self.last else self.height)))
        anchor = "start" if self.inner > 0 else "end"
        on.words.append(TextLine(x + 6 * self.inner, y + 11, "@" + self.label, SMALL, anchor, colour=SOURCE))
        on.dots.append(Dot(x, y + 17, self.label))


class Leaf(Block):
    """A layer without bodies; the points that it reads enter from the left, through the chains after them."""

    arrives = True

    def __init__(
        self,
        name: str,
        arguments: Sequence[str],
        kind: str,
        about: str,
        path: str = "",
        read: Sequence[Reading] = (),
        columns: int = 24,
    ):
        self.name, self.kind, self.about, self.path, self.read = name, kind, about, path, read
        one = " ".join([name, *wrapped(arguments, 1000)])
        self.beside = len(one) <= columns
        self.lines = wrapped(arguments, columns)
        lengths = [width_of(line) for line in self.lines]
        named = width_of(name, NAME)
        wide = named + 6 + sum(lengths) if self.beside and self.lines else max([named, *lengths])
        self.half = wide / 2 + 7
        own = 20 if self.beside else 20 + LINE * len(self.lines)
        self.slots = [max(30, 4 + LINE * len(r.chain)) for r in read]
        self.height = max(own, sum(self.slots))
        self.left = self.right = self.half
        for r in read:
            behind = max((width_of(line) for line in r.chain), default=-28) + 28
            self.left = max(self.left, self.half + behind + max(map(width_of, r.words)) + 18)

    def draw(self, on: Drawing, x: float, y: float) -> None:
        words = []
        extra = 0 if self.beside else LINE * len(self.lines)
        base = y + (self.height - extra) / 2 + 4
        if self.beside and self.lines:
            words.append(TextLine(x - self.half + 7, base, self.name, NAME, bold=True))
            words.append(TextLine(x + self.half - 7, base, self.lines[0], SMALL, "end"))
        else:
            words.append(TextLine(x, base, self.name, NAME, "middle", bold=True))
            words += [TextLine(x, base + LINE * k, line, SMALL, "middle") for k, line in enumerate(self.lines, 1)]
        room = Rectangle(x - self.half, y, 2 * self.half, self.height)
        on.boxes.append(Box(room, tuple(words), self.kind, self.about, path=self.path))
        top = y + (self.height - sum(self.slots)) / 2
        for r, slot in zip(self.read, self.slots, strict=True):
            self.reading(on, r, x - self.half, top + slot / 2)
            top += slot

    def reading(self, on: Drawing, r: Reading, end: float, y: float) -> None:
        """Draws one point that is read: its words left of the box, and the chain after it between both."""
        if r.chain:
            w = max(map(width_of, r.chain)) + 12
            room = Rectangle(end - 16 - w, y - LINE * len(r.chain) / 2 - 1, w, LINE * len(r.chain) + 2)
            lines = (
                TextLine(room.x + w / 2, room.y + 10 + LINE * k, t, SMALL, "middle") for k, t in enumerate(r.chain)
            )
            on.boxes.append(Box(room, tuple(lines), "source", f"behind the source of {self.path}"))
            on.line((room.x + w, y), (end, y), head=True, kind="source")
            end = room.x
        for k, text in enumerate(r.words):
            on.words.append(TextLine(end - 10, y - 4 + 16 * k, text, SMALL, "end", colour=SOURCE))
        on.endings.append(Ending(end, y, r.label, self.path))


@dataclass
class Pipe(Block):
    """Blocks in a row."""

    parts: list[Block] = field(default_factory=list)

    def __post_init__(self) -> None:
        self.parts = self.parts or [IdentityBlock()]
        self.left = max(p.left for p in self.parts)
        self.right = max(p.right for p in self.parts)
        self.height = sum(p.height for p in self.parts) + sum(self.gaps())
        self.arrives = self.parts[0].arrives

    def gaps(self) -> list[float]:
        """The spaces before the second block, the third, and so on."""
        pairs = zip(self.parts, self.parts[1:], strict=False)
        return [_gap(before, part) for before, part in pairs]

    def draw(self, on: Drawing, x: float, y: float) -> None:
        for part, gap in zip(self.parts, [0.0, *self.gaps()], strict=True):
            on.line((x, y), (x, y + gap), head=part.arrives)
            part.draw(on, x, y + gap)
            y += gap + part.height

    @property
    def shown(self) -> str | None:
        """The last width that is shown, also inside a frame at the end."""
        for part in reversed(self.parts):
            if isinstance(part, Mark):
                return part.text
            if isinstance(part, FrameBlock) and part.body.shown is not None:
                return part.body.shown
        return None

    def without_taps(self) -> tuple["Pipe", list[Tap]]:
        """The blocks before the labelled points at the end, and these points."""
        k = len(self.parts)
        while k and isinstance(self.parts[k - 1], Tap):
            k -= 1
        return Pipe(self.parts[:k]), [part for part in self.parts[k:] if isinstance(part, Tap)]


def _gap(before: Block, part: Block) -> float:
    """The space between two parts of a chain."""
    labelled = isinstance(before, Mark | Tap)
    if part.arrives:
        return 6 if labelled else GAP
    if isinstance(part, Mark | Tap):
        return 0
    if labelled:
        return 2
    return 7 if isinstance(part, FrameBlock) else 4


class FrameBlock(Block):
    """A block with a frame and a title around it."""

    def __init__(self, body: Pipe, title: str, kind: str, outer: int, path: str = ""):
        self.body, self.title, self.kind, self.outer, self.path = body, title, kind, outer, path
        self.closed = kind == "side"
        self.left, self.right = body.left + PAD, body.right + PAD
        beside = (
            self.left + self.right - self.reach(outer) if kind == "side" else -PAD
        )  # no line goes through its title
        self.widen(outer, width_of(title) + 14 - beside)
        self.height = TITLE + body.height + PAD + (0 if isinstance(body.parts[-1], Tap) else 2)

    def draw(self, on: Drawing, x: float, y: float) -> None:
        room = Rectangle(x - self.left, y, self.left + self.right, self.height)
        edge = room.x + 7 if self.outer < 0 else room.x + room.w - 7
        title = TextLine(edge, y + 12, self.title, SMALL, "start" if self.outer < 0 else "end", bold=True)
        on.frames.append(Frame(room, title, self.kind, self.path))
        self.body.draw(on, x, y + TITLE)
        if not self.closed:
            on.line((x, y), (x, y + TITLE), head=self.body.arrives)
            on.line((x, y + TITLE + self.body.height), (x, y + self.height))


class FeedBlock(FrameBlock):
    """A frame whose output returns to its entry one position later."""

    def __init__(self, body: Pipe, outer: int, path: str = ""):
        seen = Leaf("[y(t-1); x(t)]", (), "join", "the body's output at the position before, and the input")
        inside = Pipe([seen, *body.parts])
        super().__init__(inside, "feed", "feed", outer, path)
        self.widen(outer, inside.reach(outer) + PAD + ARC)
        self.height += 8

    def draw(self, on: Drawing, x: float, y: float) -> None:
        super().draw(on, x, y)
        entry = self.body.parts[0]
        far = x + self.outer * (self.body.reach(self.outer) + ARC)
        low, high = y + TITLE + self.body.height + 7, y + TITLE + entry.height / 2
        end = x + self.outer * entry.reach(self.outer)
        on.line((x, low), (far, low), (far, high), (end, high), head=True, kind="arc")


class JoinBlock(Block):
    """Branches side by side that one layer joins; with `arc`, the input joins them too."""

    def __init__(
        self, branches: Sequence[Pipe], name: str, kind: str, about: str, arc: bool, outer: int, path: str = ""
    ):
        self.name, self.kind, self.about, self.outer, self.path = name, kind, about, outer, path
        split = [b.without_taps() if len(branches) > 1 else (b, list[Tap]()) for b in branches]
        self.bodies, self.taps = [body for body, _ in split], [taps for _, taps in split]
        self._across(arc)
        self._downwards(arc)

    def _across(self, arc: bool) -> None:
        """The axes of the branches relative to the join's own, and how far all of it reaches to the sides."""
        ends = [(body, *taps) for body, taps in zip(self.bodies, self.taps, strict=True)]
        lefts = [max(b.left for b in blocks) for blocks in ends]
        rights = [max(b.right for b in blocks) for blocks in ends]
        axes = [sum(lefts[: k + 1]) + sum(rights[:k]) + k * APART for k in range(len(ends))]
        middle = (axes[0] + axes[-1]) / 2
        self.axes = [axis - middle for axis in axes]
        wide = (axes[-1] - axes[0]) / 2 + 12 if len(axes) > 1 else 0
        self.half = max(wide, JOIN / 2 if self.name == "+" else width_of(self.name, NAME) / 2 + 7)
        self.left, self.right = max(middle, self.half), max(axes[-1] + rights[-1] - middle, self.half)
        self.around = self.reach(self.outer) + ARC if arc else 0
        self.widen(self.outer, self.around)

    def _downwards(self, arc: bool) -> None:
        """Where the branches begin and end, where the lines to the join begin, and the height of all of it."""
        self.start = 6 if arc else 0
        self.top = self.start + (GAP if len(self.axes) > 1 or arc or any(b.arrives for b in self.bodies) else 0)
        self.shifts = _clear(self.bodies, self.outer)
        self.tail = self.top + max(b.height + shift for b, shift in zip(self.bodies, self.shifts, strict=True))
        self.low = self.tail + sum(tap.height for taps in self.taps for tap in taps)
        self.height = self.low + GAP + JOIN

    def draw(self, on: Drawing, x: float, y: float) -> None:
        fork = y + self.start
        on.line((x, y), (x, fork))
        tail = y + self.tail
        for axis, body, shift, taps in zip(self.axes, self.bodies, self.shifts, self.taps, strict=True):
            at, top = x + axis, y + self.top + shift
            on.line((x, fork), *([(at, fork)] if axis else []), (at, top), head=body.arrives)
            body.draw(on, at, top)
            done = top + body.height
            # Points at the ends of branches stand below all branches, one under the other, where ways out are free.
            for tap in taps:
                on.line((at, done), (at, tail))
                tap.draw(on, at, tail)
                done = tail = tail + tap.height
            on.line((at, done), (at, y + self.low + GAP), head=True)
        room = Rectangle(x - self.half, y + self.low + GAP, 2 * self.half, JOIN)
        word = TextLine(x, room.y + 12, self.name, NAME, "middle", bold=True)
        corner = JOIN / 2 if self.name == "+" else 6
        on.boxes.append(Box(room, (word,), self.kind, self.about, corner, self.path))
        if self.around:
            far, centre = x + self.outer * self.around, room.y + JOIN / 2
            on.line((x, y), (far, y), (far, centre), (x + self.outer * self.half, centre), head=True, kind="arc")


def _clear(bodies: Sequence[Pipe], outer: int) -> list[float]:
    """How far each branch moves down, so that arrows to the inner side cross no box of another branch."""
    shifts = [0.0] * len(bodies)
    taken: list[tuple[float, float]] = []
    for k in sorted(range(len(bodies)), key=lambda k: outer * k):  # from the inner side outwards
        alone = Drawing()
        bodies[k].draw(alone, 0, 0)
        ways = [dot.y for dot in alone.dots] + [end.y for end in alone.endings]
        while any(low < way + shifts[k] < high for way in ways for low, high in taken):
            shifts[k] += 1
        words = [*alone.words, *(frame.title for frame in alone.frames)]
        rooms = [box.room for box in alone.boxes] + [one.room for one in words]
        own = [(room.y, room.y + room.h) for room in rooms] + [(way, way) for way in ways]
        taken += [(low + shifts[k] - 4, high + shifts[k] + 4) for low, high in own]
    return shifts
