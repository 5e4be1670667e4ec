"""Rules for punctuation: `->`, `=` and `#` in other notations, and missing or surplus marks."""

import re
import unicodedata
from collections.abc import Iterator

from calque.adl.advice.aliases import lists, singles
from calque.adl.advice.desk import Desk, span_of
from calque.adl.advice.names import DOTTED, term_fixes
from calque.adl.syntax import Token
from calque.ground.diagnostics import Diagnostic, Fix

ARITHMETIC = re.compile(r"[\w)]\s*\Z"), re.compile(r"\s*[\d(]")
"""What stands before and behind a sign of arithmetic."""
TIMES = re.compile(r"[x×]?([0-9]+)[x×]?")

LETTERS = str.maketrans("аеорсухіѕјһԁԛԝονικρτυχα", "aeopcyxisjhdqwovikptuxa")
"""Letters of other scripts that look like Latin ones."""


def character(desk: Desk, fault: Diagnostic) -> Iterator[Fix]:
    """S101: a character that is not part of the language."""
    at = span_of(fault)
    written = desk.page.cut(at)
    meant = unicodedata.normalize("NFKC", written).translate(LETTERS)
    if meant != written and meant.isascii() and meant.isalnum():
        yield desk.page.fix(at.start, at.end, meant)
    yield from dotted(desk, at.start)
    yield from pairs(desk, at.start)
    yield from marks(desk, at.start, at.end)
    yield from braces(desk, at.start)
    if not calculates(desk, at.start, at.end):
        yield desk.page.fix(at.start, at.end, "")


def grammar(desk: Desk, fault: Diagnostic) -> Iterator[Fix]:
    """S102: correct tokens that do not follow the grammar."""
    at = span_of(fault)
    page = desk.page
    if fault.fix is not None:
        yield fault.fix
    k = page.token(at.start)
    yield from repeated(desk, k)
    yield from multiplied(desk, k)
    yield from unwrapped(desk, k)
    yield from numbered(desk, k)
    yield from listed(desk, k)
    yield from marks(desk, at.start, at.end)
    statement = page.statement(at.start)
    if k is None or page.tokens[k].kind == "newline":
        if page.body[: statement.start].strip():
            yield page.fix(statement.start, statement.start, "-> ")  # a chain that continues without an arrow
        yield from prose(desk, at.start)
        return
    following = page.tokens[k + 1 : k + 2]
    if following and following[0].text == "=" and "=" in page.body[statement.start : at.start]:
        # Two statements on a line.
        space = len(page.body[: at.start].rstrip())
        yield page.fix(space, at.start, "\n")
    yield page.spaced(at.start, at.start, "->")
    yield page.spaced(at.start, at.start, "=")
    yield page.fix(at.start, at.start, ", ")
    if k and page.tokens[k - 1].end == at.start and re.fullmatch(r"_[0-9_]+", page.cut(at)):  # 1_000
        number = page.tokens[k - 1]
        yield page.fix(number.start, at.end, (number.text + page.cut(at)).replace("_", ""))
    elif not calculates(desk, at.start, at.end):
        yield page.fix(at.start, at.end, "")
    if statement.start < at.start:
        yield page.fix(statement.start, at.start, "")
    yield from prose(desk, at.start)


def prose(desk: Desk, offset: int) -> Iterator[Fix]:
    """A line of ordinary words becomes a comment."""
    statement = desk.page.statement(offset)
    if "=" not in desk.page.cut(statement) and "->" not in desk.page.cut(statement):
        yield desk.page.fix(statement.start, statement.start, "# ")


def arrow(desk: Desk, fault: Diagnostic) -> Iterator[Fix]:
    """S103: a number before `->` is a width, or the number of copies of the next layer."""
    at = span_of(fault)
    yield from times(desk, at.start, at.end)
    yield desk.page.fix(at.start, at.end, f"linear({desk.page.cut(at)})")


