"""The points of the encoder that a source can name: its labelled outputs, and `end`."""

import itertools
from typing import NamedTuple

from calque.adl.call_faults import CallReporter
from calque.adl.core import HOLE, Call, CallChain, CoreSource, chains_in
from calque.adl.declaration import DECODER, PointInfo
from calque.adl.signature import Body
from calque.ground.diagnostics import Diagnostic, Fix, Span


class CallSite(NamedTuple):
    """The position of a call: its side, its path, the numbers of the copies around it, and whether a source's chain holds it.

    `shared`: in a copy that has the weights of the first one.
    """

    side: str
    path: str
    indices: tuple[int, ...] = ()
    in_source: bool = False
    shared: bool = False

    def below(self, name: str) -> "CallSite":
        """The position of an item or a body."""
        return self._replace(path=f"{self.path}.{name}")


class EncoderPoints:
    """The labelled outputs of the encoder, and `end`.

    A label in a repetition names one point for each copy: `block[3]`. `complete` is False where a term is faulty or the encoder
    cannot be read, since labels may be missing then.
    """

    def __init__(self, report: CallReporter):
        self.report = report
        self.complete = True
        self._written: dict[str, tuple[Call, bool]] = {}
        self._known: dict[str, PointInfo | None] = {}
        self._copies: dict[str, int] = {}

    def collect(self, chain: CallChain, repeated: bool = False) -> None:
        """Collects every label of the encoder's text, and whether it is in a repetition."""
        for call in chain:
            self.complete = self.complete and call.signature is not HOLE
            if call.label is not None:
                first = self._written.get(call.label)
                if first is not None and first[0] is not call:
                    related = ((first[0].span, "the other stands"),)
                    self.report.fail(call, "C128", call.span, related, label=call.label)
                else:
                    self._written[call.label] = (call, repeated)
            copied = {p.name for p in call.signature.parameters if isinstance(p.kind, Body) and p.kind.copies}
            for name, bound in call.args.items():
                for part in chains_in(bound):
                    self.collect(part, repeated or call.name == "repeat" or name in copied)

    def key(self, call: Call, place: CallSite) -> str | None:
        """The key of a labelled output, different in each copy; None without a label."""
        if call.label is None:
            return None
        if place.side == DECODER or place.in_source:
            self.report.fail(call, "C303", call.span, label=call.label)
            return None
        if not self._written.get(call.label, (None, False))[1]:
            return call.label
        self._copies[call.label] = self._copies.get(call.label, 0) + 1
        return f"{call.label}[{self._copies[call.label]}]"

    def add(self, key: str, point: PointInfo | None) -> None:
        """Sets the width and state of a point; None where a fault hides them."""
        self._known[key] = point

    def find(
        self, call: Call, source: CoreSource, indices: tuple[int, ...], span: Span
    ) -> tuple[str, PointInfo | None]:
        """The key of the point that a source names, and the point; None after a fault."""
        label = source.label
        if label != "end" and label not in self._written:
            if self.complete:
                self._unlabelled(call, label, span)
            return label, None
        if label == "end" or not self._written[label][1]:
            if source.index is None:
                return label, self._known.get(label)
            self.report.fail(call, "C131", span, label=label)
            return label, None
        if source.index is None:
            self.report.fail(call, "C130", span, label=label)
            return label, None
        index = self.report.whole(call, source.index, indices, span)
        if index is None:
            return label, None
        key = f"{label}[{index}]"
        if key not in self._known and "end" in self._known:
            self.report.fail(call, "C132", span, label=label, index=index, count=self._copies.get(label, 0))
        return key, self._known.get(key)

    def _unlabelled(self, call: Call, label: str, span: Span) -> None:
        near = self.report.names.near(label, itertools.chain(("end",), self._written))
        at = span.text.body.find(label, span.start, span.end)
        fix = Fix(Span(span.text, at, at + len(label)), near) if near and at >= 0 else None
        self.report.record(call, Diagnostic("C129", span, {"label": label, "near": near}, fix))
