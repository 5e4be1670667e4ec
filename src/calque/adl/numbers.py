"""Numbers of a definition: literals, settings, arithmetic, and expressions in the indices of repetitions."""

from collections.abc import Mapping
from itertools import chain

from calque.adl.bind import Binder
from calque.adl.core import Expression, Index, InputWidth, Sum, TooLarge, apply
from calque.adl.faults import Abandoned
from calque.adl.limits import MAX_NUMBER, MAX_NUMBERS, MAX_OPERATIONS
from calque.adl.scope import Closure, Definition, LostName, Scope, SettingValue
from calque.adl.signature import SETTINGS, Parameter, Signature
from calque.adl.syntax import Number, Operation, Term, Value, describe
from calque.ground.diagnostics import Diagnostic, Span

WIDTH_IN = "d_in"
"""The name of the width that enters a chain; a setting, an index or a parameter of this name hides it."""


def bare_name(value: Value) -> str | None:
    """The name of a value that is a name without arguments and labels; None for another value."""
    return value.name if isinstance(value, Term) and value.arguments is None and not value.labels else None


class NumberReader(Binder):
    """Evaluates numbers in scopes. `settings` are the values of `d`, `heads` and `p`; `read` are the settings that are used."""

    def __init__(self, signatures: Mapping[str, Signature], faults: list[Diagnostic]):
        super().__init__(faults)
        self.signatures = signatures
        self.settings: dict[str, int | float] = {name: default for name, (default, _, _) in SETTINGS.items()}
        self.read: set[str] = set()
        self.numbers = self.operations = 0

    def through(self, value: Value, scope: Scope) -> tuple[Value, Scope]:
        """The value that was written for a parameter, where the value is the name of one."""
        while isinstance(value, Term) and value.arguments is None and not value.labels:
            bound = scope.find(value.name)
            if not isinstance(bound, Closure):
                break
            value, scope = bound.value, bound.scope
        return value, scope

    def real(self, value: Value, scope: Scope, parameter: Parameter) -> float | Expression:
        """A number, whole or not."""
        if isinstance(value, Number):
            return value.value + 0.0  # a negative zero is zero
        word = bare_name(value)
        setting = self.setting(word, scope) if word is not None else None
        if isinstance(setting, float):
            return setting
        number = self.number(value, scope, parameter)
        return float(number) if isinstance(number, int) else number

    def mismatch(self, parameter: Parameter, value: Value) -> Abandoned:
        """Records a value of the wrong kind; the caller raises the result."""
        expected = parameter.kind.expects
        return self.fail("C108", value.span, name=parameter.name, expected=expected, found=describe(value))

    def setting(self, name: str, scope: Scope) -> int | float | None:
        """The value of a setting, which is marked as read; None for another name."""
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
        if isinstance(value, Operation):
            return self.operation(value, scope, parameter)
        name = bare_name(value)
        number = None if name is None else self.named_number(name, value.span, scope)
        if number is None:
            raise self.no_number(parameter, value, scope)
        return number

    def no_number(self, parameter: Parameter, value: Value, scope: Scope) -> Abandoned:
        """Records a value that is not a whole number, with what its name stands for; the caller raises the result."""
        expected = "whole numbers in arithmetic" if self.operations else parameter.kind.expects
        found, name = describe(value), bare_name(value)
        setting = None if name is None else self.setting(name, scope)
        if setting is not None:
            found += f", which is {setting}"
        elif name is not None and isinstance(scope.find(name), Definition):
            found += ", which stands for layers"
        return self.fail("C108", value.span, name=parameter.name, expected=expected, found=found)

    def named_number(self, name: str, span: Span, scope: Scope) -> Expression | None:
        """The meaning of a name: an index or a setting that is a whole number; None for anything else."""
        bound = scope.find(name)
        if isinstance(bound, Index):
            return bound
        if isinstance(bound, LostName):
            raise Abandoned()
        if bound is None and name == WIDTH_IN:
            return self.width_in(span, scope)
        setting = self.setting(name, scope)
        if setting is None and bound is None and name not in self.signatures:
            numbers = (n for n in scope.names() if isinstance(scope.find(n), SettingValue | Index | Closure))
            raise self.undefined("C102", name, span, chain(numbers, SETTINGS, (WIDTH_IN,)))
        return setting if isinstance(setting, int) else None

    def width_in(self, span: Span, scope: Scope) -> InputWidth:
        """The width that enters the chain around a place. Raises where there is no chain around it."""
        width = scope.entered
        if width is None:
            raise self.fail("C134", span)
        width.read = True
        return width

    def operation(self, value: Operation, scope: Scope, parameter: Parameter) -> Expression:
        """The result of an operation, or an expression where a side depends on an index."""
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
            return apply(value.op, left, right)
        except ArithmeticError:
            raise self.fail("C117", value.span, left=left, right=right) from None
        except TooLarge as e:
            raise self.fail("C401", value.span, what="as a number", limit=MAX_NUMBER, found=e.found) from None
