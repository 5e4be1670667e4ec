"""Rules for arithmetic on layers: `6 * tenc` and `tenc^6` for copies, `a + b` for a sum."""

import re
from collections.abc import Iterator

from calque.adl.advice.desk import Desk
from calque.adl.syntax import Token
from calque.ground.diagnostics import Fix

TIMES = re.compile(r"[x×]?([0-9]+)[x×]?")


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
    if tokens[k - 1].kind == "number" and name.kind == "name" and re.fullmatch(r"x[0-9]+", name.text) is None:
        start = following if name.text == "x" else name
        yield from _copies_of_beginning(desk, tokens[k - 1], start.start)


def multiplied(desk: Desk, k: int | None) -> Iterator[Fix]:
    """The same in a chain: `pos -> 6*tenc` and `pos -> tenc*6`; `repeat 6 tenc` without brackets."""
    page, tokens = desk.page, desk.page.tokens
    if not k or k + 1 >= len(tokens):
        return
    kinds = tokens[k].kind, tokens[k + 1].kind
    counted = kinds[0] == "number" and (kinds[1] == "*" or tokens[k + 1].text == "x")
    if counted and k + 2 < len(tokens):
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
    if first is not None and desk.page.tokens[k].kind != "number":
        start = desk.page.tokens[first].start
        yield desk.page.fix(start, end, f"repeat({count}, {_bare(desk.page.body[start : desk.page.tokens[k].end])})")


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


def power(desk: Desk, start: int, end: int) -> Iterator[Fix]:
    """`repeat(6, tenc)` for `tenc^6` and `tenc**6`, of which [start, end) is the sign."""
    k = desk.page.before(start)
    count = re.match(r"[*^]*\s*([0-9]+)", desk.page.body[start:])
    if k is not None and count is not None and desk.page.body[start:end].strip("^*") == "":
        yield from _copies_of_ending(desk, k, count[1], start + count.end())


def added(desk: Desk, k: int | None) -> Iterator[Fix]:
    """`add(a, b)` for `a + b`; token k is the sign."""
    page = desk.page
    if not k or page.tokens[k].kind != "+" or k + 1 >= len(page.tokens):
        return
    first, other = page.term_ending(k - 1), page.term(page.tokens[k + 1].start)
    if first is not None and other is not None:
        start = page.tokens[first].start
        one = page.body[start : page.tokens[k - 1].end]
        yield page.fix(start, other.at.end, f"add({one}, {page.cut(other.at)})")
