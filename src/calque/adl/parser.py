"""A recursive descent parser of the grammar in docs/spec.md, section 2.

After a fault it continues at the next statement, so that all faults are reported together.
"""

import itertools
from collections.abc import Iterator
from typing import NamedTuple

from calque.adl.limits import MAX_DECIMAL, MAX_DEPTH, MAX_DIGITS, MAX_FAULTS, MAX_OPERATIONS, MAX_STATEMENTS
from calque.adl.syntax import (
    Argument,
    ChainSyntax,
    DefinitionParameter,
    Label,
    Number,
    Operation,
    Source,
    Statement,
    Term,
    Token,
    Value,
    tokenize,
)
from calque.ground.diagnostics import CalqueError, Diagnostic, Fix, Span, Text

_SHOWN = {"newline": "the end of the line", "end": "the end of the text"}
_CLOSE = {"(": ")", "[": "]"}


class _Stop(Exception):
    """Ends the current statement; its fault is recorded."""


def parse(text: Text) -> list[Statement]:
    """The statements of a text. Raises all syntax errors together."""
    read = parse_some(text)
    if read.faults:
        raise CalqueError(read.faults)
    return read.statements


class ParseResult(NamedTuple):
    """The statements that can be read, the faults of the others, and the names that the others define."""

    statements: list[Statement]
    faults: list[Diagnostic]
    lost: list[str]
    warnings: tuple[Diagnostic, ...] = ()


def parse_some(text: Text) -> ParseResult:
    """The statements of a text that can be read. Raises only where the text is too large."""
    tokens, faults = tokenize(text)
    # A strange character also breaks the grammar around it; one fault is enough.
    strange = [d.where for d in faults if isinstance(d.where, Span)]
    parser = _Parser(tokens, faults)
    statements: list[Statement] = []
    lost: list[str] = []
    while not parser.at("end") and len(faults) <= MAX_FAULTS:
        if parser.accept("newline"):
            continue
        start, before = parser.i, len(faults)
        try:
            if len(statements) == MAX_STATEMENTS:
                fields: dict[str, object] = {"what": "statements", "limit": MAX_STATEMENTS, "found": "more"}
                faults.append(Diagnostic("C401", parser.now.span, fields))
                break
            statements.append(parser.statement())
        except _Stop:
            parser.recover(start)
            lost += names_of(tokens[start : parser.i])
            if any(tokens[start].start <= s.start < parser.now.start for s in strange):
                del faults[before:]
    faults.sort(key=lambda d: d.where.start if isinstance(d.where, Span) else 0)
    return ParseResult(statements, faults, lost)


def names_of(tokens: list[Token]) -> Iterator[str]:
    """The names that a statement which cannot be read may define: those it begins with, and those before `=` outside brackets."""
    depth, first = 0, True
    for token, following in itertools.pairwise(tokens):
        depth += (token.kind in _CLOSE) - (token.kind in _CLOSE.values())
        first = first and token.kind == "name"
        if token.kind == "name" and (first or (depth == 0 and following.kind == "=")):
            yield token.text
    if len(tokens) == 1 and tokens[0].kind == "name":
        yield tokens[0].text


