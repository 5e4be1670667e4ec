"""A text as tokens, for edits: where terms, arguments and statements begin and end. The text may be faulty."""

from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property

from calque.adl.syntax import Token, tokenize
from calque.ground.diagnostics import CalqueError, Fix, Span, Text

_CLOSE = {"(": ")", "[": "]"}


@dataclass(frozen=True, slots=True)
class TokenPiece:
    """A part of a text, from `start` up to `end`."""

    start: int
    end: int


@dataclass(frozen=True, slots=True)
class ArgumentTokens:
    """One argument as written; `name` is None where it is given by position, `at` covers both name and value."""

    name: str | None
    value: TokenPiece
    at: TokenPiece


@dataclass(frozen=True, slots=True)
class TermTokens:
    """A name and its arguments; `arguments` is None without brackets."""

    name: str
    at: TokenPiece
    arguments: tuple[ArgumentTokens, ...] | None
    label_end: int
    """Where its labels end."""


class TokenPage:
    """A text to edit."""

    def __init__(self, text: Text):
        self.text, self.body = text, text.body
        try:
            self.tokens: list[Token] = [t for t in tokenize(text)[0] if t.kind != "end"]
        except CalqueError:  # the text is too large
            self.tokens = []
        self._index = {token.start: k for k, token in enumerate(self.tokens)}

    def cut(self, piece: TokenPiece | Span) -> str:
        """The text of a piece."""
        return self.body[piece.start : piece.end]

    def fix(self, start: int, end: int, replacement: str) -> Fix:
        """The replacement of a part of the text."""
        return Fix(Span(self.text, start, end), replacement)

    def spaced(self, start: int, end: int, replacement: str) -> Fix:
        """As `fix`, with a space on each side where the text has none."""
        before = "" if start == 0 or self.body[start - 1].isspace() else " "
        after = "" if end == len(self.body) or self.body[end].isspace() else " "
        return self.fix(start, end, f"{before}{replacement}{after}")

    def token(self, offset: int) -> int | None:
        """The number of the token that begins at a place."""
        return self._index.get(offset)

    def before(self, offset: int) -> int | None:
        """The number of the last token that ends at a place or before it."""
        return max((k for k, token in enumerate(self.tokens) if token.end <= offset), default=None)

    @cached_property
    def _partner(self) -> dict[int, int]:
        """For each bracket of a pair, the number of the other bracket."""
        opened: list[int] = []
        partner: dict[int, int] = {}
        for k, token in enumerate(self.tokens):
            if token.kind in _CLOSE:
                opened.append(k)
            elif token.kind in _CLOSE.values() and opened and _CLOSE[self.tokens[opened[-1]].kind] == token.kind:
                first = opened.pop()
                partner[first], partner[k] = k, first
        return partner

    def partner(self, k: int) -> int | None:
        """The number of the other bracket."""
        return self._partner.get(k)

    def around(self, k: int) -> tuple[int, int] | None:
        """The innermost pair of brackets around a token."""
        pairs = [(a, b) for a, b in self._partner.items() if a < k < b]
        return max(pairs, default=None)

    def term(self, offset: int) -> TermTokens | None:
        """The term whose name begins at a place."""
        k = self.token(offset)
        if k is None or self.tokens[k].kind != "name":
            return None
        name, end, arguments = self.tokens[k], k, None
        if k + 1 < len(self.tokens) and self.tokens[k + 1].kind == "(":
            closed = self.partner(k + 1)
            if closed is None:
                return None
            end, arguments = closed, tuple(self._arguments(k + 2, closed))
        last = end
        while (
            last + 2 < len(self.tokens) and self.tokens[last + 1].kind == "@" and self.tokens[last + 2].kind == "name"
        ):
            last += 2
        return TermTokens(name.text, TokenPiece(offset, self.tokens[end].end), arguments, self.tokens[last].end)

    def term_ending(self, k: int) -> int | None:
        """The number of the first token of the term that ends with token k."""
        if self.tokens[k].kind == ")":
            opened = self.partner(k)
            if opened is None or opened == 0:
                return None
            return opened - 1 if self.tokens[opened - 1].kind == "name" else opened
        return k if self.tokens[k].kind in ("name", "number") else None

    def calling(self, k: int) -> TermTokens | None:
        """The term that has token k in its arguments."""
        pair = self.around(k)
        if pair is None or pair[0] == 0:
            return None
        return self.term(self.tokens[pair[0] - 1].start)

    def parts(self, first: int, last: int, marks: tuple[str, ...] = (",",)) -> Iterator[tuple[int, int]]:
        """The tokens [first, last) split at marks outside brackets, as ranges that are not empty."""
        begin = k = first
        while k < last:
            kind = self.tokens[k].kind
            if kind in marks:
                if begin < k:
                    yield begin, k
                begin = k + 1
            elif kind in _CLOSE:
                k = self.partner(k) or k
            k += 1
        if begin < last:
            yield begin, last

    def _arguments(self, first: int, last: int) -> Iterator[ArgumentTokens]:
        for a, b in self.parts(first, last):
            at = TokenPiece(self.tokens[a].start, self.tokens[b - 1].end)
            named = b - a > 2 and self.tokens[a].kind == "name" and self.tokens[a + 1].kind == "="
            if named:
                yield ArgumentTokens(self.tokens[a].text, TokenPiece(self.tokens[a + 2].start, at.end), at)
            else:
                yield ArgumentTokens(None, at, at)

    def argument(self, offset: int) -> tuple[TermTokens, int] | None:
        """The innermost term with an argument at this place, and the argument's number."""
        k = self.token(offset)
        term = self.calling(k) if k is not None else None
        if term is None:
            return None
        number = next((n for n, a in enumerate(term.arguments or ()) if a.at.start <= offset < a.at.end), None)
        return None if number is None else (term, number)

    def without(self, term: TermTokens, number: int) -> Fix:
        """The edit that removes an argument, and the brackets where it is the only one."""
        arguments = term.arguments or ()
        if len(arguments) == 1:
            return self.fix(term.at.start + len(term.name), term.at.end, "")
        if number + 1 < len(arguments):
            return self.fix(arguments[number].at.start, arguments[number + 1].at.start, "")
        return self.fix(arguments[number - 1].at.end, arguments[number].at.end, "")

    def with_argument(self, term: TermTokens, written: str) -> Fix:
        """The edit that adds an argument."""
        if not term.arguments:
            return self.fix(term.at.start + len(term.name), term.at.end, f"({written})")
        end = term.arguments[-1].at.end
        return self.fix(end, end, f", {written}")

    def statement(self, offset: int) -> TokenPiece:
        """The statement at a place, without the end of its line."""
        start, end = 0, len(self.body)
        for token in self.tokens:
            if token.kind == "newline":
                if token.start >= offset:
                    end = token.start
                    break
                start = token.end
        first = next((t.start for t in self.tokens if t.start >= start and t.kind != "newline"), start)
        last = next((t.end for t in reversed(self.tokens) if t.end <= end and t.kind != "newline"), end)
        return TokenPiece(min(first, offset), max(last, first))

    def line_of(self, piece: TokenPiece) -> TokenPiece:
        """The whole lines of a statement, the end of the last one included."""
        start = self.body.rfind("\n", 0, piece.start) + 1
        end = self.body.find("\n", piece.end)
        return TokenPiece(start, len(self.body) if end < 0 else end + 1)
