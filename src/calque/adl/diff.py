"""The edits that turn one definition into another, at paths; equal edits are put together, each with its parameters.

Chains of the normal forms are aligned with the least cost: 2 for each layer that is inserted or deleted, also around others; 3 for
replacing a layer without chains; 1 for each changed argument, 3 at most. Long chains are aligned in a band around the diagonal,
which is widened until the cost no longer falls.
"""

from collections.abc import Callable, Hashable, Iterator
from dataclasses import dataclass, replace

from calque.adl.check import CheckedDefinition
from calque.adl.normal import Item, Items, Normal, NormalSource, Numbering, PointPath, brief, normal, source_text, word

_FAR = 10**9
Run = tuple[int, int]
Step = tuple[Run, Run]
"""Layers `[from, to)` of one chain aligned with those of the other: one and one, one and none, or one around several."""


@dataclass(frozen=True)
class Edit:
    """An edit and all its places.

    `kind` is `insert`, `delete`, `wrap` (a layer around others), `unwrap`, `replace`, `change` (of arguments or sources) or `width`
    (other parameters because the input widths differ). `places` are paths, in the second definition for `insert` and `wrap`, else
    in the first. `layers` and `parameters` are the differences in number, summed over all places.
    """

    kind: str
    what: str
    to: str
    places: tuple[str, ...]
    layers: int
    parameters: int

    def __str__(self) -> str:
        text = {
            "insert": f"insert `{self.what}`",
            "delete": f"delete `{self.what}`",
            "wrap": f"put `{self.what}` around",
            "unwrap": f"take `{self.what}` away",
            "replace": f"replace `{self.what}` by `{self.to}`",
            "change": f"change `{self.what}`: {self.to}",
            "width": f"`{self.what}` receives other widths: {self.to}",
        }[self.kind]
        where = self.places[0] if len(self.places) == 1 else f"{len(self.places)} places"
        return f"{text} at {where}"


def diff(a: CheckedDefinition, b: CheckedDefinition) -> tuple[Edit, ...]:
    """The edits from `a` to `b`; none where both are equal."""
    return _Diff(normal(a), normal(b)).edits()


