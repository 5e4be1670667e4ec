"""HTML as pieces: tags, comments and texts. XHTML is read by the same rules."""

import re
from collections.abc import Iterator, Sequence

from calque.workflow.document.inline import Kind, is_inline
from calque.workflow.document.layout import Layout, Lines

# Nothing is matched in two ways, so that it takes linear time.
_TAG = re.compile(r"</?[A-Za-z][^\s/>\"'<]*+(?:\"[^\"]*\"|'[^']*'|[^'\"<>])*+>")
_CUT_TAG = re.compile(r"</?[A-Za-z][^\s/>\"'<]*+(?:\s+[^\s=>\"'<]++=(?:\"[^\"]*+\"?|'[^']*+'?|[^\s>\"'<]*+))*+\s*+\Z")
"""A tag that is cut off at the end of a text."""
_SET_APART = re.compile(r"<!\[CDATA\[|<!--|<[!?]")
_NAME = re.compile(r"</?([A-Za-z][^\s/>\"'<]*)")
_RAW = {name: re.compile(rf"</{name}(?=[\s/>])", re.IGNORECASE) for name in ("script", "style")}
"""Elements in which there are no tags but the one that ends them."""
_FORMULAS = frozenset({"math", "m:math", "svg"})
"""Elements that stand in a sentence and have no words."""
_KEPT = _FORMULAS | {"script", "style", "code", "kbd", "samp", "template"}
"""Elements whose contents are no text to translate."""
_WORDS = frozenset({"code", "kbd", "samp"})
"""Elements of these that stand in a sentence as words do."""
LONGEST = 60
"""The most characters of an element inside a sentence that is not translated; a longer element divides the sentence."""
_NOT_WORDS = re.compile(r"[\r\n]|<(?!/?(?:a|b|em|i|span|strong|var)\b)", re.IGNORECASE)
_EMPTY = frozenset(
    ["area", "base", "br", "col", "embed", "hr", "img", "input", "link", "meta", "source", "track", "wbr"]
)
_NOT_TRANSLATED = re.compile(
    r"\stranslate\s*=\s*[\"']?no\b|\sclass\s*=\s*(?:\"[^\"]*\bnotranslate\b|'[^']*\bnotranslate\b|notranslate\b)",
    re.IGNORECASE,
)


def html_layout(text: str, lines: Lines, inline: bool = False) -> Layout:
    """An HTML text, whose lines are added to `lines`. `inline`: a tag inside a sentence does not divide it."""
    return lines.marked(html_pieces(text, inline))


def html_pieces(text: str, inline: bool) -> Iterator[tuple[str, Kind]]:
    """The pieces of an HTML text, in order; together they are the text. Comments and the contents of elements that are not
    translated stay as they are. `inline`: a tag inside a sentence does not divide it.
    """
    as_written = 0  # elements whose line ends are kept
    kept: list[str] = []
    for piece, is_text, is_kept in _pieces(text):
        within = inline and not as_written
        if kept or (is_kept and _NAME.match(piece)):
            kept.append(piece)
            if not is_kept:
                yield from _of_kept(kept, within)
                kept = []
        elif is_text:
            yield piece, Kind.LINES if as_written else Kind.TEXT
        else:
            yield piece, _kind_of(piece) if within else Kind.BETWEEN
            as_written = max(0, as_written + _opens_pre(piece))
    yield from ((piece, Kind.BETWEEN) for piece in kept)


def _kind_of(markup: str) -> Kind:
    if markup.startswith("<!--"):
        return Kind.POINT
    return Kind.INSIDE if is_inline(markup) else Kind.BETWEEN


def _of_kept(pieces: Sequence[str], inline: bool) -> Iterator[tuple[str, Kind]]:
    """An element that is not translated: inside a sentence where it is short and of its kind."""
    opening, content, closing = pieces[0], "".join(pieces[1:-1]), pieces[-1]
    found = _NAME.match(opening)
    if inline and found is not None and found[1].lower() in _FORMULAS:
        yield "".join(pieces), Kind.POINT
        return
    named = inline and found is not None and (found[1].lower() in _WORDS or is_inline(opening))
    if named and content.strip() and len(content) <= LONGEST and not _NOT_WORDS.search(content):
        yield from ((opening, Kind.INSIDE), (content, Kind.KEPT), (closing, Kind.INSIDE))
        return
    yield from ((piece, Kind.BETWEEN) for piece in pieces)


def _pieces(text: str) -> Iterator[tuple[str, bool, bool]]:
    """The parts of an HTML text in order, whether each is text to translate, and whether what follows it is not."""
    at = began = 0
    held = _Kept()
    absent: set[str] = set()
    while (at := _next_markup(text, at, held.open)) >= 0:
        end = _end_of_markup(text, at, absent)
        if end is None:
            at += 1  # a `<` that begins nothing is text
            continue
        if began < at:
            yield text[began:at], not held.open, bool(held.open)
        held.see(text[at:end])
        yield text[at:end], False, bool(held.open)
        at = began = end
    if began < len(text):
        yield text[began:], not held.open, bool(held.open)


def _opens_pre(markup: str) -> int:
    """1 for `<pre>`, -1 for `</pre>`, else 0."""
    found = _NAME.match(markup)
    if found is None or found[1].lower() != "pre" or markup.endswith("/>"):
        return 0
    return -1 if markup.startswith("</") else 1


def _next_markup(text: str, at: int, element: str | None) -> int:
    """Where a tag may begin, in an element; -1 where none does any more."""
    if element not in _RAW:
        return text.find("<", at)
    end = _RAW[element].search(text, at)
    return end.start() if end else -1


def _end_of_markup(text: str, at: int, absent: set[str]) -> int | None:
    """Where the tag, comment or declaration at `at` ends; None where there is none. `absent`: ends that do not come any more."""
    apart = _SET_APART.match(text, at)
    if apart is None:
        tag = _TAG.match(text, at) or _CUT_TAG.match(text, at)
        return tag and tag.end()
    closing = {"<!--": "-->", "<![CDATA[": "]]>"}.get(apart[0], ">")
    end = -1 if closing in absent else text.find(closing, apart.end())
    if end < 0:
        absent.add(closing)
        return len(text) if apart[0] == "<!--" else None  # a comment without an end is one to the end of the text
    return end + len(closing)


class _Kept:
    """Whether the text at hand is in an element that is not translated."""

    def __init__(self) -> None:
        self.open: str | None = None
        self._depth = 0

    def see(self, markup: str) -> None:
        """Reads the next tag."""
        found = _NAME.match(markup)
        if found is None:
            return
        name, closes = found[1].lower(), markup.startswith("</")
        if self.open is None:
            apart = name in _KEPT or _NOT_TRANSLATED.search(markup)
            if apart and not closes and name not in _EMPTY and not markup.endswith("/>"):
                self.open, self._depth = name, 1
        elif name == self.open and not markup.endswith("/>"):
            self._depth += -1 if closes else 1
            if not self._depth:
                self.open = None
