"""Paragraphs in XML as pieces to translate: of Word, PowerPoint, Excel and OpenDocument."""

import re
from collections.abc import Collection, Iterator, Sequence
from dataclasses import dataclass

from calque.workflow.document.coded import Code, Coded, Codes
from calque.workflow.document.inline import NOTE, Kind
from calque.workflow.document.items import Around, Item, Point, Text, joined, ranges, together, usual_format
from calque.workflow.document.layout import Lines
from calque.workflow.document.xml import Xml, text_of

DEEPEST = 20
"""Elements inside each other whose text is translated; what is deeper stays as it is."""
_SUPERSCRIPT = re.compile(r"vertAlign\s[^<>]*superscript|\bbaseline=\"[1-9]")
LONGEST = 500
"""Runs of a field, at most; those of a longer one are read by themselves."""
_FIELD = re.compile(r"fldCharType\s*=\s*[\"'](begin|separate|end)[\"']")


@dataclass(frozen=True)
class Runs:
    """How text is held that stands in runs of one format each.

    run, format, text  the names of a run, of its format and of its text
    mark               an attribute of a text whose white space at both ends counts; empty: it always does
    unsaid             what a format says that has no meaning for another text: its language and the spelling that was checked
    bare               a paragraph may have one text, in no run
    """

    run: str
    format: str
    text: str
    mark: str
    unsaid: str
    bare: bool = False


@dataclass(frozen=True)
class Dialect:
    """The elements of a kind of XML, by their names without prefix.

    namespace   a regular expression
    paragraphs  whose text is translated, each by itself
    around      inside a paragraph, elements that stand around words
    within      of some of these, the child that has the words
    divides     inside a paragraph, what divides it as a line end does, or stands at its beginning or end
    reads       elements that are read as characters, each with these
    dropped     what has no meaning for another text
    kept        elements that stay as they are, whatever is in them
    kept_tag    a pattern of further ones, with their prefixes and attributes
    runs        None where text stands in a paragraph itself
    breaks      a pattern of the characters of a text that divide it
    sign        what a text has in which there is something to translate
    """

    namespace: str
    paragraphs: frozenset[str]
    around: frozenset[str]
    divides: frozenset[str]
    reads: tuple[tuple[str, str], ...] = ()
    dropped: frozenset[str] = frozenset()
    kept: frozenset[str] = frozenset()
    kept_tag: str = ""
    within: tuple[tuple[str, str], ...] = ()
    runs: Runs | None = None
    breaks: str = "\t"
    sign: bytes = b""


