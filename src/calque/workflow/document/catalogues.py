"""Catalogues of gettext (`.po`): messages without a translation get one, and all else stays as it is."""

import codecs
import html
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

from calque.workflow.document.coded import Coded, Codes
from calque.workflow.document.encoded import Damaged, decoded, known_encoding
from calque.workflow.document.inline import Kind, Shares
from calque.workflow.document.layout import Layout, Lines
from calque.workflow.document.messages import is_choice, keeps_places, message_pieces

_CHARSET = re.compile(rb"charset=\s*([\w-]+)")
_STRING = re.compile(r'"((?:[^"\\]|\\.)*)"')
_STRINGS = r'((?:"(?:[^"\\]|\\.)*"\s*)+)'
_FIELD = re.compile(rf"\s*(msgctxt|msgid|msgid_plural|msgstr(?:\[(\d+)\])?)\s*{_STRINGS}")
_MORE = re.compile(rf"\s*{_STRINGS}")
_DOMAIN = re.compile(rf"\s*domain\s*{_STRINGS}")
_ESCAPE = re.compile(r"\\(x[0-9A-Fa-f]{2}|[0-7]{1,3}|.)", re.DOTALL)
_PLAIN = {"n": "\n", "t": "\t", "r": "\r", "a": "\a", "b": "\b", "f": "\f", "v": "\v"}
_ESCAPED = {"\\": "\\\\", '"': '\\"', **{character: f"\\{letter}" for letter, character in _PLAIN.items()}}
_ACCELERATOR = re.compile(r"(?:(?<=\s)|^)(?:_|&(?!\w+;))(?=[^\W\d_]+(?!\w))|(?<=[^\W\d_])(?:_|&(?!\w+;))(?=[^\W\d_])")
"""What may mark the letter that chooses an entry of a menu: in front of a word, or inside it."""
HALF = 3
"""Letters on both sides of a sign from which on it is a word of its own, `Drag&drop`."""
LABEL = 5
"""Words of the label of an entry or a button, at most."""
_FIRST_LETTER = re.compile(r"[^\W\d_]")


@dataclass
class _Field:
    """A string of a message: its keyword, what it says, and its lines [first, end)."""

    keyword: str
    text: str
    first: int
    end: int


@dataclass(frozen=True)
class _Message:
    """A translation to write: `head`, all up to its quotes, its source, `mark`, that of its accelerator, and the line end."""

    head: str
    source: str
    layout: Layout
    codes: Codes
    mark: str
    end: str

    def fill(self, lines: Sequence[str], shares: Mapping[int, Shares | None] | None) -> str:
        """Its lines in the file, one for each line of the text; empty where a placeholder would be lost."""
        mark = self.mark

        def marked(text: str) -> str:
            nonlocal mark
            text = html.unescape(text)
            if mark and (first := _FIRST_LETTER.search(text)):
                text, mark = f"{text[: first.start()]}{mark}{text[first.start() :]}", ""
            return text

        text = Coded(self.layout, self.codes, marked).fill(lines, shares)
        if not keeps_places(self.source, text):
            text = ""
        parts = text.splitlines(keepends=True) if "\n" in text[:-1] else [text]
        strings = [f'"{"".join(_ESCAPED.get(c, c) for c in part)}"' for part in ([""] if parts[1:] else []) + parts]
        return self.head + self.end.join(strings) + self.end


@dataclass(frozen=True)
class Catalogue:
    """A catalogue without the translations that it lacks."""

    bom: bytes
    parts: tuple[str | _Message, ...]

    def fill(self, lines: Sequence[str], shares: Mapping[int, Shares | None] | None = None) -> bytes:
        """The catalogue with these lines."""
        texts = (part if isinstance(part, str) else part.fill(lines, shares) for part in self.parts)
        return self.bom + "".join(texts).encode()


