"""Small packages for tests, and how the words of a made-up language come from those of the source."""

import io
import zipfile
from collections.abc import Callable, Mapping

from calque.workflow.document.formats import Filled, read_document
from calque.workflow.document.layout import Lines
from calque.workflow.document.packages import LARGEST

WORD = "http://schemas.openxmlformats.org/wordprocessingml/2006/main"
DRAWING = "http://schemas.openxmlformats.org/drawingml/2006/main"
TEXT = "urn:oasis:names:tc:opendocument:xmlns:text:1.0"


def package(files: Mapping[str, str | bytes]) -> bytes:
    out = io.BytesIO()
    with zipfile.ZipFile(out, "w") as made:
        for name, body in files.items():
            stored = zipfile.ZIP_STORED if name == "mimetype" else zipfile.ZIP_DEFLATED
            made.writestr(name, body, stored)
    return out.getvalue()


def word(body: str) -> bytes:
    """A document of Word with these paragraphs."""
    text = f'<?xml version="1.0"?><w:document xmlns:w="{WORD}"><w:body>{body}</w:body></w:document>'
    return package({"[Content_Types].xml": "<Types/>", "word/document.xml": text, "word/media/a.png": b"\x89PNG"})


def open_text(body: str) -> bytes:
    """A text of OpenDocument with these paragraphs."""
    text = f'<?xml version="1.0"?><o:text xmlns:o="urn:o" xmlns:text="{TEXT}">{body}</o:text>'
    return package({"mimetype": "application/vnd.oasis.opendocument.text", "content.xml": text})


def in_package(body: bytes, name: str) -> str:
    """A text of a package."""
    with zipfile.ZipFile(io.BytesIO(body)) as made:
        assert made.testzip() is None
        return made.read(name).decode()


def read(name: str, body: bytes, inline: bool = True, largest: int = LARGEST) -> tuple[Filled, Lines]:
    lines = Lines(by_sentence=True, letters=True)
    return read_document(name, body, lines, inline, largest), lines


def shouted(name: str, body: bytes, inline: bool = True, as_said: Callable[[str], str] = str.upper) -> bytes:
    """A file in a language that has the words of the source in capitals, in their order."""
    document, lines = read(name, body, inline)
    shares = {}
    for k in lines.aligned:
        count = len(lines.lines[k].split(" "))
        shares[k] = [[float(i == j) for j in range(count)] for i in range(count)]
    return document.fill([as_said(line) for line in lines.lines], shares)
