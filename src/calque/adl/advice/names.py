"""Rules for names: layers, numbers and arguments with the names of other notations."""

import difflib
import re
from collections.abc import Callable, Iterator, Sequence

from calque.adl.advice.aliases import Alias, listed, lists, plain, singles
from calque.adl.advice.desk import Desk, decimal_comma, indexed, moved, moved_last, rename, span_of, without_argument
from calque.adl.advice.tokens import ArgumentTokens, TermTokens
from calque.adl.faults import LATER
from calque.ground.diagnostics import Diagnostic, Fix

DOTTED = re.compile(r"(?:[A-Za-z_]\w*\.)+(?=[A-Za-z_])")


def layer(desk: Desk, fault: Diagnostic) -> Iterator[Fix]:
    """C101: a definition that comes later, or a layer of another notation."""
    if any(label == LATER for _, label in fault.related):
        yield from later(desk, fault)
        return
    term = desk.page.term(span_of(fault).start)
    if term is None:
        return
    yield from term_fixes(desk, term, term.at.start)


def later(desk: Desk, fault: Diagnostic) -> Iterator[Fix]:
    """The statement of a name before the one that uses it; or this one, where it uses several such names, behind all others."""
    for where, label in fault.related:
        if label == LATER:
            yield from moved(desk, where.start, span_of(fault).start)
            yield from moved_last(desk, span_of(fault).start)


def term_fixes(desk: Desk, term: TermTokens, start: int) -> Iterator[Fix]:
    """Replacements of a term with an unknown name; the edits begin at `start`."""
    if plain(term.name) in lists("chains")["names"] and term.arguments:
        yield desk.page.fix(start, term.at.end, " -> ".join(desk.page.cut(a.at) for a in term.arguments))
    yield from _aliased(desk, term, start, list(desk.aliases.of(term.name)))
    close = difflib.get_close_matches(plain(term.name)[:64], list(desk.aliases.names()), n=2, cutoff=0.75)
    for near in close:
        yield from _aliased(desk, term, start, list(desk.aliases.of(near)))


def _aliased(desk: Desk, term: TermTokens, start: int, aliases: Sequence[Alias]) -> Iterator[Fix]:
    """Each call with its arguments, then each without."""
    for alias in aliases:
        if alias.parameters is None and not alias.added and term.arguments:
            yield desk.page.fix(start, term.at.start + len(term.name), alias.target)
        if term.arguments:
            yield desk.page.fix(start, term.at.end, call(desk, alias, term.arguments))
    for alias in aliases:
        added = f"({alias.added})" if alias.added else ""
        yield desk.page.fix(start, term.at.end, alias.target + added)


Given = list[tuple[str | None, str]]
"""Arguments: the name, None by position, and the value."""


def call(desk: Desk, alias: Alias, arguments: tuple[ArgumentTokens, ...]) -> str:
    """A call of another notation in the language; arguments without a counterpart are left out."""
    given: Given = []
    position = 0
    rest = ""
    order = alias.parameters
    if order and order[0] == "_" and sum(argument.name is None for argument in arguments) == 1:
        order = None  # a single number is the width, as in many other notations
    for argument in arguments:
        value = word(desk.page.cut(argument.value))
        if argument.name is None:
            given += _positional(order, position, value)
            position += 1
            continue
        name = desk.aliases.parameter(alias.target, argument.name)
        if name is not None:
            given.append((name, value))
        else:
            rest += written_behind(argument.name, value)
    for added in filter(None, alias.added.split(", ")):
        name, _, value = added.partition("=")
        given.append((name, value) if value else (None, added))
    inside = ", ".join(_written(desk.aliases.parameters(alias.target), given))
    return alias.target + (f"({inside})" if inside else "") + rest


def _positional(order: tuple[str, ...] | None, position: int, value: str) -> Given:
    """A positional argument in the language: named where the alias has an order, left out where it has no counterpart."""
    if order is None:
        return [(None, value)]
    return [(order[position], value)] if position < len(order) and order[position] != "_" else []


def _written(known: tuple[str, ...], given: Given) -> Iterator[str]:
    """Arguments as text, without names where the position suffices."""
    for k, (name, value) in enumerate(given):
        in_order = k < len(known) and known[k] == name and all(n in (None, *known[:k]) for n, _ in given[:k])
        yield value if name is None or in_order else f"{name}={value}"


