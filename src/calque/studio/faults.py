"""Diagnostics as JSON for the page: sentence, help, page, and the edit that corrects the text."""

from collections.abc import Iterable

from calque.ground.diagnostics import Diagnostic, codes, help_of, message, sentence
from calque.studio.offsets import Offsets


def faults_json(diagnostics: Iterable[Diagnostic], offsets: Offsets) -> list[dict[str, object]]:
    """Each diagnostic with its place in the text; one without a place there stands at its start."""
    return [_fault(diagnostic, offsets) for diagnostic in diagnostics]


def fault_json(diagnostic: Diagnostic) -> dict[str, object]:
    """A diagnostic without its place: code, severity, sentence, help and page."""
    return {
        "code": diagnostic.code,
        "severity": diagnostic.severity,
        "message": message(diagnostic),
        "help": help_of(diagnostic),
        "page": codes()[diagnostic.code].page,
    }


def _fault(diagnostic: Diagnostic, offsets: Offsets) -> dict[str, object]:
    fix = diagnostic.fix
    edit = offsets.place(fix.span) if fix is not None else None
    places = [(offsets.place(span), label) for span, label in diagnostic.related]
    return {
        **fault_json(diagnostic),
        **(offsets.place(diagnostic.where) or {"from": 0, "to": 0}),
        "fix": {**edit, "insert": fix.replacement, "words": sentence(fix)} if fix and edit else None,
        "related": [{**place, "label": label} for place, label in places if place is not None],
    }
