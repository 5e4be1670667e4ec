"""Recursive descent over the tokens. After a fault it goes on at the next statement, so that all faults are told at once.

    program   = { statement newline }
    statement = NAME [ "(" parameter { "," parameter } ")" ] "=" value
    value     = ( sum | source ) { "->" term }
    sum       = product { ("+" | "-") product }
    product   = factor { ("*" | "/") factor }
    factor    = "-" factor | NUMBER | "(" sum ")" | term
    term      = NAME [ "(" [ argument { "," argument } [ "," ] ] ")" ] { "@" NAME }
    argument  = [ NAME "=" ] value
    source    = "@" NAME [ "[" sum "]" ]
"""

from calque.adl.syntax import (
    Argument,
    Chain,
    Label,
    Number,
    Operation,
    Parameter,
    Source,
    Statement,
    Term,
    Token,
    Value,
    tokenize,
)
from calque.diagnostics import CalqueError, Diagnostic, Fix, Span, Text

MAX_DEPTH = 48

_SHOWN = {"newline": "the end of the line", "end": "the end of the text", "name": "a name", "number": "a number"}


class _Stop(Exception):
    """Leaves the statement at hand; the fault is recorded."""


def parse(text: Text) -> list[Statement]:
    """The statements of a text. Raises all syntax errors at once."""
    statements, faults = parse_some(text)
    if faults:
        raise CalqueError(faults)
    return statements


def parse_some(text: Text) -> tuple[list[Statement], list[Diagnostic]]:
    """The statements that can be read, and what is wrong with the others."""
    tokens, faults = tokenize(text)
    parser = _Parser(tokens, faults)
    statements = []
    while not parser.at("end"):
        if parser.accept("newline"):
            continue
        try:
            statements.append(parser.statement())
        except _Stop:
            parser.recover()
    # A strange character also upsets the grammar around it; one fault is enough.
    strange = {d.where.text.line_column(d.where.start)[0] for d in faults if d.code == "S101" and isinstance(d.where, Span)}
    kept = [
        d
        for d in faults
        if d.code == "S101"
        or not (isinstance(d.where, Span) and d.where.text.line_column(d.where.start)[0] in strange)
    ]
    kept.sort(key=lambda d: d.where.start if isinstance(d.where, Span) else 0)
    return statements, kept


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
        token = self.now
        found = _SHOWN[token.kind] if token.kind in ("newline", "end") else f"`{token.text}`"
        related = ((opened.span, f"`{opened.text}` was opened"),) if opened else ()
        fix = None
        if opened is not None and token.kind in ("newline", "end"):
            close = ")" if opened.kind == "(" else "]"
            fix = Fix(Span(token.span.text, token.span.start, token.span.start), close)
        fields: dict[str, object] = {"expected": expected, "found": found}
        self.faults.append(Diagnostic("S102", token.span, fields, fix, related))
        return _Stop()

    def recover(self) -> None:
        # The next statement starts a line with `NAME =` or `NAME (`, whatever brackets are still open.
        start = self.i
        while not self.at("end"):
            before = self.tokens[self.i - 1] if self.i else None
            fresh = self.i > start and self.at("name") and before is not None and (
                before.kind == "newline" or "\n" in before.span.text.body[before.span.end : self.now.span.start]
            )
            if fresh and self.tokens[self.i + 1].kind in ("=",) and self.now.span.text.line_column(self.now.span.start)[1] == 1:
                return
            if self.accept("newline"):
                return
            self.i += 1

    def statement(self) -> Statement:
        name = self.expect("name", "a statement such as `encoder = ...`")
        parameters = None
        if self.at("("):
            parameters = self.parameters()
        self.expect("=")
        value = self.value()
        if not self.at("newline", "end"):
            raise self.fail("the end of the statement")
        return Statement(name.text, parameters, value, name.span.to(value.span), name.span)

    def parameters(self) -> tuple[Parameter, ...]:
        opened = self.expect("(")
        found: list[Parameter] = []
        while not self.at(")"):
            name = self.expect("name", "a parameter's name", opened)
            default = self.value() if self.accept("=") else None
            found.append(Parameter(name.text, default, name.span))
            if not self.accept(","):
                break
        self.expect(")", "`,` or `)`", opened)
        return tuple(found)

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
        while self.accept("->"):
            if not self.at("name"):
                raise self.fail("a layer")
            parts.append(self.term())
        self.depth -= 1
        return Chain(tuple(parts), parts[0].span.to(parts[-1].span))

    def enter(self) -> None:
        self.depth += 1
        if self.depth > MAX_DEPTH:
            fields: dict[str, object] = {"what": "nested brackets", "limit": MAX_DEPTH, "found": "more"}
            self.faults.append(Diagnostic("C401", self.now.span, fields))
            raise _Stop()

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
            left = Operation(op, left, right, left.span.to(right.span))
        return left

    def product(self) -> Value:
        left = self.factor()
        while self.at("*", "/"):
            op = self.tokens[self.i].kind
            self.i += 1
            right = self.factor()
            left = Operation(op, left, right, left.span.to(right.span))
        return left

    def factor(self) -> Value:
        self.enter()
        made = self._factor()
        self.depth -= 1
        return made

    def _factor(self) -> Value:
        minus = self.accept("-")
        if minus:
            inner = self.factor()
            span = minus.span.to(inner.span)
            if isinstance(inner, Number):
                return Number(-inner.value, span)
            return Operation("-", Number(0, minus.span), inner, span)
        if self.at("number"):
            return self.number()
        opened = self.accept("(")
        if opened:
            inner = self.sum()
            self.expect(")", "`)`", opened)
            return inner
        if self.at("name"):
            return self.term()
        raise self.fail("a value")

    def number(self) -> Number:
        token = self.expect("number")
        if len(token.text) > 18:
            self.faults.append(Diagnostic("C401", token.span, {"what": "digits", "limit": 18, "found": len(token.text)}))
            raise _Stop()
        whole = token.text.isdigit()
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
        found: list[Argument] = []
        while not self.at(")"):
            if self.at("name") and self.tokens[self.i + 1].kind == "=":
                key = self.expect("name")
                self.expect("=")
                value = self.value()
                found.append(Argument(key.text, value, key.span.to(value.span), key.span))
            else:
                value = self.value()
                found.append(Argument(None, value, value.span))
            if not self.accept(","):
                break
        closed = self.expect(")", "`,` or `)`", opened)
        return tuple(found), name.span.to(closed.span)
