"""How the language reports faults: which place is shown for a fault inside a definition, and when the check stops."""

from collections.abc import Iterable, Mapping
from itertools import islice

from calque.adl.limits import MAX_EXPANSION, MAX_FAULTS, MAX_STEPS
from calque.ground.diagnostics import Diagnostic, Fix, Span, nearest

PRELUDE = "<prelude>"
LATER = "a name can be used only after its statement, which stands"
"""The note of a name that is used before its statement, or in it; the place follows."""
MAX_NAMES = 300  # compared for one fault
MAX_COMPARED = 250_000  # pairs of characters that are compared for all faults of a text
COMPARISON = 250  # the fixed cost of a comparison, in pairs of characters


class Abandoned(Exception):
    """The current value has a fault, which is recorded."""


class Exhausted(Exception):
    """The text exceeds a limit, which is recorded; the check stops."""


def used_at(where: Span, call: Span | None) -> tuple[tuple[Span, str], ...]:
    """The note of a fault inside a definition: the call that uses the definition, unless the call itself holds the fault."""
    if call is None or (call.start <= where.start and where.end <= call.end):
        return ()
    return ((call, "the definition is used"),)


class Reporter:
    """Collects `faults`. `stated` are the names that the text gives to settings and definitions, anywhere.

    `similar`: suggest similar names. `origin` is the user's innermost call, which is shown instead of a place in the prelude.
    `outer` is the outermost call of a user's definition, which is shown together with a place in that definition.
    """

    def __init__(self, faults: list[Diagnostic]):
        self.faults = faults
        self.stated: Mapping[str, Span] = {}
        self.origin: Span | None = None
        self.outer: Span | None = None
        self.steps = self.nesting = self._compared = 0
        self.similar = True
        self._seen: set[tuple[str, Span]] = set()

    def place(self, span: Span) -> Span:
        """The place to show: the user's call while the body of a prelude definition is expanded."""
        return self.origin if self.origin is not None and span.text.name == PRELUDE else span

    def fail(
        self,
        code: str,
        span: Span,
        fix: Fix | None = None,
        note: tuple[tuple[Span, str], ...] = (),
        /,
        **fields: object,
    ) -> Abandoned:
        """Records a fault, once for all uses of its place; the caller raises the result."""
        where = self.place(span)
        if (code, where) in self._seen:
            return Abandoned()
        self._seen.add((code, where))
        self.faults.append(Diagnostic(code, where, fields, fix, (*note, *used_at(where, self.outer))))
        if len(self.faults) > MAX_FAULTS:
            raise Exhausted()
        return Abandoned()

    def limit(self, what: str, limit: int, span: Span) -> Exhausted:
        """Records that the text exceeds a limit."""
        self.fail("C401", span, what=what, limit=limit, found="more")
        return Exhausted()

    def near(self, name: str, known: Iterable[str]) -> str | None:
        """The known name most similar to `name`; None once the comparisons of a text reach their limit.

        The time of a comparison is proportional to the product of both lengths, which is counted.
        """
        names: dict[str, None] = {}
        for other in islice(known, MAX_NAMES if self.similar else 0):
            if self._compared >= MAX_COMPARED:
                break
            if other not in names and _alike_in_length(name, other):
                names[other] = None
                self._compared += COMPARISON + len(name) * len(other)
        return nearest(name, names)

    def unknown(self, code: str, name: str, span: Span, known: Iterable[str], **fields: object) -> Abandoned:
        """Records an unknown name, with the most similar known name."""
        near = self.near(name, known)
        fix = Fix(span, near) if near and span.text.name != PRELUDE else None
        return self.fail(code, span, fix, name=name, near=near, **fields)

    def undefined(self, code: str, name: str, span: Span, known: Iterable[str]) -> Abandoned:
        """Records a name without a meaning at its place: with its statement where that comes later, else with a similar name."""
        later = self.stated.get(name)
        if later is None:
            return self.unknown(code, name, span, known)
        return self.fail(code, span, None, ((later, LATER),), name=name)

    def nested(self, span: Span) -> "Reporter":
        """Enters a body, a definition or an argument; the end of the `with` block leaves it."""
        if self.nesting >= MAX_EXPANSION:
            raise self.limit("levels of definitions and bodies", MAX_EXPANSION, span)
        self.steps += 1
        if self.steps > MAX_STEPS:
            raise self.limit("steps of expansion", MAX_STEPS, span)
        return self

    def __enter__(self) -> None:
        self.nesting += 1

    def __exit__(self, *_: object) -> None:
        self.nesting -= 1


def _alike_in_length(a: str, b: str) -> bool:
    """Whether two names can be similar, going by their lengths (see `nearest`)."""
    return 2 * min(len(a), len(b)) >= 0.6 * (len(a) + len(b))
