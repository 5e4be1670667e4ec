"""The data that every rule uses: the text, and the names of other notations."""

import re
from collections.abc import Iterator
from dataclasses import dataclass

from calque.adl.advice.aliases import Aliases
from calque.adl.advice.tokens import TokenPage
from calque.ground.diagnostics import Diagnostic, Fix, Span

DECIMAL_COMMA = re.compile(r"(?<![\w.,])([0-9]+),([0-9]+)(?![\w.,])")


@dataclass(frozen=True, slots=True)
class Desk:
    """A faulty text, and names of other notations."""

    page: TokenPage
    aliases: Aliases


def span_of(fault: Diagnostic) -> Span:
    """The place of a fault in the text."""
    assert isinstance(fault.where, Span)
    return fault.where


def rename(desk: Desk, at: Span, name: str) -> Fix:
    """The edit that replaces the text at a place."""
    return desk.page.fix(at.start, at.end, name)


def indexed(point: str) -> Iterator[str]:
    """A point of a repetition, `@label`: the copy with the same number as that of a repetition around it, and the first copy."""
    return (f"{point}[{index}]" for index in ("i", "1"))


def without_argument(desk: Desk, offset: int) -> Iterator[Fix]:
    """The edit that removes the argument at a place."""
    argument = desk.page.argument(offset)
    if argument is not None:
        yield desk.page.without(*argument)


def moved(desk: Desk, later: int, earlier: int) -> Iterator[Fix]:
    """The edit that moves the statement at one place before the statement at another place, which comes first."""
    page = desk.page
    own, user = page.line_of(page.statement(later)), page.line_of(page.statement(earlier))
    if user.start < own.start:
        statement, between = page.cut(own).rstrip("\n"), page.body[user.start : own.start]
        yield page.fix(user.start, own.end, f"{statement}\n{between}")


def moved_last(desk: Desk, offset: int) -> Iterator[Fix]:
    """The edit that moves the statement at a place behind all others."""
    page = desk.page
    own = page.line_of(page.statement(offset))
    rest = page.body[own.end :].strip("\n")
    if rest:
        yield page.fix(own.start, len(page.body), f"{rest}\n{page.cut(own)}")


def decimal_comma(desk: Desk, offset: int) -> Iterator[Fix]:
    """`0.1` for the `0,1` at a place, `2048` for `2,048`."""
    for match in DECIMAL_COMMA.finditer(desk.page.body):
        if match.start() <= offset < match.end():
            if len(match[2]) == 3 and match[1] != "0":
                yield desk.page.fix(match.start(), match.end(), match[1] + match[2])
            yield desk.page.fix(match.start(), match.end(), f"{match[1]}.{match[2]}")
