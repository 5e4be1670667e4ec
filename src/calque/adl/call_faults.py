"""Faults of calls in an expanded definition, and the values of their numbers in one copy of a repetition."""

from dataclasses import replace

from calque.adl.core import Call, Expression, TooLarge, UnknownWidth, evaluate
from calque.adl.faults import Exhausted, Reporter, used_at
from calque.adl.limits import MAX_FAULTS, MAX_NUMBER
from calque.adl.program import out_of_bounds
from calque.adl.signature import Parameter, Real
from calque.ground.diagnostics import Diagnostic, Span


class CallReporter:
    """Records the faults of calls in `faults`; `names` finds similar names."""

    def __init__(self, faults: list[Diagnostic], similar: bool):
        self.faults, self.names = faults, Reporter(faults)
        self.names.similar = similar
        self._seen: set[tuple[str, object]] = set()

    def fail(
        self, call: Call, code: str, span: Span, related: tuple[tuple[Span, str], ...] = (), /, **fields: object
    ) -> None:
        """Records a fault."""
        self.record(call, Diagnostic(code, span, fields, None, related))

    def record(self, call: Call, fault: Diagnostic) -> None:
        """Records a fault, once for all copies and uses of its place; a note says where the definition around it is used. Raises
        `Exhausted` above the limit.
        """
        if (fault.code, fault.where) in self._seen:
            return
        self._seen.add((fault.code, fault.where))
        note = used_at(fault.where, call.outer) if isinstance(fault.where, Span) else ()
        self.faults.append(replace(fault, related=(*fault.related, *note)))
        if len(self.faults) > MAX_FAULTS:
            raise Exhausted()

    def whole(self, call: Call, expression: Expression, indices: tuple[int, ...], span: Span) -> int | None:
        """The value of an expression in the copy of `indices`; None after a division that is not exact or a hidden width."""
        try:
            return evaluate(expression, indices)
        except UnknownWidth as e:
            if not e.hidden:
                self.fail(call, "C134", span)
            return None
        except ArithmeticError as e:
            left, _, right = str(e).partition(" / ")
            self.fail(call, "C117", span, left=left, right=right)
            return None
        except TooLarge as e:
            self.fail(call, "C401", span, what="as a number", limit=MAX_NUMBER, found=e.found)
            return None

    def number(
        self, call: Call, parameter: Parameter, value: Expression | float, indices: tuple[int, ...], k: int = 0
    ) -> int | float | None:
        """The value of an argument, the k-th of several, in this copy; None after a fault."""
        span = call.at(f"{parameter.name}.{k}" if parameter.kind.many else parameter.name)
        number = value if isinstance(value, float) else self.whole(call, value, indices, span)
        if number is None:
            return None
        fault = out_of_bounds(parameter.name, parameter.kind, number, span)
        if fault is not None:
            self.record(call, fault)
            return None
        return float(number) if isinstance(parameter.kind, Real) else number
