"""Which argument is whose: by position in the order of the signature, or by name."""

from calque.adl.faults import Reporter
from calque.adl.signature import REQUIRED, Signature
from calque.adl.syntax import Argument, Term, Value


class WrittenArgument:
    """What was written for a parameter: its value, and every argument where it takes many."""

    __slots__ = ("all", "value")

    def __init__(self, value: Value, all: list[Argument]):
        self.value, self.all = value, all


class Binder(Reporter):
    """Binds what was written to the parameters of a signature."""

    def bind_names(self, signature: Signature, term: Term) -> tuple[dict[str, WrittenArgument], bool]:
        """Which argument is whose, by position and by name; and whether each has its place."""
        given: dict[str, WrittenArgument] = {}
        names = [p.name for p in signature.parameters]
        abandoned, position = False, 0
        for argument in term.arguments or ():
            if argument.name is None:
                if position >= len(names):
                    count = len(term.arguments or ())
                    fields: dict[str, object] = {"limit": len(names), "found": count, "names": names or None}
                    self.fail("C105", argument.span, None, layer=signature.name, **fields)
                    abandoned = True
                    break
                name = names[position]
                many = signature.parameters[position].kind.many
                if many and name in given:
                    given[name].all.append(argument)
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
            given[name] = WrittenArgument(argument.value, [argument])
        missing = [p.name for p in signature.parameters if p.default is REQUIRED and p.name not in given]
        if missing and not abandoned:
            self.fail("C107", term.span, layer=signature.name, missing=missing)
        return given, not (abandoned or missing)
