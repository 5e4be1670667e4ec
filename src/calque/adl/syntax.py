"""Tokens and the parse tree; no layer is named here."""

import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from typing import NamedTuple, cast

from calque.adl.limits import MAX_CHARACTERS, MAX_FAULTS, MAX_TOKENS
from calque.adl.signature import NAME
from calque.ground.diagnostics import CalqueError, Diagnostic, Span, Text


class Token(NamedTuple):
    """`kind` is the punctuation itself, or `name`, `number`, `newline`, `end`."""

    kind: str
    text: str
    source: Text
    start: int

    @property
    def end(self) -> int:
        """The offset after the token."""
        return self.start + len(self.text)

    @property
    def span(self) -> Span:
        """The place of the token."""
        return Span(self.source, self.start, self.end)

    @property
    def first(self) -> bool:
        """Whether it is at the start of a line, without spaces before it."""
        return self.start == 0 or self.source.body[self.start - 1] == "\n"


# `->` is tried before the marks, so that its `-` is no minus sign. Only ASCII digits are numbers.
_TOKEN = re.compile(
    r"(?P<space>[ \t\r\f]+|\#[^\n]*)"
    r"|(?P<newline>\n)"
    r"|(?P<arrow>->|→)"
    r"|(?P<number>(?:[0-9]+\.[0-9]*|\.[0-9]+|[0-9]+)(?:[eE][+-]?[0-9]+)?)"
    rf"|(?P<name>{NAME})"
    r"|(?P<mark>[()\[\],=@+*/-])"
    r"|(?P<strange>[^ \t\r\f\n#→0-9A-Za-z_()\[\],=@+*/-]+)"
)


_QUOTES = ('"', "'")
_NESTING = {"(": 1, "[": 1, ")": -1, "]": -1}
_KINDS = {"arrow": "->", "name": "name", "number": "number"}  # a mark is its own kind


def tokenize(text: Text) -> tuple[list[Token], list[Diagnostic]]:
    """The tokens of a text, with newlines only where they may end a statement, and the faults of unknown characters."""
    body = text.body
    if len(body) > MAX_CHARACTERS:
        raise _too_many("characters", MAX_CHARACTERS, len(body), Span(text, MAX_CHARACTERS, MAX_CHARACTERS + 1))
    faults: list[Diagnostic] = []
    tokens: list[Token] = []
    depth = 0
    for match in _TOKEN.finditer(body):
        kind, piece, start = str(match.lastgroup), match.group(), match.start()
        if kind == "strange":
            if piece == ">" and _parted(tokens, start):
                # Taken as the arrow that was meant, so that this is the one fault.
                start = tokens.pop().start
                _drop_newline(tokens)
                piece = body[start : match.end()]
                tokens.append(Token("->", piece, text, start))
            if len(faults) <= MAX_FAULTS:
                faults.append(Diagnostic("S101", Span(text, start, match.end()), {"character": piece}))
        elif kind == "newline":
            if depth == 0 and _complete(tokens):
                tokens.append(Token("newline", piece, text, start))
        elif kind != "space":
            if kind == "arrow":
                _drop_newline(tokens)
            depth = max(0, depth + _NESTING.get(piece, 0))
            tokens.append(Token(_KINDS.get(kind, piece), piece, text, start))
        if len(tokens) > MAX_TOKENS:
            raise _too_many("names, numbers and marks", MAX_TOKENS, "more", Span(text, start, match.end()))
    tokens.append(Token("end", "", text, len(body)))
    return tokens, list(_without_closing_quotes(faults, body))


def _without_closing_quotes(faults: Iterable[Diagnostic], body: str) -> Iterator[Diagnostic]:
    """Faults of characters; both quotes around words of a line are one."""
    opened, since = "", 0
    for fault in faults:
        character, at = str(fault.fields["character"]), cast("Span", fault.where).start
        closes = character in _QUOTES and character == opened and "\n" not in body[since:at]
        opened, since = ("" if closes else character), at
        if not closes:
            yield fault


def _complete(tokens: list[Token]) -> bool:
    """Whether the end of a line may end a statement after these tokens."""
    return bool(tokens) and tokens[-1].kind not in ("newline", "->", "=")


def _parted(tokens: list[Token], at: int) -> bool:
    """Whether a `>` at an offset is the second half of an arrow: a minus is before it on the same line."""
    return bool(tokens) and tokens[-1].kind == "-" and "\n" not in tokens[-1].source.body[tokens[-1].end : at]


def _drop_newline(tokens: list[Token]) -> None:
    """`->` at the start of a line continues the line before."""
    if tokens and tokens[-1].kind == "newline":
        tokens.pop()


def _too_many(what: str, limit: int, found: object, span: Span) -> CalqueError:
    return CalqueError(Diagnostic("C401", span, {"what": what, "limit": limit, "found": found}))


@dataclass(frozen=True, slots=True)
class Number:
    """A whole number or a decimal one."""

    value: int | float
    span: Span = field(compare=False)


@dataclass(frozen=True, slots=True)
class Operation:
    """`left op right`; a negation is `0 - right`. `height` counts the operations within one another."""

    op: str
    left: "Value"
    right: "Value"
    span: Span = field(compare=False)
    height: int = field(default=1, compare=False)


@dataclass(frozen=True, slots=True)
class Argument:
    """`name = value`, or a positional value."""

    name: str | None
    value: "Value"
    span: Span = field(compare=False)
    name_span: Span | None = field(default=None, compare=False)


@dataclass(frozen=True, slots=True)
class Term:
    """`name` or `name(arguments)`, with labels after it: `name(...) @ label`. `arguments` is None without brackets."""

    name: str
    arguments: tuple[Argument, ...] | None
    labels: tuple["Label", ...]
    span: Span = field(compare=False)
    name_span: Span = field(compare=False)


@dataclass(frozen=True, slots=True)
class Label:
    """A label of a term."""

    name: str
    span: Span = field(compare=False)


@dataclass(frozen=True, slots=True)
class Source:
    """`@label`, `@label[index]`: a point of the encoder."""

    label: str
    index: "Value | None"
    span: Span = field(compare=False)


@dataclass(frozen=True, slots=True)
class ChainSyntax:
    """Two or more parts joined by `->`; only the first may be a source."""

    parts: tuple["Term | Source", ...]
    span: Span = field(compare=False)


Value = Number | Operation | Term | Source | ChainSyntax


@dataclass(frozen=True, slots=True)
class DefinitionParameter:
    """A parameter of a definition."""

    name: str
    default: Value | None
    span: Span = field(compare=False)


@dataclass(frozen=True, slots=True)
class Statement:
    """`name = value` or `name(parameters) = value`."""

    name: str
    parameters: tuple[DefinitionParameter, ...] | None
    value: Value
    span: Span = field(compare=False)
    name_span: Span = field(compare=False)


def describe(value: Value) -> str:
    """A value in words, for a message."""
    if isinstance(value, Number):
        return f"`{value.value}`"
    if isinstance(value, Operation):
        return "arithmetic"
    if isinstance(value, Source):
        return f"the source `@{value.label}`"
    if isinstance(value, ChainSyntax):
        return "a chain"
    return f"`{value.name}`" if value.arguments is None else f"`{value.name}(...)`"