def marks(desk: Desk, start: int, end: int) -> Iterator[Fix]:
    """The mark of another notation of which [start, end) is a part."""
    body = desk.page.body
    for mark, meant in sorted(lists("marks").items(), key=lambda item: -len(item[0])):
        for shift in range(len(mark) + 1):
            first = start - shift
            if first < 0 or not body.startswith(mark, first) or first + len(mark) < start:
                continue
            for replacement in meant:
                if replacement in ("", "#") and calculates(desk, first, first + len(mark)):
                    continue
                if replacement in ("", "\n", "#"):
                    yield desk.page.fix(first, first + len(mark), replacement)
                else:
                    yield desk.page.spaced(first, first + len(mark), replacement)


def calculates(desk: Desk, start: int, end: int) -> bool:
    """Whether [start, end) is a sign between two numbers: without it the result would be another one, and nobody would see."""
    (before, behind), body = ARITHMETIC, desk.page.body
    if not body[start:end].strip("*/%^") and behind.match(body, end):
        return before.search(body[:start].rstrip("*/%^ ")) is not None
    return False


def pairs(desk: Desk, start: int) -> Iterator[Fix]:
    """Remove quotes around a word."""
    body = desk.page.body
    for opening, closing in singles("pairs").items():
        if body.startswith(opening, start):
            line = body.find("\n", start)
            end = body.find(closing, start + 1, line if line >= 0 else len(body))
            if end >= 0:
                yield desk.page.fix(start, end + 1, body[start + 1 : end].strip())


def braces(desk: Desk, start: int) -> Iterator[Fix]:
    """Round brackets instead of braces."""
    body = desk.page.body
    if body.startswith("{", start) and (end := body.find("}", start)) >= 0:
        inside = body[start + 1 : end].strip()
        yield desk.page.fix(start, end + 1, f"({inside})")
        yield desk.page.fix(start, end + 1, inside)


def dotted(desk: Desk, start: int) -> Iterator[Fix]:
    """`nn.Linear(256, 512)`: remove the module and look the name up."""
    for match in DOTTED.finditer(desk.page.body):
        if match.start() <= start < match.end():
            if match[0].partition(".")[0] in (*desk.aliases.signatures, *desk.aliases.definitions):
                yield from marks(desk, start, start + 1)
            term = desk.page.term(match.end())
            if term is not None:
                yield from term_fixes(desk, term, match.start())
            yield desk.page.fix(match.start(), match.end(), "")


def repeated(desk: Desk, k: int | None) -> Iterator[Fix]:
    """`tenc x6`, `tenc x 6` and `6x tenc` for `repeat(6, tenc)`."""
    if not k:
        return
    tokens = desk.page.tokens
    name, following = tokens[k], tokens[min(k + 1, len(tokens) - 1)]
    number = following if following.kind == "number" else None
    together = name.text + (number.text if number else "")
    match = TIMES.fullmatch(together) if name.kind == "name" else None
    if match is not None and together != match[1]:
        yield from _copies_of_ending(desk, k - 1, match[1], (number or name).end)
    if tokens[k - 1].kind == "number" and name.kind == "name":
        start = following if name.text == "x" else name
        yield from _copies_of_beginning(desk, tokens[k - 1], start.start)


def multiplied(desk: Desk, k: int | None) -> Iterator[Fix]:
    """The same in a chain: `pos -> 6*tenc` and `pos -> tenc*6`; `repeat 6 tenc` without brackets."""
    page, tokens = desk.page, desk.page.tokens
    if not k or k + 1 >= len(tokens):
        return
    kinds = tokens[k].kind, tokens[k + 1].kind
    if kinds == ("number", "*") and k + 2 < len(tokens):
        yield from _copies_of_beginning(desk, tokens[k], tokens[k + 2].start)
    if kinds == ("*", "number"):
        yield from _copies_of_ending(desk, k - 1, tokens[k + 1].text, tokens[k + 1].end)
    if kinds[0] == "number" and tokens[k - 1].kind == "name":
        term = page.term(tokens[k + 1].start)
        body, end = ("", tokens[k].end) if term is None else (f", {page.cut(term.at)}", term.at.end)
        yield page.fix(tokens[k - 1].start, end, f"{tokens[k - 1].text}({tokens[k].text}{body})")


