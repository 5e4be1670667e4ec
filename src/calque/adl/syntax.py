"""Tokens and the parse tree. It knows punctuation and no layer name."""

import re
from dataclasses import dataclass, field

from calque.diagnostics import CalqueError, Diagnostic, Span, Text

MAX_CHARACTERS = 100_000


@dataclass(frozen=True, slots=True)
class Token:
    """`kind` is the punctuation itself, or `name`, `number`, `newline`, `end`."""

    kind: str
    text: str
    span: Span


# A bare `-` before `>` belongs to the arrow; `.` never starts a number's tail twice.
_TOKEN = re.compile(
    r"(?P<space>[ \t\r\f]+|\#[^\n]*)"
    r"|(?P<newline>\n)"
    r"|(?P<arrow>->|→)"
    r"|(?P<number>(?:\d+\.\d*|\.\d+|\d+)(?:[eE][+-]?\d+)?)"
    r"|(?P<name>[A-Za-z_][A-Za-z_0-9]*)"
    r"|(?P<mark>[()\[\],=@+*/-])"
)


def tokenize(text: Text) -> tuple[list[Token], list[Diagnostic]]:
    """The tokens of a text, newlines kept only where they end a statement, and what could not be read."""
    body, faults = text.body, []
    if len(body) > MAX_CHARACTERS:
        span = Span(text, MAX_CHARACTERS, MAX_CHARACTERS + 1)
        raise CalqueError(Diagnostic("C401", span, {"what": "characters", "limit": MAX_CHARACTERS, "found": len(body)}))
    tokens: list[Token] = []
    depth = at = 0
    while at < len(body):
        match = _TOKEN.match(body, at)
        if match is None:
            span = Span(text, at, at + 1)
            if not (faults and isinstance(faults[-1].where, Span) and faults[-1].where.end == at):
                faults.append(Diagnostic("S101", span, {"character": body[at]}))
            else:  # a run of strange characters is one fault
                first = faults[-1].where
                faults[-1] = Diagnostic("S101", Span(text, first.start, at + 1), {"character": body[first.start : at + 1]})
            at += 1
            continue
        kind, piece = match.lastgroup, match.group()
        span = Span(text, at, match.end())
        at = match.end()
        if kind == "newline":
            if depth == 0 and tokens and tokens[-1].kind not in ("newline", "->", "="):
                tokens.append(Token("newline", "\n", span))
        elif kind == "arrow":
            if tokens and tokens[-1].kind == "newline":  # `->` at the start of a line goes on with the line before
                tokens.pop()
            tokens.append(Token("->", piece, span))
        elif kind == "mark":
            depth += {"(": 1, "[": 1, ")": -1, "]": -1}.get(piece, 0)
            depth = max(0, depth)
            tokens.append(Token(piece, piece, span))
        elif kind != "space":
            tokens.append(Token(str(kind), piece, span))
    tokens.append(Token("end", "", Span(text, len(body), len(body))))
    return tokens, faults


@dataclass(frozen=True, slots=True)
class Number:
    """A whole number or a decimal one."""

    value: int | float
    span: Span = field(compare=False)


@dataclass(frozen=True, slots=True)
class Operation:
    """`left op right`; a negation is `0 - right`."""

    op: str
    left: "Value"
    right: "Value"
    span: Span = field(compare=False)


@dataclass(frozen=True, slots=True)
class Argument:
    """`name = value`, or a positional value."""

    name: str | None
    value: "Value"
    span: Span = field(compare=False)
    name_span: Span | None = field(default=None, compare=False)


@dataclass(frozen=True, slots=True)
class Term:
    """`name`, `name(arguments)`, with labels behind: `name(...) @ label`. `arguments` is None without brackets."""

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
class Chain:
    """Two or more parts joined by `->`; only the first may be a source."""

    parts: tuple["Term | Source", ...]
    span: Span = field(compare=False)


Value = Number | Operation | Term | Source | Chain


@dataclass(frozen=True, slots=True)
class Parameter:
    """A parameter of a definition."""

    name: str
    default: Value | None
    span: Span = field(compare=False)


@dataclass(frozen=True, slots=True)
class Statement:
    """`name = value` or `name(parameters) = value`."""

    name: str
    parameters: tuple[Parameter, ...] | None
    value: Value
    span: Span = field(compare=False)
    name_span: Span = field(compare=False)
