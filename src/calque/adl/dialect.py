"""The dialects, and statements as text: a dialect translated into the language."""

from collections.abc import Mapping, Sequence

from calque.adl.parser import parse_some
from calque.adl.program import Reader
from calque.adl.settings import overriding
from calque.adl.syntax import Argument, ChainSyntax, Label, Number, Operation, Source, Statement, Value

DIALECTS = ("calque", "acl18")


def reader(dialect: str, settings: Mapping[str, Statement] | None = None) -> Reader:
    """The reader of a dialect; `settings` replace those of the text."""
    given = settings or {}
    if dialect == "acl18":
        from calque.adl import acl18  # only this dialect needs it

        return lambda text: acl18.read(text, given)
    return overriding(parse_some, given)


def text_of(statements: Sequence[Statement]) -> str:
    """Statements as a text of the language, a line for each."""
    return "adl = 0\n" + "".join(f"{statement_text(s)}\n" for s in statements if s.name != "adl")


def statement_text(statement: Statement) -> str:
    """A statement as text."""
    head = statement.name
    if statement.parameters is not None:
        written = (p.name if p.default is None else f"{p.name}={value_text(p.default)}" for p in statement.parameters)
        head += f"({', '.join(written)})"
    return f"{head} = {value_text(statement.value)}"


def value_text(value: Value) -> str:
    """A value as text."""
    if isinstance(value, Number):
        return repr(value.value)
    if isinstance(value, Operation):
        return f"({value_text(value.left)} {value.op} {value_text(value.right)})"
    if isinstance(value, Source):
        return f"@{value.label}" + (f"[{value_text(value.index)}]" if value.index is not None else "")
    if isinstance(value, ChainSyntax):
        return " -> ".join(value_text(part) for part in value.parts)
    arguments = "" if value.arguments is None else f"({', '.join(_argument(a) for a in value.arguments)})"
    return value.name + arguments + "".join(_label(label) for label in value.labels)


def _argument(argument: Argument) -> str:
    return ("" if argument.name is None else f"{argument.name}=") + value_text(argument.value)


def _label(label: Label) -> str:
    return f" @ {label.name}"
