"""The shapes of a picture, in units of 1/96 inch, and the width of words."""

from collections.abc import Sequence
from dataclasses import dataclass, field

CHARACTER = 0.61
"""Width of a character of a monospaced font in its size: Courier's 0.60, Menlo's and DejaVu's 0.602, Consolas's 0.55."""
NAME, SMALL, HEAD = 12, 10, 15
"""Sizes of words: names of layers; everything else; the picture's title."""
LINE = 13


def width_of(text: str, size: float = SMALL) -> float:
    """The largest width of a text."""
    return len(text) * size * CHARACTER


@dataclass(frozen=True)
class Rectangle:
    """Left, top, width, height."""

    x: float
    y: float
    w: float
    h: float

    def overlaps(self, other: "Rectangle", slack: float = 0.01) -> bool:
        """Whether both share more than an edge."""
        return (
            min(self.x + self.w, other.x + other.w) - max(self.x, other.x) > slack
            and min(self.y + self.h, other.y + other.h) - max(self.y, other.y) > slack
        )

    def holds(self, other: "Rectangle", slack: float = 0.01) -> bool:
        """Whether the other rectangle is inside this one."""
        return (
            self.x - slack <= other.x
            and self.y - slack <= other.y
            and other.x + other.w <= self.x + self.w + slack
            and other.y + other.h <= self.y + self.h + slack
        )


@dataclass(frozen=True)
class TextLine:
    """A line of text. `anchor`: start, middle or end at x; y is the baseline."""

    x: float
    y: float
    text: str
    size: float = SMALL
    anchor: str = "start"
    bold: bool = False
    colour: str = "#333333"

    @property
    def room(self) -> Rectangle:
        """The largest area that it covers."""
        w = width_of(self.text, self.size)
        left = {"start": 0.0, "middle": w / 2, "end": w}[self.anchor]
        return Rectangle(self.x - left, self.y - 0.8 * self.size, w, self.size)


@dataclass(frozen=True)
class Box:
    """A layer, or a join: a rectangle with words in it. `kind` colours it, `about` is the text that a pointer over it shows.

    `path` is that of the layer, or of the repetition that is folded into one box.
    """

    room: Rectangle
    words: tuple[TextLine, ...]
    kind: str
    about: str = ""
    round: float = 3
    path: str = ""


@dataclass(frozen=True)
class Frame:
    """A rectangle around a part: a repetition, a feed, a side. `path` is that of the repetition or the layer."""

    room: Rectangle
    title: TextLine
    kind: str
    path: str = ""


@dataclass(frozen=True)
class Route:
    """A line through rounded corners; `head`: an arrowhead at its end. `kind`: flow, arc, source."""

    corners: tuple[tuple[float, float], ...]
    head: bool = False
    kind: str = "flow"


@dataclass(frozen=True)
class Dot:
    """A labelled point."""

    x: float
    y: float
    label: str


@dataclass(frozen=True)
class Ending:
    """The end of an arrow to a layer: the label that it reads, and the path of the layer."""

    x: float
    y: float
    label: str
    path: str


@dataclass
class Drawing:
    """Everything drawn so far."""

    frames: list[Frame] = field(default_factory=list)
    lines: list[Route] = field(default_factory=list)
    boxes: list[Box] = field(default_factory=list)
    dots: list[Dot] = field(default_factory=list)
    words: list[TextLine] = field(default_factory=list)
    endings: list[Ending] = field(default_factory=list)
    width: float = 0
    height: float = 0

    def line(self, *corners: tuple[float, float], head: bool = False, kind: str = "flow") -> None:
        """Adds a line; one without length is left out."""
        if corners[0] != corners[-1]:
            self.lines.append(Route(corners, head, kind))


def wrapped(parts: Sequence[str], columns: int) -> list[str]:
    """Arguments in lines of `columns` characters; a longer one is broken at spaces, or has its own line."""
    lines: list[str] = []
    words = [w for k, p in enumerate(parts) for w in (p + ("," if k + 1 < len(parts) else "")).split(" ")]
    for word in words:
        if lines and len(lines[-1]) + 1 + len(word) <= columns:
            lines[-1] += " " + word
        else:
            lines.append(word)
    return lines
