"""Names and their meanings. A body sees the statements before it; an argument sees the names of the text that wrote it."""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass

from calque.adl.core import Index, InputWidth
from calque.adl.syntax import ChainSyntax, Source, Statement, Term, Value
from calque.ground.diagnostics import Span


@dataclass(frozen=True, slots=True)
class SettingValue:
    """A setting: `name = number`."""

    name: str
    value: int | float
    span: Span


@dataclass(frozen=True, slots=True)
class Definition:
    """A definition and the scope it was written in."""

    statement: Statement
    scope: "Scope"
    prelude: bool


@dataclass(frozen=True, slots=True)
class Closure:
    """An argument that is not expanded yet: its value as written, and the scope in which it was written."""

    value: Value
    scope: "Scope"


@dataclass(frozen=True, slots=True)
class LostName:
    """The name of a faulty statement. The fault is reported once, and uses of the name are not reported."""


Binding = SettingValue | Definition | Closure | Index | InputWidth | LostName
ENTRY = "->"
"""Stands in a scope for the width that enters the chain around it. No text can write it; `d_in` reads it."""


class Scope:
    """Bindings in an outer scope. A scope never changes after something refers to it.

    The scopes after each statement of a text share one table, in which every binding has the number of its statement. So the time
    to look up a name does not grow with the number of statements.
    """

    __slots__ = ("_outer", "_seen", "_table")

    def __init__(self, bindings: Mapping[str, Binding] | None = None, outer: "Scope | None" = None):
        self._table = {name: [(0, binding)] for name, binding in (bindings or {}).items()}
        self._seen, self._outer = 1, outer

    def find(self, name: str) -> Binding | None:
        """The meaning of a name in this scope; None for an unknown name."""
        scope: Scope | None = self
        while scope is not None:
            for number, binding in reversed(scope._table.get(name, ())):
                if number < scope._seen:
                    return binding
            scope = scope._outer
        return None

    def extended(self, bindings: Mapping[str, Binding]) -> "Scope":
        """A scope inside this one, with more bindings."""
        return Scope(bindings, self)

    def entry(self) -> "Scope":
        """A scope inside this one, for the text of a new chain."""
        return Scope({ENTRY: InputWidth()}, self)

    @property
    def entered(self) -> InputWidth | None:
        """The width that enters the innermost chain in whose text this scope is."""
        width = self.find(ENTRY)
        return width if isinstance(width, InputWidth) else None

    def after(self, name: str, binding: Binding) -> "Scope":
        """The scope after one more statement. Only the newest scope of a text can be continued."""
        scope = Scope.__new__(Scope)
        self._table.setdefault(name, []).append((self._seen, binding))
        scope._table, scope._seen, scope._outer = self._table, self._seen + 1, self._outer
        return scope

    def names(self) -> Iterator[str]:
        """Every name known here."""
        scope: Scope | None = self
        while scope is not None:
            for name in reversed(scope._table):  # the latest first
                if scope._table[name][0][0] < scope._seen:
                    yield name
            scope = scope._outer


def named_source(value: Value, scope: Scope) -> Definition | None:
    """The definition that a value names, if its body is a source: it begins with `@label` or with a name that may be one."""
    named = scope.find(value.name) if isinstance(value, Term) and not value.labels else None
    if not isinstance(named, Definition):
        return None
    body = named.statement.value
    head = body.parts[0] if isinstance(body, ChainSyntax) else body
    parameters = {p.name for p in named.statement.parameters or ()}
    if isinstance(head, Source) or named_source(head, named.scope):
        return named
    return named if isinstance(head, Term) and head.name in parameters and not named.prelude else None
