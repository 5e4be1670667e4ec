"""XLIFF 1.2 and 2: segments without a translation get one, and all else stays as it is."""

import html
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

from calque.workflow.document.coded import Code, Coded, Codes
from calque.workflow.document.encoded import Damaged
from calque.workflow.document.inline import DEEPEST, Kind, Shares
from calque.workflow.document.layout import Lines
from calque.workflow.document.messages import PLACEHOLDER, is_choice, keeps_places, message_pieces
from calque.workflow.document.xml import Xml, text_of

_AROUND = frozenset({"g", "pc", "mrk"})
_PAIRS = {"bpt": ("ept", ("rid", "id")), "bx": ("ex", ("rid", "id")), "sc": ("ec", ("id",))}
"""Elements that begin a range, with those that end it and the attributes that they have in common."""
_ENDS = {"ept": ("rid", "id"), "ex": ("rid", "id"), "ec": ("startRef", "id")}
_ATTRIBUTE = re.compile(r"\s([\w:-]+)\s*=\s*(?:\"([^\"]*)\"|'([^']*)')")
_NEW = {"new", "needs-translation", "initial"}
"""States of targets that are copies of their sources."""
_MARKUP = re.compile(r"<((?:[^\s<>/]+:)?(?:bpt|ept|ph|it))\b[^<>]*(?<!/)>.*?</\1>|<[^<>]*>", re.DOTALL)
"""Tags, and whole elements whose content is markup of another format."""
_DRAFT = ' state="needs-review-translation" state-qualifier="mt-suggestion"'
"""What a translation of version 1.2 says of itself."""


@dataclass(frozen=True)
class Segments:
    """A file of XLIFF without the translations that it lacks."""

    xml: Xml
    parts: tuple["str | _Segment", ...]

    def fill(self, lines: Sequence[str], shares: Mapping[int, Shares | None] | None = None) -> bytes:
        """The file with these lines."""
        texts = (part if isinstance(part, str) else part.fill(lines, shares) for part in self.parts)
        return self.xml.source.again("".join(texts))


@dataclass(frozen=True)
class _Segment:
    """A translation to write, between the tags of its element, in place of `before`; its source says which placeholders it has."""

    source: str
    opening: str
    text: Coded
    closing: str
    before: str

    def fill(self, lines: Sequence[str], shares: Mapping[int, Shares | None] | None) -> str:
        text = self.text.fill(lines, shares)
        kept = keeps_places(*(html.unescape(_MARKUP.sub("", one)) for one in (self.source, text)))
        return self.opening + text + self.closing if kept else self.before


def read_segments(body: bytes, lines: Lines, inline: bool, largest: int) -> Segments:
    """The segments of a file, whose lines are added to `lines`. Raises Damaged."""
    if len(body) > largest // 8:
        raise Damaged(f"it has more than {largest / 2**23:.1f} MB")
    return Segments(xml := Xml(body), tuple(_Reader(xml, lines, inline).parts()))


