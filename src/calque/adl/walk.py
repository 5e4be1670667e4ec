"""The walk over an expanded definition: widths, sides, sources and bounds, copy by copy."""

import functools
from collections.abc import Mapping
from dataclasses import fields

from calque.adl.answers import cost_of, effective, refused, width_of
from calque.adl.call_faults import CallReporter
from calque.adl.core import HOLE, Call, CallChain, CoreSource, chains_in, known_parts, numbers_in
from calque.adl.declaration import (
    DECODER,
    ENCODER,
    BodyArg,
    Fault,
    LayerArguments,
    LayerType,
    Library,
    PointInfo,
    Site,
    SourceArg,
    StateShape,
)
from calque.adl.faults import Exhausted
from calque.adl.points import CallSite, EncoderPoints
from calque.adl.signature import Body, Int, Parameter, Point, Real
from calque.adl.tree import CheckedChain, Node, unlike
from calque.ground.diagnostics import Diagnostic, Fix

Items = dict[str, Node | CheckedChain]


class Walk:
    """Checks both sides of a program. `max_nodes` is the largest number of layers, all copies counted; `stored`: see `check`."""

    def __init__(
        self, library: Library, faults: list[Diagnostic], max_nodes: int, similar: bool = True, stored: bool = False
    ):
        self.library, self.faults, self.stored = library, faults, stored
        self.report = CallReporter(faults, similar)
        self.points = EncoderPoints(self.report)
        self.nodes, self.max_nodes = 0, max_nodes
        self.reads_source = False

    def sides(
        self, encoder: CallChain | None, decoder: CallChain | None, width: int | None
    ) -> tuple[CheckedChain | None, CheckedChain | None]:
        """Both checked sides; None for one that has a fault."""
        one: CheckedChain | None = None
        two: CheckedChain | None = None
        try:
            if encoder is None:
                self.points.complete = False
            else:
                self.points.collect(encoder)
                one = self.chain(encoder, CallSite(ENCODER, ENCODER), width)
                if one is not None:
                    self.points.add("end", PointInfo(one.width_out))
            if decoder is not None:
                two = self.chain(decoder, CallSite(DECODER, DECODER), width)
        except Exhausted:
            pass
        return one, two

    # -- chains

    def chain(self, calls: CallChain, place: CallSite, width: int | None) -> CheckedChain | None:
        """The checked chain; None where it has a fault, which is recorded. Widths after a fault are unknown."""
        items: Items = {}
        labels: dict[str, str] = {}
        owners: dict[str, str] = {}
        whole, now = True, width
        for k, call in enumerate(calls):
            self.enter(call, now)
            key = self.points.key(call, place)
            made = (self.copies if call.name == "repeat" else self.single)(call, place, now, str(k), key)
            if not made:
                whole, now = False, None
                if key is not None:
                    self.points.add(key, None)
                continue
            name, last = next(reversed(made.items()))
            now = last.width_out
            items.update(made)
            if call.args.get("share") is True:
                first, *others = made
                owners.update(dict.fromkeys(others, first))
            if key is not None:
                labels[name] = key
                self.points.add(key, PointInfo(now, self.state(last)))
        if not whole or width is None or now is None:
            return None
        return CheckedChain(items, labels, width, now, place.path, place.side, owners)

    def enter(self, call: Call, width: int | None) -> None:
        """Sets the width that enters the chains beginning with a call; records a fault where copies of it receive others."""
        for entry in call.enters:
            if entry.width and width and entry.width != width:
                self.report.fail(call, "C135", call.span, first=entry.width, found=width)
            else:
                entry.width = width or 0

    def state(self, item: Node | CheckedChain) -> StateShape | None:
        """The state that a label on a layer makes available."""
        if not isinstance(item, Node):
            return None
        return self.library[item.name].final_state(item.args, Site(item.side, item.width_in, item.path, item.label))

    def single(self, call: Call, place: CallSite, width: int | None, name: str, key: str | None) -> Items | None:
        """A layer as the item `name`; None after a fault."""
        node = self.node(call, place.below(name), width, key)
        return None if node is None else {name: node}

    def copies(self, call: Call, place: CallSite, width: int | None, name: str, key: str | None) -> Items | None:
        """The copies of a repetition as items, `id` for none; None after a fault in the number or in a copy."""
        count = numbers_in(call.args["n"])[0]
        n = self.report.number(call, call.signature.parameters[0], count, place.indices)
        if n is None:
            return None
        if n == 0:
            self.unused(chains_in(call.args["body"])[0])
            identity = Call(self.library["id"].signature(), {}, None, call.span, {}, call.depth)
            return self.single(identity, place, width, name, None)
        (body,) = chains_in(call.args["body"])
        items: Items = {}
        first: CheckedChain | None = None
        for copy in range(1, int(n) + 1):
            at = f"{name}[{copy}]"
            shared = place.shared or (first is not None and call.args["share"] is True)
            inner = place.below(at)._replace(indices=(*place.indices, copy), shared=shared)
            chain = self.chain(body, inner, width)
            if chain is None or (first is not None and call.args["share"] and not self.alike(call, first, chain)):
                return None  # later copies would only repeat the fault
            first = first or chain
            items[at], width = chain, chain.width_out
        return items

    def unused(self, calls: CallChain) -> None:
        """Records the faults of numbers that a body without copies has whatever the copy: canonical text has their values."""
        for call in calls:
            for parameter in call.signature.parameters:
                bound = call.args[parameter.name]
                source = bound if isinstance(bound, CoreSource) else None
                numbers = numbers_in(source.index if source is not None else bound)
                for part in (part for number in numbers for part in known_parts(number)):
                    self.report.whole(call, part, (), call.at(parameter.name))
                for chain in (source.chain,) if source is not None else chains_in(bound):
                    self.unused(chain)

    def alike(self, call: Call, first: CheckedChain, copy: CheckedChain) -> bool:
        """Whether a copy can have the weights of the first; records a fault otherwise."""
        pair = unlike(first, copy)
        if pair is None:
            return True
        texts = [f"`{node.text}` behind {node.width_in}" if node else "no further layer" for node in pair]
        place = next(node.call for node in pair if node is not None)
        share = call.at("share")
        fix = Fix(share, "no") if share.text.body[share.start : share.end] == "yes" else None
        fields: dict[str, object] = {"first": texts[0], "found": texts[1]}
        self.report.record(place, Diagnostic("C217", place.span, fields, fix, ((share, "shared here"),)))
        return False

    # -- layers

    def node(self, call: Call, place: CallSite, width: int | None, key: str | None) -> Node | None:
        """The checked layer; None after a fault. All arguments are checked, so that all faults are reported together."""
        if call.signature is HOLE:
            return None
        self.count(call)
        layer = self.library[call.name]
        values: dict[str, object] = {}
        parts: dict[str, CheckedChain] = {}
        good = self.on_side(call, layer, place)
        good = self.plain(call, place, values) and good
        good = self.sources(call, layer, place, values, parts) and good
        site = Site(place.side, width or 0, place.path, key)
        good = self.bodies(call, layer, place, site if good and width is not None else None, values, parts) and good
        if not good or width is None:
            return None
        args = _args(layer, values)
        try:
            if not self.stored:
                effective(layer, args)
            out = width_of(layer, args, site)
        except Fault as fault:
            code, fields = refused(call.name, fault)
            self.report.fail(call, code, call.at(fault.at), **fields)
            return None
        cost = cost_of(layer, args, site)
        where = place.side, call, place.indices, place.shared
        return Node(call.name, place.path, args, width, out, cost, parts, key, *where)

    def count(self, call: Call) -> None:
        """Counts a layer. Raises `Exhausted` above the limit."""
        self.nodes += 1
        if self.nodes > self.max_nodes:
            self.report.fail(call, "C401", call.span, what="layers with all copies", limit=self.max_nodes, found="more")
            raise Exhausted()

    def on_side(self, call: Call, layer: LayerType, place: CallSite) -> bool:
        """Whether the layer is allowed on this side; records a fault otherwise."""
        if place.side in layer.sides:
            return True
        code = "C301" if place.side == DECODER else "C302"
        self.report.fail(call, code, call.span, layer=call.name, side=place.side)
        return False

    def plain(self, call: Call, place: CallSite, values: dict[str, object]) -> bool:
        """Sets the arguments that are neither chains nor sources; whether all numbers are correct."""
        good = True
        for parameter in call.signature.parameters:
            bound = call.args[parameter.name]
            if isinstance(parameter.kind, Int | Real) and bound is not None:
                numbers = tuple(
                    self.report.number(call, parameter, number, place.indices, k)
                    for k, number in enumerate(numbers_in(bound))
                )
                good = good and None not in numbers
                values[parameter.name] = numbers if parameter.kind.many else numbers[0]
            elif not isinstance(parameter.kind, Body | Point):
                values[parameter.name] = bound
        return good

    def bodies(
        self,
        call: Call,
        layer: LayerType,
        place: CallSite,
        site: Site | None,
        values: dict[str, object],
        parts: dict[str, CheckedChain],
    ) -> bool:
        """Sets the bodies; whether all are correct. `site` is None where their input width is unknown."""
        parameters = [p for p in call.signature.parameters if isinstance(p.kind, Body)]
        values.update({p.name: () if p.kind.many else BodyArg(0) for p in parameters})  # not known yet
        width = layer.body_width(_args(layer, values), site) if parameters and site else None
        good = True
        for parameter in parameters:
            bodies: list[BodyArg] = []
            chains, names = _bodies(parameter, call, values)
            for at, calls in zip(names, chains, strict=True):
                chain = self.chain(calls, place.below(at), width)
                if chain is not None:
                    parts[at] = chain
                    bodies.append(BodyArg(chain.width_out))
            if len(bodies) < len(chains):
                good = False
            else:
                values[parameter.name] = tuple(bodies) if parameter.kind.many else bodies[0]
        return good

    # -- sources

    def sources(
        self, call: Call, layer: LayerType, place: CallSite, values: dict[str, object], parts: dict[str, CheckedChain]
    ) -> bool:
        """Sets the sources; whether all are correct."""
        good = True
        for parameter in call.signature.parameters:
            if isinstance(parameter.kind, Point):
                source = call.args[parameter.name]
                values[parameter.name] = None
                if isinstance(source, CoreSource):
                    bound = self.source(call, layer, parameter, parameter.kind.chain, source, place, parts)
                    values[parameter.name] = bound
                    good = good and bound is not None
        return good

    def source(
        self,
        call: Call,
        layer: LayerType,
        parameter: Parameter,
        has_chain: bool,
        source: CoreSource,
        place: CallSite,
        parts: dict[str, CheckedChain],
    ) -> SourceArg | None:
        """The bound source; None after a fault. The chain after the point is checked as part of the encoder."""
        name = parameter.name
        self.reads_source = self.reads_source or has_chain or place.side == DECODER
        if place.side == ENCODER:
            # A layer that the encoder must not have at all is reported already.
            if name in call.spans and place.side in layer.sides:
                self.report.fail(call, "C304", call.at(name), name=name)
            return None
        span = call.at(name) if source.span.text.name == "" else source.span
        key, point = self.points.find(call, source, place.indices, span)
        width = None if point is None else point.width
        if has_chain:
            inner = place.below(name)._replace(side=ENCODER, in_source=True)
            chain = self.chain(source.chain, inner, width)
            if chain is not None:
                parts[name] = chain
            width = chain.width_out if chain else None
        return None if point is None or width is None else SourceArg(key, point, width)


def _bodies(
    parameter: Parameter, call: Call, values: Mapping[str, object]
) -> tuple[tuple[CallChain, ...], tuple[str, ...]]:
    """The chains of an argument, and the names of the parts that they become."""
    chains = chains_in(call.args[parameter.name])
    if parameter.kind.many:
        return chains, tuple(map(str, range(len(chains))))
    copies = values.get(parameter.kind.copies) if isinstance(parameter.kind, Body) and parameter.kind.copies else None
    if not isinstance(copies, int):
        return chains, (parameter.name,) * len(chains)
    return chains * copies, tuple(f"{parameter.name}[{k}]" for k in range(1, copies + 1))


def _args(layer: LayerType, values: Mapping[str, object]) -> LayerArguments:
    """An instance of a layer's `Args`; fields whose names are Python's end in an underscore."""
    return layer.Args(**{field: values[name] for field, name in _names(layer.Args)})


@functools.cache
def _names(args: type) -> tuple[tuple[str, str], ...]:
    return tuple((f.name, f.name.rstrip("_")) for f in fields(args))
