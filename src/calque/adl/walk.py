"""The walk over an expanded definition: widths, sides, sources and bounds, copy by copy."""

import functools
import itertools
from collections.abc import Mapping
from dataclasses import fields, replace
from typing import Any, NamedTuple

from calque.adl.core import HOLE, Bound, Call, CallChain, CoreSource, Expression, evaluate
from calque.adl.faults import Exhausted, Reporter, used_at
from calque.adl.library import Library
from calque.adl.limits import MAX_FAULTS
from calque.adl.program import out_of_bounds
from calque.adl.signature import Body, Int, Parameter, Point, Real
from calque.adl.tree import CheckedChain, Node
from calque.ground.diagnostics import Diagnostic, Fix, Span


class _Location(NamedTuple):
    """Where the walk is: the side, the copies of the repetitions around, and whether a source's chain is being read."""

    side: str
    indices: tuple[int, ...]
    in_source: bool = False


class Walk:
    """Checks both sides of a program; `max_nodes` is how many layers, all copies counted, it has at most."""

    def __init__(self, library: Library, faults: list[Diagnostic], max_nodes: int):
        self.library, self.faults = library, faults
        self.reporter = Reporter(faults)
        self.nodes, self.max_nodes = 0, max_nodes
        self.reads_source = False
        self.end: int | None = None
        self.all_labels = True
        self.written: dict[str, tuple[Call, bool]] = {}
        self.points: dict[str, Any] = {}
        self.counts: dict[str, int] = {}

    def sides(
        self, encoder: CallChain | None, decoder: CallChain | None, width: int | None
    ) -> tuple[CheckedChain | None, CheckedChain | None]:
        """Both sides, as far as they have no fault."""
        made: list[CheckedChain | None] = [None, None]
        try:
            if encoder is None:
                self.all_labels = False
            else:
                self.collect(encoder, repeated=False)
                made[0] = self.chain(encoder, "encoder", width, "encoder", ())
                self.end = made[0].width_out if made[0] else None
            if decoder is not None:
                made[1] = self.chain(decoder, "decoder", width, "decoder", ())
        except Exhausted:
            pass
        return made[0], made[1]

    def fail(
        self, call: Call, code: str, span: Span, related: tuple[tuple[Span, str], ...] = (), /, **fields: object
    ) -> None:
        self.record(call, Diagnostic(code, span, fields, None, related))

    def record(self, call: Call, fault: Diagnostic) -> None:
        """Keeps a fault of a call, with a note of the definition it stands in."""
        note = used_at(fault.where, call.outer) if isinstance(fault.where, Span) else ()
        self.faults.append(replace(fault, related=(*fault.related, *note)))
        if len(self.faults) > MAX_FAULTS:
            raise Exhausted()

    # -- labels

    def collect(self, chain: CallChain, repeated: bool) -> None:
        """Every label of the encoder's text, and whether it stands in a repetition."""
        for call in chain:
            # What stands in a faulty term is not known, its labels neither.
            self.all_labels = self.all_labels and call.signature is not HOLE
            if call.label is not None:
                first = self.written.get(call.label)
                if first is not None and first[0] is not call:
                    self.fail(call, "C128", call.span, ((first[0].span, "the other stands"),), label=call.label)
                else:
                    self.written[call.label] = (call, repeated)
            for bound in call.args.values():
                for part in _chains(bound):
                    self.collect(part, repeated or call.name == "repeat")

    # -- the walk

    def chain(
        self,
        calls: CallChain,
        side: str,
        width: int | None,
        path: str,
        indices: tuple[int, ...],
        in_source: bool = False,
    ) -> CheckedChain | None:
        """The checked chain; None where something in it has a fault, which is recorded."""
        place = _Location(side, indices, in_source)
        items: dict[str, Node | CheckedChain] = {}
        labels: dict[str, str] = {}
        now, whole = width, True
        for k, call in enumerate(calls):
            key = self.key(call, place)
            if call.name == "repeat":
                now, good = self.repeat(call, place, now, path, str(k), items)
                whole = whole and good
                name = next(reversed(items), None) if items else None
            else:
                node = self.node(call, place, now, f"{path}.{k}", key)
                now = node.width_out if node else None
                whole = whole and node is not None
                if node is not None:
                    items[str(k)] = node
                name = str(k)
            if key is not None and name is not None:
                labels[name] = key
                state = None
                node_of = items.get(name)
                if isinstance(node_of, Node):
                    layer = self.library.layers[node_of.name]
                    state = layer.final_state(node_of.args, self.library.site(side, node_of.width_in, path, key))
                self.points[key] = None if now is None else self.library.point(now, state)
        if not whole or width is None or now is None:
            return None
        return CheckedChain(items, labels, width, now, path, side)

    def key(self, call: Call, place: _Location) -> str | None:
        """The key under which a labelled term's output can be read, once per copy."""
        if call.label is None:
            return None
        if place.side == "decoder" or place.in_source:
            self.fail(call, "C303", call.span, label=call.label)
            return None
        if not self.written.get(call.label, (None, False))[1]:
            return call.label
        self.counts[call.label] = self.counts.get(call.label, 0) + 1
        return f"{call.label}[{self.counts[call.label]}]"

    def repeat(
        self,
        call: Call,
        place: _Location,
        width: int | None,
        path: str,
        name: str,
        items: dict[str, Node | CheckedChain],
    ) -> tuple[int | None, bool]:
        n = self.value(call, call.signature.parameters[0], call.args["n"], place.indices)
        if n is None:
            return None, False
        body: Any = call.args["body"]
        if n == 0:
            identity = Call(self.library.layers["id"].signature(), {}, None, call.span, {}, call.depth)
            node = self.node(identity, place, width, f"{path}.{name}", None)
            if node is not None:
                items[name] = node
            return width, node is not None
        for copy in range(1, int(n) + 1):
            at = f"{name}[{copy}]"
            chain = self.chain(body, place.side, width, f"{path}.{at}", (*place.indices, copy), place.in_source)
            if chain is None:
                # The copies after this one would only repeat its fault, unless widths were unknown already.
                return None, False
            items[at] = chain
            width = chain.width_out
        return width, True

    def evaluate(self, call: Call, expression: Expression, indices: tuple[int, ...], span: Span) -> int | None:
        try:
            return evaluate(expression, indices)
        except ArithmeticError as e:
            left, _, right = str(e).partition(" / ")
            self.fail(call, "C117", span, left=left, right=right)
            return None

    def value(
        self, call: Call, parameter: Parameter, bound: Any, indices: tuple[int, ...], k: int = 0
    ) -> int | float | None:
        """The number an argument, the k-th of several, is in this copy; None where it cannot be told or is out of bounds."""
        span = call.at(f"{parameter.name}.{k}" if parameter.kind.many else parameter.name)
        number: int | float | None = bound if isinstance(bound, float) else self.evaluate(call, bound, indices, span)
        if number is None:
            return None
        fault = out_of_bounds(parameter.name, parameter.kind, number, span)
        if fault is not None:
            self.record(call, fault)
            return None
        return float(number) if isinstance(parameter.kind, Real) else number

    def node(self, call: Call, place: _Location, width: int | None, path: str, key: str | None) -> Node | None:
        if call.signature is HOLE:
            return None
        self.nodes += 1
        if self.nodes > self.max_nodes:
            self.fail(call, "C401", call.span, what="layers with all copies", limit=self.max_nodes, found="more")
            raise Exhausted()
        layer = self.library.layers[call.name]
        good = True
        if place.side not in layer.sides:
            self.fail(call, "C301" if place.side == "decoder" else "C302", call.span, layer=call.name, side=place.side)
            good = False
        values: dict[str, Any] = {}
        for parameter in call.signature.parameters:
            bound = call.args[parameter.name]
            if isinstance(parameter.kind, Int | Real) and bound is not None:
                several: Any = bound if parameter.kind.many else (bound,)
                numbers = tuple(self.value(call, parameter, one, place.indices, k) for k, one in enumerate(several))
                good = good and None not in numbers
                values[parameter.name] = numbers if parameter.kind.many else numbers[0]
            elif not isinstance(parameter.kind, Body | Point):
                values[parameter.name] = bound
        parts: dict[str, CheckedChain] = {}
        good = self.sources(call, place, path, values, parts) and good
        return self.infer(call, place, width, path, key, values, parts, layer, good)

    def infer(
        self,
        call: Call,
        place: _Location,
        width: int | None,
        path: str,
        key: str | None,
        values: dict[str, Any],
        parts: dict[str, CheckedChain],
        layer: Any,
        good: bool,
    ) -> Node | None:
        known = good and width is not None
        site = self.library.site(place.side, width or 0, path, key)
        bodies = [p for p in call.signature.parameters if isinstance(p.kind, Body)]
        if bodies:
            for p in bodies:
                values[p.name] = () if p.kind.many else self.library.body(0)  # not known yet
            inner = layer.body_width(_args(layer, values), site) if known else None
            for p in bodies:
                made = self.bodies(call.args[p.name], p.name, p.kind.many, place, inner, path, parts)
                good = good and made is not None
                values[p.name] = made
        if not good or width is None:
            return None
        args = _args(layer, values)
        try:
            out = layer.infer(args, site)
        except self.library.fault as fault:
            at: Any = fault
            self.fail(call, at.code, call.at(at.at), **at.fields)
            return None
        if not isinstance(out, int) or out < 1:
            raise TypeError(f"`infer` of the layer `{call.name}` gave {out!r}, which is no width")
        cost = layer.account(args, site)
        return Node(call.name, path, args, width, out, cost, parts, key, place.side, call, place.indices)

    def bodies(
        self,
        bound: Bound,
        name: str,
        many: bool,
        place: _Location,
        width: int | None,
        path: str,
        parts: dict[str, CheckedChain],
    ) -> Any:
        found = []
        chains = _chains(bound)
        for k, calls in enumerate(chains):
            at = str(k) if many else name
            chain = self.chain(calls, place.side, width, f"{path}.{at}", place.indices, place.in_source)
            if chain is not None:
                parts[at] = chain
                found.append(self.library.body(chain.width_out))
        if len(found) < len(chains):
            return None
        return tuple(found) if many else found[0]

    # -- sources

    def sources(
        self, call: Call, place: _Location, path: str, values: dict[str, Any], parts: dict[str, CheckedChain]
    ) -> bool:
        """Binds every source argument; whether all of them are good."""
        good = True
        for parameter in call.signature.parameters:
            if not isinstance(parameter.kind, Point):
                continue
            source: Any = call.args[parameter.name]
            values[parameter.name] = None
            if source is None:
                continue
            self.reads_source = self.reads_source or parameter.kind.chain or place.side == "decoder"
            if place.side == "encoder":
                good = False
                # A layer that has no place here at all is told already.
                if parameter.name in call.spans and place.side in self.library.layers[call.name].sides:
                    self.fail(call, "C304", call.at(parameter.name), name=parameter.name)
                continue
            key, point = self.point(
                call, source, place, call.at(parameter.name) if source.span.text.name == "" else source.span
            )
            width = None if point is None else point.width
            if parameter.kind.chain:
                chain = self.chain(
                    source.chain, "encoder", width, f"{path}.{parameter.name}", place.indices, in_source=True
                )
                if chain is not None:
                    parts[parameter.name] = chain
                width = chain.width_out if chain else None
            if width is None:
                good = False
            else:
                values[parameter.name] = self.library.source(key, point, width)
        return good

    def point(self, call: Call, source: CoreSource, place: _Location, span: Span) -> tuple[str, Any]:
        """The key of a source and what is known of it; None where its width is not known."""
        label = source.label
        if label == "end":
            if source.index is not None:
                self.fail(call, "C131", span, label=label)
                return label, None
            return label, None if self.end is None else self.library.point(self.end, None)
        entry = self.written.get(label)
        if entry is None:
            if self.all_labels:
                self.unlabelled(call, label, span)
            return label, None
        if not entry[1]:
            if source.index is not None:
                self.fail(call, "C131", span, label=label)
                return label, None
            return label, self.points.get(label)
        if source.index is None:
            self.fail(call, "C130", span, label=label)
            return label, None
        index = self.evaluate(call, source.index, place.indices, span)
        if index is None:
            return label, None
        key = f"{label}[{index}]"
        if key not in self.points and self.end is not None:
            self.fail(call, "C132", span, label=label, index=index, count=self.counts.get(label, 0))
        return key, self.points.get(key)

    def unlabelled(self, call: Call, label: str, span: Span) -> None:
        near = self.reporter.near(label, itertools.chain(("end",), self.written))
        at = span.text.body.find(label, span.start, span.end)
        fix = Fix(Span(span.text, at, at + len(label)), near) if near and at >= 0 else None
        self.record(call, Diagnostic("C129", span, {"label": label, "near": near}, fix))


def _chains(bound: Any) -> list[CallChain]:
    """The chains of layers that an argument holds, sources left out."""
    if not isinstance(bound, tuple) or not bound or isinstance(bound[0], Expression):
        return []
    return [bound] if isinstance(bound[0], Call) else list(bound)


def _args(layer: Any, values: Mapping[str, Any]) -> Any:
    """An instance of a layer's `Args`; fields whose names are Python's end in an underscore."""
    return layer.Args(**{field: values[name] for field, name in _names(layer.Args)})


@functools.cache
def _names(args: type) -> tuple[tuple[str, str], ...]:
    return tuple((f.name, f.name.rstrip("_")) for f in fields(args))
