"""Rules for statements: settings, definitions, sides and labels."""

import difflib
import re
from collections.abc import Iterator

from calque.adl.advice.aliases import listed, plain
from calque.adl.advice.desk import Desk, moved, rename, span_of, without_argument
from calque.adl.signature import SETTINGS
from calque.ground.diagnostics import Diagnostic, Fix

OTHER_SIDE = {
    "encoder": "encoder = pos -> repeat(6, tenc) -> norm",
    "decoder": "decoder = pos -> repeat(6, tdec) -> norm",
}


def line(desk: Desk, start: int) -> Fix:
    """The edit that removes a statement with its lines."""
    whole = desk.page.line_of(desk.page.statement(start))
    return desk.page.fix(whole.start, whole.end, "")


def missing_side(desk: Desk, fault: Diagnostic) -> Iterator[Fix]:
    """C120: rename a statement that may be the side, or add one that fits the other side."""
    sides = fault.fields.get("sides")
    known = [str(side) for side in sides] if isinstance(sides, list | tuple) else []
    at, end = span_of(fault), len(desk.page.body.rstrip())
    if at.start < at.end:
        yield from (rename(desk, at, side) for side in known)
    for match in re.finditer(r"^([A-Za-z_]\w*)[ \t]*=", desk.page.body, re.MULTILINE):
        for side in known:
            if difflib.SequenceMatcher(None, match[1].lower(), side).ratio() > 0.5 or plain(match[1]) in side:
                yield desk.page.fix(match.start(1), match.end(1), side)
    yield desk.page.fix(end, end, "".join(f"\n{OTHER_SIDE[side]}" for side in known).lstrip("\n" if end == 0 else ""))


def taken(desk: Desk, fault: Diagnostic) -> Iterator[Fix]:
    """C121: a number assigned to the name of a layer is meant for a setting."""
    at = span_of(fault)
    for meant in listed("settings").get(plain(str(fault.fields["name"])), ()):
        yield rename(desk, at, meant)
    yield from without_argument(desk, at.start)
    yield line(desk, at.start)
    yield rename(desk, at, f"my_{fault.fields['name']}")


def again(desk: Desk, fault: Diagnostic) -> Iterator[Fix]:
    """C122, C124, C133: remove the statement."""
    yield line(desk, span_of(fault).start)


def parameters(desk: Desk, fault: Diagnostic) -> Iterator[Fix]:
    """C123: the side without its brackets."""
    term = desk.page.term(span_of(fault).start)
    if term is not None:
        yield desk.page.fix(term.at.start + len(term.name), term.at.end, "")


def version(desk: Desk, fault: Diagnostic) -> Iterator[Fix]:
    """C125: the existing version."""
    yield rename(desk, span_of(fault), str(fault.fields["version"]))


def late(desk: Desk, fault: Diagnostic) -> Iterator[Fix]:
    """C126: move the setting before the first statement that uses it."""
    if fault.related:
        yield from moved(desk, span_of(fault).start, fault.related[0][0].start)


def unread(desk: Desk, fault: Diagnostic) -> Iterator[Fix]:
    """C127: a setting with another name, or an unnecessary one."""
    at, name = span_of(fault), str(fault.fields["name"])
    meant = listed("settings").get(plain(name), ())
    near = difflib.get_close_matches(name, list(SETTINGS), n=1, cutoff=0.7)
    for setting in dict.fromkeys((*meant, *near)):
        yield rename(desk, at, setting)
    yield line(desk, at.start)


def label_end(desk: Desk, fault: Diagnostic) -> Iterator[Fix]:
    """C116, C303: remove the label and the sign before it."""
    at = span_of(fault)
    term = desk.page.term(at.start)
    start, end = at.start, at.end
    if term is not None and term.label_end > term.at.end:  # the fault is that of the whole term
        start, end = term.at.end, term.label_end
    body = desk.page.body
    sign = body.rfind("@", 0, start + 1) if body[start : start + 1] != "@" else start
    if term is not None and term.label_end > term.at.end:
        sign = term.at.end
    if sign >= 0:
        while sign > 0 and body[sign - 1] in " \t":
            sign -= 1
        yield desk.page.fix(sign, end, "")


def two_labels(desk: Desk, fault: Diagnostic) -> Iterator[Fix]:
    """C128: give the later label another name."""
    label = str(fault.fields["label"])
    at = span_of(fault)
    for match in re.finditer(rf"@\s*({re.escape(label)})\b", desk.page.body[at.start : at.end]):
        start = at.start + match.start(1)
        yield desk.page.fix(start, start + len(label), f"{label}2")
    yield from label_end(desk, fault)


RULES = {
    "C116": label_end,
    "C120": missing_side,
    "C121": taken,
    "C122": again,
    "C123": parameters,
    "C124": again,
    "C125": version,
    "C126": late,
    "C127": unread,
    "C128": two_labels,
    "C133": again,
    "C303": label_end,
}