class _Diff:
    def __init__(self, a: Normal, b: Normal):
        self.a, self.b = a, b
        self.numbers = Numbering()
        self.moved: dict[PointPath, PointPath] = {}
        self.made: list[Edit] = []
        self.costs: dict[tuple[int, int], int] = {}
        self.steps: dict[tuple[int, int], list[Step]] = {}

    def edits(self) -> tuple[Edit, ...]:
        if self.a.width != self.b.width:
            self.made.append(Edit("change", "d", f"{self.a.width} -> {self.b.width}", ("d",), 0, 0))
        self.chain(self.a.encoder, self.b.encoder)
        self.chain(self.a.decoder, self.b.decoder)
        together: dict[tuple[str, str, str], Edit] = {}
        for edit in self.made:
            key = (edit.kind, edit.what, edit.to)
            before = together.get(key, replace(edit, places=(), layers=0, parameters=0))
            together[key] = replace(
                edit,
                places=(*before.places, *edit.places),
                layers=before.layers + edit.layers,
                parameters=before.parameters + edit.parameters,
            )
        return tuple(together.values())

    # -- numbers of equal things: points of the first definition are named as the second's that they are aligned with

    def left(self, thing: Item | Items) -> int:
        return self._number(thing, self._aligned)

    def right(self, thing: Item | Items) -> int:
        return self._number(thing, lambda source: source.place)

    def _number(self, thing: Item | Items, at: Callable[[NormalSource], Hashable]) -> int:
        return self.numbers.chain(thing, at) if isinstance(thing, Items) else self.numbers.item(thing, at)

    def _aligned(self, source: NormalSource) -> Hashable:
        if source.text == "@end":  # `@end` stays the same point, whatever comes before it
            return (*self.b.encoder.place, len(self.b.encoder.items))
        return self.moved.get(source.place, ("gone", source.place))

    # -- edits of an alignment

    def chain(self, a: Items, b: Items) -> None:
        self.moved[(*a.place, a.first)] = (*b.place, b.first)
        for (i, to_i), (j, to_j) in self.align(a, b):
            xs, ys = a.items[i:to_i], b.items[j:to_j]
            if len(xs) == len(ys) == 1:
                self.pair(xs[0], ys[0])
            elif len(ys) == 1 and xs:
                self.wrap("wrap", ys[0], a, (i, to_i))
            elif len(xs) == 1 and ys:
                self.wrap("unwrap", xs[0], b, (j, to_j))
            for item in xs if not ys else ():
                self.go(item)
            for item in ys if not xs else ():
                self.come(item)
            if xs and ys:  # layers that are wrapped keep their outputs
                self.moved.setdefault((*a.place, a.first + to_i), (*b.place, b.first + to_j))

    def wrap(self, kind: str, around: Item, chain: Items, run: Run) -> None:
        """Adds the edit for a layer of one definition around a run of layers of the other."""
        held = _run(chain, *run)
        part = self.around(around, held, kind == "wrap")[1]
        inner = dict(around.parts)[part]
        sign = 1 if kind == "wrap" else -1
        more = around.total - sum(item.total for item in inner.items)
        layers = around.size - inner.size
        self.made.append(Edit(kind, brief(around, part), "", (around.path,), sign * layers, sign * more))
        one, two = (held, inner) if kind == "wrap" else (inner, held)
        self.chain(one, two)

    def come(self, item: Item) -> None:
        self.made.append(Edit("insert", brief(item), "", (item.path,), item.size, item.total))

    def go(self, item: Item) -> None:
        self.made.append(Edit("delete", brief(item), "", (item.path,), -item.size, -item.total))

    def pair(self, a: Item, b: Item) -> None:
        if self.left(a) == self.right(b):
            self.follow(a, b)
            return
        way = self.cheapest(a, b)[1]
        if way == "wrap":
            self.wrap("wrap", b, Items((a,), a.place[:-1], _index(a)), (0, 1))
            return
        if way == "unwrap":
            self.wrap("unwrap", a, Items((b,), b.place[:-1], _index(b)), (0, 1))
            return
        if a.name != b.name:
            layers, parameters = b.size - a.size, b.total - a.total
            self.made.append(Edit("replace", brief(a), brief(b), (a.path,), layers, parameters))
            return
        changes = [f"{name}: {word(v)} -> {word(w)}" for (name, v), (_, w) in self.changed(a, b)]
        changes += [f"{name}: {_rereading(s, t)}" for name, s, t in self.reread(a, b)]
        own = b.own - a.own
        if changes:
            self.made.append(Edit("change", a.name, ", ".join(changes), (a.path,), 0, own))
        elif own:
            received = " -> ".join(", ".join(map(str, widths)) for widths in (a.widths, b.widths))
            self.made.append(Edit("width", a.name, received, (a.path,), 0, own))
        for one, two in self.below(a, b):
            self.chains(one, two)

    def chains(self, a: Items | None, b: Items | None) -> None:
        """Adds the edits of a chain below a layer; None for a layer without that chain."""
        if a is not None and b is not None:
            self.chain(a, b)
            return
        for item in a.items if a else ():
            self.go(item)
        for item in b.items if b else ():
            self.come(item)

    def follow(self, a: Item, b: Item) -> None:
        """Records that the points inside two equal layers are the same."""
        for (_, one), (_, two) in zip(a.parts, b.parts, strict=True):
            self.moved[(*one.place, 0)] = (*two.place, 0)
            for k, (x, y) in enumerate(zip(one.items, two.items, strict=True), 1):
                self.moved[(*one.place, k)] = (*two.place, k)
                self.follow(x, y)

    def changed(self, a: Item, b: Item) -> Iterator[tuple[tuple[str, Hashable], tuple[str, Hashable]]]:
        return (pair for pair in zip(a.args, b.args, strict=True) if pair[0] != pair[1])

    def reread(self, a: Item, b: Item) -> Iterator[tuple[str, NormalSource | None, NormalSource | None]]:
        """Sources that read another point."""
        for (name, s), (_, t) in zip(a.sources, b.sources, strict=True):
            if (s is None) != (t is None) or (s and t and self._aligned(s) != t.place):
                yield name, s, t

    def below(self, a: Item, b: Item) -> Iterator[tuple[Items | None, Items | None]]:
        one, two = dict(a.parts), dict(b.parts)
        for name in {**one, **two}:
            yield one.get(name), two.get(name)
        for (_, s), (_, t) in zip(a.sources, b.sources, strict=True):
            if s is not None or t is not None:
                yield (s.chain if s else None), (t.chain if t else None)

    # -- costs

    def distance(self, a: Items | None, b: Items | None) -> int:
        if a is None or b is None:
            return 2 * sum(chain.size for chain in (a, b) if chain is not None)
        self.align(a, b)
        return self.costs[self.left(a), self.right(b)]

    def exchange(self, a: Item, b: Item) -> int:
        """The cost of replacing one layer by another."""
        x, y = self.left(a), self.right(b)
        if x == y:
            return 0
        if (x, y) not in self.costs:
            self.costs[x, y] = self.cheapest(a, b)[0]
        return self.costs[x, y]

    def cheapest(self, a: Item, b: Item) -> tuple[int, str]:
        """The cost of replacing one layer by another, and how: directly, or with one around the other."""
        if a.name == b.name:
            changes = sum(1 for _ in self.changed(a, b)) + sum(1 for _ in self.reread(a, b))
            return min(3, changes) + sum(self.distance(one, two) for one, two in self.below(a, b)), "change"
        ways = [(_FAR if a.parts or b.parts else 3, "replace")]
        if b.parts:
            ways.append((self.around(b, Items((a,), a.place[:-1], _index(a)), True)[0], "wrap"))
        if a.parts:
            ways.append((self.around(a, Items((b,), b.place[:-1], _index(b)), False)[0], "unwrap"))
        return min(ways)

    def around(self, item: Item, held: Items, comes: bool) -> tuple[int, str]:
        """The cost of wrapping a chain in a layer, or of unwrapping it, and the name of the part with the chain."""
        ways = []
        for name, part in item.parts:
            inside = self.distance(held, part) if comes else self.distance(part, held)
            ways.append((2 * (item.size - part.size) + inside, name))
        return min(ways)

    def align(self, a: Items, b: Items) -> list[Step]:
        """The alignment of two chains with the least cost."""
        key = self.left(a), self.right(b)
        if key not in self.steps:
            xs, ys = a.items, b.items
            start, most = 0, min(len(xs), len(ys))
            while start < most and self.left(xs[start]) == self.right(ys[start]):
                start += 1
            end = 0
            while end < most - start and self.left(xs[-1 - end]) == self.right(ys[-1 - end]):
                end += 1
            inner_x, inner_y = xs[start : len(xs) - end], ys[start : len(ys) - end]
            cost, steps = self.middle(inner_x, inner_y)
            shift = [((i + start, k + start), (j + start, m + start)) for (i, k), (j, m) in steps]
            x, y = len(xs) - end, len(ys) - end
            self.costs[key] = cost
            self.steps[key] = [*_pairs(0, 0, start), *shift, *_pairs(x, y, end)]
        return self.steps[key]

    def middle(self, xs: tuple[Item, ...], ys: tuple[Item, ...]) -> tuple[int, list[Step]]:
        width, cost, steps = 16, _FAR, list[Step]()
        while True:
            wider, way = self.band(xs, ys, width)
            if wider >= cost:
                break
            cost, steps = wider, way
            if width >= max(len(xs), len(ys)):
                break
            width *= 4
        for one, many, comes in ((ys, xs, True), (xs, ys, False)):
            if len(one) == 1 and len(many) > 1 and one[0].parts:
                held = Items(many, many[0].place[:-1], _index(many[0]))
                around = self.around(one[0], held, comes)[0]
                if around < cost:
                    cost, steps = around, [((0, len(xs)), (0, len(ys)))]
        return cost, steps

    def band(self, xs: tuple[Item, ...], ys: tuple[Item, ...], width: int) -> tuple[int, list[Step]]:
        """The cheapest alignment that is at most `width` away from the diagonal between both corners."""
        n, m = len(xs), len(ys)
        low, high = min(0, m - n) - width, max(0, m - n) + width
        above = [0]
        for y in ys:
            above.append(above[-1] + 2 * y.size)
        back: list[bytearray] = []
        for i, x in enumerate(xs, 1):
            row = [_FAR] * (m + 1)
            moves = bytearray(m + 1)
            first, gone = max(0, i + low), 2 * x.size
            if first == 0:
                row[0] = above[0] + gone
            for j in range(max(1, first), min(m, i + high) + 1):
                y = ys[j - 1]
                best, move = above[j - 1] + self.exchange(x, y), 0
                if above[j] + gone < best:
                    best, move = above[j] + gone, 1
                if row[j - 1] + 2 * y.size < best:
                    best, move = row[j - 1] + 2 * y.size, 2
                row[j], moves[j] = best, move
            back.append(moves)
            above = row
        steps: list[Step] = []
        i, j = n, m
        while i or j:
            move = 2 if i == 0 else 1 if j == 0 else back[i - 1][j]
            i, j = i - (move != 2), j - (move != 1)
            steps.append(((i, i + (move != 2)), (j, j + (move != 1))))
        return above[m], steps[::-1]


def _pairs(i: int, j: int, count: int) -> list[Step]:
    return [((i + k, i + k + 1), (j + k, j + k + 1)) for k in range(count)]


def _index(item: Item) -> int:
    at = item.place[-1]
    return at if isinstance(at, int) else 0


def _run(chain: Items, start: int, end: int) -> Items:
    return Items(chain.items[start:end], chain.place, chain.first + start)


def _rereading(a: NormalSource | None, b: NormalSource | None) -> str:
    one, two = ("none" if source is None else source_text(source) for source in (a, b))
    return f"{one} -> {two}" + (", another point" if one == two else "")