class Paragraphs:
    """The paragraphs of a text of XML, whose lines are added to `lines`.

    inline  markup inside a sentence does not divide it
    stay    the numbers of paragraphs that stay as they are
    """

    def __init__(self, xml: Xml, dialect: Dialect, lines: Lines, inline: bool, stay: Collection[int] = ()):
        self.xml, self.dialect, self._lines, self._stay = xml, dialect, lines, stay
        self._inside = Kind.INSIDE if inline else Kind.BETWEEN
        prefix = xml.prefix(dialect.namespace)
        self._prefix, self._known = prefix or "", prefix is not None
        self._depth = 0

    def coded(self, first: int = 0, end: int | None = None) -> Coded:
        """The tokens [first, end), all of them if they are not given."""
        codes = Codes()
        self._depth += 1
        layout = self._lines.marked(self._pieces(first, len(self.xml.tokens) if end is None else end, codes))
        self._depth -= 1
        return Coded(layout, codes)

    def _name(self, at: int) -> str:
        """The name of an element without its prefix; empty for what is none of this kind of XML."""
        name = self.xml.names[at]
        rest = name[len(self._prefix) :]
        return rest if name.startswith(self._prefix) and ":" not in rest else ""

    def _pieces(self, first: int, end: int, codes: Codes) -> Iterator[tuple[str, Kind]]:
        began = at = first
        count = 0
        while at < end and self._known:
            behind = self.xml.ends[at]
            if self._name(at) in self.dialect.paragraphs:
                count += 1
                if behind > at and count - 1 not in self._stay:
                    bare = self._bare(at, behind)
                    yield self.xml.text(began, at + 1 if bare is None else bare + 1), Kind.BETWEEN
                    yield from self._paragraph(at + 1, behind, codes) if bare is None else self._of_bare(bare, codes)
                    began = at = behind
            at = (behind if self._is_kept(at) else at) + 1
        yield self.xml.text(began, end), Kind.BETWEEN

    def _is_kept(self, at: int) -> bool:
        tag = self.dialect.kept_tag
        return self._name(at) in self.dialect.kept or bool(tag and re.match(tag, self.xml.tokens[at]))

    def _bare(self, at: int, end: int) -> int | None:
        """The text of a paragraph that has no runs; None where there is none."""
        runs = self.dialect.runs
        if runs is None or not runs.bare:
            return None
        children = [child for child in self.xml.children(at + 1, end) if self._name(child) in (runs.run, runs.text)]
        return children[0] if len(children) == 1 and self._name(children[0]) == runs.text else None

    def _of_bare(self, at: int, codes: Codes) -> Iterator[tuple[str, Kind]]:
        end = self.xml.ends[at]
        text = text_of(self.xml.tokens[at + 1 : end])
        for k, part in enumerate(re.split(f"({self.dialect.breaks})", text)):
            yield (codes.point(part), Kind.BETWEEN) if k % 2 else (part, Kind.TEXT)
        yield self.xml.tokens[end] if end > at else "", Kind.BETWEEN

    def _paragraph(self, first: int, end: int, codes: Codes) -> Iterator[tuple[str, Kind]]:
        items = self._items(first, end, 0)
        usual = usual_format(items)
        opening, closing = codes.around(self._code(usual))
        yield opening, Kind.BETWEEN
        yield from self._of_items(items, usual, codes)
        yield closing, Kind.BETWEEN

    def _code(self, format_: str, before: str = "", behind: str = "") -> Code:
        """A code around text of this format."""
        if (runs := self.dialect.runs) is None:
            return Code(before, behind)
        p = self._prefix
        start = f"<{p}{runs.run}>{format_}<{p}{runs.text}{runs.mark and ' ' + runs.mark}>"
        return Code(before, behind, start, f"</{p}{runs.text}></{p}{runs.run}>")

    def _of_items(self, items: Sequence[Item], usual: str, codes: Codes) -> Iterator[tuple[str, Kind]]:
        for item in together(items, usual):
            if isinstance(item, Point):
                yield codes.point(item.markup), Kind.BETWEEN if item.divides else self._inside
            elif isinstance(item, Text):
                yield item.text, Kind.TEXT
            elif item.format is not None and _SUPERSCRIPT.search(item.format) and (note := self._note(item)):
                yield codes.point(note), Kind.POINT if self._inside is Kind.INSIDE else Kind.BETWEEN
            elif item.format is not None and not item.text.strip():
                yield from self._blank(item, codes)
            else:
                format_ = usual_format(item.items, usual) if item.format is None else item.format
                opening, closing = codes.around(self._code(format_, item.before, item.behind))
                yield opening, self._inside
                yield from self._of_items(item.items, format_, codes)
                yield closing, self._inside

    def _note(self, item: Around) -> str:
        """The run of a number that stands higher than its line; empty for other text."""
        code = self._code(item.format or "")
        return f"{code.start}{item.text}{code.end}" if NOTE.fullmatch(item.text) and len(item.items) == 1 else ""

    def _blank(self, item: Around, codes: Codes) -> Iterator[tuple[str, Kind]]:
        """White space of a format of its own: more than one character is something to see, such as a line to write on."""
        for one in item.items:
            if isinstance(one, Text) and len(one.text) < 2:
                yield one.text, Kind.TEXT
            elif not isinstance(one, Around):
                code = self._code(item.format or "")
                markup = f"{code.start}{one.text}{code.end}" if isinstance(one, Text) else one.markup
                yield codes.point(markup), self._inside

    def _items(self, first: int, end: int, depth: int) -> tuple[Item, ...]:
        """What is in a paragraph, or in an element around some of it."""
        items: list[Item] = []
        children = [*self.xml.children(first, end)]
        k = 0
        while k < len(children):
            last, found = self._field(children, k, depth) or (k, self._of_child(children[k], depth))
            items += found
            k = last + 1
        return joined(ranges(items))

    def _of_child(self, at: int, depth: int) -> Sequence[Item]:
        name, end = self._name(at), self.xml.ends[at]
        if self.dialect.runs is None:
            if not self.xml.names[at]:
                text = text_of(self.xml.tokens[at : at + 1])
                return [Text(text)] if text else [Point(self.xml.tokens[at])]
        elif not self.xml.names[at]:
            return []
        elif name == self.dialect.runs.run:
            return self._of_run(at, self.dialect.runs)
        elif name == self.dialect.runs.text and self.dialect.runs.bare:
            return [*self._of_text(at, self.dialect.runs, "")]
        if name in self.dialect.around and end > at and depth < DEEPEST:
            return [self._of_around(at, name, depth)]
        return self._other(at, "")

    def _field(self, children: Sequence[int], k: int, depth: int) -> tuple[int, Sequence[Item]] | None:
        """A field of Word from its first run on, with the place of its last one; None where none begins, or it ends elsewhere.

        The words of a link are translated, those that Word computes are not.
        """
        opened, separate = 0, None
        if self.dialect.runs is None:
            return None
        for j in range(k, min(k + LONGEST, len(children))):
            is_run = self._name(children[j]) == self.dialect.runs.run and not self._has_paragraphs(children[j])
            text = self.xml.text(children[j], self.xml.ends[children[j]] + 1) if is_run else ""
            marks = _FIELD.findall(text)
            opened += marks.count("begin") - marks.count("end")
            if not opened and j == k:
                return (k, [Point(text)]) if "begin" in marks else None
            separate = j if separate is None and opened == 1 and "separate" in marks else separate
            if opened <= 0:
                return j, [self._of_field(children, k, separate, j, depth)]
        return None

    def _of_field(self, children: Sequence[int], k: int, separate: int | None, last: int, depth: int) -> Item:
        first, end = children[k], self.xml.ends[children[last]] + 1
        if separate is None or separate >= last or "HYPERLINK" not in self.xml.text(first, children[separate]):
            return Point(self.xml.text(first, end))
        words, behind = self.xml.ends[children[separate]] + 1, children[last]
        return Around(self.xml.text(first, words), self.xml.text(behind, end), self._items(words, behind, depth + 1))

    def _of_around(self, at: int, name: str, depth: int) -> Around:
        end = behind = self.xml.ends[at]
        first = at + 1
        for element, child in self.dialect.within:
            if element == name:
                one = next((c for c in self.xml.children(at + 1, end) if self._name(c) == child), end)
                first, behind = one + 1 if one < end else end, self.xml.ends[one]
        items = self._items(first, behind, depth + 1)
        return Around(self.xml.text(at, first), self.xml.text(behind, end + 1), items)

    def _of_run(self, at: int, runs: Runs) -> Sequence[Item]:
        """The texts of a run, and what else is in it, each as a run of its own."""
        children = [c for c in self.xml.children(at + 1, self.xml.ends[at]) if self.xml.names[c]]
        if self._has_paragraphs(at):
            return self._other(at, "")
        format_ = next((self.xml.text(c, self.xml.ends[c] + 1) for c in children if self._name(c) == runs.format), "")
        format_ = _plain(re.sub(runs.unsaid, "", format_))
        opening, closing = (f"<{mark}{self._prefix}{runs.run}>" for mark in ("", "/"))
        items: list[Item] = []
        for child in children:
            if self._name(child) == runs.text:
                items += self._of_text(child, runs, format_)
            elif self._name(child) != runs.format:
                for one in self._other(child, format_):
                    if isinstance(one, Point) and isinstance(one.markup, str):
                        items.append(Point(f"{opening}{format_}{one.markup}{closing}", one.divides))
                    else:
                        items.append(one)
        return items

    def _of_text(self, at: int, runs: Runs, format_: str) -> Iterator[Item]:
        """The text of a run; a tab in it divides, as one that is an element does, and so do line ends in cells."""
        text = text_of(self.xml.tokens[at + 1 : self.xml.ends[at]])
        counts = not runs.mark or runs.mark in self.xml.tokens[at].replace("'", '"')
        code = self._code(format_)
        for k, part in enumerate(re.split(f"({self.dialect.breaks})", text if counts else text.strip())):
            yield Point(f"{code.start}{part}{code.end}", True) if k % 2 else Text(part, format_)

    def _other(self, at: int, format_: str) -> Sequence[Item]:
        """What is no text, in a run of this format."""
        name, end = self._name(at), self.xml.ends[at] + 1
        if name in self.dialect.dropped:
            return []
        if (characters := dict(self.dialect.reads).get(name)) is not None:
            return [Text(characters, format_)]
        divides = name in self.dialect.divides
        if self._has_paragraphs(at) and not self._is_kept(at) and self._depth < DEEPEST:
            return [Point(self.coded(at, end), divides)]
        return [Point(self.xml.text(at, end), divides)]

    def _has_paragraphs(self, at: int) -> bool:
        return any(self._name(k) in self.dialect.paragraphs for k in range(at, self.xml.ends[at]))


def _plain(format_: str) -> str:
    """A format as it is written for all runs that have it; empty where it says nothing."""
    format_ = re.sub(r"\s+(?=/?>)", "", format_)
    return "" if re.fullmatch(r"<([^<>\s]+)(?:/>|></\1>)", format_) else format_
