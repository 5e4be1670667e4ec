"""Names and what they stand for. A body sees what stood before it, an argument what its writer saw."""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass

from calque.adl.core import Index
from calque.adl.syntax import Chain, Source, Statement, Term, Value
from calque.diagnostics import Span


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
    """An argument not yet looked at: what was written, and the scope of its writer."""

    value: Value
    scope: "Scope"


@dataclass(frozen=True, slots=True)
class Lost:
    """What a faulty statement would have made. Its fault is told; what uses the name is not blamed."""


Binding = SettingValue | Definition | Closure | Index | Lost


class Scope:
    """Bindings on top of an outer scope. Never changed once something refers to it."""

    def __init__(self, bindings: Mapping[str, Binding] | None = None, outer: "Scope | None" = None):
        self._bindings, self._outer = dict(bindings or {}), outer

    def find(self, name: str) -> Binding | None:
        """What a name stands for here."""
        scope: Scope | None = self
        while scope is not None:
            if name in scope._bindings:
                return scope._bindings[name]
            scope = scope._outer
        return None

    def extended(self, bindings: Mapping[str, Binding]) -> "Scope":
        """This scope with more bindings on top."""
        return Scope(bindings, self)

    def names(self) -> Iterator[str]:
        """Every name known here."""
        scope: Scope | None = self
        while scope is not None:
            yield from scope._bindings
            scope = scope._outer


def named_source(value: Value, scope: Scope) -> Definition | None:
    """The definition that a value names, if its body is a source: headed by `@label` or by what may stand for one."""
    found = scope.find(value.name) if isinstance(value, Term) and not value.labels else None
    if not isinstance(found, Definition):
        return None
    body = found.statement.value
    head = body.parts[0] if isinstance(body, Chain) else body
    parameters = {p.name for p in found.statement.parameters or ()}
    if isinstance(head, Source) or named_source(head, found.scope):
        return found
    return found if isinstance(head, Term) and head.name in parameters and not found.prelude else None