class _Reader:
    def __init__(self, xml: Xml, lines: Lines, inline: bool):
        self._xml, self._lines = xml, lines
        self._inside, self._point = (Kind.INSIDE, Kind.POINT) if inline else (Kind.BETWEEN, Kind.BETWEEN)
        self._root = next((k for k, name in enumerate(xml.names) if name), 0)
        if self._name(self._root) != "xliff":
            raise Damaged("it is no XLIFF")
        self._draft = _DRAFT if self._attribute(self._root, "version").startswith("1") else ""

    def parts(self) -> Iterator[str | _Segment]:
        """The file, in which texts to translate stand for what is not there yet."""
        began = at = 0
        tokens = self._xml.tokens
        while at < len(tokens):
            behind = self._xml.ends[at]
            if self._attribute(at, "translate") == "no":
                at = behind + 1
                continue
            if self._name(at) in ("trans-unit", "segment") and (found := self._segment(at + 1, behind)):
                source, first, end = found
                opening, closing = self._target(source, first, end)
                yield self._xml.text(began, first)
                content, before = self._xml.text(source + 1, self._xml.ends[source]), self._xml.text(first, end)
                yield _Segment(content, opening, self._coded(source + 1, self._xml.ends[source]), closing, before)
                began = end
            at += 1
        yield self._xml.text(began, len(tokens))

    def _segment(self, first: int, end: int) -> tuple[int, int, int] | None:
        """Of a segment, the element whose text is translated and the tokens [first, end) in place of which the translation
        stands; None where it has one."""
        children = {self._name(k): k for k in self._xml.children(first, end)}
        found = [children[name] for name in ("seg-source", "source") if name in children]
        source = next((at for at in found if self._words(at)), None)
        if source is None or is_choice(self._words(source)):
            return None
        target = children.get("target")
        if target is None:
            behind = self._xml.ends[found[0]] + 1
            return source, behind, behind
        there = self._words(target)
        copied = there == self._words(source) and {self._attribute(k, "state") for k in (target, first - 1)} & _NEW
        return (source, target, self._xml.ends[target] + 1) if copied or not there else None

    def _words(self, at: int) -> str:
        """The text of an element."""
        return html.unescape(text_of(self._xml.tokens[at : self._xml.ends[at] + 1])).strip()

    def _target(self, source: int, first: int, end: int) -> tuple[str, str]:
        """The tags around a translation, with the white space in front of one that is new."""
        name = self._xml.names[source].replace("seg-source", "target").replace("source", "target")
        closing = f"</{name}>"
        if first < end:
            tag = self._xml.tokens[first]
            tag = tag[:-2].rstrip() + ">" if tag.endswith("/>") else tag
            return tag.replace(f"<{name}>", f"<{name}{self._draft}>"), closing
        before = self._xml.tokens[source - 1]
        return f"{before if before.isspace() else ''}<{name}{self._draft}>", closing

    def _coded(self, first: int, end: int) -> Coded:
        codes = Codes()
        return Coded(self._lines.marked(self._pieces(first, end, codes)), codes)

    def _pieces(self, first: int, end: int, codes: Codes, depth: int = 0) -> Iterator[tuple[str, Kind]]:
        begins, ends = self._ranges(first, end)
        kept_until = first
        for at in self._xml.children(first, end):
            if at < kept_until:
                continue
            if (last := self._end_of_kept(at, end)) is not None:
                kept_until = self._xml.ends[last] + 1
                ended = self._xml.text(last, kept_until)
                yield from self._kept(
                    self._xml.text(at, self._xml.ends[at] + 1), self._xml.ends[at] + 1, last, ended, codes
                )
                continue
            name, behind = self._name(at), self._xml.ends[at]
            markup = self._xml.text(at, behind + 1)
            if not self._xml.names[at]:
                if text := text_of(self._xml.tokens[at : at + 1]):
                    yield from message_pieces(html.unescape(text), codes, self._inside, _escaped)
                else:
                    yield codes.point(markup), self._point
            elif name in _AROUND and behind > at and depth < DEEPEST:
                yield from self._around(at, behind, codes, depth)
            elif at in begins:
                yield codes.opening(markup), self._inside
            elif at in ends:
                yield codes.closing(markup), self._inside
            else:
                yield from self._standing(at, markup, codes)

    def _standing(self, at: int, markup: str, codes: Codes) -> Iterator[tuple[str, Kind]]:
        """An element without words. Where it names a placeholder, the model reads that name as a word."""
        said = [html.unescape(self._attribute(at, name)) for name in ("equiv-text", "equiv", "disp")]
        put = next((one for one in [*said, self._words(at)] if re.fullmatch(PLACEHOLDER, one)), None)
        if put is not None and self._inside is Kind.INSIDE:
            opening, closing = codes.around(Code(markup, instead=True))
            yield opening, Kind.INSIDE
            yield html.escape(put, quote=False), Kind.KEPT
            yield closing, Kind.INSIDE
            return
        breaks = self._attribute(at, "ctype") == "lb" or self._attribute(at, "subType") == "xlf:lb"
        yield codes.point(markup), Kind.BETWEEN if breaks else self._point

    def _around(self, at: int, behind: int, codes: Codes, depth: int) -> Iterator[tuple[str, Kind]]:
        """An element with words. A segment of its own divides; a term that is protected stays."""
        kind = self._attribute(at, "mtype")
        inside = Kind.BETWEEN if kind == "seg" else self._inside
        opening, closing = self._xml.tokens[at], self._xml.tokens[behind]
        if kind == "protected" or self._attribute(at, "translate") == "no":
            yield from self._kept(opening, at + 1, behind, closing, codes)
            return
        yield codes.opening(opening), inside
        yield from self._pieces(at + 1, behind, codes, depth + 1)
        yield codes.closing(closing), inside

    def _kept(self, opening: str, first: int, end: int, closing: str, codes: Codes) -> Iterator[tuple[str, Kind]]:
        """Tokens that are not translated, between two tags."""
        content = self._xml.text(first, end)
        if "<" in content or self._inside is not Kind.INSIDE:
            yield codes.point(opening + content + closing), self._point
            return
        yield codes.opening(opening), Kind.INSIDE
        yield content, Kind.KEPT
        yield codes.closing(closing), Kind.INSIDE

    def _end_of_kept(self, at: int, end: int) -> int | None:
        """The end of a range that begins here and is not translated; None where there is none."""
        if self._name(at) != "sm" or self._attribute(at, "translate") != "no":
            return None
        number = self._attribute(at, "id")
        later = self._xml.children(self._xml.ends[at] + 1, end)
        return next((k for k in later if self._name(k) == "em" and self._attribute(k, "startRef") == number), None)

    def _ranges(self, first: int, end: int) -> tuple[set[int], set[int]]:
        """The elements that begin ranges, and those that end them."""
        opened: dict[tuple[str, str], int] = {}
        begins: set[int] = set()
        ends: set[int] = set()
        for at in self._xml.children(first, end):
            name = self._name(at)
            if name in _PAIRS:
                ending, by = _PAIRS[name]
                opened[ending, self._one_of(at, by)] = at
            elif name in _ENDS and (start := opened.pop((name, self._one_of(at, _ENDS[name])), None)) is not None:
                begins.add(start)
                ends.add(at)
        return begins, ends

    def _one_of(self, at: int, names: Sequence[str]) -> str:
        return next(filter(None, (self._attribute(at, name) for name in names)), "")

    def _name(self, at: int) -> str:
        """The name of an element without its prefix."""
        return self._xml.names[at].rpartition(":")[2]

    def _attribute(self, at: int, name: str) -> str:
        if not self._xml.names[at]:
            return ""
        found = (one for one in _ATTRIBUTE.finditer(self._xml.tokens[at]) if one[1] == name)
        return next((one[2] if one[2] is not None else one[3] for one in found), "")


def _escaped(markup: str) -> str:
    return html.escape(markup, quote=False)
