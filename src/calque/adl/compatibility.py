"""Whether a stored definition has kept its meaning where layers have gained arguments since it was written."""

from calque.adl.parser import parse
from calque.adl.syntax import ChainSyntax, Term
from calque.ground.diagnostics import Text


def kept(stored: Text, canonical: str) -> bool:
    """Whether `canonical`, the canonical text of `stored` today, has everything that `stored` has.

    Both are canonical texts with every argument written. Other arguments in `canonical` were added to the layers later; their
    defaults are the earlier behaviour.
    """
    now = {statement.name: statement.value for statement in parse(Text("canonical", canonical))}
    then = {statement.name: statement.value for statement in parse(stored)}
    return now.keys() == then.keys() and all(_includes(now[name], then[name]) for name in then)


def _includes(now: object, then: object) -> bool:
    if isinstance(now, ChainSyntax) and isinstance(then, ChainSyntax):
        return len(now.parts) == len(then.parts) and all(map(_includes, now.parts, then.parts))
    if isinstance(now, Term) and isinstance(then, Term):
        if (now.name, now.labels) != (then.name, then.labels):
            return False
        (bare_now, named_now), (bare_then, named_then) = _arguments(now), _arguments(then)
        return (
            len(bare_now) == len(bare_then)
            and all(map(_includes, bare_now, bare_then))
            and named_then.keys() <= named_now.keys()
            and all(_includes(named_now[name], value) for name, value in named_then.items())
        )
    return now == then


def _arguments(term: Term) -> tuple[list[object], dict[str, object]]:
    """Positional arguments in order, and named arguments."""
    given = term.arguments or ()
    return [a.value for a in given if a.name is None], {a.name: a.value for a in given if a.name is not None}
