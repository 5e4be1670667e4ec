"""Edits that correct faults, for the help of an error.

Rules propose edits, by the code of the fault and the names of other notations. Each edit is applied, and the text is checked again.
Only an edit that works becomes the `fix` of the diagnostic, from which its help is written. So rules may guess.
"""

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import replace

from calque.adl.advice import argument_values, names, statements, widths
from calque.adl.advice import marks as syntax
from calque.adl.advice.aliases import Aliases
from calque.adl.advice.desk import Desk
from calque.adl.advice.tokens import TokenPage
from calque.adl.signature import Signature
from calque.adl.syntax import Statement
from calque.ground.diagnostics import CalqueError, Diagnostic, Fix, Span, Text, apply_fix

Check = Callable[[Text], tuple[Sequence[Diagnostic], int]]
"""The faults of a text, and the work of the check in steps."""
Rule = Callable[[Desk, Diagnostic], Iterator[Fix]]
RULES: dict[str, Rule] = {**syntax.RULES, **names.RULES, **argument_values.RULES, **statements.RULES, **widths.RULES}
TRIES = 12  # edits that are tried for one fault
MAX_WORK = 2_000  # steps of checking that are spent on trying edits, in all
PER_FAULT = 60  # the cost of proposing edits, in such steps
MAX_TOKENS = 1_000  # of a text for which edits are tried
LIMIT = "C401"
SIDES = ("adl", "encoder", "decoder")


def advise(desk: Desk, faults: Sequence[Diagnostic], check: Check, work: int) -> list[Diagnostic]:
    """The faults, each with an edit that works where there is one. `work` is the work of the first check.

    A fault's own edit is tried too, and removed where it does not work. Once the work reaches its limit, the remaining faults keep
    their own edits untried.
    """
    trial = _Trial(desk, faults, check, work)
    return [trial.advised(fault) for fault in faults]


def proposals(desk: Desk, fault: Diagnostic) -> Iterator[Fix]:
    """Edits that may correct a fault, the most likely first."""
    seen: set[tuple[int, int, str]] = set()
    rule = RULES.get(fault.code)
    for fix in (*(rule(desk, fault) if rule else ()), *((fault.fix,) if fault.fix else ())):
        key = (fix.span.start, fix.span.end, fix.replacement)
        if key not in seen and desk.page.cut(fix.span) != fix.replacement:
            seen.add(key)
            yield fix


class _Trial:
    def __init__(self, desk: Desk, faults: Sequence[Diagnostic], check: Check, work: int):
        self.desk, self.check, self.last = desk, check, work
        self.left = MAX_WORK if 0 < len(desk.page.tokens) <= MAX_TOKENS else 0
        self.before = {_key(fault, 0, 0) for fault in faults}

    def advised(self, fault: Diagnostic) -> Diagnostic:
        """The fault with the best edit that works; without its own edit where that was tried and does not work."""
        if not isinstance(fault.where, Span) or fault.where.text is not self.desk.page.text:
            return fault
        self.left -= PER_FAULT
        best, tried = self.best(fault)
        if best is not None:
            return _with_fix(fault, best)
        refused = tried and (fault.fix is None or self.affordable)
        return _without_fix(fault) if refused else fault

    def best(self, fault: Diagnostic) -> tuple[Fix | None, int]:
        """The edit that works and causes the fewest new faults, and the number of edits that were tried."""
        best: tuple[int, Fix] | None = None
        tried = 0
        for fix in proposals(self.desk, fault) if self.affordable else ():
            if not self.affordable or tried == TRIES:
                break
            tried += 1
            new = self.new_faults(fault, fix)
            if new is not None and (best is None or new < best[0]):
                best = (new, fix)
            if new == 0:
                break
        return (None if best is None else best[1]), tried

    @property
    def affordable(self) -> bool:
        """Whether the work that is left suffices for one more edit."""
        return self.last <= self.left

    def new_faults(self, fault: Diagnostic, fix: Fix) -> int | None:
        """The number of new faults that an edit causes; None where it does not work."""
        after = self.faults_after(fix)
        start, end = fix.span.start, fix.span.start + len(fix.replacement)
        shift = len(fix.replacement) - (fix.span.end - fix.span.start)
        keys = [_key(one, end, shift) for one in after]
        if _key(fault, 0, 0) in keys:
            return None
        if LIMIT in {code for code, _ in keys} - {code for code, _ in self.before}:
            return None  # the check stopped early
        new = [
            one
            for one, key in zip(after, keys, strict=True)
            # A new warning does not count against an edit that corrects an error.
            if key not in self.before and (one.severity == "error" or fault.severity != "error")
        ]
        if any(isinstance(one.where, Span) and self.no_better(one.code, one.where, start, end) for one in new):
            return None
        return len(new)

    def no_better(self, code: str, where: Span, start: int, end: int) -> bool:
        """Whether a new fault is in the edit [start, end) itself, or the old one has only moved along its line."""
        if where.end >= start and where.start <= end:
            return True
        return code[0] == "S" and _line(where.text, where.start) == _line(self.desk.page.text, start)

    def faults_after(self, fix: Fix) -> Sequence[Diagnostic]:
        """The faults of the text after an edit."""
        try:
            after, work = self.check(Text(fix.span.text.name, apply_fix(fix)))
        except CalqueError as e:
            after, work = e.diagnostics, self.last
        self.left -= work
        self.last = max(self.last, work)
        return after


def _line(text: Text, offset: int) -> int:
    """The line of a place; of the end of a text the last that is not blank."""
    return text.line_column(min(offset, len(text.body.rstrip())))[0]


def _key(fault: Diagnostic, after: int, shift: int) -> tuple[str, int]:
    """Code and place of a fault, the place in the text before the edit."""
    place = fault.where.start if isinstance(fault.where, Span) else 0
    return fault.code, place - shift if place >= after else place


def _with_fix(fault: Diagnostic, fix: Fix) -> Diagnostic:
    """The fault with this edit, and without fields that mention another one."""
    near = fault.fields.get("near")
    same = fault.fix is not None and fault.fix.replacement == fix.replacement and fault.fix.span == fix.span
    if near is None or same:
        return replace(fault, fix=fix)
    return replace(fault, fix=fix, fields={k: v for k, v in fault.fields.items() if k != "near"})


def _without_fix(fault: Diagnostic) -> Diagnostic:
    return replace(fault, fix=None, fields={k: v for k, v in fault.fields.items() if k not in ("near", "add")})


def desk_for(text: Text, signatures: Mapping[str, Signature], statements: Iterable[Statement]) -> Desk:
    """The desk for a text; `statements` are those of the prelude and of the text."""
    definitions = {s.name: tuple(p.name for p in s.parameters or ()) for s in statements if s.name not in SIDES}
    return Desk(TokenPage(text), Aliases(signatures, definitions))
