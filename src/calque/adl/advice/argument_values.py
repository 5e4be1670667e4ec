"""Rules for values: words, numbers and sources of the wrong kind."""

import math
import re
from collections.abc import Iterator
from fractions import Fraction

from calque.adl.advice.aliases import choices_for, listed, plain
from calque.adl.advice.arithmetic import times
from calque.adl.advice.desk import Desk, decimal_comma, indexed, rename, span_of, without_argument
from calque.adl.advice.names import behind, named, swapped
from calque.ground.diagnostics import Diagnostic, Fix


def kind(desk: Desk, fault: Diagnostic) -> Iterator[Fix]:
    """C108: a value of another kind."""
    at = span_of(fault)
    written = desk.page.cut(at)
    for meant in (*listed("words").get(plain(written), ()), *listed("settings").get(plain(written), ())):
        yield rename(desk, at, meant)
    try:
        number = float(written)
    except ValueError:
        pass
    else:
        if math.isfinite(number) and number == int(number):
            yield rename(desk, at, str(int(number)))
    yield from decimal_comma(desk, at.start)
    yield from divided(desk, fault)
    yield from swapped(desk, fault)
    yield from named(desk, at.start)
    yield from behind(desk, at.start)
    yield from without_argument(desk, at.start)
    if str(fault.fields.get("found")) == "a chain":
        yield rename(desk, at, "512")


def divided(desk: Desk, fault: Diagnostic) -> Iterator[Fix]:
    """`d / 2` for `d * 0.5`, and `3*d / 2` for `1.5 * d`: arithmetic is on whole numbers."""
    at = span_of(fault)
    k, tokens = desk.page.token(at.start), desk.page.tokens
    if k is None or not 0 < k < len(tokens) - 1 or not re.fullmatch(r"[0-9]*\.[0-9]+", tokens[k].text):
        return
    part = Fraction(tokens[k].text).limit_denominator(100)
    if part == 0:
        return
    sign, whole = tokens[k - 1], part.numerator == 1
    if sign.kind == "*" and whole:
        yield desk.page.fix(sign.start, at.end, f"/{desk.page.body[sign.end : at.start]}{part.denominator}")
    elif sign.kind == "*":
        yield rename(desk, at, f"{part.numerator}/{part.denominator}")
    elif tokens[k + 1].kind == "*" and k + 2 < len(tokens):
        other = tokens[k + 2]
        before = "" if whole else f"{part.numerator}*"
        yield desk.page.fix(at.start, other.end, f"{before}{other.text}/{part.denominator}")


def not_a_layer(desk: Desk, fault: Diagnostic) -> Iterator[Fix]:
    """C110: a number, arithmetic, a name or a source where something else is expected."""
    at = span_of(fault)
    written = desk.page.cut(at)
    if str(fault.fields.get("expected")).startswith("a source"):
        yield rename(desk, at, f"@{written}")
        yield rename(desk, at, f"@end -> {written}")
        yield rename(desk, at, "@end")
        yield from named(desk, at.start)
        yield from without_argument(desk, at.start)
        return
    if str(fault.fields.get("expected")) != "a layer":
        yield from without_argument(desk, at.start)
        return
    yield from times(desk, at.start, at.end)
    yield from swapped(desk, fault)
    yield from named(desk, at.start)
    if re.fullmatch(r"[A-Za-z_]\w*(-\w+)+", written):
        yield rename(desk, at, written.replace("-", "_"))
    else:
        yield rename(desk, at, f"linear({written})")
    yield from without_argument(desk, at.start)


def word(desk: Desk, fault: Diagnostic) -> Iterator[Fix]:
    """C114: one of a few words, with another spelling."""
    at = span_of(fault)
    choices = fault.fields.get("choices")
    known = tuple(map(str, choices)) if isinstance(choices, tuple | list) else ()
    for choice in choices_for(known, desk.page.cut(at)):
        yield rename(desk, at, choice)
    yield from named(desk, at.start)
    if "id" in known:
        yield from behind(desk, at.start, "id")
    if fault.fix is not None:
        yield fault.fix
    yield from without_argument(desk, at.start)


