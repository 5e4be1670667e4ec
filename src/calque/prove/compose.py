"""Random definitions from the layers of a registry: signatures give the arguments, and `infer` says whether they fit.

No layer is named here. Arguments are drawn until the layer's own `infer` accepts them; bodies and sources of the wrong width end in
`linear`.
"""

import random
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field, fields

from calque.adl.check import check
from calque.adl.declaration import LayerArguments, StateShape
from calque.adl.program import prelude
from calque.adl.signature import REQUIRED, Body, Flag, Int, Kind, Parameter, Point, Real, Setting, SourceDefault, Word
from calque.ground.diagnostics import CalqueError, Text
from calque.layers.contract import DECODER, ENCODER, BodyArg, Fault, Layer, PointInfo, Registry, Site, SourceArg
from calque.layers.registry import builtin

SETTINGS: dict[str, int | float] = {"d": 8, "heads": 2, "p": 0.2}
SIZES = (1, 2, 3, 4, 6, 8)
WIDTHS = (4, 6, 8)
DEPTH = 3
TRIES = 60
_Term = tuple[str, int, StateShape | None]
"""The text of a term, its width out, and the state that it ends in."""


@dataclass
class _Labelled:
    """A label in the text so far, with its points in the order of their indices; outside repetitions a single one without index."""

    name: str
    repeated: bool
    points: list[PointInfo] = field(default_factory=list)


@dataclass(frozen=True)
class _ChainPlace:
    """The position of a chain. `copies` are the counts of the repetitions around it; `labels`: labels are allowed."""

    side: str
    depth: int = 0
    copies: tuple[int, ...] = ()
    labels: bool = True


def random_program(seed: int, registry: Registry | None = None) -> str:
    """A correct definition, the same for the same seed and registry."""
    return _Composer(random.Random(seed), registry or builtin()).program()


