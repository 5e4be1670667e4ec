"""Values of the strings, and terms of the language made from them, with their places in the string."""

from dataclasses import dataclass, replace

from calque.adl import syntax
from calque.adl.syntax import Argument, ChainSyntax, Number, Term
from calque.ground.diagnostics import Span


@dataclass(frozen=True)
class Value:
    """The value of an argument: a number, or a word (`True` and `False` are words). `default`: the argument was left out."""

    value: int | float | str | None
    span: Span
    default: bool = False

    @property
    def missing(self) -> bool:
        """Whether there is neither a value nor a default."""
        return self.value is None

    @property
    def number(self) -> int | float | None:
        """The value, if it is a number."""
        return None if isinstance(self.value, str) else self.value

    @property
    def word(self) -> str:
        """The value, if it is a word."""
        return self.value if isinstance(self.value, str) else ""

    @property
    def zero(self) -> bool:
        """Whether it is a dropout rate of zero or below."""
        return self.number is not None and self.number <= 0

    def clipped(self) -> "Value":
        """The rate, at least zero."""
        return replace(self, value=0) if self.zero else self

    def syntax(self) -> syntax.Value:
        """The value in the language's parse tree."""
        if self.value is None or isinstance(self.value, str):
            return Term(str(self.value), None, (), self.span, self.span)
        return Number(self.value, self.span)


def word(name: str, span: Span) -> Value:
    """A word of the language."""
    return Value(name, span)


def chain(terms: tuple[Term, ...]) -> syntax.Value:
    """Terms in a row; a single term stays as it is."""
    return terms[0] if len(terms) == 1 else ChainSyntax(terms, terms[0].span.to(terms[-1].span))


def call(name: str, span: Span, *positional: "Value | syntax.Value", **named: Value) -> Term:
    """A term with arguments."""
    plain = [v.syntax() if isinstance(v, Value) else v for v in positional]
    arguments = [Argument(None, v, v.span) for v in plain]
    arguments += [Argument(key, v.syntax(), v.span, v.span) for key, v in named.items()]
    return Term(name, tuple(arguments) if arguments else None, (), span, span)