def _copies_of_ending(desk: Desk, k: int, count: str, end: int) -> Iterator[Fix]:
    """`repeat` of the term that ends with token k; the count after it ends at `end`."""
    first = desk.page.term_ending(k)
    if first is not None:
        start = desk.page.tokens[first].start
        yield desk.page.fix(start, end, f"repeat({count}, {desk.page.body[start : desk.page.tokens[k].end]})")


def _copies_of_beginning(desk: Desk, count: Token, offset: int) -> Iterator[Fix]:
    """`repeat` of the term that begins at a place after its count."""
    term = desk.page.term(offset)
    if term is not None:
        yield desk.page.fix(count.start, term.at.end, f"repeat({count.text}, {desk.page.cut(term.at)})")


def times(desk: Desk, start: int, end: int) -> Iterator[Fix]:
    """`6 * tenc`, `tenc * 6` and `tenc ** 6` for `repeat(6, tenc)`; `a + b` for `add(a, b)`."""
    page = desk.page
    written = re.sub(r"\s+", " ", page.body[start:end])
    count_first = re.fullmatch(r"\s*([0-9]+)\s*\*+\s*(.+)", written, re.DOTALL)
    count_last = re.fullmatch(r"(.+?)\s*\*+\s*([0-9]+)\s*", written, re.DOTALL)
    if count_first is not None:
        yield page.fix(start, end, f"repeat({count_first[1]}, {_bare(count_first[2])})")
    if count_last is not None:
        yield page.fix(start, end, f"repeat({count_last[2]}, {_bare(count_last[1])})")
    if "+" in written:
        yield page.fix(start, end, f"add({', '.join(part.strip() for part in written.split('+'))})")


def _bare(written: str) -> str:
    """Without round brackets around all of it."""
    return written[1:-1].strip() if written.startswith("(") and written.endswith(")") else written.strip()


def unwrapped(desk: Desk, k: int | None) -> Iterator[Fix]:
    """Remove brackets around a chain; with a number beside them they are the body of `repeat`."""
    page = desk.page
    pair = _brackets(desk, k)
    if pair is None:
        return
    tokens, (opened, closed) = page.tokens, pair
    first, last = tokens[opened], tokens[closed]
    inside = page.body[first.end : last.start].strip()
    before = tokens[opened - 1].kind if opened else ""
    if before == "*" and opened > 1 and tokens[opened - 2].kind == "number":
        count = tokens[opened - 2]
        yield page.fix(count.start, last.end, f"repeat({count.text}, {inside})")
    if closed + 2 < len(tokens) and tokens[closed + 1].kind == "*":
        count = tokens[closed + 2]
        yield page.fix(first.start, count.end, f"repeat({count.text}, {inside})")
    if before != "name":
        yield page.fix(first.start, last.end, inside)


def _brackets(desk: Desk, k: int | None) -> tuple[int, int] | None:
    """The round brackets that open at a token, or the innermost ones around it."""
    if k is None:
        return None
    page = desk.page
    closed = page.partner(k) if page.tokens[k].kind == "(" else None
    pair = page.around(k) if closed is None else (k, closed)
    return pair if pair is not None and page.tokens[pair[0]].kind == "(" else None


def listed(desk: Desk, k: int | None) -> Iterator[Fix]:
    """`[a, b]` for `a -> b`."""
    page = desk.page
    if k is None or page.tokens[k].kind != "[" or (last := page.partner(k)) is None:
        return
    parts = [page.body[page.tokens[a].start : page.tokens[b - 1].end] for a, b in page.parts(k + 1, last)]
    chain = " -> ".join(parts)
    yield page.fix(page.tokens[k].start, page.tokens[last].end, chain)


def numbered(desk: Desk, k: int | None) -> Iterator[Fix]:
    """`@ label` for `@ label[2]`: copies of a label are numbered where it is read."""
    page = desk.page
    if k is not None and k > 1 and page.tokens[k].kind == "[" and page.tokens[k - 2].kind == "@":
        last = page.partner(k)
        yield page.fix(page.tokens[k].start, page.tokens[k if last is None else last].end, "")


RULES = {"S101": character, "S102": grammar, "S103": arrow}
