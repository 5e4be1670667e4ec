"""Rules for numbers that do not fit: widths, heads, windows, bounds."""

import re
from collections.abc import Iterator

from calque.adl.advice.desk import Desk, decimal_comma, rename, span_of, without_argument
from calque.adl.advice.marks import percentage
from calque.adl.advice.tokens import TokenPiece
from calque.ground.diagnostics import Diagnostic, Fix

NAMED = re.compile(r"[A-Za-z_]\w*[ \t]*=[ \t]*$")
WHOLE = re.compile(r"(?<![\w.])[0-9]+(?![\w.])")


def literals(desk: Desk, number: int, replacements: Iterator[int] | list[int], near: int) -> Iterator[Fix]:
    """Edits that replace a number wherever it is written, the places nearest to `near` first."""
    places = [m for m in WHOLE.finditer(desk.page.body) if int(m[0]) == number]
    others = list(replacements)
    for match in sorted(places, key=lambda m: abs(m.start() - near)):
        named = NAMED.search(desk.page.body[: match.start()])
        for other in others:
            if named is None:
                yield desk.page.fix(match.start(), match.end(), str(other))
            else:
                yield desk.page.fix(named.start(), match.end(), f"{named[0]}{other}")


def adds(desk: Desk, fault: Diagnostic) -> Iterator[Fix]:
    """C201: end the chain of another width in `linear`."""
    widths = fault.fields.get("widths")
    numbers = [int(w) for w in widths] if isinstance(widths, list | tuple) else []
    at = span_of(fault)
    term = desk.page.term(at.start)
    arguments = term.arguments if term else None
    if not arguments or not numbers:
        return
    for expected in dict.fromkeys((numbers[0], *numbers)):
        # In `res` and similar definitions the one argument is the second chain.
        for argument in reversed(arguments):
            for layer in ("linear", f"linear({expected})"):
                yield _behind(desk, argument.value, layer)


def _behind(desk: Desk, chain: TokenPiece, layer: str) -> Fix:
    """The edit that adds a layer to a chain; the edit repeats a short chain, so that the help shows it."""
    written = desk.page.cut(chain)
    if len(written) <= 40:
        return desk.page.fix(chain.start, chain.end, f"{written} -> {layer}")
    return desk.page.fix(chain.end, chain.end, f" -> {layer}")


def body_width(desk: Desk, fault: Diagnostic) -> Iterator[Fix]:
    """C202: end the body in `linear`."""
    term = desk.page.term(span_of(fault).start)
    if term is not None and term.arguments:
        body = next((a for a in term.arguments if a.name == "body"), term.arguments[0])
        for layer in ("linear", f"linear({fault.fields['expected']})"):
            yield _behind(desk, body.value, layer)


def odd(desk: Desk, fault: Diagnostic) -> Iterator[Fix]:
    """C203: the next even width."""
    at, width = span_of(fault), int(str(fault.fields["width"]))
    yield from literals(desk, width, [width + 1, width - 1], at.start)


def too_far(desk: Desk, fault: Diagnostic) -> Iterator[Fix]:
    """C204: the largest number that the width allows."""
    term = desk.page.term(span_of(fault).start)
    start, width = int(str(fault.fields["start"])), int(str(fault.fields["width"]))
    arguments = term.arguments if term else None
    if arguments and len(arguments) == 2 and start < width:
        last = arguments[1].value
        yield desk.page.fix(last.start, last.end, str(width - start))