class _Composer:
    def __init__(self, rng: random.Random, registry: Registry):
        self.rng, self.registry = rng, registry
        self.labels: list[_Labelled] = []
        self.end: PointInfo | None = None

    def program(self) -> str:
        width = int(SETTINGS["d"])
        encoder, out = self.chain(_ChainPlace(ENCODER), width, self.rng.randint(1, 4))
        self.end = PointInfo(out)
        decoder, _ = self.chain(_ChainPlace(DECODER), width, self.rng.randint(2, 5))
        sides = f"encoder = {encoder}\ndecoder = {decoder}\n"
        for names in (("d", "heads", "p"), ("d", "heads"), ("d", "p")):  # a setting that nothing reads is an error
            text = "".join(f"{name} = {SETTINGS[name]}\n" for name in names) + sides
            try:
                check(Text("drawn", text), self.registry)
            except CalqueError as fault:
                if {d.code for d in fault.diagnostics} != {"C127"}:
                    raise
            else:
                return text
        return f"d = {width}\n{sides}"

    # -- chains

    def chain(self, place: _ChainPlace, width: int, terms: int) -> tuple[str, int]:
        """Terms in a row, and their output width."""
        written = []
        for _ in range(terms):
            text, width, state = self.term(place, width)
            if place.side == ENCODER and place.labels and self.rng.random() < (0.5 if place.copies else 0.3):
                text += f" @ {self.label(place, PointInfo(width, state))}"
            written.append(text)
        return " -> ".join(written), width

    def fitted(self, place: _ChainPlace, width: int, out: int) -> str:
        """A chain with the output width `out`."""
        text, last = self.chain(place, width, self.rng.randint(1, 2))
        return text if last == out else f"{text} -> linear({out})"

    def label(self, place: _ChainPlace, point: PointInfo) -> str:
        """A new label. In a repetition it has an equal point in every copy."""
        count = 1
        for n in place.copies:
            count *= n
        self.labels.append(_Labelled(f"l{len(self.labels)}", bool(place.copies), [point] * count))
        return self.labels[-1].name

    def term(self, place: _ChainPlace, width: int) -> _Term:
        """A term."""
        kinds: list[Callable[[], _Term | None]] = [self.layer_of(place, width)] * 6
        if place.depth < DEPTH:
            kinds += [lambda: self.repeat(place, width)] * 2
        kinds.append(lambda: self.named(place, width))
        while True:
            labels = len(self.labels)
            made = self.rng.choice(kinds)()
            if made is not None:
                return made
            del self.labels[labels:]  # labels of the discarded term

    def repeat(self, place: _ChainPlace, width: int) -> _Term:
        n = self.rng.randint(1, 3)
        inner = _ChainPlace(place.side, place.depth + 1, (*place.copies, n), place.labels)
        share = ", share=yes" if self.rng.random() < 0.3 else ""
        return f"repeat({n}, {self.fitted(inner, width, width)}{share})", width, None

    def named(self, place: _ChainPlace, width: int) -> _Term | None:
        """A name of the prelude without arguments; the checker says whether it fits here, and its width."""
        names = [s.name for s in prelude() if all(p.default is not None for p in s.parameters or ())]
        name = self.rng.choice(names)
        before = f"linear({width}) -> {name}"
        sides = (
            (before, "id") if place.side == ENCODER else (f"linear({self.end.width if self.end else width})", before)
        )
        try:
            checked = check(Text("drawn", f"d = 8\nencoder = {sides[0]}\ndecoder = {sides[1]}\n"), self.registry)
        except CalqueError:
            return None
        return name, (checked.encoder if place.side == ENCODER else checked.decoder).width_out, None

    # -- layers

    def layer_of(self, place: _ChainPlace, width: int) -> Callable[[], _Term | None]:
        def draw() -> _Term | None:
            layers = [
                layer
                for layer in self.registry.values()
                if place.side in layer.sides and (place.depth < DEPTH or not _has_body(layer))
            ]
            reading = [layer for layer in layers if _reads(layer)]
            often = reading and place.side == DECODER and self.rng.random() < 0.25
            return self.layer(self.rng.choice(reading if often else layers), place, width)

        return draw

    def layer(self, layer: type[Layer], place: _ChainPlace, width: int) -> _Term | None:
        """A term of this layer; None where no drawn arguments fit."""
        site = Site(place.side, width)
        parameters = [p for p in layer.signature().parameters if not isinstance(p.kind, Body)]
        # Sources are drawn once; numbers and words are drawn until they fit them.
        sources = {p.name: self.source(p, p.kind, place) for p in parameters if isinstance(p.kind, Point)}
        sources.update(self.settled(layer, sources))
        for _ in range(TRIES):
            drawn = {p.name: sources.get(p.name) or self.argument(p, width) for p in parameters}
            if any(isinstance(v, _Nothing) for v in drawn.values()):
                return None
            drawn.update({p.name: _ArgumentDraw(p.default) for p in parameters if _without_effect(p, drawn)})
            made = self.with_bodies(layer, {name: v.value for name, v in drawn.items()}, site)
            if made is None:
                continue
            values, args, out = made
            written = self.bodies(layer, values, place, layer.body_width(args, site))
            written += [_written(p, drawn[p.name].text) for p in parameters if drawn[p.name].text is not None]
            text = f"{layer.name}({', '.join(written)})" if written else layer.name
            return text, out, layer.final_state(args, site)
        return None

    def with_bodies(
        self, layer: type[Layer], values: dict[str, object], site: Site
    ) -> tuple[dict[str, object], LayerArguments, int] | None:
        """The arguments, with widths of bodies that `infer` accepts, and the output width."""
        bodies = [p for p in layer.signature().parameters if isinstance(p.kind, Body)]
        numbers = [v for v in values.values() if type(v) is int]
        widths = [self.rng.choice(WIDTHS), site.width, *numbers]
        for out in widths if bodies else [0]:
            for p in bodies:
                some = [self.rng.choice(WIDTHS) if out == widths[0] else out for _ in range(self.rng.randint(2, 3))]
                values[p.name] = tuple(BodyArg(w) for w in some) if p.kind.many else BodyArg(out)
            args = layer.Args(**{f.name: values[f.name.rstrip("_")] for f in fields(layer.Args)})
            try:
                return values, args, layer.infer(args, site)
            except Fault:
                continue
        return None

    def bodies(self, layer: type[Layer], values: dict[str, object], place: _ChainPlace, width: int) -> list[str]:
        """The texts of the bodies, with the widths in `values`."""
        copied = any(isinstance(p.kind, Body) and p.kind.copies for p in layer.signature().parameters)
        inner = _ChainPlace(place.side, place.depth + 1, place.copies, place.labels and not copied)
        written = []
        for p in layer.signature().parameters:
            value = values[p.name]
            if isinstance(value, BodyArg):
                written.append(f"{p.name}={self.fitted(inner, width, value.width)}")
            elif isinstance(p.kind, Body) and isinstance(value, tuple):
                written += [self.fitted(inner, width, body.width) for body in value]
        return written

    # -- arguments

    def argument(self, p: Parameter, width: int) -> "_ArgumentDraw":
        """A value of a parameter and its text; None as text for the default. Lists have small numbers."""
        kind, rng = p.kind, self.rng
        if p.default is not REQUIRED and rng.random() < 0.4:
            return _ArgumentDraw(SETTINGS[p.default.name] if isinstance(p.default, Setting) else p.default)
        if kind.optional and rng.random() < 0.5:
            return _ArgumentDraw(None, "none")
        if kind.many:
            some = tuple(rng.randint(-2, 2) for _ in range(rng.randint(1, 3)))
            return _ArgumentDraw(some, ", ".join(map(str, some)))
        if isinstance(kind, Flag):
            flag = rng.random() < 0.5
            return _ArgumentDraw(flag, "yes" if flag else "no")
        values = _values(kind, width)
        if not values:
            return _Nothing(None)
        value = rng.choice(values)
        return _ArgumentDraw(value, str(value))

    def settled(self, layer: type[Layer], drawn: dict[str, "_ArgumentDraw"]) -> Iterator[tuple[str, "_ArgumentDraw"]]:
        """Leaves out one of two groups of arguments, of which exactly one is given."""
        either = layer.signature().either
        if either is not None and not any(drawn[name].value is None for group in either for name in group):
            for name in either[self.rng.randint(0, 1)]:
                yield name, _ArgumentDraw(None)

    def source(self, p: Parameter, kind: Point, place: _ChainPlace) -> "_ArgumentDraw":
        """A point of the encoder, sometimes with a chain after it."""
        if place.side == ENCODER or self.end is None:
            return _ArgumentDraw(None) if kind.optional else _Nothing(None)
        if not kind.chain:
            return self.cell(kind, place)
        if isinstance(p.default, SourceDefault) and self.rng.random() < 0.3:
            return _ArgumentDraw(SourceArg(p.default.label, self.end, self.end.width))
        point, key, text = self.point(place, self.end)
        out = point.width
        if self.rng.random() < 0.4:
            out = self.rng.choice((*WIDTHS, out))
            text += f" -> {self.fitted(_ChainPlace(ENCODER, DEPTH, (), False), point.width, out)}"
        return _ArgumentDraw(SourceArg(key, point, out), text)

    def cell(self, kind: Point, place: _ChainPlace) -> "_ArgumentDraw":
        """A point with a final state."""
        cells = [(label, k) for label, k in self.labelled() if label.points[k].state is not None]
        if not cells or (kind.optional and self.rng.random() < 0.4):
            return _ArgumentDraw(None) if kind.optional else _Nothing(None)
        label, k = self.rng.choice(cells)
        key, text = self.address(label, k, place)
        return _ArgumentDraw(SourceArg(key, label.points[k], label.points[k].width), text)

    def point(self, place: _ChainPlace, end: PointInfo) -> tuple[PointInfo, str, str]:
        """A point, its key and its text; in a repetition more often a label with a point for each copy."""
        points = self.labelled()
        counted = [(label, k) for label, k in points if label.repeated and self.fits(label, place)]
        points = counted if counted and self.rng.random() < 0.6 else points
        if points and self.rng.random() < 0.7:
            label, k = self.rng.choice(points)
            return label.points[k], *self.address(label, k, place)
        return end, "end", "@end"

    def labelled(self) -> list[tuple[_Labelled, int]]:
        """Every labelled point: its label and its number, from 0."""
        return [(label, k) for label in self.labels for k in range(len(label.points))]

    def fits(self, label: _Labelled, place: _ChainPlace) -> bool:
        """Whether a label has a point for every copy of the repetition around the place."""
        return bool(place.copies) and place.copies[-1] <= len(label.points)

    def address(self, label: _Labelled, k: int, place: _ChainPlace) -> tuple[str, str]:
        """A point's key and its text; in a repetition with enough points, sometimes by the copy's number."""
        if not label.repeated:
            return label.name, f"@{label.name}"
        if self.fits(label, place) and self.rng.random() < 0.7:
            return f"{label.name}[1]", f"@{label.name}[{self.rng.choice(('i', f'{place.copies[-1] + 1} - i'))}]"
        return f"{label.name}[{k + 1}]", f"@{label.name}[{k + 1}]"


