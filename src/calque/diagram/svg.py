"""A picture as SVG: small, printable, and with the same bytes for the same definition."""

from html import escape

from calque.diagram.shapes import Box, Drawing, Frame, Route, TextLine

FONT = "'DejaVu Sans Mono', Menlo, Consolas, 'Liberation Mono', monospace"
"""Fonts whose characters are as wide as `shapes.CHARACTER` says, or narrower."""
FILL = {
    "reads": ("#fde5cc", "#9a4a08"),
    "mixes": ("#d9e6f7", "#2f5f9e"),
    "learns": ("#e4f1df", "#4b7f3b"),
    "plain": ("#f3f3f3", "#8a8a8a"),
    "join": ("#ffffff", "#333333"),
    "source": ("#fff6ec", "#9a4a08"),
}
FRAME = {
    "side": ("#fafafa", "#cccccc", ""),
    "repeat": ("none", "#777777", ""),
    "feed": ("none", "#7a3f8f", ""),
    "reverse": ("none", "#777777", ' stroke-dasharray="4 3"'),
}
STROKE = {"flow": "#333333", "arc": "#333333", "source": "#9a4a08"}
CORNER, HEADED = 5, 5


def svg(on: Drawing, name: str, title: str, description: str) -> str:
    """The document. `name` makes its identifiers unique on a page with several pictures."""
    w, h = _n(on.width), _n(on.height)
    lines = [
        f'<svg xmlns="http://www.w3.org/2000/svg" width="{w}" height="{h}" viewBox="0 0 {w} {h}" role="img" '
        f'aria-labelledby="t{name} d{name}" font-family="{FONT}">',
        f'<title id="t{name}">{_text(title)}</title>',
        f'<desc id="d{name}">{_text(description)}</desc>',
        f'<rect width="{w}" height="{h}" fill="#ffffff"/>',
        *(_frame(frame) for frame in on.frames),
        *(_line(line) for line in on.lines),
        *(f'<circle cx="{_n(d.x)}" cy="{_n(d.y)}" r="3" fill="#9a4a08"/>' for d in on.dots),
        *(_box(box) for box in on.boxes),
        *(_words(words) for words in on.words),
        "</svg>",
    ]
    return "\n".join(lines) + "\n"


def _n(number: float) -> str:
    return f"{number:.1f}".removesuffix(".0")


def _text(text: str) -> str:
    return escape(text, quote=False)


def _words(words: TextLine) -> str:
    anchor = "" if words.anchor == "start" else f' text-anchor="{words.anchor}"'
    bold = ' font-weight="bold"' if words.bold else ""
    at = f'x="{_n(words.x)}" y="{_n(words.y)}" font-size="{_n(words.size)}"'
    return f'<text {at} fill="{words.colour}"{anchor}{bold}>{_text(words.text)}</text>'


def _frame(frame: Frame) -> str:
    fill, stroke, dash = FRAME[frame.kind]
    r = frame.room
    place = f'x="{_n(r.x)}" y="{_n(r.y)}" width="{_n(r.w)}" height="{_n(r.h)}" rx="6"'
    return f'<rect {place} fill="{fill}" stroke="{stroke}"{dash}/>\n{_words(frame.title)}'


def _box(box: Box) -> str:
    fill, stroke = FILL[box.kind]
    r = box.room
    place = f'x="{_n(r.x)}" y="{_n(r.y)}" width="{_n(r.w)}" height="{_n(r.h)}" rx="{_n(box.round)}"'
    tip = f"<title>{_text(box.about)}</title>" if box.about else ""
    return f'<g>{tip}<rect {place} fill="{fill}" stroke="{stroke}"/>{"".join(_words(w) for w in box.words)}</g>'


def _line(line: Route) -> str:
    colour = STROKE[line.kind]
    way = _way(line.corners, HEADED if line.head else 0)
    drawn = f'<path d="{way}" fill="none" stroke="{colour}"/>'
    if not line.head:
        return drawn
    (x0, y0), (x, y) = line.corners[-2:]
    dx, dy = _sign(x - x0), _sign(y - y0)
    back = [(x - HEADED * dx + k * 3.2 * dy, y - HEADED * dy + k * 3.2 * dx) for k in (1, -1)]
    corners = " ".join(f"{_n(px)},{_n(py)}" for px, py in [(x, y), *back])
    return f'{drawn}<polygon points="{corners}" fill="{colour}"/>'


def _way(corners: tuple[tuple[float, float], ...], short: float) -> str:
    """A path with rounded corners that ends `short` before its end."""
    parts = [f"M{_n(corners[0][0])} {_n(corners[0][1])}"]
    for before, here, after in zip(corners, corners[1:], corners[2:], strict=False):
        r = min(CORNER, _length(before, here) / 2, _length(here, after) / 2)
        start, end = _towards(here, before, r), _towards(here, after, r)
        parts.append(f"L{_n(start[0])} {_n(start[1])}Q{_n(here[0])} {_n(here[1])} {_n(end[0])} {_n(end[1])}")
    last = _towards(corners[-1], corners[-2], short)
    return "".join([*parts, f"L{_n(last[0])} {_n(last[1])}"])


def _length(a: tuple[float, float], b: tuple[float, float]) -> float:
    return abs(a[0] - b[0]) + abs(a[1] - b[1])


def _towards(a: tuple[float, float], b: tuple[float, float], far: float) -> tuple[float, float]:
    return a[0] + far * _sign(b[0] - a[0]), a[1] + far * _sign(b[1] - a[1])


def _sign(number: float) -> int:
    return (number > 0) - (number < 0)
