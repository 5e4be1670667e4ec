"""Expansion: settings and definitions disappear, every argument is bound to the signature of its primitive.

Definitions are hygienic. A fault inside a prelude body is shown where the user called it.
"""

from collections.abc import Mapping
from contextlib import contextmanager
from typing import Any

from calque.adl.core import HOLE, Bound, Call, CallChain, Expression, Index, Source, Sum, apply
from calque.adl.scope import Closure, Definition, Scope, SettingValue
from calque.adl.signature import (
    REQUIRED,
    SETTINGS,
    Body,
    Flag,
    IndexName,
    Int,
    Kind,
    Parameter,
    Point,
    Real,
    Setting,
    Signature,
    SourceDefault,
    Word,
)
from calque.adl.syntax import Argument, Chain, Label, Number, Operation, Term, Value
from calque.adl.syntax import Source as SourceText
from calque.diagnostics import Diagnostic, Fix, Span, Text, nearest

_NOWHERE = Text("", "")
MAX_CALLS = 10_000
MAX_NUMBERS = 50_000
MAX_EXPANSION = 40
MAX_NUMBER = 10**15


class Abandoned(Exception):
    """The value at hand has a fault, which is recorded."""


class Expander:
    """Expands values in scopes. `faults` collects; `settings` are the values of `d`, `heads` and `p`."""

    def __init__(self, signatures: Mapping[str, Signature], faults: list[Diagnostic]):
        self.signatures, self.faults = signatures, faults
        self.settings: dict[str, int | float] = {name: default for name, (default, _, _) in SETTINGS.items()}
        self.read: set[str] = set()
        self.calls = self.numbers = self.repeats = self.nesting = 0
        self.origin: Span | None = None

    # -- faults

    def place(self, span: Span) -> Span:
        """Where to point: the user's call while a prelude body is being expanded."""
        return self.origin if self.origin is not None and span.text.name == "prelude" else span

    def fail(self, code: str, span: Span, fix: Fix | None = None, **fields: object) -> Abandoned:
        self.faults.append(Diagnostic(code, self.place(span), fields, fix))
        return Abandoned()

    def unknown(self, code: str, name: str, span: Span, known: Any, **fields: object) -> Abandoned:
        near = nearest(name, known)
        fix = Fix(span, near) if near and span.text.name != "prelude" else None
        return self.fail(code, span, fix, name=name, near=near, **fields)

    # -- chains

    def chain(self, value: Value, scope: Scope) -> CallChain:
        """A value that has to be a chain of layers."""
        if isinstance(value, Chain):
            return tuple(call for part in value.parts for call in self.attempt(part, scope))
        if isinstance(value, Term):
            return self.labelled(self.term(value, scope), value.labels)
        raise self.fail("C110", value.span, expected="a layer", found=_describe(value))

    def attempt(self, value: Value, scope: Scope) -> CallChain:
        """A chain, or a hole where it has a fault, so that what stands around it is still looked at."""
        try:
            return self.chain(value, scope)
        except Abandoned:
            return (Call(HOLE, {}, None, self.place(value.span), {}, self.repeats),)

    def labelled(self, chain: CallChain, labels: tuple[Label, ...]) -> CallChain:
        for label in labels:
            last = chain[-1]
            if label.name == "end":
                raise self.fail("C116", label.span)
            if last.label is None:
                named = Call(last.signature, last.args, label.name, self.place(last.span), last.spans, last.depth)
                chain = (*chain[:-1], named)
            else:  # a second label reads the same output
                identity = Call(self.signatures["id"], {}, label.name, self.place(label.span), {}, self.repeats)
                chain = (*chain, identity)
        return chain

    def term(self, term: Term, scope: Scope) -> CallChain:
        bound = scope.find(term.name)
        if isinstance(bound, Closure):
            if term.arguments is not None:
                raise self.fail("C112", term.span, name=term.name)
            with self.nested(term.span):
                return self.chain(bound.value, bound.scope)
        if isinstance(bound, Definition):
            return self.definition(term, bound, scope)
        if isinstance(bound, SettingValue | Index) or (bound is None and term.name in SETTINGS):
            raise self.fail("C110", term.span, expected="a layer", found=f"the number `{term.name}`")
        signature = self.signatures.get(term.name)
        if signature is None:
            layers = [n for n in scope.names() if isinstance(scope.find(n), Definition | Closure)]
            known = [*layers, *self.signatures]
            raise self.unknown("C101", term.name, term.name_span, known)
        return (self.primitive(signature, term, scope),)

    @contextmanager
    def nested(self, span: Span) -> Any:
        self.nesting += 1
        try:
            if self.nesting > MAX_EXPANSION:
                raise self.fail("C401", span, what="nested definitions and bodies", limit=MAX_EXPANSION, found="more")
            yield
        finally:
            self.nesting -= 1

    def definition(self, term: Term, definition: Definition, scope: Scope) -> CallChain:
        statement = definition.statement
        parameters = tuple(
            Parameter(p.name, Kind(), REQUIRED if p.default is None else p.default, "")
            for p in statement.parameters or ()
        )
        given = self.bind_names(Signature(term.name, parameters), term)
        inside: dict[str, Any] = {}
        for parameter in parameters:
            if parameter.name in given:
                inside[parameter.name] = Closure(given[parameter.name].value, scope)
            else:  # a default sees the parameters before it
                default: Any = parameter.default
                inside[parameter.name] = Closure(default, definition.scope.extended(inside))
        before = self.origin
        if definition.prelude and self.origin is None:
            self.origin = term.span
        try:
            with self.nested(term.span):
                return self.chain(statement.value, definition.scope.extended(inside))
        finally:
            self.origin = before

    def primitive(self, signature: Signature, term: Term, scope: Scope) -> Call:
        self.calls += 1
        if self.calls > MAX_CALLS:
            raise self.fail("C401", term.span, what="layers", limit=MAX_CALLS, found="more")
        given = self.bind_names(signature, term)
        args: dict[str, Bound] = {}
        spans: dict[str, Span] = {}
        abandoned = False
        inner = scope
        repeats = signature.name == "repeat"
        for parameter in signature.parameters:
            values = given.get(parameter.name)
            try:
                if repeats and parameter.name == "n" and values is not None:
                    self.literal_zero(values.value, scope)
                if repeats and parameter.name == "body":
                    index = given.get("index")
                    name = self.index_name(index, scope) if index else "i"
                    inner = scope.extended({name: Index(self.repeats + 1)})
                if values is None:
                    args[parameter.name] = self.default(parameter, signature)
                    continue
                spans[parameter.name] = self.place(values.value.span)
                self.repeats += repeats and parameter.name == "body"
                with self.nested(term.span):
                    args[parameter.name] = self.bound(
                        parameter, values, inner if parameter.name == "body" else scope, signature.name
                    )
            except Abandoned:
                abandoned = True
            finally:
                if values is not None:
                    self.repeats -= repeats and parameter.name == "body"
        if not abandoned and signature.either is not None:
            self.settle(signature, args, spans, term)
        if abandoned:
            raise Abandoned()
        return Call(signature, args, None, self.place(term.span), spans, self.repeats)

    def index_name(self, given: "Given", scope: Scope) -> str:
        value = given.value
        if not isinstance(value, Term) or value.arguments is not None or value.labels:
            raise self.fail("C110", value.span, expected=IndexName.expects, found=_describe(value))
        return value.name

    def literal_zero(self, value: Value, scope: Scope) -> None:
        value, scope = self.through(value, scope)
        if isinstance(value, Number) and value.value == 0:
            raise self.fail("C402", value.span)

    def settle(self, signature: Signature, args: dict[str, Bound], spans: Mapping[str, Span], term: Term) -> None:
        """Exactly one of two groups of arguments; the first one's defaults where neither is given."""
        first, second = signature.either or ((), ())
        one = [name for name in first if name in spans and args[name] is not None]
        other = [name for name in second if args[name] is not None]
        if other and one:
            raise self.fail("C111", spans[one[0]], given=one, others=other)
        if other and len(other) < len(second):
            missing = [name for name in second if name not in other]
            raise self.fail("C113", term.span, layer=signature.name, missing=missing, because=other)
        for name in first:
            parameter = signature.find(name)
            if parameter is not None and (other or args[name] is None):
                args[name] = None if other else self.default(parameter, signature)

    # -- arguments

    def bind_names(self, signature: Signature, term: Term) -> dict[str, "Given"]:
        """Which argument is whose, by position and by name."""
        given: dict[str, Given] = {}
        names = [p.name for p in signature.parameters]
        abandoned, position = False, 0
        for argument in term.arguments or ():
            if argument.name is None:
                if position >= len(names):
                    self.fail("C105", argument.span, layer=signature.name, limit=len(names), names=names or None)
                    abandoned = True
                    break
                name = names[position]
                many = signature.parameters[position].kind.many
                if many and name in given:
                    given[name] = Given(given[name].value, (*given[name].all, argument))
                    continue
                position += not many
            else:
                name = argument.name
                span = argument.name_span or argument.span
                if name not in names:
                    self.unknown("C104", name, span, names, layer=signature.name, names=names or None)
                    abandoned = True
                    continue
            if name in given:
                self.fail("C106", argument.span, layer=signature.name, name=name)
                abandoned = True
                continue
            given[name] = Given(argument.value, (argument,))
        missing = [p.name for p in signature.parameters if p.default is REQUIRED and p.name not in given]
        if missing and not abandoned:
            self.fail("C107", term.span, layer=signature.name, missing=missing)
            abandoned = True
        if abandoned:
            raise Abandoned()
        return given

    def default(self, parameter: Parameter, signature: Signature) -> Bound:
        default: Any = parameter.default
        if isinstance(default, Setting):
            self.read.add(default.name)
            value = self.settings[default.name]
            return float(value) if isinstance(parameter.kind, Real) else value
        if isinstance(default, SourceDefault):
            return Source(default.label, None, (), Span(_NOWHERE, 0, 0))
        bound: Bound = default
        return bound

    def through(self, value: Value, scope: Scope) -> tuple[Value, Scope]:
        """Behind the names of parameters to what was written for them."""
        while isinstance(value, Term) and value.arguments is None and not value.labels:
            bound = scope.find(value.name)
            if not isinstance(bound, Closure):
                break
            value, scope = bound.value, bound.scope
        return value, scope

    def bound(self, parameter: Parameter, given: "Given", scope: Scope, layer: str) -> Bound:
        kind = parameter.kind
        if kind.many:
            if len(given.all) < 2:
                raise self.fail("C109", given.value.span, layer=layer)
            return tuple([self.attempt(argument.value, scope) for argument in given.all])
        value, scope = self.through(given.value, scope)
        word = value.name if isinstance(value, Term) and value.arguments is None and not value.labels else None
        if kind.optional and word == "none":
            return None
        if isinstance(kind, Body):
            return self.attempt(value, scope)
        if isinstance(kind, Point):
            return self.source(value, scope, kind)
        if isinstance(kind, Word):
            if word is None or word not in kind.choices:
                near = nearest(word, kind.choices) if word else None
                fix = Fix(value.span, near) if near and self.place(value.span) is value.span else None
                raise self.fail(
                    "C114", value.span, fix, name=parameter.name, choices=kind.choices, found=_describe(value), near=near
                )
            return word
        if isinstance(kind, Flag):
            if word not in ("yes", "no"):
                raise self.mismatch(parameter, value)
            return word == "yes"
        if isinstance(kind, IndexName):
            return word
        if isinstance(kind, Real) and isinstance(value, Number):
            return float(value.value)
        if isinstance(kind, Real) and word is not None:
            number = self.setting(word, scope)
            if isinstance(number, float):
                return number
        found = self.number(value, scope, parameter)
        return float(found) if isinstance(kind, Real) and isinstance(found, int) else found

    def mismatch(self, parameter: Parameter, value: Value) -> Abandoned:
        return self.fail("C108", value.span, name=parameter.name, expected=parameter.kind.expects, found=_describe(value))

    def setting(self, name: str, scope: Scope) -> int | float | None:
        """The value of a setting, marked as read."""
        bound = scope.find(name)
        if isinstance(bound, SettingValue):
            self.read.add(bound.name)
            return bound.value
        if bound is None and name in SETTINGS:
            self.read.add(name)
            return self.settings[name]
        return None

    def number(self, value: Value, scope: Scope, parameter: Parameter) -> Expression:
        """A whole number, or an expression in the indices around it."""
        value, scope = self.through(value, scope)
        self.numbers += 1
        if self.numbers > MAX_NUMBERS:
            raise self.fail("C401", value.span, what="numbers", limit=MAX_NUMBERS, found="more")
        if isinstance(value, Number) and isinstance(value.value, int):
            return value.value
        if isinstance(value, Term) and value.arguments is None and not value.labels:
            bound = scope.find(value.name)
            if isinstance(bound, Index):
                return bound
            found = self.setting(value.name, scope)
            if isinstance(found, int):
                return found
            if found is None and bound is None and value.name not in self.signatures:
                known = [n for n in scope.names() if isinstance(scope.find(n), SettingValue | Index | Closure)]
                raise self.unknown("C102", value.name, value.span, [*known, *SETTINGS])
        if isinstance(value, Operation):
            left = self.number(value.left, scope, parameter)
            right = self.number(value.right, scope, parameter)
            if not (isinstance(left, int) and isinstance(right, int)):
                return Sum(value.op, left, right)
            try:
                result = apply(value.op, left, right)
            except ArithmeticError:
                raise self.fail("C117", value.span, left=left, right=right) from None
            if abs(result) > MAX_NUMBER:
                raise self.fail("C401", value.span, what="the size of a number", limit=MAX_NUMBER, found="more")
            return result
        raise self.mismatch(parameter, value)

    def source(self, value: Value, scope: Scope, kind: Point) -> Source:
        """A point of the encoder and the chain behind it; a parameter bound to a source may head it."""
        head, rest = (value.parts[0], value.parts[1:]) if isinstance(value, Chain) else (value, ())
        inner, inner_scope = self.through(head, scope)
        if isinstance(inner, Chain) and inner is not value:
            base = self.source(inner, inner_scope, kind)
        elif isinstance(inner, SourceText):
            index = None
            if inner.index is not None:
                index = self.number(inner.index, inner_scope, _INDEX)
            base = Source(inner.label, index, (), self.place(inner.span))
        else:
            raise self.fail("C110", inner.span, expected=Point.expects, found=_describe(inner))
        behind = tuple(call for part in rest for call in self.chain(part, scope))
        if behind and not kind.chain:
            raise self.fail("C118", value.span)
        return Source(base.label, base.index, (*base.chain, *behind), base.span)


class Given:
    """What was written for a parameter: its value, and every argument where it takes many."""

    __slots__ = ("all", "value")

    def __init__(self, value: Value, all: tuple[Argument, ...]):
        self.value, self.all = value, all


_INDEX = Parameter("index", Int(), REQUIRED, "")


def _describe(value: Value) -> str:
    if isinstance(value, Number):
        return f"`{value.value}`"
    if isinstance(value, Operation):
        return "arithmetic"
    if isinstance(value, SourceText):
        return f"the source `@{value.label}`"
    if isinstance(value, Chain):
        return "a chain"
    return f"`{value.name}`" if value.arguments is None else f"the layer `{value.name}(...)`"
