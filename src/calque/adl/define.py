"""Expansion: settings and definitions disappear, every argument is bound to the signature of its primitive.

Definitions are hygienic: a body sees the names of its own scope. A fault inside a prelude body is shown at the user's call.
"""

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import replace
from itertools import chain

from calque.adl.bind import WrittenArgument
from calque.adl.core import HOLE, Bound, Call, CallChain, CoreSource, Index, entered
from calque.adl.faults import PRELUDE, Abandoned, Exhausted
from calque.adl.limits import MAX_CALLS, MAX_HOLES
from calque.adl.numbers import WIDTH_IN, NumberReader, bare_name
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
    Required,
    Setting,
    Signature,
    SourceDefault,
    Word,
)
from calque.adl.syntax import ChainSyntax, Label, Number, Term, Value, describe
from calque.adl.syntax import Source as SourceText
from calque.ground.diagnostics import Diagnostic, Fix, Span, Text

_NOWHERE = Text("", "")
WORDS = ("yes", "no", "none")
NUMBERS = (*SETTINGS, WIDTH_IN)


class Expander(NumberReader):
    """Expands values in scopes. `entered` are the user's definitions that are used."""

    def __init__(self, signatures: Mapping[str, Signature], faults: list[Diagnostic]):
        super().__init__(signatures, faults)
        self.entered: set[str] = set()
        self.calls = self.holes = self.repeats = 0

    @property
    def work(self) -> int:
        """The steps of the expansion so far."""
        return self.steps + 2 * self.calls + self.numbers

    # -- chains

    def chain(self, value: Value, scope: Scope) -> CallChain:
        """A value that has to be a chain of layers."""
        if isinstance(value, ChainSyntax):
            return tuple(call for part in value.parts for call in self.attempt(part, scope))
        if isinstance(value, Term):
            return self.labelled(self.term(value, scope), value.labels)
        raise self.fail("C110", value.span, expected="a layer", found=describe(value))

    def whole(self, value: Value, scope: Scope) -> CallChain:
        """A chain with a text of its own, in which `d_in` is the width that enters it; a hole instead of a faulty one."""
        inner = scope.entry()
        return self.enter(self.attempt(value, inner), inner)

    def enter(self, chain: CallChain, scope: Scope) -> CallChain:
        """The chain whose text has this scope, whose first call sets the width that the text reads."""
        width = scope.entered
        return chain if width is None else entered(chain, width)

    def attempt(self, value: Value, scope: Scope) -> CallChain:
        """A chain, or a hole instead of a faulty one, so that its neighbours are still checked."""
        try:
            return self.chain(value, scope)
        except Abandoned:
            self.holes += 1
            if self.holes > MAX_HOLES:
                raise Exhausted() from None
            return (self.made(HOLE, {}, value.span, {}),)

    def made(self, signature: Signature, args: Mapping[str, Bound], span: Span, spans: Mapping[str, Span]) -> Call:
        """A call at the current repetition and definition."""
        return Call(signature, args, None, self.place(span), spans, self.repeats, self.outer)

    def labelled(self, chain: CallChain, labels: tuple[Label, ...]) -> CallChain:
        """A chain with labels on its last layer."""
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
        """Counts a layer. Raises `Exhausted` above the limit."""
        self.calls += 1
        if self.calls > MAX_CALLS:
            raise self.limit("layers", MAX_CALLS, span)

    def term(self, term: Term, scope: Scope) -> CallChain:
        """The layers that a term stands for."""
        bound = scope.find(term.name)
        if isinstance(bound, Closure):
            if term.arguments is not None:
                raise self.fail("C112", term.span, name=term.name)
            with self.nested(term.span):
                inner = bound.scope.entry()
                return self.enter(self.chain(bound.value, inner), inner)
        if isinstance(bound, Definition):
            return self.definition(term, bound, scope)
        if isinstance(bound, LostName):
            raise Abandoned()
        if isinstance(bound, SettingValue | Index) or (bound is None and term.name in NUMBERS):
            raise self.fail("C110", term.span, expected="a layer", found=f"the number `{term.name}`")
        signature = self.signatures.get(term.name)
        if signature is None:
            layers = (n for n in scope.names() if isinstance(scope.find(n), Definition | Closure))
            raise self.undefined("C101", term.name, term.name_span, chain(layers, self.signatures))
        return (self.primitive(signature, term, scope),)

    def definition(self, term: Term, definition: Definition, scope: Scope) -> CallChain:
        """The body of a definition, expanded with the arguments of a term."""
        with self.inside(term, definition, scope) as inner:
            return self.enter(self.chain(definition.statement.value, inner), inner)

    @contextmanager
    def inside(self, term: Term, definition: Definition, scope: Scope) -> Iterator[Scope]:
        """The scope of a definition's body, while the body is expanded."""
        written = definition.statement.parameters or ()
        parameters = tuple(Parameter(p.name, Kind(), REQUIRED if p.default is None else None, "") for p in written)
        given, good = self.bind_names(Signature(term.name, parameters), term)
        if not good:
            raise Abandoned()
        inside: dict[str, Closure] = {}
        outside = definition.scope.entry()
        for parameter in written:
            if parameter.name in given:
                inside[parameter.name] = Closure(given[parameter.name].value, scope)
            elif parameter.default is not None:  # a default sees the parameters before it
                inside[parameter.name] = Closure(parameter.default, outside.extended(inside))
        before = self.origin, self.outer
        if not definition.prelude:
            self.entered.add(definition.statement.name)
        if term.span.text.name != PRELUDE:
            self.origin = term.span
            if not definition.prelude:
                self.outer = self.outer or term.span
        try:
            with self.nested(term.span):
                yield outside.extended(inside)
        finally:
            self.origin, self.outer = before

    def primitive(self, signature: Signature, term: Term, scope: Scope) -> Call:
        """A call of a layer or of `repeat` with all arguments bound."""
        self.count(term.span)
        given, good = self.bind_names(signature, term)
        args: dict[str, Bound] = {}
        spans: dict[str, Span] = {}
        repeats = signature.name == "repeat"
        for parameter in signature.parameters:
            written = given.get(parameter.name)
            try:
                if repeats and parameter.name == "body":
                    with self.repetition(given, scope) as inner:
                        args["body"] = self.argument(parameter, written, signature, term, inner, spans)
                else:
                    if repeats and parameter.name == "n" and written is not None:
                        self.literal_zero(written.value, scope)
                    args[parameter.name] = self.argument(parameter, written, signature, term, scope, spans)
            except Abandoned:
                good = False
        if good and signature.either is not None:
            self.settle(signature, args, spans, term)
        if not good:
            raise Abandoned()
        if repeats and args["n"] == 0:  # computed: a literal 0 is a fault
            return self.made(self.signatures["id"], {}, term.span, {})
        return self.made(signature, args, term.span, spans)

    @contextmanager
    def repetition(self, given: Mapping[str, WrittenArgument], scope: Scope) -> Iterator[Scope]:
        """The scope of a repetition's body, which contains the index."""
        name = self.index_name(given["index"]) if "index" in given else "i"
        inner = scope.extended({name: Index(self.repeats + 1)})
        if "body" not in given:
            yield inner
            return
        self.repeats += 1
        try:
            yield inner
        finally:
            self.repeats -= 1

    def argument(
        self,
        parameter: Parameter,
        written: WrittenArgument | None,
        signature: Signature,
        term: Term,
        scope: Scope,
        spans: dict[str, Span],
    ) -> Bound:
        """The value of an argument, or its default; the place of a written argument is added to `spans`."""
        if written is None:
            return self.default(parameter)
        spans[parameter.name] = self.place(self.through(written.value, scope)[0].span)
        for k, one in enumerate(written.all if parameter.kind.many else ()):
            spans[f"{parameter.name}.{k}"] = self.place(self.through(one.value, scope)[0].span)
        if not isinstance(parameter.kind, Body | Point):
            return self.bound(parameter, written, scope, signature.name)
        with self.nested(term.span):
            return self.bound(parameter, written, scope, signature.name)

    def index_name(self, given: WrittenArgument) -> str:
        """The name of a repetition's index. Raises where it is a reserved word."""
        value = given.value
        name = bare_name(value)
        if name is None:
            raise self.fail("C110", value.span, expected=IndexName.expects, found=describe(value))
        if name in WORDS:
            raise self.fail("C121", value.span, name=name)
        return name

    def literal_zero(self, value: Value, scope: Scope) -> None:
        """Raises where the count of `repeat` is a literal 0."""
        value, scope = self.through(value, scope)
        if isinstance(value, Number) and value.value == 0:
            raise self.fail("C402", value.span)

    def settle(self, signature: Signature, args: dict[str, Bound], spans: Mapping[str, Span], term: Term) -> None:
        """Keeps exactly one of two groups of arguments: the one that is given, or the first with its defaults."""
        first, second = signature.either or ((), ())
        one = [name for name in first if name in spans and args[name] is not None]
        other = [name for name in second if args[name] is not None]
        if not other:
            for parameter in signature.parameters:
                if parameter.name in first and args[parameter.name] is None:
                    args[parameter.name] = self.default(parameter)
            return
        if one:
            raise self.fail("C111", spans[one[0]], given=one, others=other)
        missing = [name for name in second if name not in other]
        if missing:
            raise self.fail("C113", term.span, layer=signature.name, missing=missing, because=other)
        args.update(dict.fromkeys(first))

    # -- arguments

    def default(self, parameter: Parameter) -> Bound:
        """The value of an argument that is left out. One without a default has already been reported."""
        default = parameter.default
        if isinstance(default, Required):
            raise Abandoned()
        if isinstance(default, Setting):
            self.read.add(default.name)
            value = self.settings[default.name]
            return float(value) if isinstance(parameter.kind, Real) else value
        if isinstance(default, SourceDefault):
            return CoreSource(default.label, None, (), Span(_NOWHERE, 0, 0))
        return default

    def bound(self, parameter: Parameter, given: WrittenArgument, scope: Scope, layer: str) -> Bound:
        """The value that was written for an argument."""
        kind = parameter.kind
        if kind.many:
            return self.several(parameter, given, scope, layer)
        value, scope = self.through(given.value, scope)
        if kind.optional and bare_name(value) == "none":
            return None
        if isinstance(kind, Body):
            return self.whole(value, scope)
        if isinstance(kind, Point):
            return self.source(value, scope, kind)
        if isinstance(kind, Word):
            return self.choice(parameter, kind, value)
        if isinstance(kind, Flag):
            return self.flag(parameter, value)
        if isinstance(kind, IndexName):
            return bare_name(value)
        return self.real(value, scope, parameter) if isinstance(kind, Real) else self.number(value, scope, parameter)

    def several(self, parameter: Parameter, given: WrittenArgument, scope: Scope, layer: str) -> Bound:
        """The values of a parameter that takes all remaining arguments."""
        if not isinstance(parameter.kind, Body):
            return tuple([self.number(argument.value, scope, parameter) for argument in given.all])
        if len(given.all) < 2:
            raise self.fail("C109", given.value.span, layer=layer)
        return tuple([self.whole(argument.value, scope) for argument in given.all])

    def choice(self, parameter: Parameter, kind: Word, value: Value) -> str:
        """One of a parameter's words."""
        word = bare_name(value)
        if word is not None and word in kind.choices:
            return word
        near = self.near(word, kind.choices) if word else None
        fix = Fix(value.span, near) if near and self.place(value.span) is value.span else None
        fields: dict[str, object] = {"choices": kind.choices, "found": describe(value), "near": near}
        raise self.fail("C114", value.span, fix, name=parameter.name, **fields)

    def flag(self, parameter: Parameter, value: Value) -> bool:
        """`yes` or `no`."""
        word = bare_name(value)
        if word not in ("yes", "no"):
            raise self.mismatch(parameter, value)
        return word == "yes"

    def source(self, value: Value, scope: Scope, kind: Point) -> CoreSource:
        """A point of the encoder and the chain after it; it may begin with a parameter or definition that is a source."""
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
        after = scope.entry()
        behind = self.enter(tuple(call for part in rest for call in self.chain(part, after)), after)
        if behind and not kind.chain:
            raise self.fail("C118", value.span)
        return CoreSource(base.label, base.index, (*base.chain, *behind), base.span)


_INDEX = Parameter("index", Int(), REQUIRED, "")