def heads(desk: Desk, fault: Diagnostic) -> Iterator[Fix]:
    """C205: the nearest number of heads that divides the width; the larger of two that are equally near."""
    at = span_of(fault)
    number, width = int(str(fault.fields["heads"])), int(str(fault.fields["width"]))
    divisors = sorted(
        (n for n in range(1, min(width, 1024) + 1) if width % n == 0), key=lambda n: (abs(n - number), -n)
    )
    if not divisors:
        return
    nearest = divisors[0]
    yield from literals(desk, number, [nearest], at.start)
    term = desk.page.term(at.start)
    if term is not None:
        yield desk.page.with_argument(term, f"heads={nearest}")
    first = next((t for t in desk.page.tokens if t.kind == "name" and t.text != "adl"), None)
    if first is not None:
        yield desk.page.fix(first.start, first.start, f"heads = {nearest}\n")
    yield from literals(desk, width, [-(-width // number) * number], at.start)


def shares(desk: Desk, fault: Diagnostic) -> Iterator[Fix]:
    """C212, C213: the nearest number that divides what is cut into as many parts."""
    at = span_of(fault)
    number, whole = (int(str(fault.fields[name])) for name in _PARTS[fault.code])
    divisors = (n for n in range(1, min(whole, 1024) + 1) if whole % n == 0)
    yield from literals(desk, number, [min(divisors, key=lambda n: (abs(n - number), -n))], at.start)


def entering(desk: Desk, fault: Diagnostic) -> Iterator[Fix]:
    """C134, C135: the model width instead of the width that enters."""
    at = span_of(fault)
    yield rename(desk, at, re.sub(r"\bd_in\b", "d", desk.page.cut(at)))


def unprojected(desk: Desk, fault: Diagnostic) -> Iterator[Fix]:
    """C206: project the queries, which may then have any width."""
    term = desk.page.term(span_of(fault).start)
    for argument in (term.arguments or ()) if term else ():
        if argument.name == "project":
            yield desk.page.fix(argument.value.start, argument.value.end, "q")


def stateless(desk: Desk, fault: Diagnostic) -> Iterator[Fix]:
    """C207: move the label to the cell in the brackets before it. C207, C208: start from zeros."""
    label = str(fault.fields.get("label", "")).partition("[")[0]
    tokens = desk.page.tokens
    for k in range(1, len(tokens) - 1):
        if tokens[k].kind == "@" and tokens[k + 1].text == label and tokens[k - 1].kind == ")":
            first = desk.page.term_ending(k - 1)
            start = tokens[k - 1 if first is None else first].start
            yield desk.page.fix(start, tokens[k + 1].end, f"{desk.page.body[start : tokens[k - 1].start]} @ {label})")
    yield from without_argument(desk, span_of(fault).start)


def window(desk: Desk, fault: Diagnostic) -> Iterator[Fix]:
    """C209: an argument of a window needs a window."""
    place = desk.page.argument(span_of(fault).start)
    if place is not None:
        yield desk.page.with_argument(place[0], "window=10")


def hidden(desk: Desk, fault: Diagnostic) -> Iterator[Fix]:
    """C210: the width of the keys."""
    at = span_of(fault)
    yield from literals(desk, int(str(fault.fields["found"])), [int(str(fault.fields["expected"]))], at.start)
    term = desk.page.term(at.start)
    if term is not None:
        yield desk.page.with_argument(term, f"hidden={fault.fields['expected']}")


def centre(desk: Desk, fault: Diagnostic) -> Iterator[Fix]:
    """C211: an argument of a predicted centre needs a predicted centre."""
    place = desk.page.argument(span_of(fault).start)
    if place is not None:
        yield desk.page.with_argument(place[0], "center=predict")


def removed(desk: Desk, fault: Diagnostic) -> Iterator[Fix]:
    """C214, C216, C219, C304: remove the argument, or the one that it contradicts."""
    place = desk.page.argument(span_of(fault).start)
    if place is None:
        return
    for number, argument in enumerate(place[0].arguments or ()):
        if argument.name == "floor":
            yield desk.page.without(place[0], number)
    yield desk.page.without(*place)


def other_form(desk: Desk, fault: Diagnostic) -> Iterator[Fix]:
    """C220: choose a form that reads the argument where none is chosen, or remove the argument."""
    place, other = desk.page.argument(span_of(fault).start), str(fault.fields["other"])
    if place is None:
        return
    values = fault.fields["values"]
    for value in values if isinstance(values, tuple) else ():
        yield desk.page.with_argument(place[0], f"{other}={value}")
    yield desk.page.without(*place)


def even(desk: Desk, fault: Diagnostic) -> Iterator[Fix]:
    """C305: the next odd width of a window."""
    at, kernel = span_of(fault), int(str(fault.fields["kernel"]))
    yield from literals(desk, kernel, [kernel + 1, kernel - 1], at.start)
    term = desk.page.term(at.start)
    if term is None:
        return
    for name in desk.aliases.parameters(term.name):  # a default of the definition
        yield desk.page.with_argument(term, f"{name}={kernel - 1}")


def nothing(desk: Desk, fault: Diagnostic) -> Iterator[Fix]:
    """C402: at least one copy."""
    yield rename(desk, span_of(fault), "1")


def bounds(desk: Desk, fault: Diagnostic) -> Iterator[Fix]:
    """C403, C404: a percentage as a share, or the nearest bound."""
    at = span_of(fault)
    low, high, number = (float(str(fault.fields[name])) for name in ("low", "high", "found"))
    sign = desk.page.body.find("%", at.end)
    if sign >= 0 and not desk.page.body[at.end : sign].strip():
        yield from percentage(desk, sign, sign + 1)
    yield from decimal_comma(desk, at.start)
    if fault.code == "C404" and 1 < number <= 100:
        yield rename(desk, at, repr(number / 100))
    if high == 1 and number == 1:
        yield rename(desk, at, "0.1")
    if number > 100 * high:
        yield from without_argument(desk, at.start)
    bound = high if number > high else low
    yield rename(desk, at, str(int(bound)) if bound == int(bound) else repr(bound))
    yield from without_argument(desk, at.start)


def not_whole(desk: Desk, fault: Diagnostic) -> Iterator[Fix]:
    """C117: the next number that can be divided."""
    at = span_of(fault)
    left, right = (int(str(fault.fields[name])) for name in ("left", "right"))
    if right > 0 and re.fullmatch(r"[0-9]+\s*/\s*[0-9]+", desk.page.cut(at)):
        product = re.match(r"(\s*\*\s*\w+)", desk.page.body[at.end :])
        if product is not None:  # 8*d/3 for 8/3*d
            yield desk.page.fix(at.start, at.end + product.end(), f"{left}{product[1]}/{right}")
        yield rename(desk, at, repr(left / right))
    if right > 0:
        yield from literals(desk, left, [-(-left // right) * right], at.start)


_PARTS = {"C212": ("groups", "width"), "C213": ("shared", "heads")}
RULES = {
    "C134": entering,
    "C135": entering,
    "C117": not_whole,
    "C201": adds,
    "C202": body_width,
    "C203": odd,
    "C204": too_far,
    "C205": heads,
    "C206": unprojected,
    "C207": stateless,
    "C208": stateless,
    "C209": window,
    "C210": hidden,
    "C211": centre,
    "C212": shares,
    "C213": shares,
    "C214": removed,
    "C216": removed,
    "C219": removed,
    "C220": other_form,
    "C304": removed,
    "C305": even,
    "C402": nothing,
    "C403": bounds,
    "C404": bounds,
}