def read_catalogue(body: bytes, lines: Lines, inline: bool, largest: int) -> Catalogue:
    """A catalogue, whose lines are added to `lines`. `inline`: markup inside a sentence does not divide it. Raises Damaged.

    It is read in the encoding that its head names, and written in UTF-8.
    """
    text = _text_of(body)
    rows = re.split(r"(?<=\n)", text)
    inside = Kind.INSIDE if inline else Kind.BETWEEN
    parts: list[str | _Message] = []
    at = 0
    for source, field in _untranslated(rows):
        parts.append("".join(rows[at : field.first]))
        row = rows[field.first]
        is_label = len(source.split()) <= LABEL and (source[-1:] != "." or source.endswith("..."))
        mark, plain = _without_mark(source) if is_label else ("", source)
        codes = Codes()
        layout = lines.marked(message_pieces(plain, codes, inside))
        end = row[len(row.rstrip("\r\n")) :] or "\n"
        parts.append(_Message(row[: row.index('"')], plain, layout, codes, mark, end))
        at = field.end
    bom = codecs.BOM_UTF8 if body.startswith(codecs.BOM_UTF8) else b""
    return Catalogue(bom, (*parts, "".join(rows[at:])))


def _without_mark(label: str) -> tuple[str, str]:
    """The mark of its accelerator, empty where it has none or several, and the label without it."""
    marks = [found for found in _ACCELERATOR.finditer(label) if _marks(label, found.start())]
    if len(marks) != 1:
        return "", label
    return marks[0][0], label[: marks[0].start()] + label[marks[0].end() :]


def _marks(label: str, at: int) -> bool:
    """Whether a sign marks the letter behind it. Inside words it does so in `E&xit` and `E_xit`, not in `R&D` and `Drag&drop`."""
    before = re.search(r"\w*$", label[:at])
    if before is None or not before[0]:
        return True
    behind = (re.match(r"\w*", label[at + 1 :]) or before)[0]
    return before[0][0].isupper() and (before[0][1:] + behind).islower() and min(len(before[0]), len(behind)) < HALF


def _text_of(body: bytes) -> str:
    """The text of a catalogue, whose head names UTF-8. Raises Damaged."""
    named = _CHARSET.search(body)
    encoding = "utf-8" if named is None or named[1] == b"CHARSET" else known_encoding(named[1].decode("latin-1"))
    text = decoded(body, False, encoding).text
    if named is None or (encoding == "utf-8" and named[1] != b"CHARSET"):
        return text
    return text.replace(named[0].decode("latin-1"), "charset=UTF-8", 1)


def _untranslated(rows: Sequence[str]) -> Iterator[tuple[str, _Field]]:
    """The translations that are empty, each with its source: of several forms, the first has the singular."""
    for message in _messages(rows):
        by_name = {field.keyword: field for field in message}
        source = by_name.get("msgid")
        if source is None or not source.text:  # the head of the catalogue
            continue
        plural = by_name.get("msgid_plural", source)
        forms = [field for field in message if field.keyword.startswith("msgstr")]
        for k, form in enumerate(forms):
            if not form.text and not is_choice(source.text):
                yield (source if k == 0 and (len(forms) > 1 or plural is source) else plural).text, form


def _messages(rows: Sequence[str]) -> Iterator[list[_Field]]:
    """The strings of each message. Raises Damaged."""
    message: list[_Field] = []
    for k, row in enumerate(rows):
        if found := _FIELD.fullmatch(row):
            keyword = found[1]
            ended = bool(message) and message[-1].keyword.startswith("msgstr")
            if ended and not keyword.startswith("msgstr"):
                yield message
                message = []
            message.append(_Field(keyword, _text_in(found[3]), k, k + 1))
        elif (found := _MORE.fullmatch(row)) and message and message[-1].end == k:
            message[-1].text += _text_in(found[1])
            message[-1].end = k + 1
        elif row.strip() and not row.lstrip().startswith("#") and not _DOMAIN.fullmatch(row):
            raise Damaged(f"line {k + 1} is no line of a catalogue")
    if message:
        yield message


def _text_in(strings: str) -> str:
    """The text of one or more strings in quotes."""
    return _ESCAPE.sub(lambda found: _character(found[1]), "".join(_STRING.findall(strings)))


def _character(escape: str) -> str:
    if escape[0] == "x" and len(escape) == 3:
        return chr(int(escape[1:], 16))
    return chr(int(escape, 8)) if escape[0] in "01234567" else _PLAIN.get(escape, escape)