class _Parser:
    def __init__(self, tokens: list[Token], faults: list[Diagnostic]):
        self.tokens, self.faults, self.i, self.depth = tokens, faults, 0, 0

    @property
    def now(self) -> Token:
        return self.tokens[self.i]

    def at(self, *kinds: str) -> bool:
        return self.now.kind in kinds

    def accept(self, kind: str) -> Token | None:
        if self.now.kind != kind:
            return None
        self.i += 1
        return self.tokens[self.i - 1]

    def expect(self, kind: str, what: str | None = None, opened: Token | None = None) -> Token:
        token = self.accept(kind)
        if token is None:
            raise self.fail(what or f"`{kind}`", opened)
        return token

    def fail(self, expected: str, opened: Token | None = None) -> _Stop:
        if opened is not None and self.at("=") and self.starts_statement(self.i - 1):
            self.i -= 1
        token, span, fix = self.now, self.now.span, None
        found = _SHOWN.get(token.kind, f"`{token.text}`")
        related = ((opened.span, f"`{opened.text}` was opened"),) if opened else ()
        fields: dict[str, object] = {"expected": expected}
        if opened is not None and (token.kind in _SHOWN or self.starts_statement(self.i)):
            # The bracket is never closed: show the place after the last token before the new statement.
            end = self.tokens[self.i - 1].end
            span, found = Span(token.source, end, end), _SHOWN["end" if token.kind == "end" else "newline"]
            whole = self.tokens[self.i - 1].kind in ("name", "number", ")", "]", ",")
            if whole and f"`{_CLOSE[opened.kind]}`" in expected:
                fields["add"] = _CLOSE[opened.kind]
                fix = Fix(span, _CLOSE[opened.kind])
        self.faults.append(Diagnostic("S102", span, {**fields, "found": found}, fix, related))
        return _Stop()

    def dangling(self, mark: Token, expected: str, fix: Fix | None = None) -> _Stop:
        """An arrow or an equals sign with nothing after it."""
        found = _SHOWN["newline"] if self.at("name") else _SHOWN.get(self.now.kind, f"`{self.now.text}`")
        self.faults.append(Diagnostic("S102", mark.span, {"expected": expected, "found": found}, fix))
        return _Stop()

    def starts_statement(self, at: int) -> bool:
        """Whether a line begins here with `NAME =` or `NAME(...) =`, even inside open brackets."""
        if not (self.tokens[at].kind == "name" and self.tokens[at].first):
            return False
        at += 1
        if self.tokens[at].kind == "(":
            while self.tokens[at].kind not in (")", "newline", "end"):
                at += 1
            at += self.tokens[at].kind == ")"
        return self.tokens[at].kind == "="

    def recover(self, start: int) -> None:
        """Continues after the statement that begins at token `start`."""
        self.depth = 0
        while not self.at("end"):
            if self.i > start and self.starts_statement(self.i):
                return
            if self.accept("newline"):
                return
            self.i += 1

    def statement(self) -> Statement:
        name = self.expect("name", "a statement such as `encoder = ...`")
        parameters = None
        if self.at("("):
            parameters = self.parameters()
        equals = self.expect("=")
        if self.at("end") or self.starts_statement(self.i):
            raise self.dangling(equals, "a value after `=`")
        value = self.value()
        # Inside an open bracket the end of a line does not end a statement, but the start of the next one does.
        if not (self.at("newline", "end") or self.starts_statement(self.i)):
            raise self.fail("the end of the statement")
        return Statement(name.text, parameters, value, name.span.to(value.span), name.span)

    def parameters(self) -> tuple[DefinitionParameter, ...]:
        opened = self.expect("(")
        written: list[DefinitionParameter] = []
        while not self.at(")"):
            name = self.expect("name", "a parameter's name", opened)
            default = self.value() if self.accept("=") else None
            written.append(DefinitionParameter(name.text, default, name.span))
            if not self.accept(","):
                break
        self.expect(")", "`,` or `)`", opened)
        return tuple(written)

    def value(self) -> Value:
        self.enter()
        head: Value = self.source() if self.at("@") else self.sum()
        if not self.at("->"):
            self.depth -= 1
            return head
        if not isinstance(head, Term | Source):
            self.faults.append(Diagnostic("S103", head.span))
            raise _Stop()
        parts: list[Term | Source] = [head]
        while arrow := self.accept("->"):
            if self.at("end", ")", ",") or self.starts_statement(self.i):
                raise self.dangling(arrow, "a layer after `->`", Fix(arrow.span, ""))
            if not self.at("name"):
                raise self.fail("a layer")
            parts.append(self.term())
        self.depth -= 1
        return ChainSyntax(tuple(parts), parts[0].span.to(parts[-1].span))

    def enter(self, opened: Token | None = None) -> None:
        self.depth += 1
        if self.depth > MAX_DEPTH:
            raise self.limit("levels of brackets", MAX_DEPTH, "more", (opened or self.now).span)

    def limit(self, what: str, limit: int, found: object, span: Span) -> _Stop:
        self.faults.append(Diagnostic("C401", span, {"what": what, "limit": limit, "found": found}))
        return _Stop()

    def operation(self, op: str, left: Value, right: Value, span: Span) -> Operation:
        height = 1 + max(side.height if isinstance(side, Operation) else 0 for side in (left, right))
        if height > MAX_OPERATIONS:
            raise self.limit("levels of arithmetic", MAX_OPERATIONS, "more", span)
        return Operation(op, left, right, span, height)

    def source(self) -> Source:
        mark = self.expect("@")
        label = self.expect("name", "a label")
        index, span = None, mark.span.to(label.span)
        opened = self.accept("[")
        if opened:
            index = self.sum()
            span = span.to(self.expect("]", "`]`", opened).span)
        return Source(label.text, index, span)

    def sum(self) -> Value:
        left = self.product()
        while self.at("+", "-"):
            op = self.tokens[self.i].kind
            self.i += 1
            right = self.product()
            left = self.operation(op, left, right, left.span.to(right.span))
        return left

    def product(self) -> Value:
        left = self.factor()
        while self.at("*", "/"):
            op = self.tokens[self.i].kind
            self.i += 1
            right = self.factor()
            left = self.operation(op, left, right, left.span.to(right.span))
        return left

    def factor(self) -> Value:
        minus = self.accept("-")
        if minus:
            self.enter(minus)
            inner = self.factor()
            self.depth -= 1
            span = minus.span.to(inner.span)
            if isinstance(inner, Number):
                return Number(-inner.value, span)
            return self.operation("-", Number(0, minus.span), inner, span)
        if self.at("number"):
            return self.number()
        opened = self.accept("(")
        if opened:
            self.enter(opened)
            inner = self.sum()
            self.depth -= 1
            self.expect(")", "`)`", opened)
            return inner
        if self.at("name"):
            return self.term()
        raise self.fail("a value")

    def number(self) -> Number:
        token = self.expect("number")
        whole = token.text.isdigit()
        most = MAX_DIGITS if whole else MAX_DECIMAL
        if len(token.text) > most:
            raise self.limit("digits", most, len(token.text), token.span)
        return Number(int(token.text) if whole else float(token.text), token.span)

    def term(self) -> Term:
        name = self.expect("name")
        arguments, span = None, name.span
        if self.at("("):
            arguments, span = self.arguments(name)
        labels: list[Label] = []
        while self.accept("@"):
            label = self.expect("name", "a label")
            labels.append(Label(label.text, label.span))
            span = span.to(label.span)
        return Term(name.text, arguments, tuple(labels), span, name.span)

    def arguments(self, name: Token) -> tuple[tuple[Argument, ...], Span]:
        opened = self.expect("(")
        written: list[Argument] = []
        while not self.at(")"):
            if self.at("name") and self.tokens[self.i + 1].kind == "=":
                key = self.expect("name")
                self.expect("=")
                value = self.value()
                written.append(Argument(key.text, value, key.span.to(value.span), key.span))
            else:
                value = self.value()
                written.append(Argument(None, value, value.span))
            if not self.accept(","):
                break
        closed = self.expect(")", "`,` or `)`", opened)
        return tuple(written), name.span.to(closed.span)
