"""The data that every rule uses: the text, and the names of other notations."""

from collections.abc import Iterator
from dataclasses import dataclass

from calque.adl.advice.aliases import Aliases
from calque.adl.advice.tokens import TokenPage
from calque.ground.diagnostics import Diagnostic, Fix, Span


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
