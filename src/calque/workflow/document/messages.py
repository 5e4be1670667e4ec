"""The texts of programs as pieces: placeholders, the tags of HTML and line ends in them stay as they are."""

import html
import re
from collections.abc import Callable, Iterable, Iterator

from calque.workflow.document.coded import Code, Codes
from calque.workflow.document.inline import EMPTY, Kind, is_inline, opens

PLACEHOLDER = "|".join(
    [
        # C, Python, Objective-C; a space is no flag, since "50 % discount" has one.
        r"%(?:\(\w+\)|\d+\$)?[-+#0']*(?:\d+|\*)?(?:\.(?:\d+|\*))?(?:hh?|ll?|I64|[qjztL])?[diouxXeEfFgGcsprS@]\b",
        r"%\w+%|%L?\d+\b|%n\b|%[\w@]|%\{\w+\}",  # Symfony, Qt, Ruby
        r"\{\{[^{}]*\}\}|\{%[^{}]*%\}|\$?\{ ?[^{}\s]* ?\}",  # JavaScript, Python, Java, Rust, templates
        r"\{\s*\w+\s*,(?:[^{}]|\{(?:[^{}]|\{[^{}]*\})*\})*\}",  # ICU, with its cases
        r"\$\w+\b",  # PHP, a shell
        r"(?<![\w:@!])[@:!][a-z]\w*",  # Drupal, Laravel
        r"&#?\w+;",
        r"\b(?:https?|ftp)://[^\s<>\"']*[\w/]",
    ]
)
"""What programs replace by a value."""
_TAG = r"</?[A-Za-z][^\s/>\"'<]*+(?:\"[^\"]*\"|'[^']*'|[^'\"<>])*+>"
_ELEMENT = (
    r"<(?P<code>code|kbd|samp|script|style)\b[^<>]*>[^<>]*</(?P=code)>"
    r"|<(?P<other>\w+)\s[^<>]*\btranslate\s*=\s*[\"']?no\b[^<>]*>[^<>]*</(?P=other)>"
)
KEPT_ELEMENT = re.compile(_ELEMENT)
"""An element of HTML whose words are not translated."""
_APART = re.compile(rf"(?P<kept>{_ELEMENT}|(?P<put>{PLACEHOLDER}))|(?P<tag>{_TAG})|(?P<ends>[\r\n\t\v\f]+)")
_CHOICE = re.compile(r"\{\s*\w+\s*,\s*(?:plural|select|selectordinal)\b")
_IN_ORDER = re.compile(r"%[^%\w(@]*[\w@].*", re.DOTALL)
_NAME = re.compile(r"<(/?)([A-Za-z]\w*)")


def is_choice(text: str) -> bool:
    """Whether a message has cases, in ICU's language: it is not translated."""
    return _CHOICE.match(text.lstrip()) is not None


def keeps_places(source: str, translation: str) -> bool:
    """Whether a translation has the placeholders of its source, those without a name or a number in the same order."""
    here, there = ([found["put"] for found in _APART.finditer(x) if found["put"]] for x in (source, translation))
    in_order = (
        [one for one in some if _IN_ORDER.fullmatch(one) and "$" not in one and not one.endswith("%")]
        for some in (here, there)
    )
    return sorted(here) == sorted(there) and next(in_order) == next(in_order)


def message_pieces(
    text: str, codes: Codes, inside: Kind, write: Callable[[str], str] = str
) -> Iterator[tuple[str, Kind]]:
    """The pieces of a message, in order. `inside`: the kind of markup inside a sentence; `write`: how markup stands in the file."""
    pairs = paired((found.start(), found[0]) for found in re.finditer(_TAG, text))
    at = 0
    for found in _APART.finditer(text):
        yield html.escape(text[at : found.start()], quote=False), Kind.TEXT
        at = found.end()
        markup = found[0]
        if found["kept"] and inside is Kind.INSIDE:
            yield from kept_pieces(markup, found["put"] is None, codes, write)
        elif found.start() in pairs:
            yield tag_code(markup, codes, write), inside
        elif found["tag"] and is_inline(markup):
            yield codes.point(write(markup)), Kind.POINT if inside is Kind.INSIDE else inside
        else:
            yield codes.point(write(markup)), Kind.BETWEEN
    yield html.escape(text[at:], quote=False), Kind.TEXT


def kept_pieces(
    markup: str, element: bool, codes: Codes, write: Callable[[str], str] = str
) -> Iterator[tuple[str, Kind]]:
    """What is not translated, as words of a sentence: an element of HTML, or anything else."""
    before, words, behind = "", markup, ""
    if element:
        begin, end = markup.index(">") + 1, markup.rindex("</")
        before, words, behind = markup[:begin], markup[begin:end], markup[end:]
    if not words.strip():
        yield codes.point(write(markup)), Kind.POINT
        return
    opening, closing = codes.around(Code(write(before), write(behind), verbatim=True))
    yield opening, Kind.INSIDE
    yield html.escape(write(words), quote=False), Kind.KEPT
    yield closing, Kind.INSIDE


def paired(tags: Iterable[tuple[int, str]]) -> set[int]:
    """Which of these tags, by their numbers, are of inline elements that begin and end among them."""
    opened: list[tuple[str, int]] = []
    found: set[int] = set()
    for number, tag in tags:
        name = _NAME.match(tag)
        if name is None or not is_inline(tag) or opens(tag) == 0:
            continue
        if not name[1]:
            opened.append((name[2].lower(), number))
        elif opened and opened[-1][0] == name[2].lower():
            found |= {opened.pop()[1], number}
    return found


def tag_code(tag: str, codes: Codes, write: Callable[[str], str] = str) -> str:
    """A code for a tag of HTML that may stand inside a sentence."""
    found = _NAME.match(tag)
    if found is None or found[2].lower() in EMPTY or tag.endswith("/>"):
        return codes.point(write(tag))
    return codes.closing(write(tag)) if found[1] else codes.opening(write(tag))
