"""Arguments bound to parameters: by position in the order of the signature, or by name."""

from calque.adl.faults import Reporter
from calque.adl.signature import REQUIRED, Signature
from calque.adl.syntax import Argument, Term, Value


class WrittenArgument:
    """The argument written for a parameter: its value, and all arguments where the parameter takes many."""

    __slots__ = ("all", "value")

    def __init__(self, value: Value, all: list[Argument]):
        self.value, self.all = value, all


class Binder(Reporter):
    """Binds written arguments to the parameters of a signature."""

    def bind_names(self, signature: Signature, term: Term) -> tuple[dict[str, WrittenArgument], bool]:
        """The argument of each parameter, and whether every argument has a parameter and every parameter a value."""
        given: dict[str, WrittenArgument] = {}
        good, position = True, 0
        for argument in term.arguments or ():
            if argument.name is not None:
                good = self.bind_named(signature, argument, argument.name, given) and good
            elif position < len(signature.parameters):
                parameter = signature.parameters[position]
                position += not parameter.kind.many
                good = self.bind(signature, argument, parameter.name, given, parameter.kind.many) and good
            else:
                self.too_many(signature, term, argument)
                return given, False
        return given, good and self.complete(signature, term, given)

    def complete(self, signature: Signature, term: Term, given: dict[str, WrittenArgument]) -> bool:
        """Whether every parameter without a default has a value; records a fault otherwise."""
        missing = [p.name for p in signature.parameters if p.default is REQUIRED and p.name not in given]
        if missing:
            self.fail("C107", term.span, layer=signature.name, missing=missing)
        return not missing

    def too_many(self, signature: Signature, term: Term, argument: Argument) -> None:
        """Records the first argument that has no parameter."""
        names = [p.name for p in signature.parameters]
        fields: dict[str, object] = {"limit": len(names), "found": len(term.arguments or ()), "names": names or None}
        self.fail("C105", argument.span, None, layer=signature.name, **fields)

    def bind_named(
        self, signature: Signature, argument: Argument, name: str, given: dict[str, WrittenArgument]
    ) -> bool:
        """Binds a named argument; whether the parameter exists and has no value yet."""
        names = [p.name for p in signature.parameters]
        if name in names:
            return self.bind(signature, argument, name, given, more=False)
        span = argument.name_span or argument.span
        self.unknown("C104", name, span, names, layer=signature.name, names=names or None)
        return False

    def bind(
        self, signature: Signature, argument: Argument, name: str, given: dict[str, WrittenArgument], more: bool
    ) -> bool:
        """Binds an argument to the parameter `name`; whether it has no value yet, or may have several (`more`)."""
        if name not in given:
            given[name] = WrittenArgument(argument.value, [argument])
        elif more:
            given[name].all.append(argument)
        else:
            self.fail("C106", argument.span, layer=signature.name, name=name)
            return False
        return True