@dataclass(frozen=True)
class _ArgumentDraw:
    """An argument: its value and its text; None as text for the default."""

    value: object
    text: str | None = None


class _Nothing(_ArgumentDraw):
    """No value could be drawn."""


def _without_effect(p: Parameter, drawn: dict[str, _ArgumentDraw]) -> bool:
    return p.only is not None and drawn[p.only[0]].value not in p.only[1]


def _values(kind: Kind, width: int) -> Sequence[int | float | str]:
    """The values that are drawn for a number or a word; none for other kinds."""
    if isinstance(kind, Int):
        return [n for n in (*SIZES, width) if kind.low <= n <= kind.high] or [kind.low]
    if isinstance(kind, Real):
        return [r for r in (0.1, 0.3) if kind.low < r < kind.high] or [kind.high]
    return kind.choices if isinstance(kind, Word) else ()


def _written(p: Parameter, text: str | None) -> str:
    """The text of an argument: by name, or by position where the parameter takes many values."""
    return f"{text}" if p.kind.many else f"{p.name}={text}"


def _has_body(layer: type[Layer]) -> bool:
    return any(isinstance(p.kind, Body) for p in layer.signature().parameters)


def _reads(layer: type[Layer]) -> bool:
    return any(isinstance(p.kind, Point) for p in layer.signature().parameters)
