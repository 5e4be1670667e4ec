"""What every rule has at hand: the text and the names of other notations."""

from collections.abc import Iterator
from dataclasses import dataclass

from calque.adl.advice.aliases import Aliases
from calque.adl.advice.tokens import TokenPage
from calque.ground.diagnostics import Diagnostic, Fix, Span


@dataclass(frozen=True, slots=True)
class Desk:
    """A text that has faults, and the names that it may have meant."""

    page: TokenPage
    aliases: Aliases


def span_of(fault: Diagnostic) -> Span:
    """Where a fault of a text is."""
    assert isinstance(fault.where, Span)
    return fault.where


def rename(desk: Desk, at: Span, name: str) -> Fix:
    """The edit that writes something else at a place."""
    return desk.page.fix(at.start, at.end, name)


def without_argument(desk: Desk, offset: int) -> Iterator[Fix]:
    """The edit that takes out the argument that holds a place."""
    found = desk.page.argument(offset)
    if found is not None:
        yield desk.page.without(*found)
