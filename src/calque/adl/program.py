"""The statements of a text: settings, definitions and both sides, with rules for their names and their order."""

import difflib
import functools
import re
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from importlib import resources

from calque.adl.core import CallChain
from calque.adl.define import NUMBERS, Expander
from calque.adl.faults import PRELUDE, Abandoned, Exhausted
from calque.adl.parser import ParseResult, parse, parse_some
from calque.adl.scope import Definition, LostName, Scope, SettingValue
from calque.adl.signature import REPEAT, SETTINGS, Int, Parameter, Real, Signature
from calque.adl.syntax import Number, Operation, Statement, Term, Value
from calque.ground.diagnostics import Diagnostic, Fix, Span, Text

VERSION = 0
SIDES = ("encoder", "decoder")
RESERVED = ("adl", "yes", "no", "none", *SIDES)
NEAR = 0.6
"""How alike a name and that of a side must be: `enc` is."""
Reader = Callable[[Text], ParseResult]
"""Reads the statements of a text: `parse_some`, or the reader of a dialect."""


@dataclass(frozen=True)
class Program:
    """An expanded definition. A side that could not be expanded is None; its faults are in `faults`.

    `width` is None where the setting `d` is faulty and widths are unknown. `work` is the number of steps of the expansion.
    """

    width: int | None
    encoder: CallChain | None
    decoder: CallChain | None
    faults: list[Diagnostic]
    warnings: list[Diagnostic] = field(default_factory=list)
    statements: list[Statement] = field(default_factory=list)
    work: int = 0


@functools.cache
def prelude() -> tuple[Statement, ...]:
    """The statements of the prelude."""
    body = resources.files("calque.adl").joinpath("prelude.adl").read_text(encoding="utf-8")
    return tuple(parse(Text(PRELUDE, body)))


def prelude_scope() -> Scope:
    """The prelude's definitions; each sees those before it."""
    scope = Scope()
    for statement in prelude():
        scope = scope.after(statement.name, Definition(statement, scope, prelude=True))
    return scope


def expand(
    text: Text, primitives: Mapping[str, Signature], reader: Reader = parse_some, similar: bool = True
) -> Program:
    """The program of a text. Collects every fault of syntax, names and arguments; `similar`: suggest similar names."""
    read = reader(text)
    return _Program(text, {**primitives, "repeat": REPEAT}, read, similar).run(read.statements)


