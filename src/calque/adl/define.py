"""Expansion: settings and definitions disappear, every argument is bound to the signature of its primitive.

Definitions are hygienic. A fault inside a prelude body is shown where the user called it.
"""

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import replace
from itertools import chain
from typing import Any

from calque.adl.bind import Binder, WrittenArgument
from calque.adl.core import HOLE, Bound, Call, CallChain, CoreSource, Expression, Index, Sum, apply
from calque.adl.faults import PRELUDE, Abandoned, Exhausted
from calque.adl.limits import MAX_CALLS, MAX_HOLES, MAX_NUMBER, MAX_NUMBERS, MAX_OPERATIONS
from calque.adl.scope import Closure, Definition, LostName, Scope, SettingValue, named_source
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
from calque.adl.syntax import ChainSyntax, Label, Number, Operation, Term, Value, describe
from calque.adl.syntax import Source as SourceText
from calque.ground.diagnostics import Diagnostic, Fix, Span, Text

_NOWHERE = Text("", "")
WORDS = ("yes", "no", "none")


class Expander(Binder):
    """Expands values in scopes. `settings` are the values of `d`, `heads` and `p`, `read` those that were asked for,
    `entered` the user's definitions that were used."""

    def __init__(self, signatures: Mapping[str, Signature], faults: list[Diagnostic]):
        super().__init__(faults)
        self.signatures = signatures
        self.settings: dict[str, int | float] = {name: default for name, (default, _, _) in SETTINGS.items()}
        self.read: set[str] = set()
        self.entered: set[str] = set()
        self.calls = self.holes = self.numbers = self.operations = self.repeats = 0

    @property
    def work(self) -> int:
        """How many steps were taken so far."""
        return self.steps + 2 * self.calls + self.numbers

    # -- chains

    def chain(self, value: Value, scope: Scope) -> CallChain:
        """A value that has to be a chain of layers."""
        if isinstance(value, ChainSyntax):
            return tuple(call for part in value.parts for call in self.attempt(part, scope))
        if isinstance(value, Term):
            return self.labelled(self.term(value, scope), value.labels)
        raise self.fail("C110", value.span, expected="a layer", found=describe(value))

    def attempt(self, value: Value, scope: Scope) -> CallChain:
        """A chain, or a hole where it has a fault, so that what stands around it is still looked at."""
        try:
            return self.chain(value, scope)
        except Abandoned:
            self.holes += 1
            if self.holes > MAX_HOLES:
                raise Exhausted() from None
            return (self.made(HOLE, {}, value.span, {}),)

    def made(self, signature: Signature, args: Mapping[str, Bound], span: Span, spans: Mapping[str, Span]) -> Call:
        return Call(signature, args, None, self.place(span), spans, self.repeats, self.outer)

    def labelled(self, chain: CallChain, labels: tuple[Label, ...]) -> CallChain:
        if not labels:
            return chain
        calls = list(chain)
        for label in labels:
            if label.name == "end":
                raise self.fail("C116", label.span)
            if calls[-1].label is not None:  # a second label reads the same output
                self.count(label.span)
                calls.append(self.made(self.signatures["id"], {}, label.span, {}))
            calls[-1] = replace(calls[-1], label=label.name)
        return tuple(calls)

    def count(self, span: Span) -> None:
        """One layer more."""
        self.calls += 1
        if self.calls > MAX_CALLS:
            raise self.limit("layers", MAX_CALLS, span)

    def term(self, term: Term, scope: Scope) -> CallChain:
        bound = scope.find(term.name)
        if isinstance(bound, Closure):
            if term.arguments is not None:
                raise self.fail("C112", term.span, name=term.name)
            with self.nested(term.span):
                return self.chain(bound.value, bound.scope)
        if isinstance(bound, Definition):
            return self.definition(term, bound, scope)
        if isinstance(bound, LostName):
            raise Abandoned()
        if isinstance(bound, SettingValue | Index) or (bound is None and term.name in SETTINGS):
            raise self.fail("C110", term.span, expected="a layer", found=f"the number `{term.name}`")
        signature = self.signatures.get(term.name)
        if signature is None:
            layers = (n for n in scope.names() if isinstance(scope.find(n), Definition | Closure))
            raise self.unknown("C101", term.name, term.name_span, chain(layers, self.signatures))
        return (self.primitive(signature, term, scope),)

    def definition(self, term: Term, definition: Definition, scope: Scope) -> CallChain:
        with self.inside(term, definition, scope) as inner:
            return self.chain(definition.statement.value, inner)

    @contextmanager
    def inside(self, term: Term, definition: Definition, scope: Scope) -> Iterator[Scope]:
        """The scope of a definition's body, while the body is being looked at."""
        parameters = tuple(
            Parameter(p.name, Kind(), REQUIRED if p.default is None else p.default, "")
            for p in definition.statement.parameters or ()
        )
        given, good = self.bind_names(Signature(term.name, parameters), term)
        if not good:
            raise Abandoned()
        inside: dict[str, Any] = {}
        for parameter in parameters:
            if parameter.name in given:
                inside[parameter.name] = Closure(given[parameter.name].value, scope)
            else:  # a default sees the parameters before it
                default: Any = parameter.default
                inside[parameter.name] = Closure(default, definition.scope.extended(inside))
        before = self.origin, self.outer
        if not definition.prelude:
            self.entered.add(definition.statement.name)
        if term.span.text.name != PRELUDE:
            self.origin = term.span
            if not definition.prelude:
                self.outer = self.outer or term.span
        try:
            with self.nested(term.span):
                yield definition.scope.extended(inside)
        finally:
            self.origin, self.outer = before

    def primitive(self, signature: Signature, term: Term, scope: Scope) -> Call:
        self.count(term.span)
        given, good = self.bind_names(signature, term)
        args: dict[str, Bound] = {}
        spans: dict[str, Span] = {}
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
                spans[parameter.name] = self.place(self.through(values.value, scope)[0].span)
                for k, argument in enumerate(values.all if parameter.kind.many else ()):
                    spans[f"{parameter.name}.{k}"] = self.place(self.through(argument.value, scope)[0].span)
                self.repeats += repeats and parameter.name == "body"
                if isinstance(parameter.kind, Body | Point):
                    with self.nested(term.span):
                        around = inner if parameter.name == "body" else scope
                        args[parameter.name] = self.bound(parameter, values, around, signature.name)
                else:
                    args[parameter.name] = self.bound(parameter, values, scope, signature.name)
            except Abandoned:
                good = False
            finally:
                if values is not None:
                    self.repeats -= repeats and parameter.name == "body"
        if good and signature.either is not None:
            self.settle(signature, args, spans, term)
        if not good:
            raise Abandoned()
        if repeats and args["n"] == 0:  # computed: a literal 0 is a fault
            return self.made(self.signatures["id"], {}, term.span, {})
        return self.made(signature, args, term.span, spans)

    def index_name(self, given: WrittenArgument, scope: Scope) -> str:
        value = given.value
        if not isinstance(value, Term) or value.arguments is not None or value.labels:
            raise self.fail("C110", value.span, expected=IndexName.expects, found=describe(value))
        if value.name in WORDS:
            raise self.fail("C121", value.span, name=value.name)
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

    def default(self, parameter: Parameter, signature: Signature) -> Bound:
        default: Any = parameter.default
        if isinstance(default, Setting):
            self.read.add(default.name)
            value = self.settings[default.name]
            return float(value) if isinstance(parameter.kind, Real) else value
        if isinstance(default, SourceDefault):
            return CoreSource(default.label, None, (), Span(_NOWHERE, 0, 0))
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

    def bound(self, parameter: Parameter, given: WrittenArgument, scope: Scope, layer: str) -> Bound:
        kind = parameter.kind
        if kind.many and not isinstance(kind, Body):
            return tuple([self.number(argument.value, scope, parameter) for argument in given.all])
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
                near = self.near(word, kind.choices) if word else None
                fix = Fix(value.span, near) if near and self.place(value.span) is value.span else None
                found_word = describe(value)
                fields: dict[str, object] = {"choices": kind.choices, "found": found_word, "near": near}
                raise self.fail("C114", value.span, fix, name=parameter.name, **fields)
            return word
        if isinstance(kind, Flag):
            if word not in ("yes", "no"):
                raise self.mismatch(parameter, value)
            return word == "yes"
        if isinstance(kind, IndexName):
            return word
        if isinstance(kind, Real) and isinstance(value, Number):
            return value.value + 0.0  # a negative zero is zero
        if isinstance(kind, Real) and word is not None:
            number = self.setting(word, scope)
            if isinstance(number, float):
                return number
        found = self.number(value, scope, parameter)
        return float(found) if isinstance(kind, Real) and isinstance(found, int) else found

    def mismatch(self, parameter: Parameter, value: Value) -> Abandoned:
        expected = parameter.kind.expects
        return self.fail("C108", value.span, name=parameter.name, expected=expected, found=describe(value))

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
            raise self.limit("numbers", MAX_NUMBERS, value.span)
        if isinstance(value, Number) and isinstance(value.value, int):
            return value.value
        if isinstance(value, Term) and value.arguments is None and not value.labels:
            bound = scope.find(value.name)
            if isinstance(bound, Index):
                return bound
            if isinstance(bound, LostName):
                raise Abandoned()
            found = self.setting(value.name, scope)
            if isinstance(found, int):
                return found
            if found is None and bound is None and value.name not in self.signatures:
                numbers = (n for n in scope.names() if isinstance(scope.find(n), SettingValue | Index | Closure))
                raise self.unknown("C102", value.name, value.span, chain(numbers, SETTINGS))
        if isinstance(value, Operation):
            return self.operation(value, scope, parameter)
        raise self.mismatch(parameter, value)

    def operation(self, value: Operation, scope: Scope, parameter: Parameter) -> Expression:
        self.operations += 1
        try:
            if self.operations > MAX_OPERATIONS:
                raise self.limit("levels of arithmetic", MAX_OPERATIONS, value.span)
            left = self.number(value.left, scope, parameter)
            right = self.number(value.right, scope, parameter)
        finally:
            self.operations -= 1
        if not (isinstance(left, int) and isinstance(right, int)):
            return Sum(value.op, left, right)
        try:
            result = apply(value.op, left, right)
        except ArithmeticError:
            raise self.fail("C117", value.span, left=left, right=right) from None
        if abs(result) > MAX_NUMBER:
            raise self.fail(
                "C401",
                value.span,
                what="as a number",
                limit=MAX_NUMBER,
                found=result if abs(result) < 10**30 else "more",
            )
        return result

    def source(self, value: Value, scope: Scope, kind: Point) -> CoreSource:
        """A point of the encoder and the chain behind it; a parameter or definition that is a source may head it."""
        head, rest = (value.parts[0], value.parts[1:]) if isinstance(value, ChainSyntax) else (value, ())
        inner, inner_scope = self.through(head, scope)
        named = named_source(inner, inner_scope)
        if isinstance(inner, ChainSyntax) and inner is not value:
            base = self.source(inner, inner_scope, kind)
        elif named is not None and isinstance(inner, Term):
            with self.inside(inner, named, inner_scope) as body:
                base = self.source(named.statement.value, body, kind)
        elif isinstance(inner, SourceText):
            index = None
            if inner.index is not None:
                index = self.number(inner.index, inner_scope, _INDEX)
            base = CoreSource(inner.label, index, (), self.place(inner.span))
        else:
            raise self.fail("C110", inner.span, expected=Point.expects, found=describe(inner))
        behind = tuple(call for part in rest for call in self.chain(part, scope))
        if behind and not kind.chain:
            raise self.fail("C118", value.span)
        return CoreSource(base.label, base.index, (*base.chain, *behind), base.span)


_INDEX = Parameter("index", Int(), REQUIRED, "")
