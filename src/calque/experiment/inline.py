"""Faults of a definition that is written inside an experiment, at their places in the file."""

import re
from collections.abc import Callable
from dataclasses import replace

from calque.ground.diagnostics import Diagnostic, Fix, Place, Span

INLINE = "model.text"
"""The name of the text that such a definition becomes."""
_OPENING = re.compile(r'"""\n?|\'\'\'\n?|"|\'|')


def in_file(fault: Diagnostic, value: Span | Place) -> Diagnostic:
    """A fault at its place in the file, where `value` is written; as it is where the text is written with escapes there."""
    texts = [span.text for span in (fault.where, *(span for span, _ in fault.related)) if isinstance(span, Span)]
    text = next((text for text in texts if text.name == INLINE), None)
    if text is None or not isinstance(value, Span):
        return fault
    opening = _OPENING.match(value.text.body, value.start)
    at = opening.end() if opening else value.start
    if not value.text.body.startswith(text.body, at):
        return fault
    return _moved(fault, lambda span: Span(value.text, span.start + at, span.end + at) if span.text == text else span)


def _moved(fault: Diagnostic, move: Callable[[Span], Span]) -> Diagnostic:
    return replace(
        fault,
        where=move(fault.where) if isinstance(fault.where, Span) else fault.where,
        fix=None if fault.fix is None else Fix(move(fault.fix.span), fault.fix.replacement),
        related=tuple((move(span), label) for span, label in fault.related),
    )