class _Program:
    def __init__(self, text: Text, signatures: Mapping[str, Signature], read: ParseResult, similar: bool):
        self.text, self.faults, self.broken = text, read.faults, bool(read.faults)
        self.warnings = list(read.warnings)
        self.expander = Expander(signatures, read.faults)
        self.expander.similar = similar
        self.lost = set(read.lost)
        self.scope = prelude_scope().extended({name: LostName() for name in read.lost})
        self.seen: dict[str, Statement] = {}
        self.user_settings: dict[str, Span] = {}
        self.uses: dict[str, Span] = {}
        self.sides: dict[str, CallChain | None] = {}

    def run(self, statements: list[Statement]) -> Program:
        self.expander.stated = {s.name: s.name_span for s in reversed(statements) if s.name not in RESERVED}
        try:
            for k, statement in enumerate(statements):
                try:
                    self.statement(statement, first=k == 0)
                except Abandoned:
                    self.lose(statement.name)
            missing = [side for side in SIDES if side not in self.sides]
            # A statement that cannot be read may be the missing one.
            if not self.broken:
                self.faults += self.without(missing)
        except Exhausted:
            self.sides.clear()
        if not self.faults:
            self.unread()
        # An unknown default hides everything that depends on it.
        width = None if self.lost & SETTINGS.keys() else int(self.expander.settings["d"])
        work = len(self.text.body) // 10 + self.expander.work
        sides = self.sides.get("encoder"), self.sides.get("decoder")
        return Program(width, *sides, self.faults, self.warnings, statements, work)

    def without(self, missing: list[str]) -> Iterator[Diagnostic]:
        """C120 for each missing side: at the name that is meant for it, else at the end."""
        meant = {side: found for side in missing if (found := self.meant(side)) is not None}
        for side, statement in meant.items():
            yield Diagnostic("C120", statement.name_span, {"sides": [side]})
        others = [side for side in missing if side not in meant]
        if others:
            end = len(self.text.body.rstrip())
            yield Diagnostic("C120", Span(self.text, end, end), {"sides": others})

    def meant(self, side: str) -> Statement | None:
        """The statement whose name may be a misspelt side: one that no other statement uses."""
        for name in difflib.get_close_matches(side, [name.lower() for name in self.seen], cutoff=NEAR):
            for written, statement in self.seen.items():
                alone = len(re.findall(rf"\b{re.escape(written)}\b", self.text.body)) == 1
                if written.lower() == name and written not in SIDES and alone:
                    return statement
        return None

    def lose(self, name: str) -> None:
        """Marks the name of a faulty statement, so that its uses are not reported."""
        found = self.scope.find(name)
        if name in SIDES:
            self.sides[name] = None
        elif name not in self.seen or found is None or (isinstance(found, Definition) and found.prelude):
            self.lost.add(name)
            self.scope = self.scope.after(name, LostName())

    def fail(self, code: str, span: Span, fix: Fix | None = None, **fields: object) -> Abandoned:
        return self.expander.fail(code, span, fix, **fields)

    def statement(self, statement: Statement, first: bool) -> None:
        name = statement.name
        if name == "adl":
            self.version(statement, first)
            return
        if name in ("yes", "no", "none") or name in self.expander.signatures:
            raise self.fail("C121", statement.name_span, name=name)
        if name in self.seen:
            self.faults.append(
                Diagnostic(
                    "C122", statement.name_span, {"name": name}, None, ((self.seen[name].name_span, "first written"),)
                )
            )
            return
        self.seen[name] = statement
        if name in SIDES:
            if statement.parameters is not None:
                raise self.fail("C123", statement.name_span, name=name)
            self.sides[name] = None
            self.used(SETTINGS, statement)
            self.sides[name] = self.expander.whole(statement.value, self.scope)
        elif statement.parameters is None and self.is_number(statement.value):
            self.setting(statement)
        else:
            self.definition(statement)

    def used(self, names: Iterable[str], statement: Statement) -> None:
        """Fixes these settings: no later statement may change them."""
        for name in names:
            self.uses.setdefault(name, statement.name_span)

    def version(self, statement: Statement, first: bool) -> None:
        if not first:
            raise self.fail("C124", statement.name_span)
        if statement.parameters is not None:
            raise self.fail("C123", statement.name_span, name="adl")
        value = statement.value
        if not (isinstance(value, Number) and isinstance(value.value, int) and value.value == VERSION):
            raise self.fail("C125", statement.value.span, version=VERSION)

    def is_number(self, value: Value) -> bool:
        if isinstance(value, Number | Operation):
            return True
        if not (isinstance(value, Term) and value.arguments is None and not value.labels):
            return False
        bound = self.scope.find(value.name)
        return isinstance(bound, SettingValue) or (bound is None and value.name in NUMBERS)

    def setting(self, statement: Statement) -> None:
        name, value = statement.name, statement.value
        before = set(self.expander.read)
        number: object = value.value if isinstance(value, Number) else None
        if number is None and isinstance(value, Term):
            number = self.expander.setting(value.name, self.scope)
        if number is None:
            number = self.expander.number(value, self.scope, Parameter(name, Int(), None, ""))
        if not isinstance(number, int | float):
            raise self.fail("C108", value.span, name=name, expected="a number", found="something else")
        if isinstance(number, float):
            number += 0.0  # a negative zero is zero
        if name in SETTINGS:
            kind = SETTINGS[name][1]
            if isinstance(kind, Int) and not isinstance(number, int):
                raise self.fail("C108", value.span, name=name, expected=kind.expects, found=f"`{number}`")
            check_bounds(self.expander, name, kind, number, value.span)
            if name in self.uses:
                related = ((self.uses[name], "the first statement that uses it stands"),)
                self.faults.append(Diagnostic("C126", statement.name_span, {"name": name}, None, related))
                self.lost.add(name)
                return
            self.expander.settings[name] = number
        else:
            self.scope = self.scope.after(name, SettingValue(name, number, statement.name_span))
        self.user_settings[name] = statement.name_span
        self.used(SETTINGS.keys() & (self.expander.read - before), statement)

    def definition(self, statement: Statement) -> None:
        if statement.name in SETTINGS:
            raise self.fail("C108", statement.value.span, name=statement.name, expected="a number", found="a chain")
        self.used(SETTINGS, statement)
        value = statement.value
        if isinstance(value, Term) and value.arguments is None and isinstance(self.scope.find(value.name), LostName):
            raise Abandoned()
        names: set[str] = set()
        for parameter in statement.parameters or ():
            if parameter.name in names:
                raise self.fail("C106", parameter.span, layer=statement.name, name=parameter.name)
            if parameter.name in RESERVED:
                raise self.fail("C121", parameter.span, name=parameter.name)
            names.add(parameter.name)
        self.scope = self.scope.after(statement.name, Definition(statement, self.scope, prelude=False))

    def unread(self) -> None:
        for name, span in self.user_settings.items():
            if name not in self.expander.read and name != "d":  # the embeddings read `d`
                self.faults.append(Diagnostic("C127", span, {"name": name}))
        for name, statement in self.seen.items():
            if isinstance(self.scope.find(name), Definition) and name not in self.expander.entered:
                self.warnings.append(Diagnostic("C133", statement.name_span, {"name": name}, severity="warning"))


def check_bounds(expander: Expander, name: str, kind: object, value: float, span: Span) -> None:
    """Records a number outside its bounds, and raises `Abandoned`."""
    fault = out_of_bounds(name, kind, value, span)
    if fault is not None:
        expander.faults.append(fault)
        raise Abandoned()


def out_of_bounds(name: str, kind: object, value: float, span: Span) -> Diagnostic | None:
    """The fault of a number outside its bounds; None inside them."""
    if isinstance(kind, Int) and not kind.low <= value <= kind.high:
        return Diagnostic("C403", span, {"name": name, "low": kind.low, "high": kind.high, "found": value})
    if isinstance(kind, Real) and not (kind.low <= value < kind.high or (value == kind.high and not kind.below)):
        code = "C404" if kind.below else "C403"
        return Diagnostic(code, span, {"name": name, "low": kind.low, "high": kind.high, "found": value})
    return None
