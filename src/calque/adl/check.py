"""The checker: it turns a definition into a checked tree, or reports every error in it, before weights exist."""

import hashlib
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from typing import NamedTuple

from calque.adl.canonical import program_text
from calque.adl.collection import no_collection
from calque.adl.declaration import Library
from calque.adl.limits import MAX_FAULTS, MAX_NODES, MAX_PARAMETERS, MAX_TOKENS
from calque.adl.parser import parse_some
from calque.adl.program import Reader, expand, prelude
from calque.adl.signature import REPEAT, Signature
from calque.adl.syntax import Statement, tokenize
from calque.adl.tree import CheckedChain
from calque.adl.walk import Walk
from calque.ground.diagnostics import CalqueError, Diagnostic, Span, Text


@dataclass(frozen=True)
class CheckedDefinition:
    """A definition without faults. Equal definitions have equal canonical text."""

    text: str
    width: int
    encoder: CheckedChain = field(compare=False)
    decoder: CheckedChain = field(compare=False)
    warnings: tuple[Diagnostic, ...] = field(default=(), compare=False)

    @property
    def hash(self) -> str:
        """Twelve hexadecimal digits that name the architecture."""
        return hashlib.sha256(self.text.encode()).hexdigest()[:12]


@no_collection()
def check(
    text: Text, library: Library, reader: Reader = parse_some, advice: bool = True, stored: bool = False
) -> CheckedDefinition:
    """The checked tree of a definition. Raises all errors together, each with an edit that corrects it where one is known.

    Without `advice` no edits are tried, which takes most of the time of a text with errors. `stored`: the text is that of a
    model, and may be older than the rule that arguments have an effect.
    """
    signatures = {name: layer.signature() for name, layer in library.items()}

    def attempt(text: Text, trial: bool = False) -> _Attempt:
        return _attempt(text, library, signatures, reader, trial, stored)

    first = attempt(text)
    checked = first.checked
    if checked is None and not advice:
        raise CalqueError(first.faults)
    if checked is None:
        raise CalqueError(_advised(first, text, signatures, attempt))
    if not checked.warnings or not advice:
        return checked
    return replace(checked, warnings=tuple(_advised(first, text, signatures, attempt)))


class _Attempt(NamedTuple):
    """The result of checking a text: its faults or, without faults, its warnings; `work` in steps of about ten microseconds."""

    checked: CheckedDefinition | None
    faults: list[Diagnostic]
    work: int
    statements: list[Statement]


def _attempt(
    text: Text, library: Library, signatures: Mapping[str, Signature], reader: Reader, trial: bool, stored: bool
) -> _Attempt:
    """Checks a text once. Raises where it is too large. A `trial` has a lower limit and does not look for similar names."""
    program = expand(text, signatures, reader, similar=not trial)
    walk = Walk(library, program.faults, MAX_NODES // 3 if trial else MAX_NODES, not trial, stored)
    encoder, decoder = walk.sides(program.encoder, program.decoder, program.width)
    faults = _distinct(walk.faults)[:MAX_FAULTS]
    work = 50 + program.work + 2 * walk.nodes + 3 * len(faults)
    if faults or not (encoder and decoder and program.encoder and program.decoder and program.width):
        return _Attempt(None, faults, work, program.statements)
    parameters = encoder.parameters + decoder.parameters
    if parameters > MAX_PARAMETERS:
        values: dict[str, object] = {"what": "parameters", "limit": MAX_PARAMETERS, "found": parameters}
        raise CalqueError(Diagnostic("C401", program.encoder[0].span, values))
    canonical = program_text(program.width, program.encoder, program.decoder)
    if len(canonical) > MAX_TOKENS:  # canonical text has to be readable again; every token has at least one character
        _tokenize(canonical, program.encoder[0].span)
    warnings = program.warnings
    if not walk.reads_source:
        warnings.append(Diagnostic("C306", program.decoder[0].span, severity="warning"))
    checked = CheckedDefinition(canonical, program.width, encoder, decoder, tuple(warnings))
    return _Attempt(checked, warnings, work, program.statements)


def _tokenize(canonical: str, where: Span) -> None:
    """Raises C401, at a place of the text that was written, where canonical text is too long to be read."""
    try:
        tokenize(Text("canonical text", canonical))
    except CalqueError as e:
        fields = {**e.diagnostics[0].fields, "what": f"{e.diagnostics[0].fields['what']} of the canonical text"}
        raise CalqueError(Diagnostic("C401", where, fields)) from None


def _advised(
    first: _Attempt, text: Text, signatures: Mapping[str, Signature], attempt: Callable[[Text, bool], _Attempt]
) -> list[Diagnostic]:
    """The faults of a text, each with an edit that corrects it where one is known."""
    from calque.adl.advice import advise, desk_for  # only faulty texts need it

    def again(edited: Text) -> tuple[list[Diagnostic], int]:
        other = attempt(edited, True)
        return other.faults, other.work

    desk = desk_for(text, {**signatures, REPEAT.name: REPEAT}, (*prelude(), *first.statements))
    return advise(desk, first.faults, again, first.work)


def _distinct(faults: list[Diagnostic]) -> list[Diagnostic]:
    """Each fault once, in the order of the text: copies of a repetition and uses of a definition repeat it."""
    seen: dict[tuple[str, object], Diagnostic] = {}
    for fault in faults:
        where = (fault.where.start, fault.where.end) if isinstance(fault.where, Span) else None
        seen.setdefault((fault.code, where), fault)
    return sorted(seen.values(), key=lambda d: d.where.start if isinstance(d.where, Span) else 0)