def word(value: str) -> str:
    """A value of another notation in the language: `True` is `yes`, and quotes are removed."""
    bare = value.strip("\"'")
    if not re.fullmatch(r"[A-Za-z_]\w*", bare):
        return bare
    meant = [w for w in listed("words").get(plain(bare), ()) if w in ("yes", "no", "none")]
    return meant[0] if meant and bare not in ("yes", "no", "none", "f", "n", "t", "y") else bare


def written_behind(name: str, value: str) -> str:
    """The layer for an argument that is a layer of its own here, such as `dropout=0.1`."""
    meant = listed("behind").get(plain(name), ())
    return f" -> {meant[0]}({value})" if meant else ""


def number(desk: Desk, fault: Diagnostic) -> Iterator[Fix]:
    """C102: a number with another name; a word where a number is expected."""
    at = span_of(fault)
    name = str(fault.fields["name"])
    yield from later(desk, fault)
    yield from named(desk, at.start)
    for meant in (*listed("settings").get(plain(name), ()), *listed("words").get(plain(name), ())):
        yield rename(desk, at, meant)
    yield from swapped(desk, fault)
    yield from without_argument(desk, at.start)


def argument(desk: Desk, fault: Diagnostic) -> Iterator[Fix]:
    """C104: an argument with another name, one that is a layer of its own, or one that does not exist."""
    at, name = span_of(fault), str(fault.fields["name"])
    place = desk.page.argument(at.start)
    if place is None:
        return
    term, number = place
    owner = str(fault.fields["layer"])
    written = (term.arguments or ())[number]
    value = word(desk.page.cut(written.value))
    meant = desk.aliases.parameter(owner, name)
    if meant is not None:
        for one in (
            value,
            *(indexed(value) if value.startswith("@") else ()),
            *desk.aliases.values(owner, meant, value),
        ):
            yield desk.page.fix(written.at.start, written.at.end, f"{meant}={one}")
        yield rename(desk, at, meant)
    if value == "yes":  # `relative=alibi` for `alibi=yes`
        for parameter in desk.aliases.parameters(owner):
            for taken in desk.aliases.values(owner, parameter, name):
                yield desk.page.fix(written.at.start, written.at.end, f"{parameter}={taken}")
    added = written_behind(name, value)
    if added:
        rest = desk.page.without(term, number)
        kept = desk.page.body[term.at.start : rest.span.start] + desk.page.body[rest.span.end : term.at.end]
        yield desk.page.fix(term.at.start, term.at.end, kept + added)
        yield desk.page.fix(term.at.start, term.at.end, kept + added.partition("(")[0])
    if fault.fix is not None:
        yield fault.fix
    yield desk.page.without(term, number)


def too_many(desk: Desk, fault: Diagnostic) -> Iterator[Fix]:
    """C105: join chains by `->` instead of commas, or remove the surplus arguments."""
    place = desk.page.argument(span_of(fault).start)
    if place is None:
        return
    term, number = place
    arguments = term.arguments or ()
    yield from decimal_comma(desk, arguments[number].at.start)
    yield from decimal_comma(desk, arguments[number - 1].at.start)
    if number and number + 1 < len(arguments):
        chain = " -> ".join(desk.page.cut(a.at) for a in arguments[number - 1 :])
        yield desk.page.fix(arguments[number - 1].at.start, arguments[-1].at.end, chain)
    if number:
        yield desk.page.fix(arguments[number - 1].at.end, arguments[number].at.start, " -> ")
        yield desk.page.fix(arguments[number - 1].at.end, arguments[-1].at.end, "")
    first = "".join(f" -> {desk.page.cut(a.at)}" for a in arguments)
    yield desk.page.fix(term.at.start, term.at.end, term.name + first)
    yield desk.page.fix(term.at.start + len(term.name), term.at.end, "")


def twice(desk: Desk, fault: Diagnostic) -> Iterator[Fix]:
    """C106: arguments by position alone, or without the later one."""
    place = desk.page.argument(span_of(fault).start)
    arguments = (place[0].arguments or ()) if place else ()
    if place is not None and arguments[place[1]].name is None:
        plain_values = ", ".join(desk.page.cut(a.value) for a in arguments)
        yield desk.page.fix(arguments[0].at.start, arguments[-1].at.end, plain_values)
    yield from without_argument(desk, span_of(fault).start)


