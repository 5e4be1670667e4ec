"""The kinds of files that are translated, by the endings of their names."""

from collections.abc import Callable, Mapping, Sequence
from functools import partial
from pathlib import PurePath
from typing import Protocol

from calque.ground.diagnostics import Place, error
from calque.workflow.document.catalogues import read_catalogue
from calque.workflow.document.encoded import Damaged, Encoded, decoded
from calque.workflow.document.inline import Shares
from calque.workflow.document.layout import Lines
from calque.workflow.document.markdown import read_markdown
from calque.workflow.document.markup import html_layout
from calque.workflow.document.packages import BOOK, LARGEST, OPEN, SLIDES, TABLES, WORD, read_package
from calque.workflow.document.subtitles import read_subtitles
from calque.workflow.document.xliff import read_segments


class Filled(Protocol):
    """A file without its lines."""

    def fill(self, lines: Sequence[str], shares: Mapping[int, Shares | None] | None = None) -> bytes:
        """The file with these lines; see `Layout.fill`."""
        ...


class _Texts(Protocol):
    def fill(self, lines: Sequence[str], shares: Mapping[int, Shares | None] | None = None) -> str: ...


class _Whole:
    """A file that is one text."""

    def __init__(self, source: Encoded, text: _Texts):
        self._source, self._text = source, text

    def fill(self, lines: Sequence[str], shares: Mapping[int, Shares | None] | None = None) -> bytes:
        return self._source.again(self._text.fill(lines, shares))


Reader = Callable[[bytes, Lines, bool, int], Filled]
"""Adds the lines of a file. `bool`: markup may stand inside a sentence; `int`: the most bytes of a package. Raises Damaged."""


_Read = Callable[[str, Lines, bool], _Texts]


def _of_text(read: _Read, declares: bool, body: bytes, lines: Lines, inline: bool, largest: int) -> Filled:
    source = decoded(body, declares)
    return _Whole(source, read(source.text, lines, inline))


_HTML = partial(_of_text, html_layout, True)
_READERS: Mapping[str, Reader] = {
    "txt": partial(_of_text, lambda text, lines, inline: lines.plain(text), False),
    "html": _HTML,
    "htm": _HTML,
    "xhtml": _HTML,
    "srt": partial(_of_text, lambda text, lines, inline: read_subtitles(text, lines, False), False),
    "vtt": partial(_of_text, lambda text, lines, inline: read_subtitles(text, lines, True), False),
    **dict.fromkeys(("md", "markdown"), partial(_of_text, read_markdown, False)),
    **dict.fromkeys(("po", "pot"), read_catalogue),
    **dict.fromkeys(("xlf", "xliff"), read_segments),
    **dict.fromkeys(("docx", "docm"), partial(read_package, WORD)),
    "pptx": partial(read_package, SLIDES),
    **dict.fromkeys(("xlsx", "xlsm"), partial(read_package, TABLES)),
    **dict.fromkeys(("odt", "odp", "ods"), partial(read_package, OPEN)),
    "epub": partial(read_package, BOOK),
}
FORMATS = tuple(_READERS)
"""The endings."""


def reader_of(name: str) -> Reader:
    """How a file of this name is read. Raises D540 for another kind of file."""
    ending = PurePath(name).suffix.lower().removeprefix(".")
    if ending not in _READERS:
        raise error("D540", Place(name), ending=ending, known=", ".join(FORMATS))
    return _READERS[ending]


def read_document(name: str, body: bytes, lines: Lines, inline: bool, largest: int = LARGEST) -> Filled:
    """A file, whose lines are added to `lines`. Raises D540, and D541 for one that is damaged or is too large."""
    try:
        return reader_of(name)(body, lines, inline, largest)
    except Damaged as fault:
        raise error("D541", Place(name), reason=str(fault)) from fault
