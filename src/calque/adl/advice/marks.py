"""Rules for punctuation: `->`, `=` and `#` in other notations, and missing or surplus marks."""

import re
import unicodedata
from collections.abc import Iterator

from calque.adl.advice.aliases import lists, singles
from calque.adl.advice.arithmetic import added, multiplied, power, repeated, times
from calque.adl.advice.desk import Desk, decimal_comma, span_of
from calque.adl.advice.names import DOTTED, term_fixes
from calque.adl.syntax import Token
from calque.ground.diagnostics import Diagnostic, Fix, Span

ARITHMETIC = re.compile(r"[\w)]\s*\Z"), re.compile(r"\s*[\d(]")
"""What stands before and behind a sign of arithmetic."""
LETTERS = str.maketrans("аеорсухіѕјһԁԛԝονικρτυχα", "aeopcyxisjhdqwovikptuxa")
"""Letters of other scripts that look like Latin ones."""


def character(desk: Desk, fault: Diagnostic) -> Iterator[Fix]:
    """S101: a character that is not part of the language."""
    at = span_of(fault)
    written = desk.page.cut(at)
    meant = unicodedata.normalize("NFKC", written).translate(LETTERS)
    power_or_part = unicodedata.category(written[0]) == "No"  # ² and ½
    if meant != written and meant.isascii() and meant.isalnum() and not power_or_part:
        yield desk.page.fix(at.start, at.end, meant)
    yield from wide(desk, at.start)
    yield from percentage(desk, at.start, at.end)
    yield from power(desk, at.start, at.end)
    yield from dotted(desk, at.start)
    yield from pairs(desk, at.start)
    yield from marks(desk, at.start)
    yield from braces(desk, at.start)
    yield from prose(desk, at.start)
    if not calculates(desk, at.start, at.end) and not power_or_part:
        yield desk.page.fix(at.start, at.end, "")


def wide(desk: Desk, start: int) -> Iterator[Fix]:
    """`(2048, 0.1)` for the same in the wide characters of Chinese and Japanese, up to the last of them in the line."""
    line, _, _ = desk.page.body[start:].partition("\n")
    match = re.match(r".*[\uff01-\uff5e]", line)
    if match is not None:
        yield desk.page.fix(start, start + match.end(), unicodedata.normalize("NFKC", match[0]))


def percentage(desk: Desk, start: int, end: int) -> Iterator[Fix]:
    """`0.1` for `10%`."""
    number = re.search(r"(?<![\w.])[0-9]+(\.[0-9]+)?\s*\Z", desk.page.body[:start])
    if number is not None and desk.page.body[start:end] == "%":
        yield desk.page.fix(number.start(), end, f"{float(number[0]) / 100:.9g}")


def grammar(desk: Desk, fault: Diagnostic) -> Iterator[Fix]:
    """S102: correct tokens that do not follow the grammar."""
    at = span_of(fault)
    page = desk.page
    if fault.fix is not None:
        yield fault.fix
    k = page.token(at.start)
    yield from repeated(desk, k)
    yield from multiplied(desk, k)
    yield from power(desk, at.start, at.end)
    yield from added(desk, k)
    yield from unwrapped(desk, k)
    yield from numbered(desk, k)
    yield from listed(desk, k)
    yield from decimal_comma(desk, at.start - 1)
    if fault.fields.get("expected") == "`=`" and page.cut(at) == "->":
        yield page.fix(at.start, at.end, "=")
    yield from marks(desk, at.start)
    if k is None or page.tokens[k].kind == "newline":
        statement = page.statement(at.start)
        if page.body[: statement.start].strip():
            yield page.fix(statement.start, statement.start, "-> ")  # a chain that continues without an arrow
        yield from prose(desk, at.start)
    else:
        yield from misplaced(desk, k, at)


def misplaced(desk: Desk, k: int, at: Span) -> Iterator[Fix]:
    """A mark or a line end before token k, or the text without it or without what the statement has before it."""
    page = desk.page
    statement = page.statement(at.start)
    following = page.tokens[k + 1 : k + 2]
    if following and following[0].text == "=" and "=" in page.body[statement.start : at.start]:
        # Two statements on a line.
        space = len(page.body[: at.start].rstrip())
        yield page.fix(space, at.start, "\n")
    yield from prose(desk, at.start)
    yield from separated(desk, k)
    yield page.spaced(at.start, at.start, "->")
    yield page.spaced(at.start, at.start, "=")
    yield page.fix(at.start, at.start, ", ")
    yield from heading(desk, at.start)
    number = page.tokens[k - 1] if k and page.tokens[k - 1].kind == "number" else None
    if number is not None:
        yield from continued(desk, number, at)
    elif not calculates(desk, at.start, at.end) and not joins(desk, at.start, at.end):
        yield page.fix(at.start, at.end, "")
    if statement.start < at.start:
        yield page.fix(statement.start, at.start, "")


def separated(desk: Desk, k: int) -> Iterator[Fix]:
    """Arrows for the comma k and those behind it in a chain, or a line end for it between statements."""
    page, tokens = desk.page, desk.page.tokens
    if tokens[k].kind != "," or page.around(k) is not None:
        return
    last = next((n for n in range(k, len(tokens)) if tokens[n].kind == "newline"), len(tokens))
    parts = [page.body[tokens[a].start : tokens[b - 1].end] for a, b in page.parts(k + 1, last)]
    yield page.fix(tokens[k].start, tokens[last - 1].end, "".join(f" -> {part}" for part in parts))
    yield page.fix(tokens[k].start, tokens[k].end, "\n")


