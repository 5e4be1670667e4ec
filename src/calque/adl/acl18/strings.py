"""The grammar of the research code's strings.

chain = layer { "->" layer }
layer = ("res" | "highway") "(" chain ")"
      | "repeat" "(" WHOLE "," chain ")"
      | NAME [ "(" argument { "," argument } ")" ]
argument = [ NAME "=" ] ( DECIMAL | WHOLE | "True" | "False" | WORD )

White space is allowed everywhere; the original allows it only after commas. `$NAME`, which the original leaves to the shell, is a
number.
"""

import re
from dataclasses import dataclass
from typing import NamedTuple

from calque.adl.limits import MAX_DEPTH, MAX_DIGITS, MAX_TOKENS
from calque.ground.diagnostics import Diagnostic, Span, Text

_TOKEN = re.compile(
    r"(?P<space>[ \t]+)|(?P<arrow>->)|(?P<number>-?[0-9]+(?:\.[0-9]*)?)|(?P<variable>\$[A-Za-z_][A-Za-z_0-9]*)"
    r"|(?P<name>[A-Za-z_][A-Za-z_0-9]*)|(?P<mark>[(),=|])|(?P<strange>.)"
)
WITH_CHAIN = ("res", "highway")


class StringFault(Exception):
    """Ends the reading of a string; its fault is recorded."""


class StringToken(NamedTuple):
    """A piece of a string: `kind` is `name`, `number`, `variable`, `end`, or the mark itself."""

    kind: str
    text: str
    span: Span


@dataclass(frozen=True)
class StringArgument:
    """`name=value` or a value."""

    name: str | None
    value: StringToken
    span: Span


@dataclass(frozen=True)
class StringLayer:
    """A layer with its arguments, or with the chain inside it; `count` is the number of `repeat`."""

    name: str
    span: Span
    name_span: Span
    arguments: tuple[StringArgument, ...] = ()
    chain: "tuple[StringLayer, ...]" = ()
    count: StringToken | None = None


def parse(text: Text, start: int, end: int, faults: list[Diagnostic]) -> tuple[StringLayer, ...]:
    """The layers of the string at `[start, end)`. Raises StringFault where it cannot be read."""
    parser = _StringParser(_tokens(text, start, end, faults), faults)
    chain = parser.chain()
    if parser.now.kind != "end":
        raise parser.fail("`->` or the end of the string")
    return chain


def _tokens(text: Text, start: int, end: int, faults: list[Diagnostic]) -> list[StringToken]:
    tokens: list[StringToken] = []
    for match in _TOKEN.finditer(text.body, start, end):
        kind, piece, span = str(match.lastgroup), match.group(), Span(text, match.start(), match.end())
        if kind == "strange":
            faults.append(Diagnostic("S101", span, {"character": piece}))
            raise StringFault()
        if len(tokens) >= MAX_TOKENS or len(piece) > 200 or (kind == "number" and len(piece) > MAX_DIGITS):
            what, limit = ("digits", MAX_DIGITS) if kind == "number" else ("names, numbers and marks", MAX_TOKENS)
            faults.append(Diagnostic("C401", span, {"what": what, "limit": limit, "found": "more"}))
            raise StringFault()
        if kind != "space":
            tokens.append(StringToken(piece if kind in ("arrow", "mark") else kind, piece, span))
    tokens.append(StringToken("end", "", Span(text, end, end)))
    return tokens


class _StringParser:
    def __init__(self, tokens: list[StringToken], faults: list[Diagnostic]):
        self.tokens, self.faults = tokens, faults
        self.i = self.depth = 0

    @property
    def now(self) -> StringToken:
        return self.tokens[self.i]

    def accept(self, kind: str) -> StringToken | None:
        if self.now.kind != kind:
            return None
        self.i += 1
        return self.tokens[self.i - 1]

    def expect(self, kind: str, what: str) -> StringToken:
        token = self.accept(kind)
        if token is None:
            raise self.fail(what)
        return token

    def fail(self, expected: str, opened: StringToken | None = None) -> StringFault:
        found = "the end of the string" if self.now.kind == "end" else f"`{self.now.text}`"
        related = ((opened.span, f"`{opened.text}` was opened"),) if opened else ()
        self.faults.append(Diagnostic("S201", self.now.span, {"expected": expected, "found": found}, None, related))
        return StringFault()

    def chain(self) -> tuple[StringLayer, ...]:
        layers = [self.layer()]
        while self.accept("->"):
            layers.append(self.layer())
        return tuple(layers)

    def layer(self) -> StringLayer:
        name = self.expect("name", "a layer")
        opened = self.accept("(")
        if opened is None:
            if name.text in (*WITH_CHAIN, "repeat"):
                raise self.fail("`(`")
            return StringLayer(name.text, name.span, name.span)
        if name.text in WITH_CHAIN or name.text == "repeat":
            return self.around(name, opened)
        arguments = [self.argument()]
        while self.accept(","):
            arguments.append(self.argument())
        closed = self.accept(")")
        if closed is None:
            raise self.fail("`,` or `)`", opened)
        return StringLayer(name.text, name.span.to(closed.span), name.span, tuple(arguments))

    def around(self, name: StringToken, opened: StringToken) -> StringLayer:
        count = None
        if name.text == "repeat":
            count = self.accept("variable") or self.expect("number", "a whole number")
            self.expect(",", "`,`")
        self.depth += 1
        if self.depth > MAX_DEPTH:
            self.faults.append(
                Diagnostic("C401", opened.span, {"what": "levels of brackets", "limit": MAX_DEPTH, "found": "more"})
            )
            raise StringFault()
        chain = self.chain()
        self.depth -= 1
        closed = self.accept(")")
        if closed is None:
            raise self.fail("`->` or `)`", opened)
        return StringLayer(name.text, name.span.to(closed.span), name.span, (), chain, count)

    def argument(self) -> StringArgument:
        name = None
        if self.now.kind == "name" and self.tokens[self.i + 1].kind == "=":
            name = self.expect("name", "a name")
            self.i += 1
        value = self.accept("number") or self.accept("name") or self.accept("variable")
        if value is None:
            raise self.fail("a number, a word, `True` or `False`")
        return StringArgument(
            None if name is None else name.text, value, name.span.to(value.span) if name else value.span
        )