def one_chain(desk: Desk, fault: Diagnostic) -> Iterator[Fix]:
    """C109: a single chain needs no joining; the sum of a chain and its input is `res`."""
    place = desk.page.argument(span_of(fault).start)
    if place is None or not place[0].arguments:
        return
    term = place[0]
    inside = desk.page.cut(place[0].arguments[0].value)
    if term.name == "add":
        yield desk.page.fix(term.at.start, term.at.end, f"res({inside})")
    yield desk.page.fix(term.at.start, term.at.end, inside)


def exclude(desk: Desk, fault: Diagnostic) -> Iterator[Fix]:
    """C111: rename or remove one of two arguments that exclude each other."""
    place = desk.page.argument(span_of(fault).start)
    if place is not None and fault.fields.get("given") == ["from"]:
        argument = (place[0].arguments or ())[place[1]]
        yield desk.page.fix(argument.at.start, argument.at.end, f"keys={desk.page.cut(argument.value)}")
    yield from without_argument(desk, span_of(fault).start)


def both(desk: Desk, fault: Diagnostic) -> Iterator[Fix]:
    """C113: keys and values are given together."""
    term = desk.page.term(span_of(fault).start)
    for argument in (term.arguments or ()) if term else ():
        if term is not None and argument.name in ("keys", "values"):
            other = "values" if argument.name == "keys" else "keys"
            yield desk.page.with_argument(term, f"{other}={desk.page.cut(argument.value)}")


def state_chain(desk: Desk, fault: Diagnostic) -> Iterator[Fix]:
    """C118: remove the chain after a state."""
    at = span_of(fault)
    head, arrow, _ = desk.page.cut(at).partition("->")
    if arrow:
        yield rename(desk, at, head.rstrip())


def point(desk: Desk, fault: Diagnostic) -> Iterator[Fix]:
    """C129: a point of the encoder with another name."""
    at = span_of(fault)
    if fault.fix is not None:
        yield fault.fix
    match = re.match(r"@\s*(\w+)(\s*\[[^\]]*\])?", desk.page.body[at.start :])
    if match is not None:
        for label in dict.fromkeys(re.findall(r"@\s*(\w+)", desk.page.body)):
            if plain(label) == plain(match[1]):
                yield desk.page.fix(at.start + match.start(1), at.start + match.end(1), label)
        yield desk.page.fix(at.start, at.start + match.end(), "@end")


def index_missing(desk: Desk, fault: Diagnostic) -> Iterator[Fix]:
    """C130: inside a repetition the copy with the same number, elsewhere the first copy."""
    at = span_of(fault)
    match = re.match(r"@\s*\w+", desk.page.body[at.start :])
    if match is not None:
        for copy in indexed(match[0]):
            yield desk.page.fix(at.start, at.start + match.end(), copy)


def index_extra(desk: Desk, fault: Diagnostic) -> Iterator[Fix]:
    """C131: remove the index of a single point."""
    at = span_of(fault)
    match = re.match(r"@\s*\w+(\s*\[[^\]]*\])", desk.page.body[at.start :])
    if match is not None:
        yield desk.page.fix(at.start + match.start(1), at.start + match.end(1), "")


def index_range(desk: Desk, fault: Diagnostic) -> Iterator[Fix]:
    """C132: the nearest existing copy."""
    at = span_of(fault)
    match = re.match(r"@\s*\w+\s*\[([^\]]*)\]", desk.page.body[at.start :])
    count, index = (int(str(fault.fields[name])) for name in ("count", "index"))
    if match is not None and re.fullmatch(r"\s*-?\s*[0-9]+\s*", match[1]):
        nearest = (
            1 if index == 0 else max(count + 1 + index, 1) if index < 0 else count
        )  # -1 is the last one, as in Python
        yield desk.page.fix(at.start + match.start(1), at.start + match.end(1), str(nearest))


RULES = {
    "C108": kind,
    "C109": one_chain,
    "C110": not_a_layer,
    "C111": exclude,
    "C113": both,
    "C114": word,
    "C118": state_chain,
    "C129": point,
    "C130": index_missing,
    "C131": index_extra,
    "C132": index_range,
}