def continued(desk: Desk, number: Token, at: Span) -> Iterator[Fix]:
    """`1000` for `1_000` and `1 000`, `4*d` for `4 d`; a word behind a space is left out, as in `256 wide`."""
    page, written = desk.page, desk.page.cut(at)
    if re.fullmatch(r"_[0-9_]+|[0-9]{3}", written):
        yield page.fix(number.start, at.end, (number.text + written).replace("_", ""))
    yield page.fix(number.end, at.start, "*")
    if number.end < at.start and not calculates(desk, at.start, at.end) and not written.isdigit():
        yield page.fix(at.start, at.end, "")


def heading(desk: Desk, offset: int) -> Iterator[Fix]:
    """What stands before `=`: `block(x)` for `def block(x)` and `block x`, `my_block` for `my-block`."""
    page = desk.page
    start = page.statement(offset).start
    head = re.match(r"([A-Za-z_]\w*)((?:-\w+)+|(?:[ \t]+[A-Za-z_]\w*)+)(?=[ \t]*([=(]))", page.body[start:])
    if head is None or not start < offset <= start + head.end():
        return
    if head[2].startswith("-"):
        yield page.fix(start, start + head.end(), head[0].replace("-", "_"))
        return
    yield page.fix(start, offset, "")
    if head[3] == "=":
        yield page.fix(start, start + head.end(), f"{head[1]}({', '.join(head[2].split())})")


def joins(desk: Desk, start: int, end: int) -> bool:
    """Whether two names or numbers would become one without [start, end)."""
    body = desk.page.body
    return re.search(r"\w\Z", body[:start]) is not None and re.match(r"\w", body[end:]) is not None


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


def marks(desk: Desk, start: int) -> Iterator[Fix]:
    """The mark of another notation of which the character at `start` is a part."""
    body = desk.page.body
    for mark, meant in sorted(lists("marks").items(), key=lambda item: -len(item[0])):
        for shift in range(len(mark) + 1):
            first = start - shift
            if first < 0 or not body.startswith(mark, first) or first + len(mark) < start:
                continue
            for replacement in meant:
                if replacement in ("", "#") and calculates(desk, first, first + len(mark)):
                    continue
                if replacement == "" and body[first + len(mark) :].partition("\n")[0].strip():
                    continue  # behind a statement only
                if replacement in ("", "\n", "#", ","):
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
                yield from marks(desk, start)
            term = desk.page.term(match.end())
            if term is not None:
                yield from term_fixes(desk, term, match.start())
            yield desk.page.fix(match.start(), match.end(), "")


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
    if closed + 2 < len(tokens) and (tokens[closed + 1].kind == "*" or tokens[closed + 1].text == "x"):
        count = tokens[closed + 2]
        yield page.fix(first.start, count.end, f"repeat({count.text}, {inside})")
    terms = [
        page.body[page.tokens[a].start : page.tokens[b - 1].end] for a, b in page.parts(opened + 1, closed, ("+",))
    ]
    if before != "name":
        yield page.fix(first.start, last.end, inside)
        if len(terms) > 1:
            yield page.fix(first.start, last.end, f"add({', '.join(terms)})")


def _brackets(desk: Desk, k: int | None) -> tuple[int, int] | None:
    """The round brackets that open at a token, or the innermost ones around it."""
    if k is None:
        return None
    page = desk.page
    closed = page.partner(k) if page.tokens[k].kind == "(" else None
    pair = page.around(k) if closed is None else (k, closed)
    return pair if pair is not None and page.tokens[pair[0]].kind == "(" else None


def listed(desk: Desk, k: int | None) -> Iterator[Fix]:
    """`a -> b` or `a, b` for `[a, b]`; behind a name `@a[1]` for `a[1]`, or `ff(8)` for `ff[8]`."""
    page = desk.page
    if k is None or page.tokens[k].kind != "[" or (last := page.partner(k)) is None:
        return
    first = page.tokens[k]
    parts = [page.body[page.tokens[a].start : page.tokens[b - 1].end] for a, b in page.parts(k + 1, last)]
    before = page.tokens[k - 1] if k else None
    if before is not None and before.kind == "name" and before.end == first.start:
        yield page.fix(before.start, before.start, "@")
        yield page.fix(first.start, page.tokens[last].end, f"({', '.join(parts)})")
        return
    for mark in (" -> ", ", "):
        yield page.fix(first.start, page.tokens[last].end, mark.join(parts))


def numbered(desk: Desk, k: int | None) -> Iterator[Fix]:
    """`@ label` for `@ label[2]`: copies of a label are numbered where it is read. There, `@label[2]` for `@label(2)`."""
    page = desk.page
    if k is not None and k > 1 and page.tokens[k].kind == "(" and page.tokens[k - 2].kind == "@":
        last = page.partner(k)
        if last is not None:
            inside = page.body[page.tokens[k].end : page.tokens[last].start]
            yield page.fix(page.tokens[k].start, page.tokens[last].end, f"[{inside}]")
    if k is not None and k > 1 and page.tokens[k].kind == "[" and page.tokens[k - 2].kind == "@":
        last = page.partner(k)
        yield page.fix(page.tokens[k].start, page.tokens[k if last is None else last].end, "")


RULES = {"S101": character, "S102": grammar, "S103": arrow}