def needed(desk: Desk, fault: Diagnostic) -> Iterator[Fix]:
    """C107: the chain after a layer may be its body; a word has a usual value."""
    at = span_of(fault)
    term = desk.page.term(at.start)
    if term is None:
        return
    k = desk.page.before(term.at.end)
    tokens = desk.page.tokens
    if k is not None and k + 2 < len(tokens) and tokens[k + 1].kind == "->":
        body = desk.page.term(tokens[k + 2].start)
        if body is not None:
            inside = ", ".join([*(desk.page.cut(a.at) for a in term.arguments or ()), desk.page.cut(body.at)])
            yield desk.page.fix(term.at.start, body.at.end, f"{term.name}({inside})")
    missing = fault.fields.get("missing")
    for name in missing if isinstance(missing, list) else ():
        parameter = desk.aliases.kind(term.name, name)
        choices = getattr(parameter.kind, "choices", ()) if parameter else ()
        for choice in choices[:1]:
            yield desk.page.with_argument(term, choice)


def swapped(desk: Desk, fault: Diagnostic) -> Iterator[Fix]:
    """Two arguments in the other order, as in `repeat(tenc, 6)`."""
    place = desk.page.argument(span_of(fault).start)
    if place is None or len(place[0].arguments or ()) != 2:
        return
    one, two = place[0].arguments or ()
    if one.name is None and two.name is None:
        yield desk.page.fix(one.at.start, two.at.end, f"{desk.page.cut(two.at)}, {desk.page.cut(one.at)}")


def named(desk: Desk, offset: int) -> Iterator[Fix]:
    """The argument at a place with the name of a parameter that takes its value, as `cell=gru` for `gru`."""
    place = desk.page.argument(offset)
    argument = (place[0].arguments or ())[place[1]] if place else None
    if place is None or argument is None or argument.name is not None:
        return
    term, number = place
    value = word(desk.page.cut(argument.value))
    given = {one.name for one in term.arguments or ()}
    for parameter in desk.aliases.parameters(term.name)[number + 1 :]:
        for taken in desk.aliases.values(term.name, parameter, value) if parameter not in given else ():
            yield desk.page.fix(argument.at.start, argument.at.end, f"{parameter}={taken}")


def behind(desk: Desk, offset: int, instead: str = "") -> Iterator[Fix]:
    """`linear(4) -> relu` for `linear(4, relu)`: an activation behind the layer, whose argument is removed or becomes `instead`."""
    place = desk.page.argument(offset)
    if place is None:
        return
    term, number = place
    value = (term.arguments or ())[number].value
    kept = desk.page.fix(value.start, value.end, instead) if instead else desk.page.without(term, number)
    call = desk.page.body[term.at.start : kept.span.start] + kept.replacement
    for meant in desk.aliases.values("act", "v", desk.page.cut(value)):
        written = f"{call}{desk.page.body[kept.span.end : term.at.end]} -> {meant}"
        yield desk.page.fix(term.at.start, term.at.end, written)


def elsewhere(section: str) -> Callable[[Desk, Diagnostic], Iterator[Fix]]:
    """C301, C302: replace a layer of the other side by one that is allowed on this side, or by its only argument."""

    def rule(desk: Desk, fault: Diagnostic) -> Iterator[Fix]:
        term = desk.page.term(span_of(fault).start)
        if term is None:
            return
        meant = singles(section).get(term.name)
        if meant is not None:
            yield desk.page.fix(term.at.start, term.at.start + len(term.name), meant)
            yield desk.page.fix(term.at.start, term.at.end, meant)
        if term.arguments and len(term.arguments) == 1:
            yield desk.page.fix(term.at.start, term.at.end, desk.page.cut(term.arguments[0].value))

    return rule


def other_arguments(desk: Desk, fault: Diagnostic) -> Iterator[Fix]:
    """C112: a parameter takes no arguments."""
    term = desk.page.term(span_of(fault).start)
    if term is not None:
        yield desk.page.fix(term.at.start + len(term.name), term.at.end, "")


RULES = {
    "C101": layer,
    "C102": number,
    "C104": argument,
    "C105": too_many,
    "C106": twice,
    "C107": needed,
    "C112": other_arguments,
    "C301": elsewhere("decoder"),
    "C302": elsewhere("encoder"),
}
